"""A very large cluster for an hour: whether a controller keeps up with it, and whether its memory stays flat.

The cluster is played as in `scale.py`, and one topology after the other becomes faster and slower again. All else is
real: ZooKeeper, the controller's process and its planners.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.command import cpu_s
from benchmarks.control.scale import PERIOD_S, Played, children, cycles_of, memory_mb, playing, running_model, tcp_bytes
from benchmarks.control.soak import log_errors, memory_growth

SUPERVISORS, EXECUTORS, TOPOLOGIES = 2_500, 100_000, 500
"""Topologies of 200 executors, as in part `cycles`."""
CHANGE_S = 120.0
SAMPLE_S = 30.0
CPU = ("controller", "zookeeper")


def run(minutes: float, seed: int, say: Callable[[str], None], executors: int = EXECUTORS) -> dict[str, Any]:
    """The facts of so many minutes; `RuntimeError` where a process ends before, or they are too few for two cycles."""
    say(f"a model of {executors:,} executors, as it runs")
    with playing(running_model(SUPERVISORS * executors // EXECUTORS, executors, TOPOLOGIES, seed), CHANGE_S) as played:
        say("its reporters write")
        samples, began_s, sent = list[dict[str, float]](), time.monotonic(), tcp_bytes(played.feeder.pid)[0]
        while (at_s := time.monotonic() - began_s) < 60 * minutes:
            if played.controller.poll() is not None or played.feeder.poll() is not None:
                end = played.log.read_text()[-2000:]
                raise RuntimeError(f"a process ended after {at_s:.0f} s; the controller's log ends: {end}")
            samples.append(_sample(played, at_s))
            if len(samples) % 10 == 0:
                mb = samples[-1]["rss_mb"]
                say(f"{at_s / 60:.0f} of {minutes:g} min, {mb:.0f} MB, {len(cycles_of(played.log))} cycles")
            time.sleep(SAMPLE_S)
        sent, seconds = tcp_bytes(played.feeder.pid)[0] - sent, time.monotonic() - began_s
        lines, errors = cycles_of(played.log), log_errors(played.log.parent)
    if len(lines) < 2:
        raise RuntimeError(f"{len(lines)} cycles in {minutes:g} minutes, expected two: give it more")
    took_s = [line["took_ms"] / 1000 for line in lines[1:]]
    first, last = samples[0], samples[-1]
    return {
        "minutes": minutes,
        "executors": executors,
        "topologies": TOPOLOGIES,
        "pairs": played.pairs,
        "cycles": len(lines),
        "cycles_due": int(seconds / PERIOD_S),
        "cycle_s": {"median": statistics.median(took_s), "max": max(took_s)},
        "cores": {who: (last[who] - first[who]) / (last["at_s"] - first["at_s"]) for who in CPU},
        "reports_kb_per_s": sent / seconds / 1e3,
        "memory": memory_growth([(s["at_s"], s["rss_mb"]) for s in samples]),
        "planners_mb": max(s["planners_mb"] for s in samples),
        "log_errors": errors,
        "decided": Counter(reason for line in lines for reason in str(line.get("reason")).split(",")),
    }


def _sample(played: Played, at_s: float) -> dict[str, float]:
    """Memory in MB, CPU seconds of processes since their start."""
    pid = played.controller.pid
    return {
        "at_s": round(at_s, 1),
        "rss_mb": memory_mb(pid, "VmRSS"),
        "planners_mb": sum(memory_mb(p, "VmRSS") for p in children(pid)),
        "controller": cpu_s(pid),
        "zookeeper": cpu_s(played.zookeeper.pid),
    }
