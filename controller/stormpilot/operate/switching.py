"""A size carried out by executors on standby: tuples go to as many tasks as it has threads, and nothing restarts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import ClassVar

from stormpilot.config import LoadSection
from stormpilot.errors import RefusedError
from stormpilot.messages.core import TopologySnapshot, Worker
from stormpilot.messages.routable import tasks_of
from stormpilot.messages.routes import STANDBY_KEY
from stormpilot.observe.reader import Reader
from stormpilot.operate.change import Change
from stormpilot.operate.nodes import measured_nodes
from stormpilot.operate.operator import Operator
from stormpilot.operate.placing import refuse_paused
from stormpilot.operate.rollouts import rollout
from stormpilot.operate.routes import RouteView, routes, set_active
from stormpilot.operate.topology_ref import topology_ref
from stormpilot.sizing.advice import check_components
from stormpilot.sizing.performance import rate_text
from stormpilot.sizing.prediction import SlotName
from stormpilot.sizing.problem import Problem
from stormpilot.sizing.switching import Executors, switched


@dataclass(frozen=True)
class Switching:
    """The executors that are to get tuples, by first task and component. `carry_out` has them get these.

    `executors`: those that are there, of each component of the file.
    """

    operator: Operator
    snapshot: TopologySnapshot
    executors: Mapping[str, Executors]
    active: Mapping[str, list[int]]
    notes: Sequence[str]
    controller: ClassVar[str] = ""
    by_whom: ClassVar[str] = ""
    rebalanced: ClassVar[bool] = False
    switched: ClassVar[bool] = True

    @property
    def topology_id(self) -> str:
        """Id of the running topology."""
        return self.snapshot.id

    @property
    def tasks(self) -> dict[str, list[int]]:
        """Task numbers by component."""
        return {c: tasks_of(self.snapshot, c) for c in self.executors}

    @property
    def before(self) -> dict[str, int]:
        """Executors that get tuples now, by component."""
        return {c: len(e.active) for c, e in self.executors.items()}

    @property
    def threads(self) -> dict[str, int]:
        """Executors that get tuples then, by component."""
        return {c: len(starts) for c, starts in self.active.items()}

    @property
    def component_of(self) -> dict[int, str]:
        """Component by an executor's first task."""
        return {e.start: e.component for e in self.snapshot.executors}

    @property
    def workers(self) -> list[Worker]:
        """The workers with the executors that get tuples then."""
        starts = {start for held in self.active.values() for start in held}
        held: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for e in self.snapshot.executors:
            if e.start in starts and e.supervisor is not None and e.port is not None:
                held[e.supervisor, e.port].append((e.start, e.end))
        return [Worker(supervisor=s, port=port, executors=sorted(own)) for (s, port), own in sorted(held.items())]

    def carry_out(self) -> Change:
        """Write the routes, of all components at once; tasks that get no more drain from then on."""
        ends = {e.start: e.end for e in self.snapshot.executors}
        active = {
            c: [task for start in starts for task in range(start, ends[start] + 1)]
            for c, starts in self.active.items()
            if {*starts} != {*self.executors[c].active}
        }
        return set_active(self.operator, self.snapshot.id, active, "apply-size")


def switching(
    operator: Operator, problem: Problem, rate_tps: float, topology: str, load: LoadSection | None = None
) -> Switching | None:
    """The change with which a topology with executors on standby supports a rate of each source; None: it has none.

    Raises
    ------
    RefusedError
        Something of it is placed nowhere, a rollout is in progress, or nobody knows how fast its nodes are.
    UsageError
        File and topology have other components.
    """
    reader = Reader(operator.zookeeper, operator.paths)
    seen = reader.read()
    if seen.cluster is None:
        raise RefusedError(seen.no_cluster)
    snapshot = topology_ref(seen.topologies, topology, seen.unreadable_topologies)
    refuse_paused(seen, snapshot.name)
    under_way = rollout(operator, snapshot.id)
    if under_way is not None and under_way.running:
        raise RefusedError(
            f"{snapshot.name}: a rollout is in progress, step {under_way.step} of {under_way.steps}: wait for its end, "
            f"or `stormpilot rollout abort {quote(snapshot.name)}`"
        )
    views = {v.component: v for v in routes(operator, snapshot.id) if not v.why_not}
    declared = {c.id for c in snapshot.components if STANDBY_KEY in c.config}
    if not any(c in declared or v.standby or v.draining for c, v in views.items()):
        return None
    model, mhz = measured_nodes(reader, seen, seen.cluster, load)
    check_components(problem, next(t for t in model.topologies if t.id == snapshot.id))
    live = {s.id for s in model.supervisors}
    executors = {c.id: _executors(snapshot, c.id, views.get(c.id), live) for c in problem.components}
    cores = {s.id: s.cores * mhz.get(s.id, 0.0) / problem.slot.cpu_mhz for s in model.supervisors}
    then = switched(problem, executors, rate_tps, cores)
    supports = f"these support {rate_text(then.supported_tps)}/s of each source"
    if then.supported_tps < rate_tps:
        supports += (
            f", not {rate_text(rate_tps)}/s: {then.limiting} is full then, and no executor on standby helps; submit it "
            "anew with more"
        )
    nodes = {supervisor for e in executors.values() for supervisor, _ in e.slots.values()}
    others = sorted(t.name for t in seen.topologies.values() if t.id != snapshot.id and _runs_on(t, nodes))
    notes = [supports]
    if others:
        notes.append(f"CPU of {', '.join(others)} on the same nodes is not measured here, and not counted")
    return Switching(operator, snapshot, executors, then.active, notes)


def _runs_on(snapshot: TopologySnapshot, nodes: Collection[str]) -> bool:
    return any(e.supervisor in nodes for e in snapshot.executors)


def _executors(snapshot: TopologySnapshot, component: str, view: RouteView | None, live: Collection[str]) -> Executors:
    """Those of a component; where nothing is routed, or none of it stands by, all get tuples, and that stays so."""
    slots: dict[int, SlotName] = {}
    active: list[int] = []
    for e in snapshot.executors:
        if e.component != component:
            continue
        if e.supervisor is None or e.port is None:
            raise RefusedError(f"{snapshot.name}: task {e.start} of {component} is placed nowhere now")
        if e.supervisor not in live:
            raise RefusedError(
                f"{snapshot.name}: task {e.start} of {component} is on supervisor {e.supervisor}, which is gone or on "
                "Storm's blacklist: wait until it is placed anew"
            )
        slots[e.start] = e.supervisor, e.port
        if view is None or any(e.start <= task <= e.end for task in view.active):
            active.append(e.start)
    own = next((c for c in snapshot.components if c.id == component), None)
    standby = len(active) < len(slots) or (own is not None and STANDBY_KEY in own.config)
    return Executors(slots, active, view is not None and standby)
