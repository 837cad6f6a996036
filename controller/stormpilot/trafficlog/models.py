"""The models that published plans were made from: `<traffic log>/models/<plan id>.json`, the newest ones.

`stormpilot plan compute --model` reads them: a plan can be made again, explained, and compared with any other planner.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stormpilot.model.values import Model

FOLDER = "models"
KEPT = 50


def keep(directory: Path, plan_id: str, model: Model) -> Path:
    """Write a model, whole or not at all, and remove the oldest beyond `KEPT`; `OSError` when the disk fails."""
    folder = directory / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plan_id}.json"
    hidden = folder / f".{plan_id}.tmp"
    hidden.write_bytes(msgspec.json.format(msgspec.json.encode(model), indent=1))
    hidden.replace(path)
    for old in sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime_ns)[:-KEPT]:
        old.unlink()
    return path
