"""Command lines of the benchmarks: their messages, the machine of a run, and the exit code."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from stormpilot.errors import StormpilotError, UnreachableError

console = Console(stderr=True, highlight=False)
STARTED_S = time.monotonic()
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def say(text: str) -> None:
    """One line, with the time since the start."""
    console.print(f"[dim]{time.monotonic() - STARTED_S:5.0f} s[/]  {text}", soft_wrap=True)


def until(
    what: str, missing: Callable[[], str | None], timeout_s: float, show: Callable[[str], None] = lambda _: None
) -> None:
    """Wait until `missing` returns None; `UnreachableError` with what it says when that lasts too long.

    `show` gets what is missing meanwhile.
    """
    deadline = time.monotonic() + timeout_s
    while (text := missing()) is not None:
        show(text)
        if time.monotonic() > deadline:
            raise UnreachableError(f"{what}: not within {timeout_s:.0f} s ({text})")
        time.sleep(0.5)


def end_once_on_signals() -> None:
    """SIGINT and SIGTERM end the run with all that it started; a second one does not interrupt that."""

    def end(number: int, _: Any) -> None:
        for later in SIGNALS:
            signal.signal(later, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, end)


def exit_with(name: str, main: Callable[[], int]) -> None:
    """Run `main` and exit with its code; an error of ours is a line with the benchmark's name, and the error's code.

    Signals end it as `end_once_on_signals` says.
    """
    end_once_on_signals()
    try:
        code = main()
    except StormpilotError as e:
        console.print(f"[bold red]{name}:[/] {e}", soft_wrap=True)
        code = e.exit_code
    sys.stdout.flush()
    sys.exit(code)


def resumable(parser: argparse.ArgumentParser, page: str) -> None:
    """Add the options of a benchmark that goes on where it was stopped; `page` is what `--publish` writes."""
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after that; start again to go on")
    parser.add_argument("--restart", action="store_true", help="forget what was measured")
    parser.add_argument("--report", action="store_true", help="measure nothing, show what is there")
    parser.add_argument("--publish", action="store_true", help=f"write {page} too")


def results_of(folder: Path, *, restart: bool) -> None:
    """Have the folder of a resumable benchmark; with `restart`, empty."""
    if restart:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def machine() -> dict[str, Any]:
    """The machine of a run: cores, processor, Python."""
    return {"cores": os.cpu_count(), "cpu": cpu_name(), "python": platform.python_version()}


def cpu_name() -> str:
    """The processor as the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used so far; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
