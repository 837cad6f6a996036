"""A streamparse project, a Nimbus that notes what it gets, and the command in a folder."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from doubles.fake_nimbus import FakeNimbus, serving
from stormpilot.cli import main

Run = Callable[..., "Done"]


TOPOLOGY = """
from streamparse import Grouping, ShellBolt, Topology
from flights.parts import Source, Parse

class Flights(Topology):
    config = {"topology.message.timeout.secs": 20}
    source = Source.spec(par={"prod": 3, "beta": 1})
    parse = Parse.spec(inputs={source: Grouping.fields("line")}, par=2, config={"site": "east"})
    node = ShellBolt.spec(command="node", script="sink.js", inputs=[parse])
"""


PARTS = """
from streamparse import Bolt, Spout

class Source(Spout):
    outputs = ["line"]

class Parse(Bolt):
    outputs = ["flight"]
"""


@pytest.fixture
def nimbus() -> Iterator[FakeNimbus]:
    with serving(FakeNimbus()) as fake:
        yield fake


@pytest.fixture
def project(tmp_path: Path, nimbus: FakeNimbus) -> Path:
    folder = tmp_path / "project"
    (folder / "src" / "flights").mkdir(parents=True)
    (folder / "topologies").mkdir()
    (folder / "src" / "flights" / "__init__.py").write_text("")
    (folder / "src" / "flights" / "parts.py").write_text(PARTS)
    (folder / "topologies" / "flights.py").write_text(TOPOLOGY)
    prod = {"nimbus": f"127.0.0.1:{nimbus.port}", "options": {"topology.workers": 2, "mine": "env"}}
    config = {"serializer": "json", "topology_specs": "topologies/", "envs": {"prod": prod}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def stormpilot(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs `stormpilot submit` in a folder, in this process."""

    def run(folder: Path, *arguments: str, **environment: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(folder)
            patch.delenv("STREAMPARSE_NIMBUS", raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["stormpilot", "submit", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
        return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    return run
