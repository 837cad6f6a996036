"""Capacity check: what topologies that move need, beside what topologies that stay keep.

That is slots, CPU, memory and other resources of supervisors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from stormpilot.decide.decision import Decision
from stormpilot.decide.predict import Prediction
from stormpilot.decide.reasons import Reason
from stormpilot.model.flow.places_cpu import gives_up_mhz
from stormpilot.model.subset import shared_on_nodes
from stormpilot.model.values import Model, Supervisor, Topology, TopologyPlan

NOW, THEN, MEMORY = "MHz", "MHz by the plan", "MB of memory"
"""CPU as measured, CPU as predicted, and memory; other amounts have the name of their resource."""
GIVEN_UP = "MHz of looking for tuples"
"""CPU that threads do without on a full node: it counts where a node would be over its limit, not as headroom."""
SLACK = 1 + 1e-9
Amounts = Mapping[tuple[str, str], float]
"""Amounts by supervisor and name."""


def hold_what_does_not_fit(
    model: Model,
    decisions: Mapping[str, Decision],
    plans: Mapping[str, TopologyPlan],
    predictions: Mapping[str, Prediction],
    room_mhz: Mapping[str, float] | None = None,
) -> dict[str, Decision]:
    """Hold plans that want room of topologies that stay as they are, one by one, until the rest fits.

    The plans of all topologies together fit; a plan that is held can take the room of another one. CPU must suffice
    twice: for the load with which a plan begins, the measured one but for what its places save at once, and for the
    predicted load. Where too much of a supervisor
    would be taken, plans are held that take more of it than their topology does now. `room_mhz` is the CPU of a
    supervisor that voluntary plans may fill, measured; none: all. That holds no plan that makes room for relief.
    """
    room_mhz = room_mhz or {}

    def held(free: set[str]) -> dict[str, Decision]:
        return _held_in_turn(model, decisions, plans, predictions, room_mhz, free)

    with_headroom = held(set())
    if _pressing(with_headroom) == _pressing(decisions):
        return with_headroom
    free = {t for t, d in with_headroom.items() if d.reason is Reason.HEADROOM}
    relieved = _pressing(held(free))
    if len(relieved) <= len(_pressing(with_headroom)):
        return with_headroom
    for t in sorted(free):
        if _pressing(held(free - {t})) == relieved:
            free -= {t}
    return held(free)


def _pressing(decisions: Mapping[str, Decision]) -> set[str]:
    """Topologies that move for more than a gain."""
    return {t for t, d in decisions.items() if d.action != "skip" and not d.reason.row.keeps_headroom}


def _held_in_turn(
    model: Model,
    decisions: Mapping[str, Decision],
    plans: Mapping[str, TopologyPlan],
    predictions: Mapping[str, Prediction],
    room_mhz: Mapping[str, float],
    free: Collection[str],
) -> dict[str, Decision]:
    """The decisions, some of them held; the headroom holds no topology of those that are `free`."""
    result = dict(decisions)
    moving = {t: plans[t] for t, d in result.items() if d.action != "skip" and d.moved_executors}
    check = _Check(model, moving, predictions)
    headroom = {(s, NOW): mhz for s, mhz in room_mhz.items()}
    while True:
        full = check.over(check.limits, full=True) if len(moving) < len(model.topologies) else set()
        refused = next((r for t in sorted(moving) if (r := check.refusal(result[t], moving[t], full))), None)
        refused = refused or _wants_headroom(result, moving.keys() - free, check, headroom)
        if refused is None:
            return result
        result[refused.topology_id] = refused
        del moving[refused.topology_id]
        check.stay(refused.topology_id)


class _Check:
    """Slots that are kept and amounts that are taken, while some topologies move and the others stay.

    By topology id: `stays` what it takes as it runs, `comes` what it takes if it moves. `now` is what all take as they
    run, `load` what all take then.
    """

    def __init__(self, model: Model, moving: Mapping[str, TopologyPlan], predictions: Mapping[str, Prediction]) -> None:
        self.topologies = {t.id: t for t in model.topologies}
        running = {t.id: {a.start: (a.supervisor, a.port) for a in t.assignment} for t in model.topologies}
        self.stays = {t: _taken(self.topologies[t], slots, {}, {}) for t, slots in running.items()}
        self.comes = {
            t: _taken(self.topologies[t], _slots(plan), predictions[t].begin_mhz, predictions[t].cpu_mhz)
            for t, plan in moving.items()
        }
        self.kept = {slot: t for t, slots in running.items() if t not in moving for slot in slots.values()}
        self.now = _sum(self.stays.values())
        self.load = _sum(self.comes.get(t, taken) for t, taken in self.stays.items())
        has = {s.id: s for s in model.supervisors}
        self.limits = {(s, what): _limit(has.get(s), what) for s, what in self.load if what != GIVEN_UP}

    def over(self, limits: Amounts, *, full: bool = False) -> set[tuple[str, str]]:
        """Amounts beyond their limit, and beyond what is taken now; `full`: by what counts on full nodes."""
        found = set()
        for (s, what), limit in limits.items():
            load, now = self.load.get((s, what), 0.0), self.now.get((s, what), 0.0)
            if full and what in (NOW, THEN):
                load -= self.load.get((s, GIVEN_UP), 0.0)
                now -= self.now.get((s, GIVEN_UP), 0.0)
            if load > max(limit, now) * SLACK:
                found.add((s, what))
        return found

    def stay(self, t: str) -> None:
        """Let a topology that would move stay."""
        for key, amount in self.comes.pop(t).items():
            self.load[key] -= amount
        for key, amount in self.stays[t].items():
            self.load[key] += amount
        self.kept |= {(a.supervisor, a.port): t for a in self.topologies[t].assignment}

    def more(self, t: str, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Amounts of which a topology takes more if it moves than now."""
        comes, stays = self.comes[t], self.stays[t]
        return sorted(key for key in keys if comes.get(key, 0.0) > stays.get(key, 0.0) * SLACK)

    def refusal(self, decision: Decision, plan: TopologyPlan, full: set[tuple[str, str]]) -> Decision | None:
        """The decision to hold a plan that wants a slot that is kept, or more of what is full."""
        for w in plan.workers:
            owner = self.kept.get((w.supervisor, w.port))
            if owner is not None:
                name = self.topologies[owner].name
                text = f"the plan wants slot {w.supervisor}:{w.port}, which {name} keeps"
                return _held(decision, Reason.SLOT_OCCUPIED, text)
        wants = self.more(decision.topology_id, full)
        nodes = sorted({s for s, what in wants if what in (NOW, THEN)})
        if nodes:
            text = f"{', '.join(nodes)} would be overloaded with what other topologies keep there"
            return _held(decision, Reason.INSUFFICIENT_CPU, text)
        if wants:
            (s, what), amount, limit = wants[0], self.load[wants[0]], self.limits[wants[0]]
            text = f"{s} would have {amount:g} of {limit:g} {what} taken, with what other topologies keep there"
            return _held(decision, Reason.INSUFFICIENT_RESOURCES, text, amount, limit)
        return None


