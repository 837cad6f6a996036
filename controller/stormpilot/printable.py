"""Text of others (names, paths, errors), as a log or a terminal may get it."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence

SHOWN_NAMES = 10


def printable(text: str) -> str:
    """The text in one line of characters that can be printed; others are escaped as Python writes them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same of every line of a text."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable_json(document: str, encoding: str = "utf-8") -> str:
    r"""The same JSON; what cannot be printed, or not in `encoding`, is escaped as JSON does (`\u001b`).

    JSON is UTF-8: in any other encoding all beyond ASCII is escaped.
    """
    beyond_ascii = codecs.lookup(encoding).name == "utf-8"
    if document.replace("\n", "").isprintable() and (beyond_ascii or document.isascii()):
        return document

    def kept(c: str) -> bool:
        return c == "\n" or (c.isprintable() and (beyond_ascii or c.isascii()))

    return "".join(c if kept(c) else _json_escape(c) for c in document)


def without_login(place: str) -> str:
    """A path or a URI without a login, which may hold slashes, and without options, which may hold one."""
    scheme, found, rest = place.partition("://")
    if not found:
        return place
    login, _, after = rest.rpartition("@")
    host = rest.partition("/")[0].rpartition("@")[2]
    _, colon, port = host.partition(":")
    if ":" in login and (scheme.startswith("s3") or (colon and not port.isdigit() and not host.startswith("["))):
        rest = after  # what stands before the first slash is no host: the password has it
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2].partition('?')[0]}{slash}{path.partition('?')[0]}"


def whole(value: float) -> str:
    """A number without decimals (`12,345`); one that would have more than 15 digits by its power of ten."""
    return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:g}"


def tuples(amount: float) -> str:
    """A number of tuples, or of tuples/s: two digits of one below 10, which may be a rate of one in an hour."""
    if abs(amount) < 1e-4:  # what rounding leaves of a difference of sums
        return "0"
    return whole(amount) if abs(amount) >= 9.95 else f"{amount:.2g}"


def counted(n: int, one: str, many: str = "") -> str:
    """A count with its noun, or with all that depends on it: `1 executor moves`, `2 executors move`."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def listed(names: Collection[str]) -> str:
    """Names in order, at most `SHOWN_NAMES` of them: `a, b, ...`."""
    shown = sorted(names)[:SHOWN_NAMES]
    return ", ".join([*shown, "..."] if len(names) > SHOWN_NAMES else shown)


def first_few(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """The first texts, at most so many, and how many more there are: `a, b and 3 more`."""
    return between.join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def age(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"


def _json_escape(character: str) -> str:
    r"""A character as `\uXXXX`, or as two of these (a surrogate pair)."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
