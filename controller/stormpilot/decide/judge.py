"""Is a plan worth its restarts, and does what would be published fit what stands still?

When to act [A13 3.3]: some node has had a load of B(n) or more for longer than X(n) and the plan lowers it, or the plan
lowers inter-node traffic by at least R. The paper decides for the cluster as a whole; here each topology of a plan is
decided for itself, so that one with nothing to win does not restart because another one has. What is held then keeps
its slots and its load, so a plan that wants those is held too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from stormpilot.config import DecideSection
from stormpilot.decide.admit import Subject
from stormpilot.decide.fit import hold_what_does_not_fit
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.model.cost import current_plan, evaluate
from stormpilot.model.load import node_load_mhz, planned_load_mhz
from stormpilot.model.part import plan_of
from stormpilot.model.values import Model, Plan, Topology, TopologyPlan, Worker


@dataclass(frozen=True)
class Verdict:
    """The decisions for the topologies of a plan, what to publish (or to advise) of it, and what to remember."""

    decisions: Mapping[str, Decision]
    plans: Mapping[str, TopologyPlan]
    plan: Plan
    memory: Memory


def judge(
    model: Model,
    subjects: Mapping[str, Subject],
    plan: Plan,
    memory: Memory,
    config: DecideSection,
    now_ms: int,
    hit_spacing_s: float,
) -> Verdict:
    """Decide for every topology of `plan`, which is a complete plan of `model`."""
    decisions: dict[str, Decision] = {}
    plans = {tp.id: tp for tp in plan.topologies}
    for topology in model.topologies:
        decision, memory = _worth(model, subjects[topology.id], plan, memory, config, now_ms, hit_spacing_s)
        if decision.reason is Reason.REPAIR and decision.moved_executors == 0:
            plans[topology.id] = _as_it_runs(topology)
        decisions[topology.id] = decision
    decisions = hold_what_does_not_fit(model, decisions, plans)
    acted = {t: d for t, d in decisions.items() if d.action != "hold"}
    for t, d in acted.items():
        if d.action == "publish":
            memory = memory.missed(t)
    return Verdict(decisions, {t: plans[t] for t in acted}, plan, memory)


def _worth(
    model: Model,
    subject: Subject,
    plan: Plan,
    memory: Memory,
    config: DecideSection,
    now_ms: int,
    hit_spacing_s: float,
) -> tuple[Decision, Memory]:
    """One topology by itself."""
    t = subject.topology
    alone = _alone(model, t)
    planned = evaluate(alone, plan_of(plan, t.id))
    running = current_plan(alone)
    now_tps = None if running is None else evaluate(alone, running)["inter_node_tps"]
    new_tps = planned["inter_node_tps"]
    moved = int(planned["moved_executors"])

    def decide(
        reason: Reason, text: str, *, act: bool, value: float | None = None, threshold: float | None = None
    ) -> Decision:
        action = ("publish" if subject.mode == "act" else "advise") if act else "hold"
        return Decision(t.id, action, reason, text, value, threshold, None, moved, (now_tps, new_tps))  # type: ignore[arg-type]

    if subject.new:
        return decide(Reason.FIRST_PLAN, f"first placement of {len(t.executors)} executors", act=True), memory
    if not subject.placed:
        lost = len(t.executors) - len(t.assignment)
        return decide(Reason.REPAIR, f"{lost} executors have no slot on a live supervisor", act=True), memory
    relieved = _relieved(model, t, plan, memory.overloaded(now_ms, config.overload_s))
    if relieved and moved:
        text = f"{', '.join(relieved)} overloaded for more than {config.overload_s:.0f} s; the plan lowers the load"
        return decide(Reason.OVERLOAD, text, act=True), memory
    gain = 0.0 if not now_tps else (now_tps - new_tps) / now_tps
    worth = bool(moved) and gain > 0 and gain >= config.gain_threshold_ratio
    if subject.degraded and not worth:
        if subject.plan_problem is not None:
            text = "the published plan could not be used; what runs is published anew, nothing moves"
        else:
            text = "what was repaired is kept as the plan; nothing moves"
        kept = decide(Reason.REPAIR, text, act=True)
        return replace(kept, moved_executors=0, inter_node_tps=(now_tps, now_tps)), memory
    if not moved or gain <= 0:
        return decide(Reason.NO_BETTER_PLAN, "the planner finds no better placement", act=False), memory.missed(t.id)
    falls = f"inter-node traffic falls by {gain:.0%}"
    if not worth:
        text = f"{falls}, less than {config.gain_threshold_ratio:.0%}"
        below = decide(Reason.GAIN_BELOW_THRESHOLD, text, act=False, value=gain, threshold=config.gain_threshold_ratio)
        return below, memory.missed(t.id)
    saved, held_up = ((now_tps or 0.0) - new_tps) * config.payback_s, _held_up_tps(alone, t, plan) * config.restart_s
    if saved < held_up and not subject.degraded:
        text = f"{falls}: {saved:.0f} tuples saved in {config.payback_s:.0f} s, {held_up:.0f} held up by restarts"
        costly = decide(Reason.GAIN_BELOW_COST, text, act=False, value=saved, threshold=held_up)
        return costly, memory.missed(t.id)
    memory = memory.hit(t.id, now_ms, hit_spacing_s)
    hits, wanted = memory.hits[t.id].count, config.consecutive_hits
    if hits < wanted and not subject.degraded:
        text = f"{falls}; seen {hits} of {wanted} times in a row"
        return decide(Reason.GAIN_NOT_LASTING, text, act=False, value=hits, threshold=wanted), memory
    return decide(Reason.GAIN, falls, act=True, value=gain, threshold=config.gain_threshold_ratio), memory


def _held_up_tps(alone: Model, topology: Topology, plan: Plan) -> float:
    """Tuples/s that arrive at executors in workers that would restart: those whose slot or set of executors changes."""
    now = {(w.supervisor, w.port): {start for start, _ in w.executors} for w in _as_it_runs(topology).workers}
    restarting: set[int] = set()
    for placement in plan.topologies:
        if placement.id == topology.id:
            for w in placement.workers:
                executors = {start for start, _ in w.executors}
                if now.get((w.supervisor, w.port)) != executors:
                    restarting |= executors
    return sum(e.rate for e in alone.traffic if e.to in restarting)


def _alone(model: Model, topology: Topology) -> Model:
    traffic = [e for e in model.traffic if e.topology == topology.id]
    return msgspec.structs.replace(model, topologies=[topology], traffic=traffic)


def _as_it_runs(topology: Topology) -> TopologyPlan:
    workers: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    end = {e.start: e.end for e in topology.executors}
    for a in sorted(topology.assignment, key=lambda a: a.start):
        workers[a.supervisor, a.port].append((a.start, end[a.start]))
    return TopologyPlan(
        id=topology.id,
        workers=[Worker(supervisor=s, port=p, executors=es) for (s, p), es in sorted(workers.items())],
    )


def _relieved(model: Model, topology: Topology, plan: Plan, overloaded: set[str]) -> list[str]:
    """Overloaded supervisors on which the plan has less load, and less of this topology."""
    if not overloaded:
        return []
    plans = {tp.id: tp for tp in plan.topologies}
    before, after = node_load_mhz(model), planned_load_mhz(model, plans)
    alone = _alone(model, topology)
    own_before, own_after = node_load_mhz(alone), planned_load_mhz(alone, plans)
    return sorted(s for s in overloaded if after[s] < before[s] and own_after[s] < own_before[s])
