"""Compilation of inner loops as a command sees it: notice that it begins, and its end before it is done.

Who runs them may wait for minutes. Without numba, which takes long to import, so that a command can ask for the notice
before it knows what it needs.
"""

from __future__ import annotations

from collections.abc import Callable

_told: Callable[[], None] | None = None
_running = 0
_stopped = False
_kept = True


def tell(told: Callable[[], None] | None) -> None:
    """Call this from now on, instead of what was given before, whenever the compilation of a function begins."""
    global _told  # noqa: PLW0603 (one for the process, as the compiler)
    _told = told


def running() -> bool:
    """Whether a function is being compiled, in whatever thread."""
    return _running > 0


def stop(*, stopped: bool = True) -> None:
    """Raise `KeyboardInterrupt` in the thread that compiles: at its next pass, or when a function is compiled.

    Nothing is being written then; functions that were kept before stay. `stopped=False` takes that back.
    """
    global _stopped  # noqa: PLW0603
    _stopped = stopped


def keeps_nothing() -> None:
    """There is no folder in which what is compiled could be kept."""
    global _kept  # noqa: PLW0603
    _kept = False


def kept() -> bool:
    """Whether what is compiled is kept for the next process, as far as functions have been imported."""
    return _kept


def begins() -> None:
    """Compilation of a function begins."""
    global _running  # noqa: PLW0603
    _running += 1
    if _told is not None:
        _told()


def ends() -> None:
    """Compilation of a function is over; it is not kept yet."""
    global _running  # noqa: PLW0603
    _running -= 1
    goes_on()


def goes_on() -> None:
    """A pass of the compiler begins; `KeyboardInterrupt` where it is not to."""
    if _stopped:
        raise KeyboardInterrupt
