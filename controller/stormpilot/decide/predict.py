"""Prediction of a topology's traffic and CPU under a plan, the same for every decision.

Shuffles follow the placement, so the measured pairs and the measured CPU of an executor change with the plan. The flow
model computes both placements, and the difference is added to the measured numbers. An error that the model makes for
both placements changes nothing (docs/decisions/0011-decide-by-flows.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from stormpilot.decide.effect import Promise
from stormpilot.decide.expectation import Expectation, Traffic, expectations
from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.cost import inter_node_tps, moves
from stormpilot.model.flow.model import depends_on_placement, flow_model
from stormpilot.model.flow.places_cpu import may_need_less, used_mhz
from stormpilot.model.load import node_load_mhz, own_load_ratio, planned_load_mhz
from stormpilot.model.subset import isolated_by_id, plan_of, with_cpu
from stormpilot.model.values import Model, Plan, TopologyPlan


@dataclass(frozen=True)
class Prediction:
    """One topology: inter-node tuples/s now (None: not placed as a whole) and then, all tuples/s, executors that move.

    `cpu_mhz` is the predicted CPU of each executor, by its first task. Only its sum over a node is meaningful: where
    the model splits the present traffic in another way than it was measured, the number of a single executor is off by
    the difference, and may be below 0. `begin_mhz` is the CPU with which the plan begins, before shuffles follow it.
    """

    now_tps: float | None
    new_tps: float
    total_tps: float
    moved: int
    cpu_mhz: Mapping[int, float]
    begin_mhz: Mapping[int, float]

    @property
    def known(self) -> bool:
        """Whether rates tell what a placement does: not of a topology that runs nowhere and was never measured."""
        return self.now_tps is not None or self.total_tps > 0

    @property
    def inter_node_tps(self) -> tuple[float | None, float | None]:
        """Now and then, as decisions carry it."""
        return self.now_tps, self.new_tps if self.known else None


def predict(alone: Model, plan: Plan, traffic: Traffic) -> Prediction:
    """Predict for the only topology of a model; with `measured`, pairs and CPU are taken to stay as they are."""
    (topology,) = alone.topologies
    used = {a.supervisor for a in topology.assignment} | {w.supervisor for t in plan.topologies for w in t.workers}
    alone = msgspec.structs.replace(alone, supervisors=[s for s in alone.supervisors if s.id in used])
    c = compile_model(alone)
    placement = c.slots_of(plan)
    whole = not (c.current == NOWHERE).any()
    now_tps = inter_node_tps(c, c.current) if whole else None
    new_tps = inter_node_tps(c, placement)
    cpu_mhz = {e.start: e.cpu_mhz for e in topology.executors}
    begin_mhz = cpu_mhz
    if may_need_less(alone) and not (placement == NOWHERE).any():
        begin_mhz = dict(zip(c.start.tolist(), used_mhz(c, placement).tolist(), strict=True))
    if traffic == "flow" and depends_on_placement(alone):
        flow = flow_model(alone, c)
        then = flow.predict(placement)
        new_tps, changed = then.inter_node_tps, then.cpu_mhz - c.cpu_mhz
        if now_tps is not None:
            now = flow.predict(c.current)
            new_tps = max(now_tps + then.inter_node_tps - now.inter_node_tps, 0.0)
            changed = then.cpu_mhz - now.cpu_mhz
        cpu_mhz = {int(s): float(was + by) for s, was, by in zip(c.start, c.cpu_mhz, changed, strict=True)}
    return Prediction(now_tps, new_tps, c.total_tps, len(moves(c, placement).moved), cpu_mhz, begin_mhz)


@dataclass(frozen=True)
class Predictions:
    """The predictions for all topologies of a plan.

    `alone` is the model with one topology only, and `by_topology` its prediction, both by topology id. `now` is the
    model, `then` the one with the predicted CPU, `plans` are by topology id.
    """

    now: Model
    plans: Mapping[str, TopologyPlan]
    alone: Mapping[str, Model]
    by_topology: Mapping[str, Prediction]
    then: Model
    traffic: Traffic

    @cached_property
    def expectations(self) -> Mapping[str, Expectation]:
        """The expectation of every topology's plan, by topology id, with all plans."""
        return expectations(self.now, Plan(topologies=list(self.plans.values())), self.traffic, self.alone)

    @cached_property
    def limit_mhz(self) -> Mapping[str, float]:
        """B(n) by supervisor id."""
        return {s.id: s.limit_mhz for s in self.now.supervisors}

    @cached_property
    def now_load_mhz(self) -> Mapping[str, float]:
        """CPU load by supervisor id, as everything runs."""
        return node_load_mhz(self.now)

    @cached_property
    def then_load_mhz(self) -> Mapping[str, float]:
        """CPU load by supervisor id, with all plans."""
        return planned_load_mhz(self.then, self.plans)

    def promised(self, topology_id: str, promise: Promise) -> Promise:
        """A promise, made on other measurements, by these load and traffic; the topology's traffic is above 0."""
        own = self.by_topology[topology_id]
        before, predicted = (own.now_tps or 0.0) / own.total_tps, own.new_tps / own.total_tps
        if promise.metric == "us_per_tuple":
            before, predicted = 1e6 / own.total_tps, promise.predicted / promise.before * 1e6 / own.total_tps
        elif promise.metric == "load_ratio":
            before = own_load_ratio(self.now, topology_id, promise.nodes)
            predicted = own_load_ratio(self.then, topology_id, promise.nodes, self.plans)
        return replace(promise, before=before, predicted=predicted, throughput_tps=own.total_tps)


def predict_each(model: Model, plan: Plan, traffic: Traffic) -> Predictions:
    """Predict for every topology of a model; `plan` is complete."""
    alone = isolated_by_id(model)
    by_topology = {t: predict(only, plan_of(plan, t), traffic) for t, only in alone.items()}
    topologies = [with_cpu(t, by_topology[t.id].cpu_mhz) for t in model.topologies]
    plans, then = {t.id: t for t in plan.topologies}, msgspec.structs.replace(model, topologies=topologies)
    return Predictions(model, plans, alone, by_topology, then, traffic)
