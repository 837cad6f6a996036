"""The models that published plans were made from: `<traffic log>/models/<plan id>.json`, the newest ones.

Plans of topologies that were planned together have one model: it is written once, and has a name for each.
`stormpilot plan compute --model` reads them: a plan can be made again, explained, and compared with any other planner.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from stormpilot.model.values import Model

FOLDER = "models"
LONGEST_NAME = 200
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links."""
KEPT = 50
"""Number of models: a model takes disk, a further name for it does not."""


def keep(directory: Path, plan_ids: Sequence[str], model: Model) -> list[Path]:
    """Write the model of plans, whole or not at all, and remove the oldest models beyond `KEPT`.

    `OSError` when that fails.
    """
    folder = directory / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    names_of = [quote(plan_id, safe="")[:LONGEST_NAME] for plan_id in plan_ids]  # a request may name any id
    paths = [folder / f"{name}.json" for name in names_of]
    hidden = folder / f".{names_of[0]}.tmp"
    try:
        hidden.write_bytes(text := msgspec.json.format(msgspec.json.encode(model), indent=1))
        for path in paths:
            path.unlink(missing_ok=True)
            _link(path, hidden, text)
    finally:
        hidden.unlink(missing_ok=True)
    names = defaultdict[int, list[Path]](list)
    for path in folder.glob("*.json"):
        names[path.stat().st_mtime_ns].append(path)
    for written in sorted(names)[:-KEPT]:
        for path in names[written]:
            path.unlink()
    return paths


def _link(path: Path, to: Path, text: bytes) -> None:
    """The file under another name; a copy of it where the file system has no such links (some mounts)."""
    try:
        path.hardlink_to(to)
    except OSError as e:
        if e.errno not in NO_LINKS:
            raise
        part = path.with_name(f".{path.name}.tmp")
        try:
            part.write_bytes(text)
            at = to.stat()
            os.utime(part, ns=(at.st_atime_ns, at.st_mtime_ns))  # names of one model have one time
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
