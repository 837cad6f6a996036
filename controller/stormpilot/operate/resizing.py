"""A size carried out on a running topology: threads by Storm's rebalance, then the placement as its plan [S17 6, 7].

Where a controller leads, the rebalance is all: the controller places what users rebalance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from stormpilot.config import LoadSection
from stormpilot.errors import RefusedError
from stormpilot.messages.core import TopologySnapshot, Worker
from stormpilot.model.values import Infeasible, Model, Plan, Supervisor
from stormpilot.nimbus import Nimbus
from stormpilot.observe.build import build
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate.placing import await_snapshot, put_in_force
from stormpilot.operate.topology_ref import topology_ref
from stormpilot.sizing.allocation import Allocation
from stormpilot.sizing.carrying_out import Ranges, like_the_measured_slot, placed, ranges, threads_by_tasks
from stormpilot.sizing.problem import Problem
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths


@dataclass
class Resizing:
    """Changes of threads and workers: `threads` by component, `workers` as they will be. `carry_out` does it.

    `before`: threads now; `tasks`: task numbers by component; `component_of`: by an executor's first task.
    `controller` leads, and places what is rebalanced; empty where none does.
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
    controller: str = ""
    workers: list[Worker] = field(default_factory=list)
    component_of: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def plan(self, executors: Ranges) -> None:
        """Place the executors; `RefusedError` where they fit nowhere.

        Those that have no size (ackers, collectors) go where the least is: they need little.
        """
        sized = {c: executors[c] for c in self.threads}
        answer = placed(self.problem, self.allocation, self.supervisors, sized, self.planner, seed=self.seed)
        if isinstance(answer, Infeasible):
            raise RefusedError(f"{self.name}: no place for this size ({answer.constraint}): {answer.text}")
        self.component_of = {start: c for c, held in executors.items() for start, _ in held}
        self.workers = _with_the_rest(answer, {c: r for c, r in executors.items() if c not in self.threads})

    def carry_out(
        self, nimbus: Nimbus, *, wait_s: int, timeout_s: float, by: str, tell: Callable[[str], None]
    ) -> str | None:
        """Rebalance where threads differ, then publish the placement of what Storm made of it.

        Returns
        -------
        str or None
            The id of the plan; None where a controller leads: it plans what was rebalanced.
        """
        changed = {c: n for c, n in self.threads.items() if n != self.before[c]}
        slots = len(self.workers)
        if changed or slots != nimbus_workers(nimbus, self.name):
            tell(
                f"rebalancing to {slots} workers, {', '.join(f'{c} {n}' for c, n in changed.items()) or 'same threads'}"
            )
            nimbus.rebalance(self.name, wait_s=wait_s, workers=slots, executors=changed or None)
        tell("waiting until Nimbus has the new threads")

        def there(snapshot: TopologySnapshot) -> bool:
            counted = Counter(e.component for e in snapshot.executors)
            return snapshot.workers == slots and all(counted[c] == n for c, n in self.threads.items())

        seen = await_snapshot(self.zookeeper, self.paths, self.topology_id, there, timeout_s + wait_s)
        if self.controller:
            return None
        executors: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for e in seen.topologies[self.topology_id].executors:
            executors[e.component].append((e.start, e.end))
        self.plan({c: sorted(held) for c, held in executors.items()})
        tell("placing")
        a = self.allocation
        return put_in_force(
            self.zookeeper,
            self.paths,
            seen,
            self.topology_id,
            self.workers,
            verb="apply-size",
            planner=self.planner,
            why=f"sized for {a.rate_tps:g}/s by {a.method}+{self.planner}",
            by=by,
            timeout_s=timeout_s,
        )


def resizing(
    zookeeper: ZooKeeper,
    paths: Paths,
    problem: Problem,
    allocation: Allocation,
    topology: str,
    planner: str,
    seed: int = 0,
) -> Resizing:
    """Changes that are needed, planned but not done.

    Raises
    ------
    RefusedError
        It cannot be carried out: a component is missing or has too few tasks, slots are smaller than the measured one,
        or there are too few.
    """
    reader = Reader(zookeeper, paths)
    seen = reader.read()
    if seen.cluster is None:
        raise RefusedError("no cluster snapshot yet: check storm.scheduler on Nimbus")
    running = topology_ref(seen.topologies, topology)
    tasks: defaultdict[str, list[int]] = defaultdict(list)
    for e in sorted(running.executors, key=lambda e: e.start):
        tasks[e.component] += range(e.start, e.end + 1)
    model = build(seen.cluster, {running.id: running}, {}, LoadSection(), 1.0, 0).model
    auxiliary = [c.id for c in model.topologies[0].components if c.auxiliary]
    threads = threads_by_tasks({c: len(t) for c, t in tasks.items()}, allocation, auxiliary)
    mhz = {t.host: t.mhz for r in reader.read_loads([running.id])[0] for t in r.tasks if t.mhz}
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
        like_the_measured_slot(problem, _free(model, seen, running, mhz)),
        seen.contenders[0] if seen.contenders else "",
    )
    made.plan(ranges(tasks, {**made.before, **threads}))
    many = [c for c, n in threads.items() if n < len(tasks[c])]
    if made.controller:
        made.notes.append(
            f"a controller leads ({made.controller}) and places what is rebalanced: the slots above are what this size "
            "was planned on, not where its threads go"
        )
    if many:
        made.notes.append(
            f"{', '.join(many)}: more tasks than threads; a Python component has a process for each task, and its "
            "model holds for as many processes as threads"
        )
    return made


def nimbus_workers(nimbus: Nimbus, name: str) -> int | None:
    """Workers that Nimbus gives the topology now."""
    found = nimbus.find(name)
    return None if found is None else found.workers


def _free(model: Model, seen: StoreSnapshot, running: TopologySnapshot, mhz: Mapping[str, float]) -> list[Supervisor]:
    """The supervisors with the slots that no other topology has.

    A node's CPU and memory shrink with its slots, so that a slot stays an equal part of its node.
    """
    taken = {
        (e.supervisor, e.port) for i, t in seen.topologies.items() if i != running.id for e in t.executors if e.port
    }
    if not mhz:
        raise RefusedError(
            f"{running.name} reports no load, so that nobody knows how fast a core is: submit it with `stormpilot "
            "submit`, or turn the hook on (docs/guide/hook.md)"
        )
    found = []
    for s in model.supervisors:
        slots = [p for p in s.slots if (s.id, p) not in taken]
        if slots:
            part = len(slots) / len(s.slots)
            core = mhz.get(s.host, max(mhz.values()))
            found.append(
                msgspec.structs.replace(
                    s, slots=slots, cores=s.cores * part, memory_mb=s.memory_mb * part, mhz=core, cpu_limit_mhz=None
                )
            )
    return found


def _with_the_rest(answer: tuple[Model, Plan], rest: Ranges) -> list[Worker]:
    """The planned workers; executors without a size in the one whose executors need the least CPU."""
    model, plan = answer
    needs = {e.start: e.cpu_mhz for e in model.topologies[0].executors}
    workers = list(plan.topologies[0].workers)
    i = min(range(len(workers)), key=lambda i: sum(needs[start] for start, _ in workers[i].executors))
    others = [r for held in rest.values() for r in held]
    workers[i] = Worker(
        supervisor=workers[i].supervisor, port=workers[i].port, executors=sorted([*workers[i].executors, *others])
    )
    return workers
