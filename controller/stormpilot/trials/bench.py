"""The test bench: a trial topology on two nodes of a cluster, fed at one rate after the other.

The topology is submitted anew for each number of threads, for Storm's tasks are fixed at submission; between rates of
one number of threads nothing restarts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.messages.load import LoadReport
from stormpilot.nimbus import Address, Nimbus
from stormpilot.operate.placing import await_snapshot, put_in_force, refuse_where_a_controller_leads
from stormpilot.sizing.profiling import RateGrid, Trial
from stormpilot.sizing.stability import latency_slope
from stormpilot.submit.submission import send
from stormpilot.trials.component import COMPONENT, Tested, submission
from stormpilot.trials.nodes import Nodes, choose
from stormpilot.trials.slot import SlotSize, slot_size, used, worker_report
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

POLL_S = 0.25
START_S = 180.0
"""Within which a topology is placed and its first tuples come through."""
EMPTY_S = 90.0
"""Within which what is under way comes through after a trial; else the topology is started anew."""
HEARD_S = 30.0
"""Within which the source takes up a command."""
LAG_S = 2.0
"""A latency above this, and above `LAG_TIMES` the lowest of the trial, is that of a component that falls behind."""
LAG_TIMES = 10.0
SILENCE_S = 10.0
BUSY_TPS = 1e6
LEAST_WAITING, WAITING = 20, 2
"""Tuples that a source keeps under way in a busy worker: so many, and so many for each thread."""
SERVED = 0.95
"""Part of the rate that has to come through in a stable trial."""
HOOKS_KEY, HOOK = "topology.auto.task.hooks", "LoadHook"
VALIDATOR_KEY, VALIDATOR = "nimbus.topology.validator", "HookValidator"


@dataclass(frozen=True)
class Times:
    """Of a trial: `warm_up_s` are left out, `trial_s` are measured; `slope_limit` in seconds per second.

    `settle_s`: how long a worker that has started is kept fully busy first, so that its code is compiled.
    """

    settle_s: float = 20.0
    warm_up_s: float = 3.0
    trial_s: float = 10.0
    slope_limit: float = 0.001


class Bench:
    """Carries out trials (`RunTrial`); `close` kills the topology.

    Parameters
    ----------
    options
        Of the trial topology.
    tell
        Hears what is waited for.
    """

    def __init__(
        self,
        tested: Tested,
        grid: RateGrid,
        times: Times,
        nimbus: Address,
        zookeeper: ZooKeeper,
        paths: Paths,
        *,
        on: str | None = None,
        source_on: str | None = None,
        runner: str | None = None,
        options: Mapping[str, Any] = {},
        by: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.tested, self.grid, self.times = tested, grid, times
        self.nimbus, self._zookeeper, self._paths = nimbus, zookeeper, paths
        self._on, self._source_on, self._runner, self._options, self._by = on, source_on, runner, options, by
        self._tell = tell
        self.slot: SlotSize | None = None
        self.nodes: Nodes | None = None
        self._threads = 0
        self._topology_id = ""
        self._command = 0
        self._busy_tps = 0.0

    def check(self) -> None:
        """`RefusedError` where the cluster cannot carry out trials: a controller leads, or nothing measures workers."""
        from stormpilot.observe.reader import Reader

        refuse_where_a_controller_leads(Reader(self._zookeeper, self._paths).read(), "a profile")
        with Nimbus.connect_leader(self.nimbus) as nimbus:
            conf = nimbus.conf()
        hooks, validator = str(conf.get(HOOKS_KEY) or ""), str(conf.get(VALIDATOR_KEY) or "")
        if HOOK not in hooks and VALIDATOR not in validator and HOOK not in str(self._options.get(HOOKS_KEY)):
            raise RefusedError(
                "CPU and memory of a slot are measured by the hook, which Nimbus does not give topologies: start the "
                "cluster with `stormpilot local up --hook`, or see docs/guide/hook.md"
            )

    def __call__(self, threads: int, step: int, attempt: int) -> Trial:
        """One trial."""
        if threads != self._threads or not self._topology_id:
            self._start(threads)
        rate_tps = self.grid.rate(step)
        again = "" if not attempt else " once more"
        self._tell(f"{threads} threads at {rate_tps:,.4g}/s{again}")
        trial = self._trial(threads, step, rate_tps)
        if not self._emptied():
            self._tell("what is under way does not come through; starting anew")
            self._kill()
        return trial

    def guess(self, threads: int) -> int:
        """The step of what came through while the worker was kept busy: near the peak rate."""
        if threads != self._threads or not self._topology_id:
            self._start(threads)
        return self.grid.step_at(self._busy_tps)

    def close(self) -> None:
        """Kill the topology and remove what it left in ZooKeeper."""
        self._kill()

    # --- the topology -------------------------------------------------------------------------------------------------

    def _start(self, threads: int) -> None:
        self._kill()
        self._tell(f"{threads} threads: starting")
        topology_id = send(
            submission(self.tested, threads, self.nimbus, self._options, self._runner), force=True, wait_s=0
        )
        self._topology_id = topology_id
        wanted = threads + self.tested.sources

        def told(snapshot: Any) -> bool:
            return len(snapshot.executors) >= wanted and any(e.component == COMPONENT for e in snapshot.executors)

        seen = await_snapshot(self._zookeeper, self._paths, topology_id, told, START_S)
        earlier = {i for i, t in seen.topologies.items() if t.name == self.tested.topology_name}
        self.nodes = choose(seen, self._on, self._source_on, own=earlier)
        workers = self.nodes.workers(seen.topologies[topology_id], COMPONENT)
        why = f"trials of {self.tested.name} with {threads} threads"
        put_in_force(
            self._zookeeper, self._paths, seen, topology_id, workers,
            planner="profile", why=why, by=self._by, timeout_s=START_S,
        )  # fmt: skip
        self._threads = threads
        self._warm()

    def _warm(self) -> None:
        """Feed the lowest rate until tuples come through and the slot is reported; then keep the worker busy."""
        trial = self._send(self.grid.rate(0), START_S)
        deadline = time.monotonic() + START_S
        while True:
            sources = self._sources(trial)
            report = self._report()
            came = sum(s["completed"] for s in sources)
            if len(sources) == self.tested.sources and came >= 3 and report is not None:
                break
            if time.monotonic() > deadline:
                raise UnreachableError(
                    f"{self._topology_id}: within {START_S:.0f} s {came} tuples came through"
                    f"{'' if report is not None else ', and its worker reports no load'}: does the component ack? "
                    f"Its log is on {self._place()}"
                )
            time.sleep(POLL_S)
        assert self.nodes is not None
        self.slot = slot_size(self.nodes.component, report)
        self._busy_tps = self._busy()
        if not self._emptied():
            raise UnreachableError(f"{self._topology_id}: tuples do not come through within {EMPTY_S:.0f} s")

    def _busy(self) -> float:
        """Tuples/s that came through in the second half of a time in which some always waited."""
        settle_s = self.times.settle_s
        self._tell(f"{self._threads} threads: keeping them busy for {settle_s:g} s")
        trial = self._send(BUSY_TPS, settle_s, ahead=LEAST_WAITING + WAITING * self._threads)
        deadline = time.monotonic() + settle_s + HEARD_S
        while time.monotonic() < deadline:
            sources = self._sources(trial)
            if len(sources) == self.tested.sources and all(s["elapsedS"] >= settle_s for s in sources):
                break
            time.sleep(POLL_S)
        tuples = sum(n for s in sources for t, _, n in s["points"] if settle_s / 2 <= t < settle_s)
        return tuples / (settle_s / 2)

    def _kill(self) -> None:
        if not self._topology_id:
            return
        topology_id, self._topology_id, self._threads = self._topology_id, "", 0
        with Nimbus.connect_leader(self.nimbus) as nimbus:
            if (running := nimbus.find(self.tested.topology_name)) is not None and running.status != "KILLED":
                nimbus.kill(self.tested.topology_name, wait_s=0)
        self._zookeeper.delete(self._paths.trial(topology_id))

    # --- a trial ------------------------------------------------------------------------------------------------------

    def _trial(self, threads: int, step: int, rate_tps: float) -> Trial:
        warm_s, end_s = self.times.warm_up_s, self.times.warm_up_s + self.times.trial_s
        trial = self._send(rate_tps, end_s + HEARD_S)
        first: LoadReport | None = None
        began = heard = time.monotonic()
        behind, sources = "", []
        while True:
            sources = self._sources(trial)
            all_there = len(sources) == self.tested.sources
            elapsed_s = min((s["elapsedS"] for s in sources), default=0.0)
            if all_there:
                behind = _falls_behind(sources, elapsed_s)
                if first is None and elapsed_s >= warm_s:
                    first = self._report()
                if elapsed_s >= end_s or behind:
                    break
                heard = time.monotonic()
            if time.monotonic() - heard > HEARD_S:
                raise UnreachableError(f"{self._topology_id}: its source tells nothing; its log is on {self._place()}")
            time.sleep(POLL_S)
        last = self._report()
        self._send(0.0, 0.0)
        use = None if first is None or last is None else used(first, last)
        if use is None and not behind:
            behind = "the worker of the component restarted, or did not report"
        points = [(t, latency) for s in sources for t, latency, _ in s["points"] if warm_s <= t < end_s]
        slope = latency_slope(points)
        counted = [(t, n) for s in sources for t, _, n in s["points"] if warm_s <= t < end_s]
        completed_tps = sum(n for _, n in counted) / max(min(elapsed_s, end_s) - warm_s, 1.0)
        failed = sum(s["failed"] for s in sources)
        why = behind or self._unstable(slope, completed_tps, rate_tps, failed)
        slot = self.slot
        assert slot is not None
        return Trial(
            threads=threads,
            step=step,
            rate_tps=round(rate_tps, 4),
            stable=not why,
            clear=bool(behind),
            slope=None if slope is None else round(slope.middle, 6),
            slope_low=None if slope is None else round(slope.low, 6),
            latency_ms=round(1000 * median(latency for _, latency in points), 2) if points else None,
            completed_tps=round(completed_tps, 2),
            cpu_share=0.0 if use is None else round(use.cores / slot.cores, 4),
            memory_share=0.0 if use is None else round(use.memory_mb / slot.memory_mb, 4),
            memory_mb=0.0 if use is None else round(use.memory_mb, 1),
            heap_mb=None if use is None else use.heap_mb,
            seconds=round(time.monotonic() - began, 1),
            why=why,
        )

    def _unstable(self, slope: Any, completed_tps: float, rate_tps: float, failed: int) -> str:
        """Why a trial is not stable; empty if it is."""
        if failed:
            return f"{failed} tuples failed"
        if completed_tps < SERVED * rate_tps - 1 / self.times.trial_s:
            return f"{completed_tps:.4g}/s came through"
        if slope is not None and slope.low > self.times.slope_limit:
            return f"latency grows by {slope.middle:.2g} s each second"
        return ""

    def _send(self, rate_tps: float, seconds: float, ahead: int | None = None) -> int:
        self._command += 1
        command = {"trial": self._command, "rateTps": rate_tps, "seconds": seconds, "ahead": ahead}
        self._zookeeper.put(self._paths.trial(self._topology_id, "command"), json.dumps(command).encode())
        return self._command

    def _sources(self, trial: int) -> list[dict[str, Any]]:
        """What the tasks of the source measured in this trial; those that have not taken it up are left out."""
        names = [self._paths.trial(self._topology_id, f"source-{i}") for i in range(self.tested.sources)]
        found = [json.loads(node.data) for node in self._zookeeper.read(names) if node is not None]
        return [s for s in found if s["trial"] == trial]

    def _emptied(self) -> bool:
        """Whether everything that is under way came through in time."""
        trial = self._send(0.0, 0.0)
        deadline = time.monotonic() + EMPTY_S
        while time.monotonic() < deadline:
            sources = self._sources(trial)
            if len(sources) == self.tested.sources and all(s["inFlight"] == 0 for s in sources):
                return True
            time.sleep(POLL_S)
        return False

    def _report(self) -> LoadReport | None:
        assert self.nodes is not None
        return worker_report(self._zookeeper, self._paths, self._topology_id, self.nodes.component, COMPONENT)

    def _place(self) -> str:
        assert self.nodes is not None
        return f"{self.nodes.component.host}, port {min(self.nodes.component.ports)}"


def _falls_behind(sources: list[dict[str, Any]], elapsed_s: float) -> str:
    """Why a trial need not go on; empty if it has to."""
    latest = [s["points"][-1] for s in sources if s["points"]]
    if not latest:
        return "nothing came through" if elapsed_s > SILENCE_S else ""
    lowest = min(latency for s in sources for _, latency, _ in s["points"])
    lag_s = max(latency for _, latency, _ in latest)
    if lag_s > max(LAG_S, LAG_TIMES * lowest):
        return f"latency is {lag_s:.1f} s after {elapsed_s:.0f} s"
    if elapsed_s - max(t for t, _, _ in latest) > SILENCE_S:
        return f"nothing came through for {SILENCE_S:.0f} s"
    return ""
