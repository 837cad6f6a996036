"""Capacity check: slots and CPU of the topologies that move, beside those of the topologies that stay."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stormpilot.decide.predict import Prediction, with_cpu
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.model.load import node_load_mhz, planned_load_mhz
from stormpilot.model.values import Model, TopologyPlan


def hold_what_does_not_fit(
    model: Model,
    decisions: Mapping[str, Decision],
    plans: Mapping[str, TopologyPlan],
    predictions: Mapping[str, Prediction],
    room_mhz: Mapping[str, float] | None = None,
) -> dict[str, Decision]:
    """Hold plans that want slots or CPU of topologies that stay as they are, one by one, until the rest fits.

    The plans of all topologies together fit; a plan that is held can take the room of another one. CPU must suffice
    twice: for the measured load, with which a plan begins, and for the predicted load. `room_mhz` is the CPU of a
    supervisor that voluntary plans may fill, measured; none: all.
    """
    result = dict(decisions)
    names = {t.id: t.name for t in model.topologies}
    limit_mhz = {s.id: s.limit_mhz for s in model.supervisors}
    now_mhz = node_load_mhz(model)
    moving = {t: plans[t] for t, d in result.items() if d.action != "skip" and d.moved_executors}
    kept = {(a.supervisor, a.port): t.id for t in model.topologies if t.id not in moving for a in t.assignment}
    models = model, with_cpu(model, {t: predictions[t] for t in moving})
    loads = [planned_load_mhz(m, moving) for m in models]
    while True:
        full = {
            s for load in loads for s, mhz in load.items() if mhz > max(limit_mhz.get(s, 0.0), now_mhz[s]) * (1 + 1e-9)
        }
        full = full if len(moving) < len(model.topologies) else set()
        refused = next((r for t in sorted(moving) if (r := _refusal(result[t], moving[t], kept, names, full))), None)
        refused = refused or _wants_headroom(result, moving, loads[0], room_mhz or {}, now_mhz)
        if refused is None:
            return result
        t = refused.topology_id
        result[t] = refused
        plan = moving.pop(t)
        (topology,) = (x for x in model.topologies if x.id == t)
        kept |= {(a.supervisor, a.port): t for a in topology.assignment}
        stays_mhz = node_load_mhz(msgspec.structs.replace(model, topologies=[topology]))
        for m, load in zip(models, loads, strict=True):
            alone = msgspec.structs.replace(m, topologies=[x for x in m.topologies if x.id == t])
            for s, mhz in planned_load_mhz(alone, {t: plan}).items():
                load[s] -= mhz
            for s, mhz in stays_mhz.items():
                load[s] += mhz


def _wants_headroom(
    decisions: Mapping[str, Decision],
    moving: Mapping[str, TopologyPlan],
    then_mhz: Mapping[str, float],
    room_mhz: Mapping[str, float],
    now_mhz: Mapping[str, float],
) -> Decision | None:
    """The first voluntary plan that fills a node further than such plans may, and further than it is filled now."""
    over = {s: mhz for s, mhz in room_mhz.items() if then_mhz.get(s, 0.0) > max(mhz, now_mhz.get(s, 0.0)) * (1 + 1e-9)}
    for t in sorted(moving):
        nodes = sorted({w.supervisor for w in moving[t].workers} & set(over))
        if nodes and decisions[t].reason.row.keeps_headroom:
            first = nodes[0]
            text = (
                f"{decisions[t].reason} may fill {first} to {over[first]:.0f} MHz, not to {then_mhz[first]:.0f}: "
                "decide.fill_ratio keeps the rest of B(n) free of voluntary plans"
            )
            tps = decisions[t].inter_node_tps
            return Decision(t, "skip", Reason.HEADROOM, text, then_mhz[first], over[first], inter_node_tps=tps)
    return None


def _refusal(
    decision: Decision,
    plan: TopologyPlan,
    kept: Mapping[tuple[str, int], str],
    names: Mapping[str, str],
    full: set[str],
) -> Decision | None:
    def held(reason: Reason, text: str) -> Decision:
        return Decision(decision.topology_id, "skip", reason, text, inter_node_tps=decision.inter_node_tps)

    for w in plan.workers:
        owner = kept.get((w.supervisor, w.port))
        if owner is not None:
            return held(
                Reason.SLOT_OCCUPIED, f"the plan wants slot {w.supervisor}:{w.port}, which {names[owner]} keeps"
            )
    nodes = sorted({w.supervisor for w in plan.workers} & full)
    if nodes:
        return held(
            Reason.INSUFFICIENT_CPU, f"{', '.join(nodes)} would be overloaded with what other topologies keep there"
        )
    return None
