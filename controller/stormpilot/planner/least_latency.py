"""Plans for the least latency: network cost and queueing together (objective `latency` of `best`).

A plan of the least network cost packs nodes, on which tuples then wait; spread out, tuples wait less and travel more.
Between the two lie the plans of the least network cost that fill nodes to a part of B(n) only: from all of it to the
part that all nodes are filled to where the load is spread evenly. Each such part is planned, and the plan with the
least latency by the model (`model/latency.py`) wins; what runs is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from stormpilot.model import cost
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model, follows_placement
from stormpilot.model.latency import latency_ms, mean_latency_ms
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.flow.planning import BY_FLOWS, Traffic, with_predicted
from stormpilot.planner.placement.problem import LeftS

STEPS = (1.0, 0.6, 0.35, 0.2, 0.08)
"""Parts of the way from an even load to B(n) that nodes may be filled to."""
LESS = 1e-3
"""A plan is better where its latency is less by this part; what runs stays otherwise."""


def with_least_latency(
    model: Model,
    plan_one: Callable[[Model, LeftS], Plan | Infeasible],
    left_s: LeftS,
    *,
    traffic: Traffic,
    exact_workers: bool,
) -> Plan | Infeasible:
    """The plan with the least latency of `plan_one` for every part of B(n), and of what runs.

    Infeasible where `plan_one` is so with all of B(n). With `traffic` `flow` the metrics say what flows will be.
    """
    judge = _Judge(model)
    total_s = left_s()
    best: tuple[float, Plan] | None = None
    tried = []
    even = _even(model)
    for i, step in enumerate(STEPS):
        fill = even + step * (1 - even)
        kept_s = total_s * (1 - (i + 1) / len(STEPS))
        own_s = left_s if math.isinf(total_s) else lambda kept_s=kept_s: left_s() - kept_s
        answer = plan_one(_filled(model, fill), own_s)
        if isinstance(answer, Infeasible) or len(answer.topologies) < len(model.topologies):
            if i == 0:
                return answer  # partial plans have no latency to compare
            break  # with less room there is none either
        ms = judge.ms(answer)
        tried.append(f"{fill:.0%}: {ms:.1f} ms")
        if best is None or ms < best[0] * (1 - LESS):
            best = ms, answer
        if left_s() <= 0:
            break
    assert best is not None
    running = cost.current_plan(model)
    allowed = running is not None and not violations(model, running, exact_workers=exact_workers)
    if running is not None and allowed and judge.ms(running) * (1 - LESS) <= best[0]:
        best = judge.ms(running), msgspec.structs.replace(best[1], topologies=running.topologies)
        tried.append("what runs has the least")
    note = f"least latency by how far nodes are filled (parts of B(n)): {', '.join(tried)}"
    found = judge.annotated(best[1], note)
    if traffic == "measured":
        return found
    notes = [n for n in found.notes if not n.startswith(BY_FLOWS)]  # of the limits that were planned for
    found = msgspec.structs.replace(found, notes=notes)
    return with_predicted(found, judge.flow or flow_model(model, judge.compiled))


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
        c, placement = self.compiled, self.compiled.slots_of(plan)
        if self.flow is None:
            return mean_latency_ms(c, latency_ms(c, placement))
        sent, cpu_mhz = self.flow.pairs(placement), self.flow.predict(placement).cpu_mhz
        return mean_latency_ms(c, latency_ms(c, placement, sent, cpu_mhz))

    def annotated(self, plan: Plan, note: str) -> Plan:
        """The plan with the metrics that it has in the model itself, and the objective among its parameters."""
        measured = cost.evaluate(self.model, plan)
        return msgspec.structs.replace(
            plan,
            params={**plan.params, "objective": "latency"},
            metrics={**plan.metrics, **measured, "latency_ms": self.ms(plan)},
            notes=[*plan.notes, note],
        )
