"""Runs a command and watches it with all its children: seconds, CPU seconds, the most memory at one time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PERIOD_S = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ran:
    """`peak_mb`: resident memory of the whole process tree, sampled, what processes share counted for each."""

    seconds: float
    cpu_s: float
    peak_mb: float
    code: int
    out: str
    errors: str


def run(command: Sequence[str], limit_s: float, env: dict[str, str] | None = None) -> Ran:
    """Run to its end; after `limit_s` the whole tree is killed and the exit code is negative."""
    began = time.monotonic()
    cpu: dict[tuple[int, int], float] = {}
    peak = 0
    with subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, **(env or {})},
    ) as child:  # fmt: skip
        import threading

        said: dict[str, str] = {}
        readers = [
            threading.Thread(target=lambda n=n, f=f: said.__setitem__(n, f.read()), daemon=True)
            for n, f in (("out", child.stdout), ("errors", child.stderr))
            if f is not None
        ]
        for r in readers:
            r.start()
        try:
            while child.poll() is None:
                peak = max(peak, _look(child.pid, cpu))
                if time.monotonic() - began > limit_s:
                    os.killpg(child.pid, signal.SIGKILL)
                time.sleep(PERIOD_S)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        for r in readers:
            r.join(5)
    seconds = time.monotonic() - began
    return Ran(
        seconds, sum(cpu.values()), peak / 1e6, child.returncode, said.get("out", ""), said.get("errors", "").strip()
    )


def _look(root: int, cpu: dict[tuple[int, int], float]) -> int:
    """Bytes that the tree holds now; its CPU goes into `cpu`, also of children that end later."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[int, float, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        found[pid] = (int(fields[21]) * _PAGE, (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[19]))
    total = 0
    for pid, (rss, seconds, started) in found.items():
        ancestor = pid
        while ancestor not in (root, 0, 1) and ancestor in parents:
            ancestor = parents[ancestor]
        if ancestor == root:
            total += rss
            cpu[pid, started] = seconds
    return total
