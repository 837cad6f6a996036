"""A real cluster for half an hour: rates change, hosts are lost and come back, controllers fail over.

What is looked at: whether memory stays flat, what moved and why, whether every flight was acknowledged.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.command import until
from benchmarks.control.live import ROOT, Controller, history, live_heap_mb, lose_host, rss_mb, write_config
from benchmarks.demo.measure import Watcher
from stormpilot.config import LoadSection
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.core import HistoryEntry
from stormpilot.submit import submit_topology

SAMPLE_S = 10.0
HEAP_EVERY_S = 150.0
FROZEN_S = 25.0
LEADS_S = 300.0
"""Time for a controller to lead: on a fresh checkout it compiles its planners first."""
SCHEDULE = "40x100,100x100"
"""Flights/s x seconds, in turn."""
WARM_RATIO = 0.25
"""Of the time, after which memory must not grow any more."""
WARM_LEADER_S = 120.0
"""After it began to lead, when planners and caches are loaded."""
FORCED = ("REPAIR", "FIRST_PLAN", "REBALANCED")
"""Reasons of plans that are no choice of the controller's."""
EVENTS = (
    (0.13, "lose host"),
    (0.20, "host returns"),
    (0.30, "freeze leader"),
    (0.40, "lose host"),
    (0.47, "host returns"),
    (0.57, "kill leader"),
    (0.67, "lose host"),
    (0.73, "host returns"),
    (0.83, "freeze leader"),
)
"""When, as a part of the time, and what."""
SHORT_MINUTES = 15.0
SHORT_EVENTS = (
    (0.10, "lose host"),
    (0.35, "host returns"),
    (0.55, "freeze leader"),
    (0.75, "kill leader"),
)
"""In less time than that, fewer events: a lost host is missed by Storm after half a minute only."""


@dataclass
class Soak:
    """State of the run, and what was seen so far."""

    cluster: LocalCluster
    watcher: Watcher
    controllers: list[Controller]
    say: Callable[[str], None]
    started_s: float = field(default_factory=time.monotonic)
    samples: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    workers: dict[tuple[str, int, int], float] = field(default_factory=dict)
    lost: str | None = None
    thaw_s: float | None = None
    revive_s: float | None = None
    _heap_s: float = -HEAP_EVERY_S
    _turn: int = 0

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started_s

    def leader(self) -> Controller:
        """The process that leads, by the election."""

        def missing() -> str | None:
            return None if self._leading() is not None else "nobody leads"

        until("a controller leads", missing, LEADS_S)
        found = self._leading()
        assert found is not None
        return found

    def do(self, event: str) -> None:
        """Break something, or mend it."""
        what = event
        if event == "lose host":
            used = self._executors()
            self.lost = sorted(used)[self._turn % len(used)]
            self._turn += 1
            what = f"{event} {self.lost}, {used[self.lost]} of {used.total()} executors"
            lose_host(self.cluster, self.lost)
        elif event == "host returns" and self.lost is not None:
            what = f"host {self.lost} returns"
            self.cluster.start_daemon(self.lost)
            self.lost = None
        elif event == "freeze leader":
            leader = self.leader()
            leader.signal(signal.SIGSTOP)
            self.thaw_s, what = self.now_s + FROZEN_S, f"freeze leader {leader.name} for {FROZEN_S:.0f} s"
        elif event == "kill leader":
            leader = self.leader()
            leader.signal(signal.SIGKILL)
            self.revive_s, what = self.now_s + FROZEN_S, f"kill leader {leader.name}, back after {FROZEN_S:.0f} s"
        self.events.append({"at_s": round(self.now_s), "event": what})
        self.say(what)

    def mend(self) -> None:
        """Resume frozen and start killed processes when it is due."""
        if self.thaw_s is not None and self.now_s >= self.thaw_s:
            for controller in self.controllers:
                controller.signal(signal.SIGCONT)
            self.thaw_s = None
        if self.revive_s is not None and self.now_s >= self.revive_s:
            for controller in self.controllers:
                if controller.process.poll() is not None:
                    controller.restart()
            self.revive_s = None

    def sample(self) -> None:
        """Memory, leader, rates and workers of this moment."""
        seen = self.watcher.seen
        nimbus = self.cluster.pid("nimbus")
        heap = None
        if nimbus is not None and self.now_s - self._heap_s >= HEAP_EVERY_S:
            self._heap_s, heap = self.now_s, live_heap_mb(nimbus)
        for w in self.cluster.workers():
            self.workers.setdefault((w.supervisor, w.port, w.pid), round(self.now_s))
        self.samples.append(
            {
                "at_s": round(self.now_s, 1),
                "controllers": {f"{c.name}:{c.pid}": round(rss_mb(c.pid), 1) for c in self.controllers},
                "leader": seen.contenders[0] if seen is not None and seen.contenders else None,
                "nimbus_rss_mb": 0.0 if nimbus is None else round(rss_mb(nimbus), 1),
                "nimbus_heap_mb": None if heap is None else round(heap, 1),
                "acked_tps": round(self.watcher.throughput_tps(int(SAMPLE_S)), 1),
                "plan": self._plan_id(),
            }
        )

    def _leading(self) -> Controller | None:
        seen = self.watcher.seen
        name = seen.contenders[0] if seen is not None and seen.contenders else ""
        return next((c for c in self.controllers if name.endswith(f":{c.pid}") and c.process.poll() is None), None)

    def _executors(self) -> Counter[str]:
        """Number of executors of the job have their slot on each supervisor."""
        seen = self.watcher.seen
        assert seen is not None
        return Counter(e.supervisor for e in seen.topologies[self.watcher.topology_id].executors if e.supervisor)

    def _plan_id(self) -> str | None:
        seen = self.watcher.seen
        plan = None if seen is None else seen.plans.get(self.watcher.topology_id)
        return None if plan is None or plan.message is None else plan.message.plan_id


