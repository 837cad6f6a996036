"""The test bench: a trial topology on two nodes of a cluster, fed at one rate after the other.

The topology is submitted anew for each number of threads, for Storm's tasks are fixed at submission; between rates of
one number of threads nothing restarts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from stormpilot.config.sections import CapacitySource
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.messages.load import LoadReport
from stormpilot.nimbus import PAYLOAD_KEY, Address, Nimbus, RunningTopology, with_own_login
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate.placing import (
    Origin,
    await_snapshot,
    put_in_force,
    refuse_unsigned,
    refuse_where_a_controller_leads,
)
from stormpilot.sizing.performance import rate_text
from stormpilot.sizing.profiling import RateGrid, Trial
from stormpilot.submit.submission import send
from stormpilot.trials.component import COMPONENT, Specimen, submission
from stormpilot.trials.feeder import EMPTY_S, POLL_S, Feeder, Times
from stormpilot.trials.nodes import Nodes, choose
from stormpilot.trials.slot import SlotSize, slot_size, used, worker_report
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths

START_S = 180.0
"""Within which a topology is placed and its first tuples come through."""
GONE_S = 60.0
"""Within which Nimbus removes a killed topology; then its slots are free for the next profile."""
LEAST_WAITING, WAITING = 20, 2
"""Tuples under way in a busy worker: twice so many, and so many for each thread; of all sources together."""
WITHIN_SLOT = 1.05
"""Part of a slot that counts as all of it."""
HOOKS_KEY, HOOK = "topology.auto.task.hooks", "LoadHook"
VALIDATOR_KEY, VALIDATOR = "nimbus.topology.validator", "HookValidator"


class Bench:
    """Carries out trials (`RunTrial`); `close` kills the topology.

    Parameters
    ----------
    on, source_on
        Supervisors (id or host) for the component, and for source and sink; None: any that run nothing.
    options
        Of the trial topology.
    key
        By which placements are signed; None: they are not.
    capacity
        Which resources of a supervisor count, as `load.capacity`.
    tell
        Hears what is waited for.
    """

    def __init__(
        self,
        specimen: Specimen,
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
        key: bytes | None = None,
        capacity: CapacitySource = "auto",
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.specimen, self.grid, self.times = specimen, grid, times
        self.nimbus, self._zookeeper, self._paths = nimbus, zookeeper, paths
        self._on, self._source_on, self._runner, self._options, self._by = on, source_on, runner, options, by
        self._key, self._capacity, self._tell = key, capacity, tell
        self._slot: SlotSize | None = None
        self._cluster: ClusterSnapshot | None = None
        self._nodes: Nodes | None = None
        self._feeder: Feeder | None = None
        self._submitted = False
        self._threads = 0
        self._busy_tps = 0.0

    @property
    def slot(self) -> SlotSize:
        """The slot of the component, once it runs."""
        assert self._slot is not None
        return self._slot

    @property
    def node(self) -> str:
        """The host of the component, once it runs."""
        return self._both().component.host

    def check(self) -> None:
        """`RefusedError` where the cluster cannot carry out trials; what killed profiles left is removed.

        A controller leads, another profile of the class runs, there are no two free nodes, nothing measures workers, or
        plans have to be signed.
        """
        seen = Reader(self._zookeeper, self._paths).read()
        refuse_where_a_controller_leads(seen)
        self._refuse_where_another_runs()
        self._choose(seen)
        (trials,) = self._zookeeper.children([self._paths.trial()])
        with Nimbus.connect_leader(self.nimbus) as nimbus:
            conf = nimbus.conf()
            alive = {t.id for t in nimbus.topologies()}  # asked after the znodes were listed: so it has all that live
        refuse_unsigned(conf, self._key)
        hooks, validator = str(conf.get(HOOKS_KEY) or ""), str(conf.get(VALIDATOR_KEY) or "")
        if HOOK not in hooks and VALIDATOR not in validator and HOOK not in str(self._options.get(HOOKS_KEY)):
            raise RefusedError(
                "CPU and memory of a slot are measured by the hook, which Nimbus does not give topologies: start the "
                "cluster with `stormpilot local up --hook`, or see docs/guide/hook.md"
            )
        for topology_id in trials:
            if topology_id not in alive:
                with suppress(RefusedError):  # its access list is for another user
                    self._remove(topology_id)

    def __call__(self, threads: int, step: int, attempt: int) -> Trial:
        """One trial."""
        feeder = self._running(threads)
        rate_tps = self.grid.rate(step)
        at = f"at {rate_text(rate_tps)}/s" if rate_tps else "without tuples"
        self._tell(f"{_threads(threads)} {at}{' once more' if attempt else ''}")
        trial = self._trial(feeder, threads, step, rate_tps)
        if not feeder.emptied():
            self._tell("what is under way does not come through; starting anew")
            self.close()
        return trial

    def guess(self, threads: int) -> int:
        """The step of what came through while the worker was kept busy: near the peak rate."""
        self._running(threads)
        return self.grid.step_at(self._busy_tps)

    def close(self) -> None:
        """Kill the topology, and remove what it left in ZooKeeper."""
        feeder, self._feeder = self._feeder, None
        submitted, self._submitted = self._submitted, False
        if submitted:
            self._kill(None if feeder is None else feeder.topology_id)
        if feeder is not None:
            self._remove(feeder.topology_id)

    def _kill(self, topology_id: str | None) -> None:
        """Kill our topology; None: its id was not heard of."""
        name = self.specimen.topology_name
        try:
            with Nimbus.connect_leader(self.nimbus) as nimbus:
                running = nimbus.find(name)
                if running is None or topology_id not in (None, running.id):
                    return
                if running.status != "KILLED":
                    nimbus.kill(name, wait_s=0)
                _left(nimbus, name)
        except UnreachableError as e:
            raise UnreachableError(f"{e}; kill the topology {name}, it may still run") from e

    def _remove(self, topology_id: str) -> None:
        """Remove what a trial topology left and the plug-in leaves; the trials last, by which the rest is found."""
        self._zookeeper.delete(self._paths.plan_history(topology_id))
        self._zookeeper.delete(self._paths.trial(topology_id))

    def _refuse_where_another_runs(self) -> None:
        """`RefusedError` where Nimbus has a topology of our name: it is not ours to kill."""
        with Nimbus.connect_leader(self.nimbus) as nimbus:
            running = _left(nimbus, self.specimen.topology_name)
        if running is not None:
            raise RefusedError(
                f"{running.id} runs: another profile of {self.specimen.short} uses it, or was ended by kill -9: wait "
                f"for the other, or kill the topology {running.name}"
            )

    def _running(self, threads: int) -> Feeder:
        if threads != self._threads or self._feeder is None:
            self.close()
            self._tell(f"{_threads(threads)}: starting")
            sent = submission(self.specimen, threads, self.nimbus, self._options, self._runner)
            sent = replace(sent, conf=with_own_login(sent.conf))
            self._refuse_where_another_runs()
            self._submitted = True  # from here on it may run, however `send` ends
            try:
                topology_id = send(sent)
            except RefusedError:
                self._submitted = False  # what runs under this name is another profile's, which was faster
                raise
            self._feeder = Feeder(self._zookeeper, self._paths, topology_id, self.specimen.sources)
            self._feeder.open(Login(digest=sent.conf[PAYLOAD_KEY]))
            self._threads = threads
            self._place(topology_id)
            self._warm(self._feeder)
        return self._feeder

    def _place(self, topology_id: str) -> None:
        wanted = self._threads + self.specimen.sources

        def reported(snapshot: Any) -> bool:
            return len(snapshot.executors) >= wanted and any(e.component == COMPONENT for e in snapshot.executors)

        seen = await_snapshot(self._zookeeper, self._paths, topology_id, reported, START_S)
        self._cluster, self._nodes = seen.cluster, self._choose(seen)
        put_in_force(
            self._zookeeper,
            self._paths,
            seen,
            topology_id,
            self._nodes.workers(seen.topologies[topology_id], COMPONENT),
            Origin("profile", "profile", f"trials of {self.specimen.name} with {self._threads} threads", self._by),
            timeout_s=START_S,
            key=self._key,
        )

    def _choose(self, seen: StoreSnapshot) -> Nodes:
        """The nodes; neither our own topology counts, nor a snapshot of one that Nimbus has no more."""
        with Nimbus.connect_leader(self.nimbus) as nimbus:
            alive = {t.id for t in nimbus.topologies() if t.name != self.specimen.topology_name}
        on = self._on or (None if self._nodes is None else self._nodes.component.id)  # one profile, one node
        return choose(seen, on, self._source_on, own=seen.topologies.keys() - alive)

    def _warm(self, feeder: Feeder) -> None:
        """Feed the lowest rate until tuples come through and the slot is reported; then keep the worker busy."""
        trial = feeder.send(self.grid.rate(0), START_S)
        deadline = time.monotonic() + START_S
        while (report := self._report(feeder)) is None or sum(s["completed"] for s in feeder.sources(trial)) < 3:
            if time.monotonic() > deadline:
                what = "no load of its worker was reported" if report is None else "no tuples came through"
                raise UnreachableError(
                    f"{feeder.topology_id}: within {START_S:.0f} s {what}: does the component ack? The worker's log "
                    f"is on {self._where()}"
                )
            time.sleep(POLL_S)
        assert self._cluster is not None  # it has the nodes
        self._slot = slot_size(self._cluster, self._both().component, report, self._capacity)
        self._tell(f"{_threads(self._threads)}: kept busy until no more comes through than before")
        waiting = 2 * (LEAST_WAITING + WAITING * self._threads)
        self._busy_tps = feeder.busy(self.times.settle_s, math.ceil(waiting / self.specimen.sources))
        if not feeder.emptied():
            raise UnreachableError(
                f"{feeder.topology_id}: none of its tuples came through within {EMPTY_S:.0f} s; the worker's log is on "
                f"{self._where()}"
            )

    def _trial(self, feeder: Feeder, threads: int, step: int, rate_tps: float) -> Trial:
        began = time.monotonic()
        first: list[LoadReport | None] = []
        fed = feeder.feed(rate_tps, self.times, lambda: first.append(self._report(feeder)))
        last = self._report(feeder)
        feeder.stop()
        use = used(first[0], last) if first and first[0] is not None and last is not None else None
        why = fed.why
        if use is None and not why:
            why = "the worker of the component restarted, or did not report"
        slot = self.slot
        beyond = ""
        if use is not None and not why:
            why = beyond = beyond_slot(use.cores / slot.cores, use.memory_mb / slot.memory_mb if threads > 1 else 0.0)
        return Trial(
            threads=threads,
            step=step,
            rate_tps=round(rate_tps, 4),
            stable=not why,
            clear=fed.clear or bool(beyond),
            slope=None if fed.slope is None else round(fed.slope.middle, 6),
            slope_low=None if fed.slope is None else round(fed.slope.low, 6),
            latency_ms=fed.latency_ms,
            completed_tps=fed.completed_tps,
            cpu_share=0.0 if use is None else round(use.cores / slot.cores, 4),
            memory_share=0.0 if use is None else round(use.memory_mb / slot.memory_mb, 4),
            memory_mb=0.0 if use is None else round(use.memory_mb, 1),
            heap_mb=None if use is None else use.heap_mb,
            seconds=round(time.monotonic() - began, 1),
            why=why,
        )

    def _report(self, feeder: Feeder) -> LoadReport | None:
        return worker_report(self._zookeeper, self._paths, feeder.topology_id, self._both().component, COMPONENT)

    def _both(self) -> Nodes:
        assert self._nodes is not None
        return self._nodes

    def _where(self) -> str:
        node = self._both().component
        return f"{node.host}, port {min(node.ports)}"


def beyond_slot(cpu_share: float, memory_share: float) -> str:
    """Why what a trial used says nothing of one slot: nothing keeps a worker that is alone on a node within it."""
    for what, share in (("CPU", cpu_share), ("memory", memory_share)):
        if share > WITHIN_SLOT:
            return f"it takes {share:.0%} of the {what} of a slot"
    return ""


def _left(nimbus: Nimbus, name: str) -> RunningTopology | None:
    """The topology of that name; one that was killed has `GONE_S` to go."""
    deadline = time.monotonic() + GONE_S
    while (found := nimbus.find(name)) is not None and found.status == "KILLED" and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return found


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"
