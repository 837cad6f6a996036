"""Machine code of the planners: compiled at their first use, and kept beside their sources."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stormpilot.model import compiling

COMPILED = "\n@jit\n"
"""Text in a source that is compiled."""


NOT_KEPT = "set NUMBA_CACHE_DIR to a folder that this user may write"


def forget() -> None:
    """Remove what is kept: a cached function does not notice that one it calls in another file has changed."""
    for cached in _kept():
        with suppress(OSError):  # where this user may not write, numba does not look for it either
            cached.unlink(missing_ok=True)


def missing() -> bool:
    """Whether a plan may have to compile: nothing was compiled of a source that is, or not since it was written."""
    return not _elsewhere() and not all(map(_up_to_date, _sources()))


def note_when_compiling() -> None:
    """Tell whoever waits, once, why a command takes so long that begins to compile.

    A function that is compiled for arguments of another kind, where all else is compiled, takes a moment only.
    """
    waiting = True

    def tell() -> None:
        nonlocal waiting
        from stormpilot.cli.output import note

        if waiting and not compiling.kept():
            note(
                "planners are compiled, and kept nowhere: this may take minutes, beyond any --budget, each time "
                f"({NOT_KEPT})"
            )
        elif waiting and (_elsewhere() or missing()):
            note(
                "planners are compiled at their first use, once: this may take minutes, beyond any --budget "
                "(`stormpilot planners --compile` does it beforehand)"
            )
        waiting = False

    compiling.tell(tell)


def _elsewhere() -> bool:
    """Whether what is compiled is kept in another place, of which only numba knows what is there."""
    return "NUMBA_CACHE_DIR" in os.environ or not all(os.access(f, os.W_OK) for f in _folders())


def _sources() -> Iterator[Path]:
    """Sources that are compiled."""
    for folder in _folders():
        yield from (f for f in folder.rglob("*.py") if COMPILED in f.read_text())


def _up_to_date(source: Path) -> bool:
    """Whether something of it was compiled since it was written."""
    kept = source.parent.glob(f"__pycache__/{source.stem}.*.nbi")
    return max((f.stat().st_mtime for f in kept), default=0.0) >= source.stat().st_mtime


def _kept() -> Iterator[Path]:
    for folder in _folders():
        yield from folder.rglob("__pycache__/*.nb[ci]")


def _folders() -> list[Path]:
    import stormpilot.model
    import stormpilot.planner

    return [Path(folder) for package in (stormpilot.model, stormpilot.planner) for folder in package.__path__]
