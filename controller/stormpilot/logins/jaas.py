"""Logins in JAAS files, which Storm's daemons have already: the user name and password of a section.

`Client` is the section for ZooKeeper, `StormClient` the one for Nimbus. Runs inside workers: standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from stormpilot.errors import UsageError, cause
from stormpilot.user_files import read_text

ZOOKEEPER_SECTION = "Client"
NIMBUS_SECTION = "StormClient"
_TOKEN = re.compile(
    r"""\s*(?://[^\n]*|/\*.*?\*/|\#[^\n]*|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<mark>[{};=])|(?P<word>[^\s{};="']+))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class NoSectionError(UsageError):
    """The file can be read, and does not have the section."""


@dataclass(frozen=True)
class SaslLogin:
    """A user name and its password, for SASL's DIGEST-MD5."""

    user: str
    password: str = field(repr=False)


def digest_login(file: Path, section: str, named_by: str) -> SaslLogin:
    """The login of a section; `named_by` is the setting or option that names the file, for errors.

    Raises
    ------
    NoSectionError
        There is no such section.
    UsageError
        The file cannot be read, is no JAAS file, or the section is for Kerberos or has no user name and password.
    """
    where = f"{file} ({named_by})"
    try:
        text = read_text(file)
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{where}: cannot read it: {cause(e)}") from e
    sections = _sections(text, where)
    if section not in sections:
        raise NoSectionError(f"{where}: has no section {section} (it has: {', '.join(sections) or 'none'})")
    module, options = sections[section]
    if "krb5" in module.lower():
        raise UsageError(
            f"{where}: section {section} logs in with Kerberos ({module}), which stormpilot cannot; it can with "
            "SASL digest: username and password"
        )
    user, password = options.get("username"), options.get("password")
    if not user or password is None:
        raise UsageError(f"{where}: section {section} ({module}) has no username and password")
    return SaslLogin(user, password)


def _sections(text: str, where: str) -> dict[str, tuple[str, dict[str, str]]]:
    """By section its first login module with the module's options. Errors name lines, whose words may be secret."""
    tokens = _tokens(text, where)
    found: dict[str, tuple[str, dict[str, str]]] = {}
    at = 0

    def take(expected: str = "") -> str:
        nonlocal at
        if at == len(tokens):
            raise UsageError(f"{where}: not a JAAS file: it ends too early")
        token, line = tokens[at]
        if expected and token != expected:
            raise UsageError(f"{where}:{line}: not a JAAS file: expected {expected!r}")
        at += 1
        return token

    def follows(*marks: str) -> bool:
        return at < len(tokens) and tokens[at][0] in marks

    while at < len(tokens):
        name = _unquoted(take())
        take("{")
        modules: list[tuple[str, dict[str, str]]] = []
        while not follows("}"):
            module, _flag, options = take(), take(), {}
            while not follows("}", ";"):
                key = take()
                take("=")
                options[key] = _unquoted(take())
            take(";")
            modules.append((module, options))
        take("}")
        take(";")
        found[name] = modules[0] if modules else ("no login module", {})
    return found


def _unquoted(token: str) -> str:
    """Text of a token; behind a backslash as Java reads it, whose `StreamTokenizer` these files are for."""
    if token[0] not in "\"'":
        return token
    return _ESCAPE.sub(lambda e: chr(int(e[1], 8)) if e[1][0] in "01234567" else _ESCAPED.get(e[1], e[1]), token[1:-1])


def _tokens(text: str, where: str) -> list[tuple[str, int]]:
    """The tokens, each with its line."""
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise UsageError(f"{where}:{line}: not a JAAS file")
        at = match.end()
        token = match["quoted"] or match["mark"] or match["word"]
        if token:
            found.append((token, text.count("\n", 0, at) + 1))
    return found
