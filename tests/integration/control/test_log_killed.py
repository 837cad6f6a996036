"""The traffic log of a process that is killed with SIGKILL, again and again: at most the open window is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from stormpilot.trafficlog import retention
from stormpilot.trafficlog.place import place_of

ROWS = 2000
WRITER = """
import sys
from stormpilot.trafficlog import retention
from stormpilot.trafficlog.writer import TrafficLog

log = TrafficLog(sys.argv[1])
retention.remove_leftovers(log.place)
house = retention.Housekeeping(log.place)
window, at_ms = int(sys.argv[2]), 1_763_690_000_000
while True:
    now_ms = at_ms + window * 600_000
    print("begun", window, flush=True)
    head = {"window_to": now_ms, "topology_id": "t", "from_executor": window}
    rows = [{**head, "to_executor": i} for i in range(int(sys.argv[3]))]
    log.add("edges", rows, "t")
    log.flush(now_ms)
    print("flushed", window, flush=True)
    house.merge(now_ms, lambda: True)
    window += 1
"""


def run_and_kill(directory: Path, first: int, lines: int, late_s: float) -> tuple[int, int]:
    """The last window that was begun, and the last that was flushed, before SIGKILL."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(first), str(ROWS)], stdout=subprocess.PIPE, text=True
    )
    said = {"begun": first - 1, "flushed": first - 1}
    try:
        assert process.stdout is not None
        for _ in range(lines):
            word, _, number = process.stdout.readline().partition(" ")
            said[word] = int(number)
        try:
            process.wait(late_s)  # somewhere within the next step
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        for line in process.stdout:  # what it said before it died
            word, _, number = line.partition(" ")
            said[word] = int(number)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    return said["begun"], said["flushed"]


def test_killed_writer_loses_at_most_the_open_window_and_corrupts_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    written: set[int] = set()
    maybe: set[int] = set()
    first = 0
    for _ in range(6):
        begun, flushed = run_and_kill(tmp_path, first, rng.randrange(3, 40), rng.uniform(0, 0.03))
        written |= set(range(first, flushed + 1))
        maybe |= {begun} - written
        first = begun + 1
    for half in tmp_path.rglob("*.tmp"):
        os.utime(half, (0, 0))  # nobody has written it for long
    retention.remove_leftovers(place_of(tmp_path))
    assert not list(tmp_path.rglob("*.tmp"))
    rows: Counter[int] = Counter()
    for path in tmp_path.rglob("*.parquet"):
        rows.update(pq.read_table(path, partitioning=None).column("from_executor").to_pylist())
    assert len(written) > 20
    assert set(rows.values()) == {ROWS}
    assert written <= set(rows) <= written | maybe
