"""Runs the daemon in a thread and hears signals in the main one, where Python delivers them."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from types import FrameType

import structlog

from stormpilot.control.daemon import Daemon

log = structlog.get_logger(__name__)

LOOK_S = 0.25
"""Period at which signals are looked for."""
END_S = 5.0
"""Time to end in, first by itself, then without ZooKeeper."""


def run(daemon: Daemon, *, once: bool = False) -> None:
    """Run a daemon until SIGTERM or SIGINT, reloading at SIGHUP; it ends within seconds even when ZooKeeper is away."""
    failure: list[BaseException] = []

    def work() -> None:
        try:
            daemon.run(once=once)
        except BaseException as e:  # noqa: BLE001 (raised again below, in the main thread)
            failure.append(e)

    asked, read_anew = False, False

    def ask(_: int, __: FrameType | None) -> None:
        nonlocal asked
        asked = True

    def ask_to_read(_: int, __: FrameType | None) -> None:
        nonlocal read_anew
        read_anew = True

    before = {s: signal.signal(s, ask) for s in (signal.SIGTERM, signal.SIGINT)}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, ask_to_read)
    thread = threading.Thread(target=work, name="controller", daemon=True)
    thread.start()
    try:
        while thread.is_alive() and not asked:
            thread.join(LOOK_S)
            if read_anew:
                read_anew = False
                with suppress(Exception):  # the log says why
                    daemon.reload()
        if asked:
            log.info("stopping")
            daemon.stop()
            thread.join(END_S)
            if thread.is_alive():
                daemon.cut()
                thread.join(END_S)
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
    if failure:
        raise failure[0]
