"""The errors that a user can meet, each with the exit code of the command line that it ends with."""

from __future__ import annotations

INSTALL_HISTORY = "in a clone: make setup; else: requirements-history.txt of the release, see docs/guide/install.md"
"""Hint on the packages that mining, replay and plots need."""


class StormpilotError(Exception):
    """Base of every error that carries a sentence for the user; `exit_code` is what the CLI ends with."""

    exit_code = 1


class RefusedError(StormpilotError):
    """A request that was understood and refused (infeasible, not allowed, nothing to do)."""

    exit_code = 1


class UsageError(StormpilotError):
    """A wrong argument, file or configuration: the text names file, field and what was expected."""

    exit_code = 2


class UnreachableError(StormpilotError):
    """ZooKeeper, Nimbus, Java, Maven or another thing that we need is missing or does not answer."""

    exit_code = 3


class NothingFoundError(UsageError):
    """Input that can be read, but in which nothing can be used."""

    exit_code = 4


def cause(e: BaseException) -> str:
    """The cause of a failure in the words of who tells it: OpenSSL's, the system's, the text, else the class."""
    if isinstance(e, UnicodeDecodeError):
        return f"not UTF-8 text: {e.reason} at byte {e.start}"
    told = (getattr(e, "reason", None) or e.strerror) if isinstance(e, OSError) else ""
    return told or str(e) or type(e).__name__
