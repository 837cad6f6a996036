"""`stormpilot status`: who leads, what the plug-in did, what was decided for every topology and why."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from stormpilot import clock
from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, place, reading
from stormpilot.cli.output import Format, FormatOption, console, print_json, print_table


def status(
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the controller, the scheduler plug-in, and every topology with its plan and the last decision."""
    from stormpilot.operate.status import gather

    where = place(zookeeper, root, config)
    with reading(where) as (reader, seen):
        reports, problems = reader.read_loads(sorted(seen.topologies))
    shown = gather(where.hosts, where.paths, seen, reports, {**seen.problems, **problems}, clock.now_ms())
    if output is Format.json:
        print_json(shown)
    else:
        _print(shown)


def _print(shown: dict[str, Any]) -> None:
    from stormpilot.operate.status import age, settings_lines

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
            f"{age(controller['last_cycle_age_s'])} ago: {controller['sentence']}",
        )
    for other in controller["standby"]:
        _line("", f"standing by: {other}")
    if scheduler["seen"]:
        blacklisted = f", blacklisted: {', '.join(scheduler['blacklisted'])}" if scheduler["blacklisted"] else ""
        _line(
            "scheduler",
            f"{scheduler['version']} in Nimbus {scheduler['nimbus']} (Storm {scheduler['storm_version']}), "
            f"last write {age(scheduler['last_write_age_s'])} ago; {scheduler['supervisors']} supervisors, "
            f"{scheduler['slots']} slots{blacklisted}",
        )
    else:
        _line("scheduler", scheduler["text"])
    if shown["paused"]:
        _line("paused", ", ".join("everything" if p == "_all" else p for p in shown["paused"]))
    for head, text in settings_lines(shown["settings"]):
        _line(head, text)
    if shown["topologies"]:
        console.print()
        _print_topologies(shown["topologies"])
    for problem in shown["problems"]:
        console.print(f"[yellow]cannot be read:[/] {escape(problem['text'])}", soft_wrap=True, highlight=False)


def _print_topologies(topologies: list[dict[str, Any]]) -> None:
    from stormpilot.operate.status import age

    print_table(
        ["topology", "mode", "set by", "plan", "state", "inter-node", "share", "reports"],
        [
            [
                t["name"],
                (t["mode"] or "-") + (" (paused)" if t["paused"] else ""),
                (t["mode_from"] or "-").split(":")[0].split(";")[0],
                t["plan"],
                " ".join(x for x in (t["state"], t["code"] if t["code"] != "OK" else None) if x) or "-",
                "-" if t["inter_node_tps"] is None else f"{t['inter_node_tps']:,.0f} tps",
                "-" if t["inter_node_share"] is None else f"{t['inter_node_share']:.0%}",
                "-" if t["reports_age_s"] is None else f"{age(t['reports_age_s'])} ago",
            ]
            for t in topologies
        ],
    )
    console.print()
    for t in topologies:
        if t["text"]:
            _line(t["name"], f"plug-in: {t['text']}")
        if (m := t["rollout"]) is not None and (m["running"] is not False or m["since_s"] < ENDED_SHOWN_S):
            _line(t["name"], f"step by step: {m['text']}")
        if t["mode_from"] and "; " in t["mode_from"]:
            _line(t["name"], f"mode: {t['mode_from'].partition('; ')[2]}")
        if (d := t["decision"]) is not None:
            opens = d["opens_in_s"]
            later = f" (expected to change in {age(opens)})" if opens is not None and opens > 0 else ""
            _line(t["name"], f"controller: {d['action']} {d['reason']}: {d['text']}{later}")
            if d["how"]:
                _line(t["name"], f"how: {d['how']}")
            if d["last_move"]:
                _line(t["name"], f"last move: {d['last_move']}")
            if d["thresholds"]:
                _line(t["name"], _thresholds(d["thresholds"]))
            if d["recommendation"]:
                _line(t["name"], d["recommendation"])
            if d["restart_moves"]:
                _line(t["name"], f"a restart takes {d['restart_s']:g} s, known from {d['restart_moves']} moves")


ENDED_SHOWN_S = 3600
"""So long `status` tells how a rollout ended; `rollout show` always does."""


def _thresholds(found: list[dict[str, Any]]) -> str:
    """How many come from where, and what was refused."""
    from collections import Counter

    by = Counter(c["source"] for c in found if c["source"] != "configured")
    parts = [f"{n} by {source}" if source in ("operator", "owner") else f"{n} {source}" for source, n in by.items()]
    refused = sum("refused" in c["text"] for c in found)
    parts += [f"{refused} refused"] if refused else []
    return f"thresholds: {', '.join(parts) or 'as configured'} (stormpilot thresholds show)"


def _line(head: str, text: str) -> None:
    console.print(f"[bold]{escape(head):<11}[/] {escape(text)}", soft_wrap=True, highlight=False)
