"""Stdout and stderr of the command line.

What goes wrong with stdout is told from what goes wrong with other files; what goes wrong with stderr changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from stormpilot.errors import StormpilotError, UsageError


class ReaderGoneError(Exception):
    """The reader of our output (head, less) went away; no OSError, which typer would end with exit code 1."""


class StdoutError(UsageError):
    """Our output cannot be written."""


class _Stdout:
    """A stream whose errors are `ReaderGoneError` and `StdoutError`."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return cast(int, self._told(self._stream.write, text))

    def flush(self) -> None:
        self._told(self._stream.flush)

    def _told(self, do: Callable[..., Any], *given: str) -> Any:
        try:
            return do(*given)
        except OSError as e:
            if isinstance(e, BrokenPipeError):
                raise ReaderGoneError from e
            raise StdoutError(f"stdout: cannot write the output: {e.strerror}") from e


class _Stderr:
    """A stream that raises nothing: output and exit code are the same whether anybody reads what is said besides."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


class _NoStdout(io.TextIOWrapper):
    """A stream for a process that was begun without stdout."""

    def write(self, _: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _closed() -> _NoStdout:
    return _NoStdout(Path(os.devnull).open("wb"))


def ignore_stderr_errors() -> None:
    """From now on until the process ends (it flushes the stream once more): stderr may be gone, full or closed."""
    stream = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 (as long as the process)
    sys.stderr = cast(Any, _Stderr(stream))


@contextlib.contextmanager
def told_apart() -> Iterator[None]:
    """Within it, stdout raises these errors."""
    stream = cast(Any, sys.stdout or _closed())
    if hasattr(stream, "reconfigure"):  # what the terminal's encoding lacks is told by its number
        stream.reconfigure(errors="backslashreplace")
    try:
        with contextlib.redirect_stdout(cast(Any, _Stdout(stream))):
            yield
    except (ReaderGoneError, StdoutError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what is still in its buffer
        raise


def print_and_write(show: Callable[[], None], *write: Callable[[], None]) -> None:
    """Print, then write files, and publish: each of these is done whatever became of the others.

    Who reads the text may have gone (`| head`), and a disk may be full. The first error is raised when all is done, and
    `ReaderGoneError` where there is no other.
    """
    gone: ReaderGoneError | None = None
    failed: StormpilotError | None = None
    for step in (show, *write):
        try:
            step()
        except ReaderGoneError as e:
            gone = e
        except StormpilotError as e:
            failed = failed or e
    if failed or gone:
        raise failed or gone  # type: ignore[misc]
