"""`stormpilot status`: who leads, what the plug-in did, what was decided for every topology and why."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from stormpilot.cli.live import ConfigOption, Place, RootOption, ZooKeeperOption, place, reading
from stormpilot.cli.output import Format, FormatOption, console, print_json, print_table

if TYPE_CHECKING:
    from stormpilot.model.messages import ControllerState, LoadReport, TopologyView
    from stormpilot.observe.reader import Seen

STUCK_PERIODS = 3
"""A leader whose last cycle is this many periods old is stuck."""
LEAST_STUCK_S = 30.0


def status(
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the controller, the scheduler plug-in, and every topology with its plan and the last decision."""
    where = place(zookeeper, root, config)
    with reading(where) as (reader, seen):
        reports, problems = reader.read_loads(sorted(seen.topologies))
    shown = gather(where, seen, reports, {**seen.problems, **problems}, int(time.time() * 1000))
    if output is Format.json:
        print_json(shown)
    else:
        _print(shown)


def gather(
    where: Place, seen: Seen, reports: list[LoadReport], problems: dict[str, str], now_ms: int
) -> dict[str, Any]:
    """Everything that is shown, as it goes into the JSON."""
    return {
        "zookeeper": where.hosts,
        "root": where.paths.root,
        "controller": _controller(seen, now_ms),
        "scheduler": _scheduler(seen, now_ms),
        "paused": sorted(seen.paused),
        "topologies": _topologies(where, seen, reports, problems, now_ms),
        "problems": [{"path": path, "text": text} for path, text in sorted(problems.items())],
    }


def _controller(seen: Seen, now_ms: int) -> dict[str, Any]:
    state, leader = seen.controller, seen.contenders[0] if seen.contenders else None
    shown: dict[str, Any] = {"up": False, "leader": leader, "standby": list(seen.contenders[1:]), "text": ""}
    if state is None:
        shown["up"] = leader is not None
        shown["text"] = "starting" if leader else "no controller has run here yet: stormpilot run controller.yaml"
        return shown
    age_s = (now_ms - state.written_at_ms) / 1000
    shown |= {
        "version": state.version,
        "epoch": state.epoch,
        "planner": state.planner,
        "cycles": state.cycles,
        "last_cycle_age_s": round(age_s, 1),
        "sentence": state.sentence,
        "counters": state.counters,
    }
    if leader is None:
        shown["text"] = f"DOWN: nothing is planned since {_clock(state.written_at_ms)}; what runs goes on as it is"
    elif leader != state.controller:
        shown |= {"up": True, "text": "starting"}
    elif age_s > max(LEAST_STUCK_S, STUCK_PERIODS * state.period_s):
        shown["text"] = f"STUCK: it holds the leadership, but its last cycle was {_age(age_s)} ago"
    else:
        shown |= {"up": True, "text": "up"}
    return shown


def _scheduler(seen: Seen, now_ms: int) -> dict[str, Any]:
    if seen.cluster is None:
        return {"seen": False, "text": "the scheduler plug-in has written nothing yet: is it in Nimbus?"}
    shim = seen.cluster.shim
    writes = [seen.cluster.written_at_ms]
    writes += [s.written_at_ms for s in seen.statuses.values()] + [t.written_at_ms for t in seen.topologies.values()]
    live = [s for s in seen.cluster.supervisors if not s.blacklisted]
    return {
        "seen": True,
        "version": shim.version,
        "storm_version": shim.storm_version,
        "nimbus": shim.nimbus,
        "fallback": shim.fallback,
        "last_write_age_s": round((now_ms - max(writes)) / 1000, 1),
        "supervisors": len(live),
        "blacklisted": sorted(s.id for s in seen.cluster.supervisors if s.blacklisted),
        "slots": sum(len(s.ports) for s in live),
        "text": "",
    }


