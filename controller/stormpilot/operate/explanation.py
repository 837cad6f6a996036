"""Why executors of a topology are where they are, judged by the traffic that the controller plans with."""

from __future__ import annotations

from typing import Literal

import msgspec

from stormpilot.config import Config
from stormpilot.errors import RefusedError
from stormpilot.messages.core import PlanMessage
from stormpilot.model.compiled import NOWHERE, Compiled, Ints, compile_model
from stormpilot.model.cost import node_load_mhz
from stormpilot.model.flow.model import FlowModel, depends_on_placement, flow_model
from stormpilot.model.subset import only, with_headroom
from stormpilot.model.values import Model
from stormpilot.planner.explain.explain import Explanation, explain
from stormpilot.planner.registry import without_broken

NOTICED_RATIO = 1.0005
"""A node is over its limit from here on; less is rounding."""


class NodeOverLimit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node whose executors use more than B(n), MHz; `ratio` is the part of B(n)."""

    supervisor: str
    host: str
    load_mhz: float
    limit_mhz: float
    ratio: float


class Explained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A placement explained: `traffic` says by what (`flow`: as shuffles will send it under the placement)."""

    traffic: Literal["flow", "measured"]
    executors: list[Explanation]
    over_limit: list[NodeOverLimit]


def explained(model: Model, topology_id: str, config: Config, planned: PlanMessage | None = None) -> Explained | None:
    """Why executors of a topology are where they run now, or where a plan wants them.

    Traffic and headroom are those that the controller plans voluntary plans with; a wish for a site that the placement
    does not keep forbids nothing. None while an executor runs nowhere,
    or where the plan has other executors or slots than there are.
    """
    known = compile_model(model)
    nowhere = set(known.topology[known.current == NOWHERE].tolist())
    placed = [t.id for i, t in enumerate(model.topologies) if i not in nowhere]
    if topology_id not in placed:
        return None
    whole = only(model, set(placed))
    compiled = compile_model(with_headroom(whole, config.decide.fill_ratio))
    number = placed.index(topology_id)
    mine = (compiled.topology == number).nonzero()[0]
    if not mine.size:
        raise RefusedError(f"{topology_id} has no executors")
    placement = compiled.current.copy()
    if planned is not None:
        slots = compiled.slot_numbers()
        wanted = {start: (w.supervisor, w.port) for w in planned.workers for start, _ in w.executors}
        for e in mine.tolist():
            slot = wanted.get(int(compiled.start[e]))
            if slot is None or slot not in slots:
                return None
            placement[e] = slots[slot]
    compiled = without_broken(compiled, placement)
    by_flow = config.planner.traffic == "flow" and depends_on_placement(compiled.model)
    flow = flow_model(compiled.model, compiled) if by_flow else None
    nodes = set(compiled.slot_node[placement[mine]].tolist())
    return Explained(
        traffic="flow" if by_flow else "measured",
        executors=explain(compiled, placement, mine.tolist(), flow=flow),
        over_limit=_over_limit(whole, compiled, placement, flow, nodes),
    )


def _over_limit(
    model: Model, compiled: Compiled, placement: Ints, flow: FlowModel | None, nodes: set[int]
) -> list[NodeOverLimit]:
    load = node_load_mhz(compiled, placement) if flow is None else flow.predict(placement).node_load_mhz
    parts = {s.id: s for s in model.supervisors}  # their own limits: what is explained has headroom
    found = []
    for n in sorted(nodes, key=lambda n: compiled.node_ids[n]):
        s = parts[compiled.node_ids[n]]
        if load[n] > NOTICED_RATIO * s.limit_mhz:
            ratio = float(load[n]) / s.limit_mhz if s.limit_mhz else float("inf")
            found.append(
                NodeOverLimit(supervisor=s.id, host=s.host, load_mhz=float(load[n]), limit_mhz=s.limit_mhz, ratio=ratio)
            )
    return found
