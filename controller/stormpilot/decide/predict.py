"""What a plan will make of a topology's traffic and CPU: one yardstick for every decision (algorithms.md, section 10).

Shuffles follow the placement, so neither the measured pairs nor the measured CPU of an executor stay as they are. What
the flow model says of the plan is compared with what it says of the present placement, and the difference is added to
what was measured: an error that the model makes in both places changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.cost import inter_node_tps, moves
from stormpilot.model.flow.model import flow_model, follows_placement
from stormpilot.model.subset import each_alone, plan_of
from stormpilot.model.values import Model, Plan

Traffic = Literal["flow", "measured"]


@dataclass(frozen=True)
class Foresight:
    """One topology: inter-node tuples/s now (None: not placed as a whole) and then, all tuples/s, executors that move.

    `cpu_mhz` is what each executor will use, by its first task. It is to be summed over nodes: where the model expects
    another split now than was measured, that of one executor is off by the difference, and may be below 0.
    """

    now_tps: float | None
    new_tps: float
    total_tps: float
    moved: int
    cpu_mhz: Mapping[int, float]

    @property
    def inter_node_tps(self) -> tuple[float | None, float]:
        """Now and then, as decisions carry it."""
        return self.now_tps, self.new_tps


def predict(alone: Model, plan: Plan, traffic: Traffic) -> Foresight:
    """Look ahead for the only topology of a model; `measured`: pairs and CPU are taken to stay as they are."""
    (topology,) = alone.topologies
    c = compile_model(alone)
    placement = c.slots_of(plan)
    whole = not (c.current == NOWHERE).any()
    now_tps = inter_node_tps(c, c.current) if whole else None
    new_tps = inter_node_tps(c, placement)
    cpu_mhz = {e.start: e.cpu_mhz for e in topology.executors}
    if traffic == "flow" and follows_placement(alone):
        flow = flow_model(alone, c)
        then = flow.predict(placement)
        new_tps, changed = then.inter_node_tps, then.cpu_mhz - c.cpu_mhz
        if now_tps is not None:
            now = flow.predict(c.current)
            new_tps = max(now_tps + then.inter_node_tps - now.inter_node_tps, 0.0)
            changed = then.cpu_mhz - now.cpu_mhz
        cpu_mhz = {int(s): float(was + by) for s, was, by in zip(c.start, c.cpu_mhz, changed, strict=True)}
    return Foresight(now_tps, new_tps, c.total_tps, len(moves(c, placement).moved), cpu_mhz)


def with_cpu(model: Model, foreseen: Mapping[str, Foresight]) -> Model:
    """The model with the executors of these topologies using what is foreseen; where they are does not change."""
    return msgspec.structs.replace(
        model,
        topologies=[
            t
            if t.id not in foreseen
            else msgspec.structs.replace(
                t,
                executors=[
                    msgspec.structs.replace(e, cpu_mhz=foreseen[t.id].cpu_mhz.get(e.start, e.cpu_mhz))
                    for e in t.executors
                ],
            )
            for t in model.topologies
        ],
    )


@dataclass(frozen=True)
class Outlook:
    """What a plan will make of all its topologies.

    `alone` is the model with one topology only, and `foreseen` what becomes of it, both by topology id; `then` is the
    model with the CPU that is foreseen.
    """

    alone: Mapping[str, Model]
    foreseen: Mapping[str, Foresight]
    then: Model


def outlook(model: Model, plan: Plan, traffic: Traffic) -> Outlook:
    """Look ahead for every topology of a model; `plan` is complete."""
    alone = each_alone(model)
    foreseen = {t: predict(only, plan_of(plan, t), traffic) for t, only in alone.items()}
    return Outlook(alone, foreseen, with_cpu(model, foreseen))
