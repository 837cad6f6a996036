"""Notice that inner loops are being compiled: who runs them may wait for minutes.

Without numba, which takes long to import, so that a command can ask for the notice before it knows what it needs.
"""

from __future__ import annotations

from collections.abc import Callable

_told: Callable[[], None] | None = None


def tell(told: Callable[[], None] | None) -> None:
    """Call this from now on, instead of what was given before, whenever the compilation of a function begins."""
    global _told  # noqa: PLW0603 (one for the process, as the compiler)
    _told = told


def begins() -> None:
    """Compilation of a function begins."""
    if _told is not None:
        _told()
