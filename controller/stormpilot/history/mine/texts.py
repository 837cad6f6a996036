"""Texts of queries, kept: what DuckDB is asked for a finding is the same for every log, and costs more to build.

Building the text of all findings from their definitions takes about four seconds of CPU, a small log's queries half a
second. A text is kept under the name of its definition with the names of its inputs left open, for this very code and
these versions of the layer; of anything else it is built again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

FOLDER = "queries"
_LAYER = ("duckdb", "sqlframe", "sqlglot")


class Text(msgspec.Struct, frozen=True):
    """A query, and the views that it is made of in their order; inputs are `{{in0}}`, views `{{view0}}`."""

    query: str
    views: list[str] = []

    def filled(self, inputs: Sequence[str], views: Sequence[str]) -> tuple[str, list[str]]:
        """The query and the views with these names."""
        names = {f"in{i}": name for i, name in enumerate(inputs)} | {f"view{i}": name for i, name in enumerate(views)}

        def put(text: str) -> str:
            return re.sub(r"\{\{(\w+)\}\}", lambda m: names[m[1]], text)

        return put(self.query), [put(v) for v in self.views]


def opened_up(query: str, views: Sequence[tuple[str, str]], inputs: Sequence[str]) -> Text:
    """A text with the names of its inputs and views left open."""
    names = {name: f"in{i}" for i, name in enumerate(inputs)} | {name: f"view{i}" for i, (name, _) in enumerate(views)}
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})\b")

    def take(text: str) -> str:
        return pattern.sub(lambda m: "{{" + names[m[1]] + "}}", text) if names else text

    return Text(take(query), [take(text) for _, text in views])


@dataclass
class Texts:
    """The texts that are kept in a folder (None: of this process alone)."""

    folder: Path | None = None
    _known: dict[str, Text] | None = None
    _new: dict[str, Text] = field(default_factory=dict)

    def find(self, key: str) -> Text | None:
        """A text that was kept."""
        if self._known is None:
            self._known = self._read()
        return self._known.get(key) or self._new.get(key)

    def add(self, key: str, text: Text) -> None:
        """Keep it from `save` on."""
        self._new[key] = text

    def save(self) -> None:
        """Write what is new, whole or not at all; where the folder cannot be written it is built anew next time."""
        if self.folder is None or not self._new:
            return
        file = self._file
        part = file.with_name(f".{file.name}-{time.time_ns()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode({**(self._known or {}), **self._new}))
            part.replace(file)
            for other in file.parent.glob("*.json"):
                if other != file:
                    other.unlink(missing_ok=True)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        assert self.folder is not None
        return self.folder / f"{_code()}.json"

    def _read(self) -> dict[str, Text]:
        if self.folder is None:
            return {}
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, Text])
        except (OSError, msgspec.MsgspecError):
            return {}  # none yet, or half of one: built anew


def key_of(make: Callable[..., Any], inputs: Sequence[object], how: Mapping[str, object]) -> str | None:
    """Key of a kept text; None for a function that has no name of its own."""
    name = make.__qualname__
    if "<" in name:
        return None
    there = "".join("-" if i is None else "+" for i in inputs)
    return f"{make.__module__}.{name} {there} {' '.join(f'{k}={v}' for k, v in sorted(how.items()))}".rstrip()


@cache
def _code() -> str:
    """Whatever a text is made of: all definitions and the layer that turns them into texts."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("*.py")), here.parent / "frames.py", here.parents[1] / "trafficlog" / "schema.py"]
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    for package in _LAYER:
        found.update(f"{package} {importlib.metadata.version(package)}".encode())
    return found.hexdigest()[:32]
