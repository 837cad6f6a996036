"""Storm's own schedulers: the Java runner in `storm-plugin/storm-schedulers`, built when its sources are newer."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.planners.rows import ROOT
from stormpilot.errors import UnreachableError
from stormpilot.model.values import Plan

MODULE = ROOT / "storm-plugin" / "storm-schedulers"
JAR = MODULE / "target" / "storm-schedulers.jar"
SCHEDULERS = (
    "default",
    "even",
    "ras-default",
    "ras-proximity",
    "ras-default-old",
    "ras-generic",
    "ras-generic-old",
    "ras-constraint",
    "ras-round-robin",
)


class StormPlan(Plan, frozen=True, kw_only=True):
    """A plan with what the runner adds: whether every executor was placed."""

    complete: bool


def build() -> None:
    """Build the runner where it is missing or older than its sources; `UnreachableError` where that fails."""
    sources = [MODULE / "pom.xml", *(MODULE / "src" / "main").rglob("*.*")]
    if JAR.exists() and all(s.stat().st_mtime <= JAR.stat().st_mtime for s in sources):
        return
    if not shutil.which("mvn"):
        raise UnreachableError(
            "Maven is needed to build the runner of Storm's schedulers (Debian: apt-get install maven)"
        )
    print("building the runner of Storm's schedulers (the first time downloads about 100 MB)", flush=True)
    done = subprocess.run(
        ["mvn", "-q", "-B", "-ntp", "-f", str(MODULE / "pom.xml"), "-DskipTests", "package"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise UnreachableError(f"the runner of Storm's schedulers was not built:\n{done.stdout}{done.stderr}")


def schedule(
    models: Mapping[str, Path],
    schedulers: Sequence[str],
    out: Path,
    *,
    warmup: int,
    rounds: int,
    timeout_s: int = 60,
    budget_s: float = 60.0,
) -> dict[tuple[str, str], StormPlan]:
    """Plans by (instance, scheduler), all out of one JVM; milliseconds of `schedule()` are in their metrics."""
    out.mkdir(parents=True, exist_ok=True)
    command = [
        *_java("plan"),
        *map(str, models.values()),
        "--schedulers",
        ",".join(schedulers),
        "--out",
        str(out),
        "--warmup",
        str(warmup),
        "--rounds",
        str(rounds),
        "--timeout",
        str(timeout_s),
        "--budget",
        str(budget_s),
    ]
    _run(command)
    return {(instance, s): read(out / f"{path.stem}.{s}.json") for instance, path in models.items() for s in schedulers}


def process_command(model: Path, scheduler: str, out: Path) -> tuple[list[str], Path]:
    """The whole process for one model and scheduler, and the file it writes."""
    command = [
        *_java("plan"),
        str(model),
        "-s",
        scheduler,
        "-o",
        str(out),
        "--rounds",
        "0",
        "--timeout",
        "60",
    ]
    return command, out / f"{model.stem}.{scheduler}.json"


def export(cluster: str, file: Path) -> None:
    """One of the production clusters of Storm's test jar as a model without traffic."""
    _run([*_java("export"), cluster, "-o", str(file)])


def read(file: Path) -> StormPlan:
    """A plan that the runner wrote."""
    return msgspec.json.decode(file.read_bytes(), type=StormPlan)


def _java(command: str) -> list[str]:
    return ["java", "-Xmx4g", "-jar", str(JAR), command]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise UnreachableError(f"the runner of Storm's schedulers failed: {done.stderr.strip()}")
