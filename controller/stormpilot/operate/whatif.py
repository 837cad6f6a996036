"""Answers to what-if questions: plans on a changed model, beside the plan on the model as it is. Nothing is touched."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.model.carried import Capacity, Carried, source_tps
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import current_plan, evaluate
from stormpilot.model.flow.model import depends_on_placement, flow_model
from stormpilot.model.latency import calibrations_of, latency_ms, mean_latency_ms
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner.flow.planning import PREFIX, Traffic


class CarriedRates(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tuples/s that a topology's sources can send until something is full: as it runs, planned, and with the changes.

    `bound` is what is full then, with the changes; `sent_tps` what they send now. None: not placed so.
    """

    topology: str
    name: str
    sent_tps: float
    now_tps: float | None
    planned_tps: float | None
    then_tps: float | None
    bound: str


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Metrics by name: `now` as it runs (empty where something runs nowhere), `planned` on the same model.

    `then` is what the planner makes of the changed model, with `plan`. Those named `flow_...` are by what shuffles will
    send. `carried`: the rates that these placements carry, of every topology.
    """

    now: dict[str, float]
    planned: dict[str, float]
    then: dict[str, float]
    plan: Plan
    carried: list[CarriedRates] = []


def what_if(
    model: Model, other: Model, plan_one: Callable[[Model], Plan | Infeasible], traffic: Traffic = "flow"
) -> WhatIf:
    """Plan a model as it is, and `other` with the changes; `RefusedError` when there is no plan of that.

    `traffic`: by which `plan_one` plans and judges.
    """
    running = current_plan(model) if model.topologies else None
    answer = plan_one(other)
    if isinstance(answer, Infeasible):
        known = "no plan exists" if answer.proved else "no plan was found"
        raise RefusedError(f"{known} with these changes ({answer.constraint}): {answer.text}")
    answer = _with_latency_measured(model, other, answer)
    usual = plan_one(model) if model.topologies else None
    return WhatIf(
        now={} if running is None else _metrics(model, running, traffic),
        planned={} if usual is None or isinstance(usual, Infeasible) else dict(usual.metrics),
        then=dict(answer.metrics),
        plan=answer,
        carried=_carried(model, running, None if isinstance(usual, Infeasible) else usual, other, answer),
    )


def _metrics(model: Model, running: Plan, traffic: Traffic) -> dict[str, float]:
    found = evaluate(model, running)
    if traffic == "flow":
        flow = flow_model(model)
        predicted = flow.predict(flow.compiled.slots_of(running)).metrics()
        found |= {PREFIX + name: value for name, value in predicted.items()}
    return found


def _with_latency_measured(model: Model, other: Model, answer: Plan) -> Plan:
    """The plan of the changed model with its latency by what was measured where everything runs, also of lost ones."""
    known = calibrations_of(compile_model(model)) if model.topologies else {}
    if not known:
        return answer
    c = compile_model(other)
    ms = mean_latency_ms(c, latency_ms(c, c.slots_of(answer), calibrations=known))
    return msgspec.structs.replace(answer, metrics=answer.metrics | {"latency_ms": ms})


def _carried(model: Model, running: Plan | None, usual: Plan | None, other: Model, answer: Plan) -> list[CarriedRates]:
    now, planned, then = (_rates(m, p) for m, p in ((model, running), (model, usual), (other, answer)))
    sent = source_tps(model)
    return [
        CarriedRates(
            topology=t.id,
            name=t.name,
            sent_tps=sent.get(t.id, 0.0),
            now_tps=None if t.id not in now else now[t.id].tps,
            planned_tps=None if t.id not in planned else planned[t.id].tps,
            then_tps=None if t.id not in then else then[t.id].tps,
            bound=then[t.id].bound if t.id in then else "",
        )
        for t in other.topologies
    ]


def _rates(model: Model, plan: Plan | None) -> dict[str, Carried]:
    """By topology id; with the CPU that shuffles will make of the placement."""
    if plan is None or len(plan.topologies) < len(model.topologies):
        return {}
    c = compile_model(model)
    placement, cpu_mhz = c.slots_of(plan), c.cpu_mhz
    if depends_on_placement(model) and not (placement == c.current).all():
        flow = flow_model(model, c)
        cpu_mhz = flow.predict(placement).cpu_mhz
    capacity = Capacity(c)
    return {t.id: capacity.carried(placement, number, cpu_mhz) for number, t in enumerate(model.topologies)}
