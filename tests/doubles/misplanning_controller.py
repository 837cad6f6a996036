"""A controller process with a planner that misbehaves, in the process that planners run in.

python -m doubles.misplanning_controller controller.yaml raises|hangs|crashes|nonsense
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from doubles.planners import misbehaving
from stormpilot import logs
from stormpilot.config import load
from stormpilot.control import signals
from stormpilot.control.daemon import Daemon
from stormpilot.planner_process import PlannerProcess


def main() -> None:
    config, kind = Path(sys.argv[1]), sys.argv[2]
    compute = PlannerProcess(functools.partial(misbehaving, kind), grace_s=2.0, cold_s=5.0)
    logs.configure("info")
    try:
        signals.run(Daemon(load(config), compute, "online", "default"))
    finally:
        compute.close()


if __name__ == "__main__":
    main()
