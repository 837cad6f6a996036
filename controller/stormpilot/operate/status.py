"""The state of the whole system as `stormpilot status -f json` and the HTTP API show it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from stormpilot.decide.remedies import UNITS
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import HistoryEntry, StatusMessage, TopologySnapshot
from stormpilot.messages.load import LoadReport
from stormpilot.messages.settings import PauseSetting
from stormpilot.observe.capacity import in_words
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.operate.hosts import hosts
from stormpilot.operate.pauses import mode_of
from stormpilot.operate.rollouts import progress
from stormpilot.operate.shown_settings import settings_lines, shown_settings
from stormpilot.operate.troubles import trouble_lines, worst_first
from stormpilot.printable import age
from stormpilot.zookeeper.paths import Paths

STUCK_PERIODS = 3
"""A leader whose last cycle is this many periods old is stuck."""
LEAST_STUCK_S = 30.0
FIRST_CYCLE_S = 120.0
"""A leader that has not ended its first cycle after this, and after as many periods, is stuck."""
FAILED = "cycle failed: "
"""Beginning of the sentence on a controller whose last cycle failed."""
PREPARING = "one that is preparing its planners (its log says so) leads after that"
"""Ending of sentences on controllers of which none leads."""
BY_SITES = "placed by the sites"
"""Said by the plug-in of a topology without a plan that it places itself, as Storm's scheduler knows no sites."""
UNTOLD = "it could not write why (its log has the reason; stormpilot doctor checks what it may write)"


def limit_s(state: ControllerState) -> float:
    """A leader with this state is stuck where its last cycle is older."""
    return stuck_after_s(state.period_s) if state.stuck_after_s is None else state.stuck_after_s


def stuck_after_s(period_s: float) -> float:
    """A leader whose last cycle is older than this is stuck."""
    return max(LEAST_STUCK_S, STUCK_PERIODS * period_s)


def first_cycle_late_s(seen: StoreSnapshot, now_ms: int) -> float | None:
    """For how long a leader has led that should have ended its first cycle; None: it has time, or nobody knows."""
    if seen.leading_since_ms is None:
        return None
    led_s = (now_ms - seen.leading_since_ms) / 1000
    periods_s = 0.0 if seen.controller is None else stuck_after_s(seen.controller.period_s)
    return led_s if led_s > max(FIRST_CYCLE_S, periods_s) else None


def gather(
    zookeeper: str,
    paths: Paths,
    seen: StoreSnapshot,
    reports: list[LoadReport],
    problems: Mapping[str, str],
    now_ms: int,
    pauses: Mapping[str, PauseSetting] = {},
    proposals: Mapping[str, HistoryEntry] = {},
) -> dict[str, Any]:
    """Everything that is shown, as it goes into the JSON; `zookeeper`: its hosts, as they were asked.

    `pauses`: what is known of the author of each pause, by `setting_key`; `proposals` by topology id.
    """
    known = [] if seen.controller is None else seen.controller.capacities
    settings = shown_settings(seen, now_ms, pauses)
    topologies = worst_first(_topologies(paths, seen, reports, problems, now_ms, proposals))
    notes = trouble_lines(topologies) + settings_lines(settings)
    if seen.controller is not None and seen.controller.short_of_cpu:
        notes.insert(0, ("cpu short", seen.controller.short_of_cpu))
    return {
        "zookeeper": zookeeper,
        "root": paths.root,
        "controller": controller(paths, seen, now_ms),
        "scheduler": _scheduler(seen, now_ms),
        "hosts": hosts(seen),
        "paused": sorted(seen.paused),
        "settings": settings,
        "notes": [{"head": h, "text": text} for h, text in notes],
        "capacity": in_words(known),
        "capacities": msgspec.to_builtins(known),
        "topologies": topologies,
        "problems": [{"path": path, "text": text} for path, text in sorted(problems.items())],
    }


