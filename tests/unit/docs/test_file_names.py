"""Files that docstrings, comments and pages name: each is there, below the folder that it is named with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CODE = ("controller", "benchmarks", "tools", "topologies")
OF_USERS = {"tasks.py", "fabfile.py"}
"""Files of a streamparse project, which is not ours."""
NAME = re.compile(r"(?<![\w/.{}*-])([a-z_]\w*(?:/\w+)*\.py|[A-Z]\w*\.java|[a-z][\w-]*(?:/[\w-]+)*\.md)\b")


def sources() -> Iterator[Path]:
    for folder in CODE:
        yield from (ROOT / folder).rglob("*.py")


def pages() -> Iterator[Path]:
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / "tests").rglob("README.md")
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))


THERE = [
    f"/{p.relative_to(ROOT)}"
    for folder in (*CODE, "tests", "storm-plugin", "deploy", "docs")
    for p in (ROOT / folder).rglob("*.*")
    if p.suffix in (".py", ".java", ".md")
]


def missing(text: str) -> list[str]:
    """Names of files in a text that end no path of ours."""
    named = {m.group(1) for m in NAME.finditer(text)} - OF_USERS
    return sorted(n for n in named if not any(path.endswith(f"/{n}") for path in THERE))


@pytest.mark.parametrize("kind", [sources, pages])
def test_every_file_that_is_named_exists(kind: type) -> None:
    found = {}
    for path in kind():
        parts = path.relative_to(ROOT).parts
        if wrong := missing(path.read_text()):
            found["/".join(parts)] = wrong
    assert not found


def test_a_name_that_is_gone_is_found() -> None:
    assert missing("in `model/part.py`, model/subset.py and Reason.java") == ["model/part.py"]
    assert missing("see methods.md 3 and docs/concepts/overview.md") == ["methods.md"]
