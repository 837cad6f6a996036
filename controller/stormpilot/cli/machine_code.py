"""Machine code of the planners: compiled at their first use, and kept beside their sources."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stormpilot.cli.output import note


def forget() -> None:
    """Remove what is kept: a cached function does not notice that one it calls in another file has changed."""
    for cached in _kept():
        cached.unlink(missing_ok=True)


def missing() -> bool:
    """Whether the first plan compiles: the first one here, or the first since an upgrade."""
    elsewhere = "NUMBA_CACHE_DIR" in os.environ or not all(os.access(f, os.W_OK) for f in _folders())
    return not elsewhere and not _up_to_date([*_kept()])


def note_compiling() -> None:
    """Tell whoever plans where nothing is compiled yet why that takes so long."""
    if missing():
        note(
            "planners are compiled at their first use, once: this takes minutes, beyond --budget "
            "(`stormpilot planners --compile` does it beforehand)"
        )


def _up_to_date(kept: list[Path]) -> bool:
    """Whether something was compiled since the newest of its sources was written."""
    sources = {f.parent.parent / f"{f.name.partition('.')[0]}.py" for f in kept}
    written = max((s.stat().st_mtime for s in sources if s.exists()), default=0.0)
    return bool(kept) and max(f.stat().st_mtime for f in kept) >= written


def _kept() -> Iterator[Path]:
    for folder in _folders():
        yield from folder.rglob("__pycache__/*.nb[ci]")


def _folders() -> list[Path]:
    import stormpilot.model
    import stormpilot.planner

    return [Path(folder) for package in (stormpilot.model, stormpilot.planner) for folder in package.__path__]