def _topologies(
    where: Place, seen: Seen, reports: list[LoadReport], problems: dict[str, str], now_ms: int
) -> list[dict[str, Any]]:
    views = {} if seen.controller is None else {v.id: v for v in seen.controller.topologies}
    written: dict[str, int] = {}
    for r in reports:
        written[r.topology_id] = min(r.written_at_ms, written.get(r.topology_id, r.written_at_ms))
    rows = []
    for i in sorted({*seen.topologies, *seen.unreadable_topologies}):
        snapshot, status = seen.topologies.get(i), seen.statuses.get(i)
        plan, view = seen.plans.get(i), views.get(i)
        name = snapshot.name if snapshot else i
        setting = seen.modes.get(name)
        unreadable = [
            problems[p] for p in (where.paths.topology(i), where.paths.plan(i), where.paths.status(i)) if p in problems
        ]
        message = plan.message if plan else None
        rows.append(
            {
                "name": name,
                "id": i,
                "mode": setting.mode if setting else view.mode if view else None,
                "paused": bool({"_all", name} & seen.paused),
                "workers": len({(e.supervisor, e.port) for e in snapshot.executors if e.supervisor})
                if snapshot
                else None,
                "executors": len(snapshot.executors) if snapshot else None,
                "unplaced": sum(1 for e in snapshot.executors if e.supervisor is None) if snapshot else None,
                "plan": message.plan_id if message else "UNREADABLE" if plan else None,
                "planner": message.planner if message else None,
                "plan_reason": message.reason if message else None,
                "state": status.state if status else None,
                "code": status.code if status else None,
                "text": "; ".join([*unreadable, status.text if status else ""]).strip("; "),
                "state_plan": status.plan_id if status else None,
                "decision": _decision(view, seen.controller, now_ms),
                "inter_node_tps": view.inter_node_tps if view else None,
                "inter_node_share": view.inter_node_share if view else None,
                "inter_worker_share": view.inter_worker_share if view else None,
                "total_tps": view.total_tps if view else None,
                "reports_age_s": round((now_ms - written[i]) / 1000, 1) if i in written else None,
            }
        )
    return rows


def _decision(view: TopologyView | None, state: ControllerState | None, now_ms: int) -> dict[str, Any] | None:
    if view is None or state is None:
        return None
    return {
        "action": view.action,
        "reason": view.reason,
        "text": view.text,
        "value": view.value,
        "threshold": view.threshold,
        "planned_inter_node_tps": view.planned_inter_node_tps,
        "moved_executors": view.moved_executors,
        "missing_tasks": view.missing,
        "since_s": round((now_ms - view.since_ms) / 1000, 1),
        "opens_in_s": None if view.next_at_ms is None else round((view.next_at_ms - now_ms) / 1000, 1),
    }


def _print(shown: dict[str, Any]) -> None:
    controller, scheduler = shown["controller"], shown["scheduler"]
    colour = "green" if controller["up"] else "red"
    who = f" {controller['leader']}" if controller["leader"] else ""
    console.print(
        f"[bold]controller[/]  [{colour}]{escape(controller['text'])}[/]{escape(who)}", soft_wrap=True, highlight=False
    )
    if "sentence" in controller:
        _line(
            "",
            f"epoch {controller['epoch']}, planner {controller['planner']}, cycle {controller['cycles']} "
            f"{_age(controller['last_cycle_age_s'])} ago: {controller['sentence']}",
        )
    for other in controller["standby"]:
        _line("", f"standing by: {other}")
    if scheduler["seen"]:
        blacklisted = f", blacklisted: {', '.join(scheduler['blacklisted'])}" if scheduler["blacklisted"] else ""
        _line(
            "scheduler",
            f"{scheduler['version']} in Nimbus {scheduler['nimbus']} (Storm {scheduler['storm_version']}), "
            f"last write {_age(scheduler['last_write_age_s'])} ago; {scheduler['supervisors']} supervisors, "
            f"{scheduler['slots']} slots{blacklisted}",
        )
    else:
        _line("scheduler", scheduler["text"])
    if shown["paused"]:
        _line("paused", ", ".join("everything" if p == "_all" else p for p in shown["paused"]))
    if shown["topologies"]:
        console.print()
        _print_topologies(shown["topologies"])
    for problem in shown["problems"]:
        console.print(f"[yellow]cannot be read:[/] {escape(problem['text'])}", soft_wrap=True, highlight=False)


def _print_topologies(topologies: list[dict[str, Any]]) -> None:
    print_table(
        ["topology", "mode", "plan", "state", "inter-node", "share", "reports"],
        [
            [
                t["name"],
                (t["mode"] or "-") + (" (paused)" if t["paused"] else ""),
                t["plan"],
                " ".join(x for x in (t["state"], t["code"] if t["code"] != "OK" else None) if x) or "-",
                "-" if t["inter_node_tps"] is None else f"{t['inter_node_tps']:,.0f} tps",
                "-" if t["inter_node_share"] is None else f"{t['inter_node_share']:.0%}",
                "-" if t["reports_age_s"] is None else f"{_age(t['reports_age_s'])} ago",
            ]
            for t in topologies
        ],
    )
    console.print()
    for t in topologies:
        if t["text"]:
            _line(t["name"], f"plug-in: {t['text']}")
        if (d := t["decision"]) is not None:
            opens = d["opens_in_s"]
            later = f" (expected to change in {_age(opens)})" if opens is not None and opens > 0 else ""
            _line(t["name"], f"controller: {d['action']} {d['reason']}: {d['text']}{later}")


def _line(head: str, text: str) -> None:
    console.print(f"[bold]{escape(head):<11}[/] {escape(text)}", soft_wrap=True, highlight=False)


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _clock(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M:%S}"