def controller(paths: Paths, seen: StoreSnapshot, now_ms: int) -> dict[str, Any]:
    """The controller: `up`, `text` says what it does or since when it does nothing, and its last cycle."""
    state, leader = seen.controller, seen.contenders[0] if seen.contenders else None
    shown: dict[str, Any] = {"up": False, "leader": leader, "standby": list(seen.contenders[1:]), "text": ""}
    if state is None and leader is None:
        return shown | {"text": f"no controller has run here yet: stormpilot run controller.yaml; {PREPARING}"}
    if state is None:
        return shown | _first_cycle(seen, now_ms, seen.problems.get(paths.controller, ""))
    age_s = (now_ms - state.written_at_ms) / 1000
    shown |= {
        "version": state.version,
        "epoch": state.epoch,
        "planner": state.planner,
        "cycles": state.cycles,
        "lastCycleAgeS": round(age_s, 1),
        "sentence": state.sentence,
        "counters": state.counters,
    }
    if leader is None:
        shown["text"] = f"DOWN since {_clock(state.written_at_ms)}: no planning; running workers unaffected"
    elif leader != state.controller:
        shown |= _first_cycle(seen, now_ms)
    elif age_s > limit_s(state):
        why = state.sentence if state.sentence.startswith(FAILED) else UNTOLD
        shown["text"] = f"STUCK: it holds the leadership, but its last cycle ended {age(age_s)} ago: {why}"
    else:
        shown |= {"up": True, "text": "up"}
    return shown


def _first_cycle(seen: StoreSnapshot, now_ms: int, unreadable: str = "") -> dict[str, Any]:
    """`up` and `text` of a leader of which no state is known; `unreadable`: why not, where there is one."""
    if unreadable:
        return {"up": True, "text": f"leads; its state cannot be read: {unreadable}"}
    late_s = first_cycle_late_s(seen, now_ms)
    if late_s is None:
        return {"up": True, "text": "starting"}
    return {"up": False, "text": f"STUCK: it has led for {age(late_s)} and not ended a cycle: {UNTOLD}"}


def _scheduler(seen: StoreSnapshot, now_ms: int) -> dict[str, Any]:
    if seen.cluster is None:
        return {"seen": False, "text": seen.no_cluster}
    shim = seen.cluster.shim
    writes = [seen.cluster.written_at_ms]
    writes += [s.written_at_ms for s in seen.statuses.values()] + [t.written_at_ms for t in seen.topologies.values()]
    live = [s for s in seen.cluster.supervisors if not s.blacklisted]
    return {
        "seen": True,
        "version": shim.version,
        "stormVersion": shim.storm_version,
        "nimbus": shim.nimbus,
        "fallback": shim.fallback,
        "lastWriteAgeS": round((now_ms - max(writes)) / 1000, 1),
        "supervisors": len(live),
        "blacklisted": sorted(s.id for s in seen.cluster.supervisors if s.blacklisted),
        "slots": sum(len(s.ports) for s in live),
        "text": "",
    }


def _oldest_reports(reports: list[LoadReport], topologies: Mapping[str, TopologySnapshot]) -> dict[str, int]:
    """When the task that is silent for longest was reported, by topology.

    Reports are left of workers that are gone, and of tasks that a rebalance took away: neither is a silence.
    """
    tasks = {i: {t for e in s.executors for t in range(e.start, e.end + 1)} for i, s in topologies.items()}
    newest: dict[tuple[str, int], int] = {}
    for r in reports:
        for task in (x.task for x in r.tasks):
            if r.topology_id not in tasks or task in tasks[r.topology_id]:
                newest[r.topology_id, task] = max(r.written_at_ms, newest.get((r.topology_id, task), 0))
    oldest: dict[str, int] = {}
    for (topology_id, _), written_at_ms in newest.items():
        oldest[topology_id] = min(written_at_ms, oldest.get(topology_id, written_at_ms))
    return oldest


