"""The topologies of the benchmark: two of Python components that report themselves, two that their JVM measures."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.hook.__main__ import topologies
from stormpilot.local.build import LOAD_HOOK
from stormpilot.local.cluster import LocalCluster
from stormpilot.submit.jar import build_jar
from stormpilot.submit.submission import prepare, send

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = REPOSITORY / "topologies"
JAVA = Path(__file__).resolve().parent / "project"
FOREVER_S = 86_400
WORKERS = 4
"""Workers of a topology, and slots that it has on every node."""
COMMON = {"topology.workers": WORKERS, "stormpilot.report.secs": 1}


@dataclass(frozen=True)
class Case:
    """A topology of a project with options; `hook`: measured in its workers' JVMs, else by itself."""

    name: str
    project: Path
    hook: bool
    options: Mapping[str, Any]

    def submit(self, cluster: LocalCluster, folder: Path) -> str:
        """Submit it; its id."""
        options = {**COMMON, **self.options}
        if self.hook:
            options["topology.auto.task.hooks"] = [LOAD_HOOK]
        return send(
            prepare(
                self.project,
                self.name,
                "local",
                options=options,
                nimbus=str(cluster.nimbus_address),
                instrument=not self.hook,
                jar=_java_jar(folder) if self.project == JAVA else None,
            )
        )


def java(name: str, rate_tps: float, **options: Any) -> Case:
    """A topology of Java components, each of whose spout's tasks emits so much."""
    return Case(name, JAVA, True, {"bench.phases": [[FOREVER_S, rate_tps]], "topology.acker.executors": 0, **options})


SETS = {
    "flights": (
        Case("flights", PYTHON, False, {"flights.rate.tps": 40}),
        Case(
            "wordcount_comm",
            PYTHON,
            True,
            {"wordcount.rate.tps": 12, "wordcount.sentence.words": 5, "topology.stats.sample.rate": 1.0},
        ),
    ),
    "diamond": (
        java("diamond", 150.0),
        Case("wordcount_comp", PYTHON, False, {"wordcount.rate.tps": 8, "wordcount.shift.period.secs": 86_400}),
    ),
}
"""Side by side on one cluster."""


def _java_jar(folder: Path) -> Path:
    """The project's sources and the Java classes of the plug-in's tests."""
    buffer = io.BytesIO(build_jar(JAVA / "src"))
    with zipfile.ZipFile(buffer, "a") as whole, zipfile.ZipFile(topologies()) as classes:
        for name in classes.namelist():
            if name.endswith(".class"):
                whole.writestr(name, classes.read(name))
    file = folder / "topologies.jar"
    file.write_bytes(buffer.getvalue())
    return file
