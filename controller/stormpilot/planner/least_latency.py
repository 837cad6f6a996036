"""Plans for the least latency: network cost and queueing together (objective `latency` of `best`).

A plan of the least network cost packs nodes, on which tuples then wait; spread out, tuples wait less and travel more.
Between the two lie the plans of the least network cost that fill nodes to a part of B(n) only: from all of it to the
part that all nodes are filled to where the load is spread evenly. Each such part is planned, and the plan with the
least latency by the model (`model/latency.py`) wins; what runs is one of them. From that one, single moves are tried
(`latency_search.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from stormpilot.model import cost
from stormpilot.model.compiled import Floats, Ints, compile_model
from stormpilot.model.flow.model import flow_model, follows_placement
from stormpilot.model.latency import latency_ms, mean_latency_ms
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.flow.planning import BY_FLOWS, Traffic, with_predicted
from stormpilot.planner.latency_search import LESS, lowered
from stormpilot.planner.placement.feasibility import SLACK
from stormpilot.planner.placement.layout import Layout, frame_of, layout_of
from stormpilot.planner.placement.problem import LeftS
from stormpilot.planner.placement.slots import to_slots
from stormpilot.planner.registry import broken_wishes

STEPS = (1.0, 0.6, 0.35, 0.2, 0.08)
"""Parts of the way from an even load to B(n) that nodes may be filled to."""
SEARCHED = 0.3
"""Part of the time for single moves."""


def with_least_latency(
    model: Model,
    plan_one: Callable[[Model, LeftS], Plan | Infeasible],
    left_s: LeftS,
    *,
    seed: int,
    traffic: Traffic,
    exact_workers: bool,
) -> Plan | Infeasible:
    """The plan with the least latency of `plan_one` for every part of B(n), and of what runs, after single moves.

    Infeasible where `plan_one` is so with all of B(n). With `traffic` `flow` the metrics say what flows will be.
    """
    judge = _Judge(model)
    total_s = left_s()
    best: tuple[float, Plan] | None = None
    given_up: set[tuple[str, str]] = set()
    tried = []
    even = _even(model)
    for i, step in enumerate(STEPS):
        fill = even + step * (1 - even)
        kept_s = total_s * (1 - (1 - SEARCHED) * (i + 1) / len(STEPS))
        own_s = left_s if math.isinf(total_s) else lambda kept_s=kept_s: left_s() - kept_s
        answer = plan_one(_filled(model, fill), own_s)
        if i == 0 and _unsure(answer, model) and 0 < left_s() < math.inf:
            again = plan_one(_filled(model, fill), left_s)  # any plan comes before a better one
            if _placed(again) >= _placed(answer):
                answer = again
        if isinstance(answer, Infeasible) or len(answer.topologies) < len(model.topologies):
            if i == 0:
                return answer  # partial plans have no latency to compare
            break  # with less room there is none either
        broken = broken_wishes(judge.compiled, answer)
        if i == 0:
            given_up = broken
        elif broken - given_up:
            break  # with less room a wish for a site cannot be met
        ms = judge.ms(answer)
        tried.append(f"{fill:.0%}: {ms:.1f} ms")
        if best is None or ms < best[0] * (1 - LESS):
            best = ms, answer
        if left_s() <= SEARCHED * total_s < math.inf:
            break
    assert best is not None
    running = cost.current_plan(model)
    allowed = (
        running is not None
        and not violations(model, running, exact_workers=exact_workers)
        and not broken_wishes(judge.compiled, running) - given_up
    )
    if running is not None and allowed and judge.ms(running) * (1 - LESS) <= best[0]:
        best = judge.ms(running), msgspec.structs.replace(best[1], topologies=running.topologies)
        tried.append("what runs has the least")
    plan = judge.lowered(best[1], np.random.default_rng(seed), left_s, exact_workers=exact_workers)
    note = f"least latency by how far nodes are filled (parts of B(n)): {', '.join(tried)}"
    if plan is not best[1]:
        note += f"; by single moves from there: {judge.ms(plan):.1f} ms"
    found = judge.annotated(plan, note)
    if traffic == "measured":
        return found
    notes = [n for n in found.notes if not n.startswith(BY_FLOWS)]  # of the limits that were planned for
    found = msgspec.structs.replace(found, notes=notes)
    return with_predicted(found, judge.flow or flow_model(model, judge.compiled))


def _placed(answer: Plan | Infeasible) -> int:
    return 0 if isinstance(answer, Infeasible) else len(answer.topologies)


def _unsure(answer: Plan | Infeasible, model: Model) -> bool:
    """Whether more time may find more of a plan."""
    if isinstance(answer, Infeasible):
        return not answer.proved
    return len(answer.topologies) < len(model.topologies)


def _even(model: Model) -> float:
    """Part of B(n) that every node is filled to where the load is spread evenly; at most 1."""
    room_mhz = sum(s.limit_mhz for s in model.supervisors)
    load_mhz = sum(e.cpu_mhz for t in model.topologies for e in t.executors)
    return min(load_mhz / room_mhz, 1.0) if room_mhz > 0 else 1.0


def _filled(model: Model, fill: float) -> Model:
    """The model in which every node may be filled to this part of B(n)."""
    return msgspec.structs.replace(
        model,
        supervisors=[msgspec.structs.replace(s, cpu_limit_mhz=fill * s.limit_mhz) for s in model.supervisors],
    )


class _Judge:
    """Latency of plans of one model, under the traffic that shuffles will send."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.compiled = compile_model(model)
        self.flow = flow_model(model, self.compiled) if follows_placement(model) else None

    def ms(self, plan: Plan) -> float:
        """The mean over topologies."""
        return self._ms(self.compiled.slots_of(plan))

    def _ms(self, placement: Ints) -> float:
        c = self.compiled
        if self.flow is None:
            return mean_latency_ms(c, latency_ms(c, placement))
        sent, cpu_mhz = self.flow.pairs(placement), self.flow.predict(placement).cpu_mhz
        return mean_latency_ms(c, latency_ms(c, placement, sent, cpu_mhz))

    def lowered(self, plan: Plan, rng: np.random.Generator, left_s: LeftS, *, exact_workers: bool) -> Plan:
        """The plan after single moves that lower its latency; itself where there are none, or it breaks a rule."""
        c, frame = self.compiled, frame_of(self.compiled)
        if violations(self.model, plan, exact_workers=exact_workers):
            return plan  # it gives up a wish, or relies on CPU that its places save: moves do not see that
        start = layout_of(frame, c.slots_of(plan))
        most_mhz = np.maximum(self._loads_mhz(to_slots(frame, start)), c.node_limit_mhz) * SLACK

        def as_plan(layout: Layout) -> Plan:
            return msgspec.structs.replace(plan, topologies=c.plan_of(to_slots(frame, layout)).topologies)

        def allowed(layout: Layout) -> bool:
            if (self._loads_mhz(to_slots(frame, layout)) > most_mhz).any():
                return False
            return not violations(self.model, as_plan(layout), exact_workers=exact_workers)

        found = lowered(frame, start, lambda layout: self._ms(to_slots(frame, layout)), allowed, rng, left_s)
        return plan if found is start else as_plan(found)

    def _loads_mhz(self, placement: Ints) -> Floats:
        """N -> load under the traffic that shuffles will send."""
        c = self.compiled
        if self.flow is not None:
            return self.flow.predict(placement).node_load_mhz
        return np.bincount(c.slot_node[placement], c.cpu_mhz, c.nodes).astype(np.float64)

    def annotated(self, plan: Plan, note: str) -> Plan:
        """The plan with the metrics that it has in the model itself, and the objective among its parameters."""
        measured = cost.evaluate(self.model, plan)
        return msgspec.structs.replace(
            plan,
            params={**plan.params, "objective": "latency"},
            metrics={**plan.metrics, **measured, "latency_ms": self.ms(plan)},
            notes=[*plan.notes, note],
        )