def _topologies(
    paths: Paths,
    seen: StoreSnapshot,
    reports: list[LoadReport],
    problems: Mapping[str, str],
    now_ms: int,
    proposals: Mapping[str, HistoryEntry],
) -> list[dict[str, Any]]:
    most_s = seen.controller.approval_max_age_s if seen.controller else None
    views = {} if seen.controller is None else {v.id: v for v in seen.controller.topologies}
    written = _oldest_reports(reports, seen.topologies)
    rows = []
    for i in sorted({*seen.topologies, *seen.unreadable_topologies}):
        snapshot, status = seen.topologies.get(i), seen.statuses.get(i)
        plan, view = seen.plans.get(i), views.get(i)
        name = snapshot.name if snapshot else i
        mode, mode_from = mode_of(seen, name, i)
        unreadable = [problems[p] for p in (paths.topology(i), paths.plan(i), paths.status(i)) if p in problems]
        message = plan.message if plan else None
        proposed = proposals[i].plan if i in proposals else None
        proposed_s = round((now_ms - proposed.created_at_ms) / 1000, 1) if proposed else None
        too_old = proposed_s is not None and most_s is not None and proposed_s > most_s  # nobody may approve it
        if too_old or (view is not None and view.reason == "NO_BETTER_PLAN"):  # what runs is as good by now
            proposed = proposed_s = None
        rows.append(
            {
                "name": name,
                "id": i,
                "mode": mode,
                "modeFrom": mode_from,
                "paused": seen.is_paused(name),
                "workers": len({(e.supervisor, e.port) for e in snapshot.executors if e.supervisor})
                if snapshot
                else None,
                "executors": len(snapshot.executors) if snapshot else None,
                "unplaced": sum(1 for e in snapshot.executors if e.supervisor is None) if snapshot else None,
                "plan": message.plan_id if message else "UNREADABLE" if plan else None,
                "planner": message.planner if message else None,
                "planReason": message.reason if message else None,
                "planAgeS": round((now_ms - plan.since_ms) / 1000, 1) if plan and message else None,
                "proposedPlan": proposed.plan_id if proposed else None,
                "proposedAgeS": proposed_s,
                "state": status.state if status else None,
                "code": status.code if status else None,
                "stateText": state_text(status),
                "text": "; ".join([*unreadable, _text(status)]).strip("; "),
                "statePlan": status.plan_id if status else None,
                "decision": _decision(view, seen.controller, now_ms),
                "rollout": progress(seen.rollouts.get(i), now_ms),
                "interNodeTps": view.inter_node_tps if view else None,
                "interNodeShare": view.inter_node_share if view else None,
                "interWorkerShare": view.inter_worker_share if view else None,
                "totalTps": view.total_tps if view else None,
                "reportsAgeS": round((now_ms - written[i]) / 1000, 1) if i in written else None,
            }
        )
    return rows


def state_text(status: StatusMessage | None) -> str | None:
    """State of a topology in the plug-in, for people; a topology without any plan is no failure."""
    if status is None:
        return None
    if status.code == "NO_PLAN":
        return "no plan yet"
    return status.state if status.code == "OK" else f"{status.state} {status.code}"


def _text(status: StatusMessage | None) -> str:
    if status is None:
        return ""
    if status.code != "NO_PLAN":
        return status.text
    return "placed by the sites of its components" if BY_SITES in status.text else "placed by Storm's own scheduler"


def _decision(view: TopologyView | None, state: ControllerState | None, now_ms: int) -> dict[str, Any] | None:
    if view is None or state is None:
        return None
    return {
        "action": view.action,
        "reason": view.reason,
        "text": view.text,
        "value": view.value,
        "threshold": view.threshold,
        "unit": UNITS.get(view.reason, ""),
        "plannedInterNodeTps": view.planned_inter_node_tps,
        "movedExecutors": view.moved_executors,
        "missingTasks": view.missing,
        "lastMove": view.effect,
        "sources": view.sources,
        "size": view.size,
        "tradeOff": view.trade_off,
        "expectation": view.expectation,
        "restartS": view.restart_s,
        "restartMoves": view.restart_moves,
        "thresholdFrom": view.threshold_from,
        "recommendation": view.recommendation,
        "memory": view.memory,
        "moveStrategy": view.move_strategy,
        "heldUpByRestarts": view.held_up_by_restarts,
        "heldUpBySteps": view.held_up_by_steps,
        "thresholds": [msgspec.to_builtins(c) for c in view.thresholds],
        "sinceS": round((now_ms - view.since_ms) / 1000, 1),
        "opensInS": None if view.next_at_ms is None else round((view.next_at_ms - now_ms) / 1000, 1),
    }


def _clock(ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