def run(minutes: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Run for so many minutes and return what was seen."""
    with TemporaryDirectory() as name:
        cluster: LocalCluster | None = None
        watcher: Watcher | None = None
        controllers: list[Controller] = []
        try:
            # Storm would keep a supervisor that was lost out of use for half an hour
            conf = {"blacklist.scheduler.tolerance.count": 100_000}
            spec = ClusterSpec(name="bench-soak", supervisors=4, slots=3, cpu_points=100, conf=conf)
            cluster = LocalCluster.up(spec, lambda _: None)
            say(f"a cluster is up: 4 supervisors x 3 slots, ZooKeeper {cluster.zookeeper_hosts}")
            controllers = [_controller(n, cluster, Path(name)) for n in ("a", "b")]
            topology_id = submit_topology(
                ROOT / "topologies",
                "flights",
                "local",
                options={"topology.workers": 4, "flights.rate.schedule": SCHEDULE, "stormpilot.report.secs": 2},
                nimbus=f"{cluster.nimbus_host}:{cluster.nimbus_port}",
            )
            watcher = Watcher(cluster, topology_id, LoadSection(), 0.8)
            soak = Soak(cluster, watcher, controllers, say)
            soak.leader()
            until("flights are acknowledged", lambda: None if watcher.throughput_tps(10) > 0 else "none yet", 180.0)
            soak.started_s = time.monotonic()
            say("flights are acknowledged: the time begins")
            emitted = _go(soak, minutes * 60)
            left = _accounted(watcher, emitted)
            result = _result(soak, history(cluster.zookeeper_hosts, topology_id), emitted, left)
            result["minutes"] = minutes
            result["log_errors"] = log_errors(Path(name))
            return result
        finally:
            if watcher is not None:
                watcher.close()
            for controller in controllers:
                controller.stop()
            if cluster is not None:
                cluster.down()


def _go(soak: Soak, seconds: float) -> int:
    """Let the time pass, with all events; flights emitted by its end."""
    chosen = EVENTS if seconds >= SHORT_MINUTES * 60 else SHORT_EVENTS
    events = [(part * seconds, what) for part, what in chosen]
    due_s = 0.0
    while soak.now_s < seconds:
        soak.mend()
        if events and soak.now_s >= events[0][0]:
            soak.do(events.pop(0)[1])
        if soak.now_s >= due_s:
            due_s = soak.now_s + SAMPLE_S
            soak.sample()
        time.sleep(0.5)
    return soak.watcher.progress().emitted


def _accounted(watcher: Watcher, emitted: int) -> int:
    """Flights emitted by the end of the time that are not acknowledged two minutes later."""
    deadline = time.monotonic() + 120
    while (left := emitted - watcher.progress().committed) > 0 and time.monotonic() < deadline:
        time.sleep(1.0)
    return max(0, left)


def _controller(name: str, cluster: LocalCluster, folder: Path) -> Controller:
    settings = {
        "zookeeper": {"hosts": cluster.zookeeper_hosts, "session_timeout_s": 8},
        "cycle": {"period_s": 10, "poll_s": 2},
        "load": {"window_s": 30, "settle_s": 10},
        "planner": {"budget_s": 3},
        "decide": {"mode": "act"},
        "traffic_log": {"dir": str(folder / f"traffic-{name}")},
        "api": {"port": 0},
        "log": {"format": "json"},
    }
    return Controller(name, write_config(folder / f"{name}.yaml", settings), folder / f"{name}.log")


def _result(soak: Soak, plans: Sequence[HistoryEntry], emitted: int, left: int) -> dict[str, Any]:
    progress = soak.watcher.progress()
    started_ms = time.time() * 1000 - soak.now_s * 1000
    moves: list[dict[str, Any]] = [
        {
            "at_s": round((e.plan.created_at_ms - started_ms) / 1000),
            "plan": e.plan.plan_id,
            "epoch": e.plan.epoch,
            "reason": e.reason,
            "text": e.text,
            "moved_executors": e.moved_executors,
            "effect": None if e.effect is None else e.effect.verdict,
        }
        for e in plans
    ]
    chosen = [m for m in moves if m["reason"] not in FORCED and m["at_s"] > 0]
    seconds = soak.samples[-1]["at_s"]
    return {
        "schedule": SCHEDULE,
        "events": soak.events,
        "moves": moves,
        "moves_by_reason": Counter(m["reason"] for m in moves),
        "chosen_moves": len(chosen),
        "least_s_between_chosen_moves": min(
            (b["at_s"] - a["at_s"] for a, b in itertools.pairwise(chosen)), default=None
        ),
        "epochs": sorted({m["epoch"] for m in moves}),
        "leaders": list(dict.fromkeys(s["leader"] for s in soak.samples if s["leader"])),
        "workers_started": len(soak.workers),
        "memory": {
            **{c: memory_growth(series, led_s) for c, (series, led_s) in _series(soak.samples).items()},
            "Nimbus, resident": memory_growth([(s["at_s"], s["nimbus_rss_mb"]) for s in soak.samples]),
            "Nimbus, live heap": memory_growth(
                [(s["at_s"], s["nimbus_heap_mb"]) for s in soak.samples if s["nimbus_heap_mb"] is not None]
            ),
        },
        "tuples": {
            "emitted": emitted,
            "unaccounted": left,
            "failed": progress.failed,
            "replayed": progress.replayed,
            "acked": progress.acked,
            "mean_tps": round(emitted / seconds, 1),
        },
        "longest_silence_s": _longest_silence(soak.samples),
        "samples": soak.samples,
    }


def _longest_silence(samples: Sequence[dict[str, Any]]) -> float:
    """The longest time in which no flight was acknowledged, to within a sample."""
    longest = since = 0.0
    for s in samples:
        if s["acked_tps"] > 0:
            since = s["at_s"]
        longest = max(longest, s["at_s"] - since)
    return float(round(longest))


def _series(samples: Sequence[dict[str, Any]]) -> dict[str, tuple[list[tuple[float, float]], float | None]]:
    """Memory over time of every controller process, and when it began to lead (None: never)."""
    found: dict[str, list[tuple[float, float]]] = {}
    led_s: dict[str, float] = {}
    for s in samples:
        for key, mb in s["controllers"].items():
            name, pid = key.split(":")
            if mb > 0:
                found.setdefault(f"controller {name} ({pid})", []).append((s["at_s"], mb))
            if (s["leader"] or "").endswith(f":{pid}"):
                led_s.setdefault(f"controller {name} ({pid})", s["at_s"])
    return {name: (series, led_s.get(name)) for name, series in found.items()}


def memory_growth(series: Sequence[tuple[float, float]], led_s: float | None = None) -> dict[str, Any]:
    """First, last and most, MB, and how fast it grows once it is warm (MB/h, by least squares).

    A controller that begins to lead, at `led_s`, loads its planners then: it is warm some time after that.
    """
    if not series:
        return {}
    at_s, mb = np.array(series, dtype=np.float64).T
    warm_s = at_s[0] + WARM_RATIO * (at_s[-1] - at_s[0])
    warm_s = warm_s if led_s is None else max(warm_s, led_s + WARM_LEADER_S)
    warm = at_s >= min(warm_s, at_s[-1])
    slope = float(np.polyfit(at_s[warm], mb[warm], 1)[0] * 3600) if warm.sum() >= 3 else None
    return {
        "warm_from_s": float(at_s[warm][0]),
        "from_s": float(at_s[0]),
        "to_s": float(at_s[-1]),
        "first_mb": float(mb[0]),
        "warm_mb": float(mb[warm][0]),
        "last_mb": float(mb[-1]),
        "max_mb": float(mb.max()),
        "mb_per_h": None if slope is None else round(slope, 2),
    }


def log_errors(folder: Path) -> list[str]:
    """Lines of the controllers' logs that are errors or traces."""
    lines = [line for log in sorted(folder.glob("*.log")) for line in log.read_text(errors="replace").splitlines()]
    return [shortened(line) for line in lines if '"level": "error"' in line or line.startswith("Traceback")]


def shortened(line: str) -> str:
    """Its begin and its end: that of a trace is the error."""
    return line if len(line) <= 600 else f"{line[:300]} ... {line[-300:]}"
