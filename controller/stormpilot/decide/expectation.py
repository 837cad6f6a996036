"""Expectation of a plan beside the inter-node share: the latency of a topology, and the rate that it carries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stormpilot.model.carried import Capacity
from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.flow.model import depends_on_placement, flow_model
from stormpilot.model.latency import latency_ms
from stormpilot.model.values import Model, Plan
from stormpilot.printable import tuples

Traffic = Literal["flow", "measured"]
TOLERANCE = 1e-9  # relative, of rates that are the same


@dataclass(frozen=True)
class Expectation:
    """Of one topology, now (None: not placed as a whole) and by the plan.

    `latency_ms` is the mean from a source to the end, `carried_tps` what its sources can send until something is full,
    and `bound` what that is, by the plan; `now_tps` is what they send now.
    """

    latency_ms: tuple[float | None, float]
    carried_tps: tuple[float | None, float]
    bound: str
    now_tps: float

    @property
    def text(self) -> str:
        """As `explain` shows it."""
        before_ms, ms = self.latency_ms
        before_tps, tps = self.carried_tps
        latency = f"latency {'?' if before_ms is None else f'{before_ms:.1f}'} -> {ms:.1f} ms"
        before = "?" if before_tps is None else tuples(before_tps)
        now = f"from its sources, which send {tuples(self.now_tps)} now"
        rate = f"carries at most {before} -> {tuples(tps)} tuples/s {now}"
        return f"{latency}; {rate} (then {self.bound})"

    @property
    def shortfall(self) -> str:
        """A sentence for a plan that carries less than what is sent now, and less than what runs; else empty."""
        before_tps, tps = self.carried_tps
        least_tps = self.now_tps if before_tps is None else min(self.now_tps, before_tps)
        if tps >= least_tps * (1 - TOLERANCE):
            return ""
        rates = f"{tuples(tps)} of {tuples(self.now_tps)} tuples/s"
        return f"the plan would carry {rates} from its sources (then {self.bound})"


def expectations(model: Model, plan: Plan, traffic: Traffic, topology_ids: Collection[str]) -> dict[str, Expectation]:
    """Of these topologies; `plan` is a complete plan of `model`. The CPU is compiled and the flow followed once."""
    if not topology_ids:
        return {}
    c = compile_model(model)
    placement, cpu_mhz, thread_mhz, sent = c.slots_of(plan), c.cpu_mhz, c.cpu_mhz, None
    whole = not (c.current == NOWHERE).any()
    if traffic == "flow" and depends_on_placement(model):
        flow = flow_model(model, c)
        then = flow.predict(placement).cpu_mhz
        cpu_mhz = c.cpu_mhz + then - flow.predict(c.current).cpu_mhz if whole else then
        # The difference is right for a node. Where shuffles went another way than the model has it, it gives an
        # executor work that another one had: no executor has more than it has now, or than the model gives it.
        thread_mhz = np.minimum(cpu_mhz, np.maximum(c.cpu_mhz, then))
        sent = flow.pairs(placement)
    then_ms = latency_ms(c, placement, sent, cpu_mhz)
    now_ms = latency_ms(c, c.current) if whole else None
    found, capacity = {}, Capacity(c)
    for t, topology in enumerate(model.topologies):
        if topology.id in topology_ids:
            after = capacity.carried(placement, t, cpu_mhz, thread_mhz)
            before = capacity.carried(c.current, t) if whole else None
            found[topology.id] = Expectation(
                (None if now_ms is None else float(now_ms[t]), float(then_ms[t])),
                (None if before is None else before.tps, after.tps),
                after.bound,
                capacity.source_tps[topology.id],
            )
    return found
