"""A topology that is held up by one small node, and freed: what gets through, what wants through, what was predicted.

Isolated nodes: the small one really is slow. Storm places the job; the demand rises, the small node cannot keep up,
and by `topology.max.spout.pending` the source is held for all keys. Then the controller starts, as installed.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.command import until
from benchmarks.control.live import STORMPILOT, Controller, history, take_down, write_config
from benchmarks.demo.measure import Watcher
from stormpilot.config import LoadSection
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec, NodeSpec
from stormpilot.submit import submit_topology

PROJECT = Path(__file__).with_name("held")
NODES = (NodeSpec(cores=0.3, mbit=50), NodeSpec(cores=0.75, mbit=50), NodeSpec(cores=0.75, mbit=50))
LOW_TPS, HIGH_TPS = 20.0, 90.0
WORK_MS = 10.0
WINDOW_S = 30
FREED_RATIO = 0.95
"""Of the demand: from here on nothing is held up."""
AT_MOST_S = 420.0


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure one run."""
    cluster: LocalCluster | None = None
    watcher: Watcher | None = None
    controller: Controller | None = None
    with TemporaryDirectory() as name:
        rate = Path(name) / "rate"
        _want(rate, LOW_TPS)
        try:
            spec = ClusterSpec(
                name="bench-held", supervisors=len(NODES), slots=2, sites=(), hook=True, isolate=True, nodes=NODES,
                conf=PATIENT,
            )  # fmt: skip
            cluster = LocalCluster.up(spec, lambda _: None)
            topology_id = submit_topology(
                PROJECT,
                "held",
                "local",
                options={"held.rate.file": str(rate), "held.work.ms": WORK_MS, "stormpilot.report.secs": 2},
                nimbus=f"{cluster.nimbus_host}:{cluster.nimbus_port}",
            )
            watcher = Watcher(cluster, topology_id, LoadSection(), 1.0)
            say(f"held: isolated nodes are up and run {topology_id}")
            _steady(watcher, LOW_TPS)
            _want(rate, HIGH_TPS)
            say(f"held: {_through(watcher):.0f} tuples/s wanted and through; now {HIGH_TPS:.0f} are wanted")
            time.sleep(2 * WINDOW_S)
            before = _figures(watcher)
            say(f"held: under Storm's placement {before['through_tps']:.1f} tuples/s get through")
            asked = _what_if(cluster, topology_id)
            settings: dict[str, Any] = {
                "zookeeper": {"hosts": cluster.zookeeper_hosts},
                "decide": {"mode": "act"},
                "api": {"enabled": False},
                "log": {"format": "json"},
            }
            log = Path(name) / "log"
            begun_s = time.monotonic()
            controller = Controller("held", write_config(Path(name) / "held.yaml", settings), log)
            freed_s = _freed(watcher, begun_s, say)
            time.sleep(2 * WINDOW_S)
            after = _figures(watcher)
            plans = [
                {"reason": e.plan.reason_code, "text": e.plan.reason, "expected": msgspec.to_builtins(e.plan.expected)}
                for e in history(cluster.zookeeper_hosts, topology_id)
            ]
            decisions = _decisions(log)
        finally:
            take_down(cluster, controller, watcher)
    return {
        "nodes": [{"cores": n.cores, "mbit": n.mbit} for n in NODES],
        "wanted_tps": HIGH_TPS,
        "before": before,
        "what_if": asked,
        "freed_s": freed_s,
        "after": after,
        "plans": plans,
        "decisions": decisions,
    }


def _want(rate: Path, tps: float) -> None:
    """Replace the file as a whole: the source reads it meanwhile."""
    new = rate.with_suffix(".new")
    new.write_text(f"{tps:g}")
    new.replace(rate)


def _through(watcher: Watcher) -> float:
    return watcher.throughput_tps(WINDOW_S)


def _steady(watcher: Watcher, tps: float) -> None:
    """Wait until all that is wanted gets through."""

    def missing() -> str | None:
        through = _through(watcher)
        return None if through >= FREED_RATIO * tps else f"{through:.1f} of {tps:g} tuples/s get through"

    until("the job is steady", missing, AT_MOST_S)


def _freed(watcher: Watcher, begun_s: float, say: Callable[[str], None]) -> float | None:
    """Seconds until the demand got through for a window; None: it never did."""
    told_s = begun_s
    while (now_s := time.monotonic()) < begun_s + AT_MOST_S:
        if _through(watcher) >= FREED_RATIO * HIGH_TPS:
            return round(now_s - begun_s - WINDOW_S, 1)
        if now_s - told_s > 30:
            state = None if watcher.seen is None else watcher.seen.controller
            view = state.topologies[0] if state is not None and state.topologies else None
            reason = "" if view is None else f"{view.reason} {view.text}"
            say(f"held: {_through(watcher):.1f} tuples/s get through; {reason}")
            told_s = now_s
        time.sleep(1.0)
    return None


def _figures(watcher: Watcher) -> dict[str, Any]:
    """Throughput and latency of a window, and CPU of every node as a part of what it has."""
    seen = watcher.window(WINDOW_S, lambda _: None).figures
    cpu = {host: round(percent / 100, 3) for host, percent in seen["cpu_per_node_percent"].items()}
    return {
        "through_tps": round(seen["throughput_tps"], 2),
        "latency_ms": seen["complete_latency_ms"],
        "cpu": cpu,
        "inter_node_share": round(seen["inter_node_share"], 3),
    }


def _what_if(cluster: LocalCluster, topology_id: str) -> dict[str, Any]:
    """Answers of `stormpilot what-if` for the placement that runs, and of the one that it would plan."""
    command = [STORMPILOT, "what-if", "--zookeeper", cluster.zookeeper_hosts, "--measure", str(WINDOW_S)]
    command += ["--scale-rate", f"{topology_id}=1", "-f", "json"]
    with suppress(subprocess.TimeoutExpired, json.JSONDecodeError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        found = json.loads(done.stdout)
        return {k: found.get(k) for k in ("now", "planned", "carried")}
    return {}


def _decisions(log: Path) -> list[str]:
    """The decisions in the controller's log, each change once."""
    told: list[str] = []
    for line in log.read_text(errors="replace").splitlines():
        with suppress(json.JSONDecodeError):
            entry = json.loads(line)
            text = f"{entry.get('event')}: {entry.get('reason', '')} {entry.get('text', '')}".strip()
            if entry.get("reason") and (not told or told[-1] != text):
                told.append(text)
    return told
