"""Decisions of a cycle and outcomes of earlier ones, as rows of the traffic log (`trafficlog/schema.py`)."""

from __future__ import annotations

import json

from stormpilot.decide.report import CycleReport
from stormpilot.messages.core import PlanMessage
from stormpilot.messages.moves import MoveState


def decision_row(report: CycleReport, topology_id: str, epoch: int, took_ms: float) -> dict[str, object]:
    """The row of `decisions` of one topology and cycle."""
    d = report.decisions[topology_id]
    entry = report.plans.get(topology_id)
    plan = None if entry is None else entry.plan
    return {
        "at": report.at_ms,
        "topology_id": topology_id,
        "topology_name": report.names[topology_id],
        "mode": report.modes[topology_id],
        "action": d.action,
        "reason": d.reason.value,
        "text": d.text,
        "value": d.value,
        "threshold": d.threshold,
        "threshold_from": d.threshold_from or None,
        "planner": None if plan is None else plan.planner,
        "params": None if plan is None else json.dumps(plan.params, sort_keys=True),
        "seed": None if plan is None else plan.seed,
        "epoch": epoch,
        "plan_set": None if plan is None else plan.plan_set,
        "plan_id": None if plan is None else plan.plan_id,
        "moved_executors": d.moved_executors,
        "inter_node_tps": d.inter_node_tps[0],
        "planned_inter_node_tps": d.inter_node_tps[1],
        "took_ms": took_ms,
        "plan": None if plan is None else _placement(plan),
        "total_tps": report.running.get(topology_id, {}).get("total_tps"),
        "restarted_workers": d.restarted_workers,
        "held_up_tuples": None if d.restarted_workers is None else sum(d.held_up),
    }


def outcome_row(report: CycleReport, move: MoveState) -> dict[str, object]:
    """The row of `outcomes` of a move that ended, with how long it took where that is known."""
    restart = next((r for r in report.restarts if r.plan_id == move.plan_id), None)
    spent = next((s for s in move.spent if s.at_ms == move.published_at_ms), None)
    row: dict[str, object] = {
        "at": report.at_ms,
        "topology_id": move.topology_id,
        "topology_name": report.names.get(move.topology_id) or move.topology_id.rsplit("-", 2)[0],  # killed meanwhile
        "plan_id": move.plan_id,
        "published_at": move.published_at_ms,
        "metric": move.metric,
        "before": move.before,
        "predicted": move.predicted,
        "measured": move.measured,
        "noise_ratio": move.noise_ratio if move.metric is not None else None,
        "verdict": move.verdict,
        "text": move.text,
        "executors": len(move.moved),
        "workers": None if spent is None else spent.workers,
    }
    if restart is not None:
        row |= {
            "applied_s": restart.applied_s,
            "recovery_s": restart.recovery_s,
            "downtime_s": restart.downtime_s,
            "restarted_tasks": restart.tasks,
        }
    return row


def _placement(plan: PlanMessage) -> str:
    workers = sorted((w.supervisor, w.port, sorted(w.executors)) for w in plan.workers)
    return json.dumps(workers, separators=(",", ":"))
