"""Difference of two placements of one model: executors that move, workers that restart, metrics."""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE, Compiled, Ints
from stormpilot.model.cost import metrics
from stormpilot.model.values import Value


class Move(Value, frozen=True, kw_only=True):
    """An executor whose slot changes; a slot is `supervisor:port`, None where it has none."""

    topology: str
    component: str
    start: int
    end: int
    before: str | None
    after: str | None


class Restart(Value, frozen=True, kw_only=True):
    """A worker of the second placement that the first does not have exactly so: Storm starts or restarts it."""

    topology: str
    supervisor: str
    port: int
    executors: int


class Difference(Value, frozen=True, kw_only=True):
    """From one placement to another; `before` and `after` are the metrics of each (`before` {} where incomplete)."""

    moves: list[Move]
    restarts: list[Restart]
    stopped_workers: int
    before: dict[str, float]
    after: dict[str, float]


def difference(compiled: Compiled, before: Ints, after: Ints) -> Difference:
    """Compare two placements (E slots each; `before` may have executors without a slot, `after` is complete).

    What the metrics say of moves and restarts is against the present assignment, not against `before`.
    """
    moved = np.flatnonzero(before != after)
    changed = np.zeros(compiled.slots, dtype=np.bool_)
    for side in (before, after):
        slots = side[moved]
        changed[slots[slots != NOWHERE]] = True
    used = np.zeros(compiled.slots, dtype=np.bool_)
    used[after] = True
    stopped = np.unique(before[before != NOWHERE])
    members = np.bincount(after, minlength=compiled.slots)
    owner = np.full(compiled.slots, NOWHERE, dtype=np.int64)
    owner[after] = compiled.topology
    topologies = compiled.model.topologies
    return Difference(
        moves=[
            Move(
                topology=compiled.name(e)[0],
                component=compiled.component_names[int(compiled.component[e])][1],
                start=int(compiled.start[e]),
                end=int(compiled.end[e]),
                before=_slot(compiled, int(before[e])),
                after=_slot(compiled, int(after[e])),
            )
            for e in moved.tolist()
        ],
        restarts=[
            Restart(
                topology=topologies[int(owner[s])].id,
                supervisor=compiled.node_ids[int(compiled.slot_node[s])],
                port=int(compiled.slot_port[s]),
                executors=int(members[s]),
            )
            for s in np.flatnonzero(changed & used).tolist()
        ],
        stopped_workers=int((~used[stopped]).sum()),
        before=metrics(compiled, before) if (before != NOWHERE).all() else {},
        after=metrics(compiled, after),
    )


def _slot(compiled: Compiled, slot: int) -> str | None:
    if slot == NOWHERE:
        return None
    return f"{compiled.node_ids[int(compiled.slot_node[slot])]}:{compiled.slot_port[slot]}"
