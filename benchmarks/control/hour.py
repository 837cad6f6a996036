"""A very large cluster for an hour: whether a controller keeps up with it, and whether its memory stays flat.

The cluster is played as in `scale.py`, and one topology after the other becomes faster and slower again. All else is
real: ZooKeeper, the controller's process and its planners.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.control.scale import PERIOD_S, children, controlling, feeding, running_model, tcp_bytes
from benchmarks.control.soak import log_errors, memory_growth
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.planner_process import cpu_s

SUPERVISORS, EXECUTORS, TOPOLOGIES = 2_500, 100_000, 100
CHANGE_S = 120.0
SAMPLE_S = 30.0
CPU = ("controller", "zookeeper")


def run(minutes: float, seed: int, say: Callable[[str], None], executors: int = EXECUTORS) -> dict[str, Any]:
    """The facts of so many minutes."""
    say(f"a model of {executors:,} executors, as it runs")
    model = running_model(SUPERVISORS * executors // EXECUTORS, executors, TOPOLOGIES, seed)
    pairs = len(model.traffic)
    with TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "model.json"
        file.write_bytes(msgspec.json.encode(model))
        del model
        zookeeper = LocalZooKeeper(folder / "zookeeper", options=["-Xmx2g"])
        try:
            zookeeper.start()
            say("its reporters write")
            feed = feeding(zookeeper.hosts, file, CHANGE_S)
            with feed as feeder, controlling(zookeeper.hosts, folder) as controller:
                samples, began_s, fed = list[dict[str, float]](), time.monotonic(), tcp_bytes(feeder.pid)[0]
                while (at_s := time.monotonic() - began_s) < 60 * minutes:
                    if controller.poll() is not None or feeder.poll() is not None:
                        raise RuntimeError(f"a process ended after {at_s:.0f} s: {_end(folder)}")
                    samples.append(_sample(controller.pid, zookeeper.pid, at_s))
                    if len(samples) % 10 == 0:
                        s = samples[-1]
                        say(f"{at_s / 60:.0f} of {minutes:g} min, {s['rss_mb']:.0f} MB, {len(_lines(folder))} cycles")
                    time.sleep(SAMPLE_S)
                fed = tcp_bytes(feeder.pid)[0] - fed
                lines, errors, seconds = _lines(folder), log_errors(folder), time.monotonic() - began_s
        finally:
            zookeeper.close()
    took_s = [line["took_ms"] / 1000 for line in lines[1:]]
    return {
        "minutes": minutes,
        "executors": executors,
        "topologies": TOPOLOGIES,
        "pairs": pairs,
        "cycles": len(lines),
        "cycles_due": int(seconds / PERIOD_S),
        "cycle_s": {"median": statistics.median(took_s), "max": max(took_s)},
        "cores": {k: (samples[-1][k] - samples[0][k]) / (samples[-1]["at_s"] - samples[0]["at_s"]) for k in CPU},
        "reports_kb_per_s": fed / seconds / 1e3,
        "memory": memory_growth([(s["at_s"], s["rss_mb"]) for s in samples]),
        "planners_mb": max(s["planners_mb"] for s in samples),
        "log_errors": errors,
        "decided": Counter(str(line.get("reason")) for line in lines),
    }


def _sample(controller: int, zookeeper: int, at_s: float) -> dict[str, float]:
    return {
        "at_s": round(at_s, 1),
        "rss_mb": _rss_mb(controller),
        "planners_mb": sum(map(_rss_mb, children(controller))),
        "controller": cpu_s(controller),
        "zookeeper": cpu_s(zookeeper),
    }


def _rss_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # a planner's process that ended meanwhile
        return 0.0
    found = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return int(found[0]) / 1024 if found else 0.0


def _lines(folder: Path) -> list[dict[str, Any]]:
    """Log lines of cycles."""
    found = []
    for text in (folder / "controller.log").read_text().splitlines():
        if '"took_ms"' in text and text.startswith("{"):
            found.append(json.loads(text))
    return found


def _end(folder: Path) -> str:
    return (folder / "controller.log").read_text()[-2000:]
