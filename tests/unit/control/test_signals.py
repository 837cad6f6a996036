"""Signals: a controller ends at SIGTERM and Ctrl-C, reloads at SIGHUP, and leaves handlers as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from stormpilot.control import signals
from stormpilot.errors import UsageError

WAIT_S = 300.0


class Daemon:
    """Runs until it is stopped; `began` is called from its own thread."""

    def __init__(self, began: Callable[[Daemon], None], stubborn: bool = False):
        self._began, self._stubborn = began, stubborn
        self._over = threading.Event()
        self.reloaded = threading.Event()
        self.calls: list[str] = []

    def run(self, *, once: bool = False) -> None:
        self._began(self)
        assert self._over.wait(WAIT_S)

    def stop(self) -> None:
        self.calls.append("stop")
        if not self._stubborn:
            self._over.set()

    def cut(self) -> None:
        self.calls.append("cut")
        self._over.set()

    def reload(self) -> None:
        self.calls.append("reload")
        self.reloaded.set()
        raise UsageError("controller.yaml:1: a wrong file")


def kill(number: signal.Signals) -> Callable[[Daemon], None]:
    return lambda _: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_asked_to_and_handlers_are_as_before(number: signal.Signals) -> None:
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    daemon = Daemon(kill(number))
    signals.run(daemon)  # type: ignore[arg-type]
    assert daemon.calls == ["stop"]
    assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before


def test_it_reloads_at_sighup_and_goes_on_though_the_file_is_wrong() -> None:
    def hang_up_then_end(daemon: Daemon) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        assert daemon.reloaded.wait(WAIT_S)
        os.kill(os.getpid(), signal.SIGTERM)

    daemon = Daemon(hang_up_then_end)
    signals.run(daemon)  # type: ignore[arg-type]
    assert daemon.calls == ["reload", "stop"]


def test_sighup_while_a_controller_starts_does_not_end_it() -> None:
    """A reload right after the start ended it, for imports take seconds."""
    program = (
        "import os, signal, sys\nfrom stormpilot import config\nfrom stormpilot.cli import control\n"
        "def hung_up(file):\n    os.kill(os.getpid(), signal.SIGHUP)\n    sys.exit(7)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\nconfig.read = hung_up\ncontrol.run('controller.yaml')"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=300, check=False).returncode == 7


def test_one_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon(kill(signal.SIGTERM), stubborn=True)
    monkeypatch.setattr(signals, "END_S", 0.05)
    signals.run(daemon)  # type: ignore[arg-type]
    assert daemon.calls == ["stop", "cut"]


def test_what_the_daemon_raises_is_raised_again() -> None:
    def fail(_: Daemon) -> None:
        raise RuntimeError("no epoch")

    with pytest.raises(RuntimeError, match="no epoch"):
        signals.run(Daemon(fail))  # type: ignore[arg-type]
