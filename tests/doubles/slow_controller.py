"""A controller process whose planner stops in the middle: for tests that kill it there.

    python -m doubles.slow_controller controller.yaml MARKER

writes MARKER when a plan is being computed, and then never returns from the planner.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stormpilot import daemon, logs
from stormpilot.config import load
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner import compute


def main() -> None:
    config, marker = Path(sys.argv[1]), Path(sys.argv[2])

    def stuck(
        model: Model,
        planner: str,
        params: Mapping[str, float | int | str | bool | None],
        *,
        seed: int,
        left_s: Callable[[], float],
    ) -> Plan | Infeasible:
        if model is not daemon.TINY:
            marker.touch()
            while True:
                time.sleep(3600)
        return compute(model, planner, params, seed=seed, left_s=left_s)

    logs.configure("info")
    daemon.run(daemon.Daemon(load(config), stuck, "online", "default"))


if __name__ == "__main__":
    main()
