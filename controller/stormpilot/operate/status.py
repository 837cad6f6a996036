"""The state of the whole system as `stormpilot status -f json` and the HTTP API show it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from shlex import quote
from typing import Any

import msgspec

from stormpilot.decide.remedies import UNITS
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import HistoryEntry, StatusMessage, TopologySnapshot
from stormpilot.messages.load import LoadReport
from stormpilot.messages.settings import ALL, PauseSetting, PinSetting, name_of_setting_key
from stormpilot.observe.capacity import in_words
from stormpilot.observe.reader import NO_SNAPSHOT, StoreSnapshot
from stormpilot.operate.hosts import hosts
from stormpilot.operate.pauses import mode_of
from stormpilot.operate.rollouts import progress
from stormpilot.operate.troubles import trouble_lines, worst_first
from stormpilot.printable import listed
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
    settings = _settings(seen, now_ms, pauses)
    topologies = worst_first(_topologies(paths, seen, reports, problems, now_ms, proposals))
    return {
        "zookeeper": zookeeper,
        "root": paths.root,
        "controller": controller(paths, seen, now_ms),
        "scheduler": _scheduler(seen, now_ms),
        "hosts": hosts(seen),
        "paused": sorted(seen.paused),
        "settings": settings,
        "notes": [{"head": h, "text": text} for h, text in trouble_lines(topologies) + settings_lines(settings)],
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
        return {"seen": False, "text": NO_SNAPSHOT}
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


def _settings(seen: StoreSnapshot, now_ms: int, pauses: Mapping[str, PauseSetting]) -> dict[str, Any]:
    """Settings and requests of operators; `remaining`: executors by topology name.

    Of a pin, `there`: whether its supervisor is; `unknown`: whether its topology runs without what is pinned.
    """
    s = seen.settings
    parts = [] if seen.cluster is None else seen.cluster.supervisors
    host = {p.id: p.host for p in parts}
    names = {i: t.name for i, t in seen.topologies.items()}
    alive = {*names, *seen.unreadable_topologies}  # what was asked for one that is gone is removed after a while

    def head(x: Any) -> dict[str, Any]:
        since_s = round((now_ms - x.since_ms) / 1000, 1) if x.since_ms else None  # one that cannot be read has no time
        return {"by": x.by, "why": x.why, "sinceS": since_s}

    unread, unseen = sorted(seen.unreadable_topologies), seen.cluster is None
    running: defaultdict[tuple[str, str], list[range]] = defaultdict(list)
    for t in seen.topologies.values():
        for e in t.executors:
            running[t.name, e.component].append(range(e.start, e.end + 1))

    def unknown(p: PinSetting) -> bool:
        tasks = running.get((p.topology, p.component), [])
        return p.topology in names.values() and not any(p.task is None or p.task in some for some in tasks)

    on = {h: Counter[str]() for h in (None, *host.values())}  # None: of supervisors that are gone, as `executors_on`
    for t in seen.topologies.values():
        for e in t.executors:
            if e.supervisor:
                on[host.get(e.supervisor)][t.name] += 1

    def left(there: str) -> dict[str, int]:
        return dict(sorted(on[there if there in on else None].items()))

    def named(key: str) -> str:
        return "everything" if key == ALL else name_of_setting_key(key)

    modes = [(named(n), m) for n, m in sorted(seen.modes.items())]
    paused = [(named(n), pauses.get(n, PauseSetting(by="unreadable setting"))) for n in sorted(seen.paused)]
    return {
        "pauses": [{"topology": n, **head(p)} for n, p in paused],
        "modes": [{"topology": n, "mode": m.mode, **head(m)} for n, m in modes],
        "drains": [
            {"host": d.host, "remaining": left(d.host), "unread": unread, "there": unseen or d.host in on, **head(d)}
            for _, d in sorted(s.drains.items())
        ],
        "pins": [
            {
                "topology": p.topology,
                "component": p.component,
                "task": p.task,
                "supervisor": p.supervisor,
                "there": unseen or p.supervisor in host,
                "unknown": unknown(p),
                **head(p),
            }
            for p in s.pins
        ],
        "exclusions": [
            {"host": x.host, "supervisor": x.supervisor, "topology": x.topology, "component": x.component, **head(x)}
            for x in s.exclusions
        ],
        "holds": [
            {
                "topology": names.get(i, i),
                "cause": h.cause,
                "plan": h.plan_id,
                # one from the future, after a clock was set back, holds no longer than it was made for
                "leftS": None if h.end_ms is None else round((h.end_ms - max(now_ms, h.since_ms)) / 1000, 1),
                **head(h),
            }
            for i, h in sorted(s.holds.items())
            if i in alive and h.until_ms > now_ms
        ],
        "requests": [
            {
                "topology": names.get(i, i),
                "verb": None if p.request is None else p.request.verb,
                "by": None if p.request is None else p.request.by,
                "ageS": None if p.request is None else round((now_ms - p.request.at_ms) / 1000, 1),
            }
            for i, p in sorted(s.requests.items())
            if i in alive
        ],
        "unreadable": [{"topology": t, "text": why} for t, why in sorted(s.frozen.items())],
    }


def settings_lines(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as (head, text) for people; only what there is."""

    def by(x: dict[str, Any]) -> str:
        ago = "" if x["sinceS"] is None else f" {age(x['sinceS'])} ago"
        return f"by {x['by']}{ago}" + (f": {x['why']}" if x["why"] else "")

    lines = [("paused", f"{p['topology']} ({by(p)})") for p in settings["pauses"]]
    for m in settings["modes"]:
        lines.append(("mode", f"{m['topology']}: {m['mode']} ({by(m)})"))
    for d in settings["drains"]:
        left = ", ".join(f"{n} of {t}" for t, n in d["remaining"].items())
        empty = f"not known to be empty, {listed(d['unread'])} cannot be read" if d["unread"] else "empty"
        missing = "" if d["there"] else ", no supervisor is on a host of that name now"
        lines.append(("drained", f"{d['host']}: {left + ' to be moved' if left else empty}{missing} ({by(d)})"))
    for p in settings["pins"]:
        what = "/".join(str(x) for x in (p["topology"], p["component"], p["task"]) if x is not None)
        missing = "" if p["there"] else ", which is gone: no effect"
        missing = f", but {p['topology']} has no such executor: no effect" if p["unknown"] else missing
        lines.append(("pinned", f"{what} to {p['supervisor']}{missing} ({by(p)})"))
    for x in settings["exclusions"]:
        what = "/".join(v for v in (x["topology"], x["component"]) if v) or "everything"
        lines.append(("excluded", f"{what} from {x['host'] or x['supervisor']} ({by(x)})"))
    for h in settings["holds"]:
        until = (
            f"until `stormpilot replan {quote(h['topology'])}`" if h["leftS"] is None else f"for {age(h['leftS'])} more"
        )
        cause = "" if h["leftS"] is None else f"{h['cause']} {h['plan']} "
        lines.append(("on hold", f"{h['topology']} {until}: {cause}({by(h)})"))
    for r in settings["requests"]:
        text = "a request that cannot be read" if r["verb"] is None else f"{r['verb']} by {r['by']}"
        since = "" if r["ageS"] is None else f", {age(r['ageS'])} ago"
        lines.append(("pending", f"{r['topology']}: {text}{since}; waits for the leading controller"))
    for u in settings["unreadable"]:
        lines.append(("unreadable", f"{u['text']}: nothing of {u['topology']} moves"))
    return lines


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
        if proposed_s is not None and most_s is not None and proposed_s > most_s:  # nobody may approve it
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


def age(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"


def _clock(ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
