"""Duration of `schedule()`: the plug-in's own benchmark (`ScheduleBenchmark.java`) in a JVM of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "storm-plugin" / "scheduler"
MAVEN = ["mvn", "-B", "-ntp", "-q", "-f", str(ROOT / "storm-plugin" / "pom.xml"), "-pl", "scheduler"]


def run(supervisors: int, topologies: int, executors_each: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of rounds: `storm` (its own scheduler, nothing to do), `unchanged`, `moving`, `lost`.

    `compared`: of comparing a placement with that of the round before.
    """
    classpath = ROOT / "build" / "scheduler-test-classpath"
    classpath.parent.mkdir(exist_ok=True)
    subprocess.run(
        [
            *MAVEN,
            "test-compile",
            "dependency:build-classpath",
            "-Dmdep.includeScope=test",
            f"-Dmdep.outputFile={classpath}",
        ],
        check=True,
    )
    folders = [str(MODULE / "target" / "test-classes"), str(MODULE / "target" / "classes")]
    done = subprocess.run(
        [
            "java",
            "-cp",
            ":".join([*folders, classpath.read_text().strip()]),
            "io.stormpilot.ScheduleBenchmark",
            *(str(n) for n in (supervisors, topologies, executors_each, rounds)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"the plug-in's benchmark failed: {done.stderr[-2000:]}")
    times: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"supervisors": supervisors, "executors": topologies * executors_each, "topologies": topologies, "ms": times}
