"""A size carried out on a running topology: threads by Storm's rebalance, the placement as its plan [S17 6, 7].

The plan is published while the rebalance is on its way, so that workers restart once. Where that cannot be, the
placement follows it, and where a controller leads, that one places what users rebalance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

import msgspec

from stormpilot.config import LoadSection
from stormpilot.decide.reasons import Reason
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.messages.core import TopologySnapshot, Worker
from stormpilot.messages.settings import ALL, setting_key
from stormpilot.model.subset import subset
from stormpilot.model.values import Infeasible, Model, Supervisor
from stormpilot.nimbus import Nimbus
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate.change import Change
from stormpilot.operate.limits import Limits, with_the_rest
from stormpilot.operate.nodes import measured_nodes
from stormpilot.operate.operator import Operator
from stormpilot.operate.pauses import mode_of
from stormpilot.operate.placing import (
    Ahead,
    Origin,
    await_applied,
    await_snapshot,
    lacks_key,
    placed_by,
    publish_ahead,
    put_in_force,
    refuse_paused,
    refuse_unsigned,
)
from stormpilot.operate.topology_ref import topology_ref
from stormpilot.printable import counted
from stormpilot.sizing.allocation import Allocation
from stormpilot.sizing.carrying_out import Ranges, like_the_measured_slot, placed, ranges, threads_by_tasks
from stormpilot.sizing.problem import Problem
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths


@dataclass
class Resizing:
    """Changes of threads and workers: `threads` by component, `workers` as they will be. `carry_out` does it.

    `before`: threads now; `wanted_workers`: the number of workers that is asked of Nimbus now; `tasks`: task numbers by
    component; `component_of`: by an executor's first task. `controller` leads; empty where none does. `gone`: ids of
    topologies whose snapshot is there and which Nimbus has no more; `killed`: names of those that are killed and still
    have their slots. `key`: by which the plan is signed. `rebalanced`: Storm was told to change threads or workers.
    `early`: the plan is published while that is on its way.
    """

    zookeeper: ZooKeeper
    paths: Paths
    problem: Problem
    allocation: Allocation
    planner: str
    seed: int
    topology_id: str
    name: str
    tasks: Mapping[str, list[int]]
    before: Mapping[str, int]
    threads: Mapping[str, int]
    supervisors: list[Supervisor]
    limits: Limits
    wanted_workers: int
    controller: str = ""
    gone: Collection[str] = ()
    killed: Sequence[str] = ()
    key: bytes | None = None
    workers: list[Worker] = field(default_factory=list)
    component_of: dict[int, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    by_whom: str = ""
    rebalanced: bool = False
    early: bool = False
    switched: ClassVar[bool] = False

    def plan(self, executors: Ranges) -> None:
        """Place the executors; `RefusedError` where they fit nowhere.

        Those that have no size (ackers, collectors) go where the least is, of where they may run: they need little.
        """
        sized = {c: executors[c] for c in self.threads}
        answer = placed(
            self.problem,
            self.allocation,
            self.supervisors,
            sized,
            self.planner,
            seed=self.seed,
            bound=self.limits.bound,
        )
        if isinstance(answer, Infeasible):
            soon = f"; slots of what is being killed come free soon: {', '.join(self.killed)}" if self.killed else ""
            raise RefusedError(f"{self.name}: no place for this size ({answer.constraint}): {answer.text}{soon}")
        self.component_of = {start: c for c, held in executors.items() for start, _ in held}
        rest = {c: r for c, r in executors.items() if c not in self.threads}
        self.workers = with_the_rest(answer, rest, self.limits)

    @property
    def changed(self) -> dict[str, int]:
        """Threads of the components that get more or fewer."""
        return {c: n for c, n in self.threads.items() if n != self.before[c]}

    @property
    def rebalances(self) -> bool:
        """Whether Storm has to change threads or workers."""
        return bool(self.changed) or len(self.workers) != self.wanted_workers

    @property
    def notes(self) -> list[str]:
        """Remarks, and where a controller leads, whether the threads go to the slots of `workers`."""
        if not self.controller:
            return self.remarks
        goes_on = f"{self.controller} goes on from the slots above"
        planned = f"{self.by_whom}: the slots above are what this size was planned on, not where its threads go"
        return [*self.remarks, f"a controller leads: {goes_on if self.early else planned}"]

    def danger(self, wait_s: int) -> str:
        """The consequence for the topology, as one is asked before it; empty where there is none."""
        if self.rebalances:
            return f"workers of {self.name} restart, after its sources were off for {wait_s} s"
        return "" if self.controller else f"workers of {self.name} that are elsewhere now restart"

    def carry_out(
        self,
        nimbus: Nimbus,
        *,
        wait_s: int,
        timeout_s: float,
        by: str,
        tell: Callable[[str], None],
    ) -> str | None:
        """Rebalance where threads differ, and publish the placement while that is on its way.

        Where the plug-in could not apply it together with the rebalance, it is withdrawn, and what Storm made of it is
        placed: on the slots that are free then, for others may have taken some meanwhile.

        Returns
        -------
        str or None
            The id of the plan; None where it is left to a controller.

        Raises
        ------
        RefusedError
            No place is left, or the plug-in rejected it; the text says whether Storm has rebalanced before.
        """
        changed, slots, ahead = self.changed, len(self.workers), None
        if self.rebalances:
            threads = ", ".join(f"{c} {n}" for c, n in changed.items()) or "same threads"
            tell(f"rebalancing to {counted(slots, 'worker')}, {threads}")
            self.rebalanced = True  # from here on it may be, however this ends
            nimbus.rebalance(self.name, wait_s=wait_s, workers=slots, executors=changed or None)
            text = f"{self.name}: Storm rebalances it to {counted(slots, 'worker')}, {threads}"
            then = Change(
                verb="apply-size",
                target=self.name,
                before={"workers": self.wanted_workers, "threads": dict(self.before)},
                after={"workers": slots, "threads": dict(self.threads)},
                text=text,
            )
            with suppress(UnreachableError):  # its record alone may be lost: Storm has been asked
                Operator(self.zookeeper, self.paths, by, self._why()).write([], then)
            if self.early:
                ahead = publish_ahead(
                    self.zookeeper,
                    self.paths,
                    self.topology_id,
                    self.workers,
                    self._origin(by),
                    rebalance_s=wait_s,
                    key=self.key,
                )
        tell("waiting until Nimbus has the new threads")

        def there(snapshot: TopologySnapshot) -> bool:
            counted = Counter(e.component for e in snapshot.executors)
            return snapshot.workers == slots and all(counted[c] == n for c, n in self.threads.items())

        try:
            seen = self._rebalanced(ahead, there, timeout_s + wait_s)
            if ahead is not None:
                if self._applied(ahead, seen, timeout_s):
                    return ahead.plan_id
                seen = self._rebalanced(None, there, timeout_s)
            self.early = False
            if self.controller:
                return None
            tell("placing")
            return self._place(seen, by, timeout_s)
        except (RefusedError, UnreachableError) as e:
            if not self.rebalanced:
                raise
            kind = UnreachableError if isinstance(e, UnreachableError) else RefusedError
            raise kind(f"Storm has rebalanced {self.name} to these threads, but it is not placed: {e}") from e

    def _rebalanced(
        self, ahead: Ahead | None, there: Callable[[TopologySnapshot], bool], for_s: float
    ) -> StoreSnapshot:
        """The reading in which Nimbus has done it; a plan for what it does not do is withdrawn."""
        try:
            return await_snapshot(self.zookeeper, self.paths, self.topology_id, there, for_s)
        except UnreachableError:
            if ahead is not None:
                ahead.withdraw("there was no rebalance")
            raise

    def _applied(self, ahead: Ahead, seen: StoreSnapshot, timeout_s: float) -> bool:
        """Whether the plan is applied, which was made for what Storm would make; one that cannot be is withdrawn."""
        planned = sorted(e for w in self.workers for e in w.executors)
        if planned != sorted((e.start, e.end) for e in seen.topologies[self.topology_id].executors):
            ahead.withdraw("Storm made other executors")
            return False
        try:
            await_applied(self.zookeeper, self.paths, self.topology_id, ahead.plan_id, timeout_s)
        except RefusedError as e:
            ahead.withdraw(str(e))
            return False
        return True

    def _origin(self, by: str) -> Origin:
        return Origin("apply-size", self.planner, self._why(), by)

    def _why(self) -> str:
        a = self.allocation
        return f"sized for {a.rate_tps:g}/s by {a.method}+{self.planner}"

    def _place(self, seen: StoreSnapshot, by: str, timeout_s: float) -> str:
        """Plan what Storm made of it on what is free in this reading, and put that in force."""
        self.supervisors = _still_free(self.supervisors, _without(seen, self.gone), self.topology_id)
        executors: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for e in seen.topologies[self.topology_id].executors:
            executors[e.component].append((e.start, e.end))
        self.plan({c: sorted(held) for c, held in executors.items()})
        return put_in_force(
            self.zookeeper,
            self.paths,
            seen,
            self.topology_id,
            self.workers,
            self._origin(by),
            timeout_s=timeout_s,
            key=self.key,
        )


def resizing(
    zookeeper: ZooKeeper,
    paths: Paths,
    nimbus: Nimbus,
    problem: Problem,
    allocation: Allocation,
    topology: str,
    planner: str,
    seed: int = 0,
    load: LoadSection | None = None,
    key: bytes | None = None,
) -> Resizing:
    """Changes that are needed, planned but not done; `load` says which capacity and CPU count, `key` signs the plan.

    The snapshot of a killed topology outlives its workers: its slots are free once Nimbus has it no more.

    Raises
    ------
    RefusedError
        It cannot be carried out: a component is missing or has too few tasks, slots are smaller than the measured one,
        or there are too few; or a setting that says where executors may run cannot be read; or no controller leads, and
        the plug-in would reject the plan for its signature.
    """
    reader = Reader(zookeeper, paths)
    seen = reader.read()
    cluster = seen.cluster
    if cluster is None:
        raise RefusedError(seen.no_cluster)
    known = {t.id: t for t in nimbus.topologies()}  # after the snapshots: so it has all that live
    gone = {i: t.name for i, t in seen.topologies.items() if i not in known}
    seen = _without(seen, gone)
    running = topology_ref(seen.topologies, topology, seen.unreadable_topologies)
    refuse_paused(seen, running.name)
    conf = nimbus.conf()
    if not seen.contenders:
        refuse_unsigned(conf, key)
    unreadable = seen.settings.frozen.get(setting_key(running.name)) or seen.settings.frozen.get(ALL)
    if unreadable:
        raise RefusedError(f"{running.name}: {Reason.SETTING_UNREADABLE}: {unreadable}")
    tasks: defaultdict[str, list[int]] = defaultdict(list)
    for e in sorted(running.executors, key=lambda e: e.start):
        tasks[e.component] += range(e.start, e.end + 1)
    model, mhz = measured_nodes(reader, seen, cluster, load)
    own = next(t for t in model.topologies if t.id == running.id)
    left = {s.id: s.resources for s in subset(model, [running.id]).supervisors}
    supervisors = [msgspec.structs.replace(s, resources=left[s.id]) for s in model.supervisors]
    model = msgspec.structs.replace(model, supervisors=supervisors, topologies=[own])
    limits = Limits(own, [x for x in model.exclusions if x.topology in (None, own.id)], seen.settings)
    listed = {c.id for c in running.components}  # nobody knows what another one is
    auxiliary = [c.id for c in own.components if c.auxiliary and c.id in listed]
    threads = threads_by_tasks({c: len(t) for c, t in tasks.items()}, allocation, auxiliary)
    free, without_slots = _free(model, limits.barred(model), seen, running, mhz)
    made = Resizing(
        zookeeper,
        paths,
        problem,
        allocation,
        planner,
        seed,
        running.id,
        running.name,
        tasks,
        Counter(e.component for e in running.executors),
        threads,
        [*like_the_measured_slot(problem, free), *without_slots],
        limits,
        running.workers,
        seen.contenders[0] if seen.contenders else "",
        gone,
        sorted({t.name for t in known.values() if t.status == "KILLED"}),
        key,
    )
    made.plan(ranges(tasks, {**made.before, **threads}))
    if gone:
        names = ", ".join(sorted(set(gone.values())))
        made.remarks.append(f"slots of killed topologies, which Nimbus has no more, count as free: {names}")
    many = [c for c, n in threads.items() if n < len(tasks[c])]
    if many:
        made.remarks.append(
            f"{', '.join(many)}: more tasks than threads; a Python component has a process for each task, and its "
            "model holds for as many processes as threads"
        )
    made.early = made.rebalances and running.id not in seen.running_rollouts
    if made.controller:
        mode, _ = mode_of(seen, running.name, running.id)
        made.by_whom = placed_by(running.name, made.controller, mode)
        made.early = made.early and mode in ("act", "advise") and not lacks_key(conf, key)
    return made


def _free(
    model: Model, barred: Collection[str], seen: StoreSnapshot, running: TopologySnapshot, mhz: Mapping[str, float]
) -> tuple[list[Supervisor], list[Supervisor]]:
    """The supervisors with the slots that no other topology has, and those without such, `barred` ones among them.

    A node's CPU and memory shrink with its slots, so that a slot stays an equal part of its node. Those without slots
    are still there: a pin to one of them binds.
    """
    taken = _taken(seen, running.id)
    found: list[Supervisor] = []
    without: list[Supervisor] = []
    for s in model.supervisors:
        slots = [p for p in s.slots if (s.id, p) not in taken and s.id not in barred]
        (found if slots else without).append(
            _with_slots(msgspec.structs.replace(s, mhz=mhz[s.id], cpu_limit_mhz=None), slots)
        )
    return found, without


def _taken(seen: StoreSnapshot, topology_id: str) -> set[tuple[str | None, int]]:
    """Slots of other topologies."""
    return {
        (e.supervisor, e.port) for i, t in seen.topologies.items() if i != topology_id for e in t.executors if e.port
    }


def _without(seen: StoreSnapshot, gone: Collection[str]) -> StoreSnapshot:
    return replace(seen, topologies={i: t for i, t in seen.topologies.items() if i not in gone})


def _still_free(supervisors: Sequence[Supervisor], seen: StoreSnapshot, topology_id: str) -> list[Supervisor]:
    """The supervisors without slots that others have taken, or that are gone, since they were free."""
    live = set() if seen.cluster is None else {s.id for s in seen.cluster.supervisors if not s.blacklisted}
    taken = _taken(seen, topology_id)
    return [_with_slots(s, [p for p in s.slots if (s.id, p) not in taken and s.id in live]) for s in supervisors]


def _with_slots(s: Supervisor, slots: list[int]) -> Supervisor:
    """The supervisor with these of its slots, and as much of its CPU and memory."""
    part = len(slots) / len(s.slots) if slots else 1.0
    return msgspec.structs.replace(s, slots=slots, cores=s.cores * part, memory_mb=s.memory_mb * part)
