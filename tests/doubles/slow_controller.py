"""A controller process whose planner stops in the middle: for tests that kill it there, or freeze it.

    python -m doubles.slow_controller controller.yaml MARKER [RELEASE]

writes MARKER when a plan is being computed, and then does not return from the planner before there is a file RELEASE.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stormpilot import logs
from stormpilot.config import load
from stormpilot.control import signals
from stormpilot.control.daemon import Daemon
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.search.warm import TINY


def main() -> None:
    config, marker = Path(sys.argv[1]), Path(sys.argv[2])
    release = Path(sys.argv[3]) if len(sys.argv) > 3 else None

    def stuck(
        model: Model,
        planner: str,
        params: Mapping[str, float | int | str | bool | None],
        *,
        seed: int,
        left_s: Callable[[], float],
    ) -> Plan | Infeasible:
        if model is not TINY:
            marker.touch()
            while release is None or not release.exists():
                time.sleep(0.05)
        return compute(model, planner, params, seed=seed, left_s=left_s)

    logs.configure("info")
    signals.run(Daemon(load(config), stuck, "online", "default"))


if __name__ == "__main__":
    main()