def _wants_headroom(
    decisions: Mapping[str, Decision], moving: Collection[str], check: _Check, headroom: Amounts
) -> Decision | None:
    """The first voluntary plan that fills a node further than such plans may, and further than it does now."""
    over = check.over(headroom)
    for t in sorted(moving):
        wants = check.more(t, over) if decisions[t].reason.row.keeps_headroom else []
        if wants:
            (s, _), then_mhz, limit_mhz = wants[0], check.load[wants[0]], headroom[wants[0]]
            text = (
                f"{decisions[t].reason} may fill {s} to {limit_mhz:.0f} MHz, not to {then_mhz:.0f}: "
                "decide.fill_ratio keeps the rest of B(n) free of voluntary plans"
            )
            return _held(decisions[t], Reason.HEADROOM, text, then_mhz, limit_mhz)
    return None


def _held(
    decision: Decision, reason: Reason, text: str, value: float | None = None, threshold: float | None = None
) -> Decision:
    tps = decision.inter_node_tps
    return Decision(decision.topology_id, "skip", reason, text, value, threshold, inter_node_tps=tps)


def _slots(plan: TopologyPlan) -> dict[int, tuple[str, int]]:
    return {start: (w.supervisor, w.port) for w in plan.workers for start, _ in w.executors}


def _taken(
    topology: Topology,
    slots: Mapping[int, tuple[str, int]],
    begin_mhz: Mapping[int, float],
    cpu_mhz: Mapping[int, float],
) -> defaultdict[tuple[str, str], float]:
    """Amounts that a topology takes in these slots (by start task), with the CPU of its executors first and then."""
    taken: defaultdict[tuple[str, str], float] = defaultdict(float)
    executors = {e.start: e for e in topology.executors}
    resources = {c.id: c.resources for c in topology.components}
    for start, (s, _) in slots.items():
        e = executors.get(start)
        if e is None:
            continue
        taken[s, NOW] += begin_mhz.get(start, e.cpu_mhz)
        taken[s, THEN] += cpu_mhz.get(start, e.cpu_mhz)
        taken[s, GIVEN_UP] += gives_up_mhz(e)
        taken[s, MEMORY] += e.memory_mb
        for name, amount in resources.get(e.component, {}).items():
            taken[s, name] += amount
    for s, amount_mb in shared_on_nodes([(topology, slots)]).items():
        taken[s, MEMORY] += amount_mb
    return taken


def _limit(supervisor: Supervisor | None, what: str) -> float:
    """The most of an amount that may be taken of a supervisor; memory of 0 is no limit, none of one that is gone."""
    if supervisor is None:
        return 0.0
    if what in (NOW, THEN):
        return supervisor.limit_mhz
    if what == MEMORY:
        return supervisor.memory_mb or math.inf
    return supervisor.resources.get(what, 0.0)


def _sum(amounts: Iterable[Amounts]) -> defaultdict[tuple[str, str], float]:
    total: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each in amounts:
        for key, amount in each.items():
            total[key] += amount
    return total
