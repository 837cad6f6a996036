"""`stormpilot status`: who leads, what the plug-in did, what was decided for every topology and why."""

from __future__ import annotations

from collections import Counter
from shlex import quote
from typing import Any

from stormpilot import clock
from stormpilot.cli.live import Live, connected, live_command
from stormpilot.cli.output import print_table, say, say_line
from stormpilot.observe.reader import Reader
from stormpilot.operate.hosts import host_lines
from stormpilot.operate.pauses import pauses
from stormpilot.operate.status import gather
from stormpilot.operate.views import proposals
from stormpilot.printable import age, counted

ENDED_SHOWN_S = 3600
"""So long `status` shows how a rollout ended; `rollout status` always does."""


@live_command
def status(live: Live) -> None:
    """Show the controller, the scheduler plug-in, and every topology with its plan and the last decision."""
    where = live.where
    with connected(where) as zookeeper:
        reader = Reader(zookeeper, where.paths)
        seen = reader.read()
        reports, problems = reader.read_loads(sorted(seen.topologies))
        paused = pauses(zookeeper, where.paths, seen.paused)
        proposed = proposals(zookeeper, where.paths, seen)
    problems = {**seen.problems, **problems}
    shown = gather(where.hosts, where.paths, seen, reports, problems, clock.now_ms(), paused, proposed)
    live.answer(shown, lambda: show(shown))


def show(shown: dict[str, Any]) -> None:
    """Print what `gather` found, for people."""
    controller, scheduler = shown["controller"], shown["scheduler"]
    who = f" {controller['leader']}" if controller["leader"] else ""
    say_line("controller", f"{controller['text']}{who}", "green" if controller["up"] else "red")
    if "cycles" in controller:
        say_line(
            "",
            f"epoch {controller['epoch']}, planner {controller['planner']}, {counted(controller['cycles'], 'cycle')}, "
            f"the last {age(controller['lastCycleAgeS'])} ago",
        )
    for other in controller["standby"]:
        say_line("", f"standby: {other}")
    if scheduler["seen"]:
        blacklisted = f", blacklisted: {', '.join(scheduler['blacklisted'])}" if scheduler["blacklisted"] else ""
        say_line(
            "plug-in",
            f"{scheduler['version']} in Nimbus {scheduler['nimbus']} (Storm {scheduler['stormVersion']}), "
            f"last write {age(scheduler['lastWriteAgeS'])} ago; {counted(scheduler['supervisors'], 'supervisor')}, "
            f"{counted(scheduler['slots'], 'slot')}{blacklisted}",
        )
    else:
        say_line("plug-in", scheduler["text"])
    for i, text in enumerate(host_lines(shown["hosts"])):
        say_line("" if i else "hosts", text)
    if shown["capacity"]:
        say_line("capacity", f"supervisors: {shown['capacity']}")
    for note in shown["notes"]:
        say_line(note["head"], note["text"])
    if scheduler["seen"] and not shown["topologies"]:
        say_line("topologies", "none runs")
    if shown["topologies"]:
        say("")
        _topologies(shown["topologies"])
    for problem in shown["problems"]:
        say_line("unreadable", problem["text"], "yellow")


def _topologies(topologies: list[dict[str, Any]]) -> None:
    print_table(
        ["topology", "mode", "set by", "plan", "state", "inter-node", "share", "reports"],
        [
            [
                t["name"],
                (t["mode"] or "-") + (" (paused)" if t["paused"] else ""),
                (t["modeFrom"] or "-").split(":")[0].split(";")[0],
                t["plan"] or "-",
                t["stateText"] or "-",
                "-" if t["interNodeTps"] is None else f"{t['interNodeTps']:,.0f} tps",
                "-" if t["interNodeShare"] is None else f"{t['interNodeShare']:.0%}",
                "-" if t["reportsAgeS"] is None else f"{age(t['reportsAgeS'])} ago",
            ]
            for t in topologies
        ],
    )
    say("")
    for t in topologies:
        for text in _lines(t):
            say_line(t["name"], text)


def _lines(t: dict[str, Any]) -> list[str]:
    """Lines about a topology below its row."""
    lines = []
    if t["unplaced"]:
        lines.append(f"{t['unplaced']} of {counted(t['executors'], 'executor')} run nowhere")
    if t["text"]:
        lines.append(f"plug-in: {t['text']}")
    if (m := t["rollout"]) is not None and (m["running"] is not False or m["sinceS"] < ENDED_SHOWN_S):
        lines.append(f"rollout: {m['text']}")
    if t["modeFrom"] and "; " in t["modeFrom"]:
        lines.append(f"policy: {t['modeFrom'].partition('; ')[2]}")
    if t["planReason"]:
        lines.append(f"plan: published {age(t['planAgeS'])} ago: {t['planReason']}")
    if t["proposedPlan"]:
        approve = f"`stormpilot approve {quote(t['name'])} --plan {t['proposedPlan']}`"
        then = " once it is resumed" if t["paused"] else ""
        lines.append(
            f"proposed plan: {t['proposedPlan']}, made {age(t['proposedAgeS'])} ago; {approve} carries it out{then}"
        )
    if (d := t["decision"]) is not None:
        opens = d["opensInS"]
        later = f" (expected to change in {age(opens)})" if opens is not None and opens > 0 else ""
        lines.append(f"controller: {d['action']} {d['reason']}: {d['text']}{later}")
        lines += [f"move strategy: {d['moveStrategy']}"] if d["moveStrategy"] and d["action"] != "skip" else []
        lines += [f"last move: {d['lastMove']}"] if d["lastMove"] else []
        lines += [f"sources: {d['sources']}"] if d["sources"] else []
        lines += [f"size: {d['size']}"] if d["size"] else []
        lines += [_thresholds(d["thresholds"])] if d["thresholds"] else []
        lines += [d["recommendation"]] if d["recommendation"] else []
        lines += [f"memory: {d['memory']}"] if d["memory"] else []
        if d["restartMoves"]:
            lines.append(f"a restart takes {d['restartS']:g} s, measured in {counted(d['restartMoves'], 'move')}")
    return lines


def _thresholds(found: list[dict[str, Any]]) -> str:
    """Thresholds by source, and those that were refused."""
    by = Counter(c["source"] for c in found if c["source"] != "configured")
    parts = [f"{n} by {source}" if source in ("operator", "owner") else f"{n} {source}" for source, n in by.items()]
    refused = sum("refused" in c["text"] for c in found)
    parts += [f"{refused} refused"] if refused else []
    return f"thresholds: {', '.join(parts) or 'as configured'} (stormpilot thresholds show)"
