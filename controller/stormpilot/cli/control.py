"""`stormpilot run`: the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

GC_THRESHOLDS = (200_000, 20, 20)
"""Every report is new objects, none of them in a cycle: with Python's own thresholds (700, 10, 10), looking for cycles
among them was half of the CPU of a cycle on a large cluster."""


def run(
    config: Annotated[Path, typer.Argument(help="The controller's configuration, e.g. controller.yaml.")],
    once: Annotated[bool, typer.Option("--once", help="Measure for one window, run one cycle, and exit.")] = False,
) -> None:
    """Run the controller until SIGTERM or Ctrl-C; SIGHUP reloads the configuration.

    It observes the cluster, plans, decides, and publishes plans; one of several controllers leads,
    the others are standby.
    """
    import signal

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # imports take seconds; the file is read after them

    import gc

    import structlog

    from stormpilot import logs
    from stormpilot.cli import machine_code
    from stormpilot.cli.config_check import checked, needed
    from stormpilot.control import signals
    from stormpilot.control.daemon import Daemon
    from stormpilot.model import compiling
    from stormpilot.planner import compute as on_pairs
    from stormpilot.planner import compute_on_flows
    from stormpilot.planner_process import PlannerProcess

    settings, planner, first = needed(config)
    logs.configure(settings.log.level, settings.log.format)
    compiling.tell(None)  # its stderr is a log
    if not compiling.kept():
        structlog.get_logger(__name__).warning(
            "compiled planners are kept nowhere: each start compiles them, for minutes", fix=machine_code.NOT_KEPT
        )
    elif machine_code.missing():
        structlog.get_logger(__name__).info(
            "compiling planners, once: this takes minutes", beforehand="stormpilot planners --compile"
        )
    gc.set_threshold(*GC_THRESHOLDS)
    compute = PlannerProcess(compute_on_flows if settings.planner.traffic == "flow" else on_pairs)
    try:
        signals.run(Daemon(settings, compute, planner, first, lambda: checked(config)), once=once)
    finally:
        compute.close()
