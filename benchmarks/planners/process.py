"""A command as a whole process: how long from start to end, and how much memory at the peak."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.planners.rows import ROOT

STORMPILOT = ROOT / ".venv" / "bin" / "stormpilot"
LAUNCH = Path(__file__).with_name("launch.py")


@dataclass(frozen=True)
class Ran:
    """Seconds on the clock, CPU seconds of all threads, peak MB, exit code (negative: the signal), stderr."""

    seconds: float
    cpu_s: float
    peak_mb: float
    code: int
    errors: str


def run(command: Sequence[str], limit_s: float) -> Ran:
    """Run to its end; after `limit_s` it is killed."""
    launch = [sys.executable, "-I", "-S", str(LAUNCH), str(limit_s), *command]
    with subprocess.Popen(
        launch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        try:
            out, errors = child.communicate()
        except BaseException:
            child.terminate()
            raise
    seconds, peak_mb, code, cpu_s = out.splitlines()[-1].split()
    return Ran(float(seconds), float(cpu_s), float(peak_mb), int(code), errors.strip())


def plan_command(
    model: Path, planner: str, params: Mapping[str, object], seed: int, budget_s: float | None, out: Path
) -> list[str]:
    """`stormpilot plan compute` as a user would type it."""
    command = [str(STORMPILOT), "plan", "compute", "--model", str(model), "--planner", planner, "--seed", str(seed)]
    command += ["--traffic", "measured"]  # what all contestants can minimise
    for name, value in params.items():
        command += ["--param", f"{name}={value}"]
    if budget_s is not None:
        command += ["--budget", f"{budget_s:g}"]
    return [*command, "-o", str(out)]
