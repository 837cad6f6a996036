"""Tokens and their roles: a file with one line `name role sha256` per token. The token itself is stored nowhere.

A token is 256 random bits, so that a plain SHA-256 of it is safe to keep: nothing shorter could be guessed from it.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
import secrets
import stat
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from stormpilot.errors import UsageError, cause
from stormpilot.user_files import read_text

log = structlog.get_logger(__name__)
PREFIX = "spt_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Role(enum.IntEnum):
    """Permissions of a token; each role includes those before it."""

    viewer = 1
    operator = 2
    admin = 3


@dataclass(frozen=True)
class Token:
    """A line of the file; `digest` is the SHA-256 (hex) of the token."""

    name: str
    role: Role
    digest: str


def new_token(name: str, role: Role) -> tuple[str, str]:
    """A fresh token and the line to add to the file; `UsageError` for a name that is none."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a token: expected up to 64 letters, digits or . _ @ -")
    token = PREFIX + secrets.token_urlsafe(32)
    return token, f"{name} {role.name} {digest(token)}"


def digest(token: str) -> str:
    """SHA-256 (hex)."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_tokens(path: Path) -> list[Token]:
    """Read the file; `UsageError` names the line and what was expected."""
    try:
        mode = path.stat().st_mode
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{path} (api.tokens_file): cannot read it: {cause(e)}") from e
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(f"{path} (api.tokens_file): others may write it, which lets them in: chmod go-w {path}")
    tokens: list[Token] = []
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        where = f"{path}:{number} (api.tokens_file)"
        if len(words) != 3:
            raise UsageError(f"{where}: expected `name role sha256`, see `stormpilot token new`")
        name, role, sha256 = words
        if not NAME.fullmatch(name):
            raise UsageError(f"{where}: {name!r} is no name for a token")
        if role not in Role.__members__:
            raise UsageError(f"{where}: the role is {role!r}, expected {', '.join(Role.__members__)}")
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise UsageError(f"{where}: expected 64 hexadecimal digits (SHA-256) after the role")
        if any(t.name == name for t in tokens):
            raise UsageError(f"{where}: {name} is there twice; the audit could not tell them apart")
        tokens.append(Token(name, Role[role], sha256))
    return tokens


def holder(tokens: Sequence[Token], given: str) -> Token | None:
    """Whose token that is. Compares with every line in constant time, found or not."""
    sought = digest(given)
    found = None
    for token in tokens:
        if hmac.compare_digest(token.digest, sought):
            found = token
    return found


class TokenFile:
    """The tokens of a file, read again when it changes: a line that is removed is refused from the next request on.

    A file that became bad keeps the tokens as they were, said once in the log.
    """

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._stat()
        self._tokens = read_tokens(path)
        self._why = ""

    def holder(self, given: str) -> Token | None:
        """Whose token that is."""
        return holder(self._current(), given)

    def _current(self) -> list[Token]:
        with self._lock:
            stamp = self._stat()
            if stamp != self._stamp or self._why:  # it may be readable now without having changed
                self._stamp = stamp
                try:
                    self._tokens, self._why = read_tokens(self._path), ""
                    log.info("tokens reloaded", file=str(self._path), tokens=len(self._tokens))
                except UsageError as e:
                    if str(e) != self._why:
                        log.error("the tokens stay as they were", why=e)
                    self._why = str(e)
            return self._tokens

    def _stat(self) -> tuple[int, int, int, int] | None:
        try:
            s = self._path.stat()
        except OSError:
            return None
        return (s.st_mtime_ns, s.st_size, s.st_ino, s.st_mode)
