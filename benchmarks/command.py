"""Command lines of the benchmarks: their messages, the machine of a run, and the exit code."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from stormpilot.errors import StormpilotError

console = Console(stderr=True, highlight=False)
STARTED_S = time.monotonic()
INTERRUPTED = 130


def say(text: str) -> None:
    """One line, with the time since the start."""
    console.print(f"[dim]{time.monotonic() - STARTED_S:5.0f} s[/]  {text}", soft_wrap=True)


def exit_with(name: str, main: Callable[[], int]) -> None:
    """Run `main` and exit with its code; an error of ours is a line with the benchmark's name, and the error's code."""
    try:
        code = main()
    except StormpilotError as e:
        console.print(f"[bold red]{name}:[/] {e}", soft_wrap=True)
        code = e.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.stdout.flush()
    sys.exit(code)


def machine() -> dict[str, Any]:
    """The machine of a run: cores, processor, Python."""
    return {"cores": os.cpu_count(), "cpu": cpu_name(), "python": platform.python_version()}


def cpu_name() -> str:
    """The processor as the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
