"""Texts of queries, kept: what DuckDB is asked for a finding is the same for every log, and costs more to build.

Building the text of all findings from their definitions takes about four seconds of CPU, a small log's queries half a
second. So texts are built with the package (`build`, which `make build` runs) and shipped in it. Where the definitions
are others than those, they are built by the first mining of a log, and kept. A text goes by the name of its definition
with the names of its inputs left open, for this very code; a kept one also for these versions of the layer.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import time
from collections.abc import Callable, Sequence
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


class Shipped(msgspec.Struct, frozen=True):
    """Texts that were built with the package, and the code that they are of."""

    code: str
    texts: dict[str, Text]


SHIPPED = Path(__file__).with_name("queries.json")


@dataclass
class Texts:
    """The texts that are kept in a folder (None: of this process alone), and those that are shipped."""

    folder: Path | None = None
    shipped: Path = SHIPPED
    _known: dict[str, Text] | None = None
    _new: dict[str, Text] = field(default_factory=dict)

    def find(self, key: str) -> Text | None:
        """A text that was kept."""
        if self._known is None:
            self._known = shipped(self.shipped) or self._read()
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


def key_of(make: Callable[..., Any], inputs: Sequence[object]) -> str | None:
    """Key of a kept text; None for a function that has no name of its own."""
    name = make.__qualname__
    if "<" in name:
        return None
    there = "".join("-" if i is None else "+" for i in inputs)
    return f"{make.__module__}.{name} {there}".rstrip()


def shipped(file: Path) -> dict[str, Text]:
    """The texts of a file that was built with the package; none where it is of other definitions than these."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Shipped)
    except (OSError, msgspec.MsgspecError):
        return {}
    return found.texts if found.code == _definitions() else {}


def write(file: Path, built: Texts) -> None:
    """Write the texts that were built in this process as those that are shipped."""
    part = file.with_name(f".{file.name}-{time.time_ns()}")
    part.write_bytes(msgspec.json.encode(Shipped(_definitions(), dict(sorted(built._new.items())))))
    part.replace(file)


@cache
def _definitions() -> str:
    """Hash of all definitions that texts are made of."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("*.py")), here.parent / "frames.py", here.parents[1] / "trafficlog" / "schema.py"]
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()[:32]


@cache
def _code() -> str:
    """Hash of all definitions and of the layer that turns them into texts."""
    found = hashlib.sha256(_definitions().encode())
    for package in _LAYER:
        found.update(f"{package} {importlib.metadata.version(package)}".encode())
    return found.hexdigest()[:32]
