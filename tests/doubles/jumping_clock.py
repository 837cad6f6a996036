"""A controller process whose clock jumps when it gets SIGUSR1.

python -m doubles.jumping_clock controller.yaml HOURS
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import structlog

from stormpilot import logs
from stormpilot.config import load
from stormpilot.control import signals
from stormpilot.control.daemon import Daemon
from stormpilot.planner import compute


def main() -> None:
    config, hours = Path(sys.argv[1]), float(sys.argv[2])
    real, real_ns = time.time, time.time_ns
    offset_s = 0.0
    log = structlog.get_logger(__name__)

    def jump(*_: object) -> None:
        nonlocal offset_s
        offset_s = hours * 3600
        log.info("clock jumped", hours=hours)

    time.time = lambda: real() + offset_s
    time.time_ns = lambda: real_ns() + round(offset_s * 1e9)
    signal.signal(signal.SIGUSR1, jump)
    logs.configure("info")
    signals.run(Daemon(load(config), compute, "online", "default"))


if __name__ == "__main__":
    main()
