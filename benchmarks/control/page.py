"""The tables of the results, on screen and as `docs/results/control.md`."""

from __future__ import annotations

import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

WIDTH = 120
"""Characters of a line of prose."""


def tables(results: dict[str, Any]) -> list[Table]:
    """One or more for every part that there is."""
    made = []
    for part, found in results.items():
        made += MAKERS[part](found["rows"])
    return made


def page(results: dict[str, Any]) -> str:
    """The page."""
    lines = ["# The control loop: what it costs, how fast it is, and whether it lasts", "", "`make bench-control`.", ""]
    for part, found in results.items():
        m = found["machine"]
        taken = (
            f"Taken {m['date']} on {m['cores']} cores and {m['memory_gb']} GB, Python {m['python']}, load average at "
            f"the end {m['load_average'][0]:g}."
        )
        lines += [f"## {TITLES[part]}", ""]
        for told in (WHAT[part], taken):
            lines += [*textwrap.wrap(told, WIDTH, break_long_words=False, break_on_hyphens=False), ""]
        for table in MAKERS[part](found["rows"]):
            lines += [f"{table.title}:", "", *markdown(table), ""]
    return "\n".join(lines)


def markdown(table: Table) -> list[str]:
    """The lines of a table in Markdown."""
    headers = [str(c.header) for c in table.columns]
    rows = zip(*([str(cell) for cell in c.cells] for c in table.columns), strict=True)
    return [
        "| " + " | ".join(headers) + " |",
        "|" + "---|" * len(headers),
        *("| " + " | ".join(cells) + " |" for cells in rows),
    ]


def made(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table with these rows."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(str, row))
    return table


SHIM_RATIO = 1.3
"""Of a round of Storm's own scheduler with nothing to do, what ours is to take then."""


def _shim(rows: list[dict[str, Any]]) -> list[Table]:
    kinds = {
        "storm": "Storm's own, nothing to do",
        "compared": "noticing that no executor has moved",
        "unchanged": "ours, nothing changed: left out",
        "whole": "ours, nothing changed: not left out",
        "moving": "ours, moving",
        "lost": "ours, half of the supervisors lost",
    }
    ratio = f"nothing changed: ours ÷ Storm's (wanted {SHIM_RATIO:g}); on average over two minutes"
    columns = ("supervisors", "executors", *kinds.values(), ratio)
    cells = [
        (
            r["supervisors"],
            f"{r['executors']:,}",
            *(_spread(r["ms"].get(kind, [])) for kind in kinds),
            _shim_ratio(r["ms"]),
        )
        for r in rows
    ]
    return [made("Milliseconds of a round: median (95th percentile, max)", columns, cells)]


def _shim_ratio(ms: dict[str, list[float]]) -> str:
    """Of the rounds that Nimbus schedules every 10 s, one in two minutes is not left out."""
    storms, left_out, whole = (statistics.median(ms[kind]) for kind in ("storm", "unchanged", "whole"))
    return f"{left_out / storms:.1f}; {(11 * left_out + whole) / 12 / storms:.1f}"


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    ordered = sorted(values)
    return f"{statistics.median(ordered):.1f} ({ordered[int(0.95 * (len(ordered) - 1))]:.1f}, {ordered[-1]:.1f})"


def _scale(rows: list[dict[str, Any]]) -> list[Table]:
    columns = (
        *("supervisors", "executors", "pairs", "cycle s: median (min, max)"),
        *("CPU s a cycle: controller + planners", "controller, part of a core"),
        *("controller reads kB/s", "writes kB/s", "tasks report kB/s", "peak MB", "decided"),
    )
    cells = [
        (
            r["supervisors"],
            f"{r['executors']:,}",
            f"{r['pairs']:,}",
            f"{r['cycle_s']['median']:.2f} ({r['cycle_s']['min']:.2f}, {r['cycle_s']['max']:.2f})",
            _cpu(r.get("cpu_s_per_cycle")),
            "-" if (share := r.get("controller_cpu_share")) is None else f"{share:.0%}",
            f"{r['controller_reads_kb_per_s']:.0f}",
            f"{r['controller_writes_kb_per_s']:.1f}",
            f"{r['reports_kb_per_s']:.0f}",
            f"{r['controller_peak_mb']:.0f}",
            ", ".join(f"{reason} {n}" for reason, n in r["decided"].items()),
        )
        for r in rows
    ]
    return [made("A cycle that plans everything, and what goes through ZooKeeper", columns, cells)]


def _cycles(rows: list[dict[str, Any]]) -> list[Table]:
    columns = (
        *("supervisors", "executors", "pairs", "since the cycle before", "topologies planned"),
        *("CPU s: median (min, max)", "of it: reports, look, decide", "memory MB"),
    )
    cells = []
    for r in rows:
        for kind, cycles in r["cpu_s"].items():
            parts = (statistics.median(c[part] for c in cycles) for part in ("reports", "look", "decide"))
            whole = [c["all"] for c in cycles]
            cells.append(
                (
                    *(r["supervisors"], f"{r['executors']:,}", f"{r['pairs']:,}", kind),
                    " / ".join(str(int(c["planned"])) for c in cycles),
                    f"{statistics.median(whole):.2f} ({min(whole):.2f}, {max(whole):.2f})",
                    ", ".join(f"{s:.2f}" for s in parts),
                    f"{r['memory_mb']:.0f}",
                )
            )
    return [made("A cycle by how much has changed", columns, cells)]


def _limits(rows: list[dict[str, Any]]) -> list[Table]:
    columns = (
        *("executors", "znodes", "bytes of a report: plain, written", "writes/s"),
        *("ZooKeeper, cores: writes, reads", "leader, CPU s: nothing new, all new", "seconds: all written, all read"),
        *("one such topology: snapshot KiB", "plan KiB"),
    )
    cells = []
    for r in rows:
        used, reader = r["zookeeper_cpu_s"], r["reader_cpu_s"]
        period_s = r["znodes"] / r["writes_per_s"]
        cells.append(
            (
                *(f"{r['executors']:,}", f"{r['znodes']:,}"),
                f"{r['report_bytes']['plain']:,.0f}, {r['report_bytes']['packed']:,.0f}",
                f"{r['writes_per_s']:,.0f}",
                f"{used['writes'] / period_s:.2f}, {used['reads'] / period_s:.2f}",
                f"{reader['unchanged']:.2f}, {reader['changed']:.2f}",
                f"{r['write_round_s']:.1f}, {r['reader_s']['changed']:.1f}",
                *(f"{r['one_topology'][k] / 1024:,.0f}" for k in ("snapshot_bytes", "plan_bytes")),
            )
        )
    return [made("A round of reports", columns, cells)]


def _cpu(seconds: dict[str, float] | None) -> str:
    return "-" if seconds is None else f"{seconds['controller']:.1f} + {seconds['planners']:.1f}"


def _soak(r: dict[str, Any]) -> list[Table]:
    tuples = r["tuples"]
    facts = [
        ("minutes", f"{r['minutes']:g}"),
        ("rates, flights/s x s in turn", r["schedule"]),
        ("flights emitted", f"{tuples['emitted']:,}"),
        ("not accounted for", tuples["unaccounted"]),
        ("failed, and emitted again", f"{tuples['failed']:,}, {tuples['replayed']:,}"),
        ("longest time without an acknowledged flight", f"{r['longest_silence_s']:.0f} s"),
        ("hosts lost and back", sum(e["event"].startswith("lose") for e in r["events"])),
        ("controllers frozen or killed", sum("leader" in e["event"] for e in r["events"])),
        ("processes that led", len(r["leaders"])),
        ("plans", ", ".join(f"{reason} {n}" for reason, n in sorted(r["moves_by_reason"].items())) or "none"),
        ("voluntary plans", r["chosen_moves"]),
        ("least time between two of them", "-" if (s := r["least_s_between_chosen_moves"]) is None else f"{s} s"),
        ("errors in the controllers' logs", len(r["log_errors"])),
    ]
    memory = [
        (
            name,
            f"{m['from_s']:.0f} to {m['to_s']:.0f}",
            *(f"{m[k]:.0f}" for k in ("first_mb", "warm_mb", "last_mb", "max_mb")),
            f"{m['mb_per_h']:+.1f}" if m["to_s"] - m["warm_from_s"] >= LONG_ENOUGH_S else "too short to tell",
        )
        for name, m in r["memory"].items()
        if m
    ]
    columns = ("process", "from to s", "first MB", "warm MB", "last MB", "most MB", "growth once warm, MB/h")
    timeline = sorted(
        [(e["at_s"], e["event"], "") for e in r["events"]]
        + [
            (m["at_s"], f"plan: {m['reason']}, {m['moved_executors']} executors move", m["effect"] or "")
            for m in r["moves"]
        ],
    )
    return [
        made("What was seen", ("what", "value"), facts),
        made("Memory", columns, memory),
        made("What happened", ("s", "what", "effect of the move"), timeline),
    ]


def _hour(r: dict[str, Any]) -> list[Table]:
    memory, decided = r["memory"], Counter(r["decided"]).most_common()
    growth = f"{memory['mb_per_h']:+.1f} MB/h" if memory["to_s"] >= LONG_ENOUGH_S else "too short to tell"
    facts = [
        ("minutes", f"{r['minutes']:g}"),
        ("executors, topologies, pairs", f"{r['executors']:,}, {r['topologies']:,}, {r['pairs']:,}"),
        ("reports of tasks", f"{r['reports_kb_per_s']:,.0f} kB/s"),
        ("cycles, and how many are due", f"{r['cycles']}, {r['cycles_due']}"),
        ("a cycle takes: median, longest", f"{r['cycle_s']['median']:.1f} s, {r['cycle_s']['max']:.1f} s"),
        ("cores: controller, ZooKeeper", f"{r['cores']['controller']:.2f}, {r['cores']['zookeeper']:.2f}"),
        ("memory of the controller: warm, last, most", ", ".join(f"{memory[k]:,.0f} MB" for k in HOUR_MEMORY)),
        ("its growth once warm", growth),
        ("memory of its planners, most", f"{r['planners_mb']:,.0f} MB"),
        ("errors in its log", len(r["log_errors"])),
        ("cycles with such a decision", ", ".join(f"{reason} {n}" for reason, n in decided)),
    ]
    return [made("What was seen", ("what", "value"), facts)]


HOUR_MEMORY = ("warm_mb", "last_mb", "max_mb")
LONG_ENOUGH_S = 600.0
"""Least warm time of a process whose growth is told."""

MAKERS: dict[str, Callable[[Any], list[Table]]] = {
    "shim": _shim,
    "scale": _scale,
    "cycles": _cycles,
    "limits": _limits,
    "hour": _hour,
    "soak": _soak,
}
TITLES = {
    "shim": "The plug-in in Nimbus",
    "scale": "The controller on a large cluster",
    "cycles": "A cycle by how much has changed",
    "limits": "What one ZooKeeper and one leader carry",
    "hour": "A very large cluster for an hour",
    "soak": "Trouble without end: a soak",
}
WHAT = {
    "shim": "A JVM with Storm's own classes and a simulated cluster: how long `schedule()` takes. Storm's own "
    "scheduler (DefaultScheduler) looks for executors without a slot, and nothing else. Ours compares all that a round "
    "goes by with what the last one was given, and leaves the round out where that found nothing to do; one round in "
    "two minutes is not left out: it asks Storm's scheduler, makes the snapshot that the controller plans on and looks "
    "whether every plan is still in force. Nimbus makes all objects anew for each round, by default every 10 s, but "
    "for configurations and components of topologies, which it keeps; so they are here.",
    "scale": "A simulated cluster through a real ZooKeeper to a real controller process in mode `advise`, reports of "
    "every task every 10 s, planner `best` with a budget of 10 s, every topology planned in every cycle. A cycle's "
    "time includes the planner's. Bytes are those of the process's TCP connections, by the kernel's count. "
    "Pairs and CPU are what the shuffles make of the placement. "
    "The first cycle is not counted. The clock goes on while other processes have the CPU, CPU seconds do not; the "
    "controller's are all of a period, with the readings between two cycles. "
    "`PLANNER_FAILED`, `INFEASIBLE`: what the planner had after its 10 s did not pass the check.",
    "cycles": "A controller in a process of its own over a ZooKeeper in its memory; reports of every task every 10 s, "
    "a cycle every 30 s, 100 topologies. The planner leaves everything as it runs, so the CPU is the controller's own; "
    "that of a client of ZooKeeper is not in it. Changed: rates rise by a half, or fall back; of three cycles until "
    "a window holds nothing but the new rates, the one that plans most. `all changed` is what every cycle costs where "
    "nothing is kept of the one before; one cycle in six plans all topologies whatever has changed. Memory is what the "
    "process grew by.",
    "limits": "Simulated reporters write through one session to a real ZooKeeper (one server, on this machine, that "
    "does not wait for its disk), a reader takes in what they wrote. A worker has ten executors, each of which gets "
    "tuples from eight tasks, and reports every 5 s. Cores are CPU seconds of the ZooKeeper's process in a round, "
    "by 5 s. Written and read: as fast as one session does it here. A znode holds 900 KiB.",
    "hour": "A simulated cluster through a real ZooKeeper (one server, on this machine) to a real controller process "
    "in mode `advise`, topologies of 200 executors, reports of every task every 10 s, a cycle every 30 s. Every two "
    "minutes one topology after the other becomes faster by half, and in its next turn as slow as it was. The process "
    "that plays the cluster runs on the same cores, and its CPU is not told. Memory is warm after a quarter of the "
    "time. Reports are read between cycles: one that begins right after a long one has too few in its window "
    "(`INSUFFICIENT_METRICS`), and plans nothing.",
    "soak": "A real cluster of four supervisors with two controllers, `flights` at rates that take turns; hosts are "
    "lost (supervisor and workers killed) and come back, the leading controller is frozen or killed. Accounted for: "
    "every flight emitted in that time was acknowledged by two minutes after it. Storm takes a worker that has just "
    "been started for alive for two minutes whatever happens (`nimbus.task.launch.secs`): a host that is lost right "
    "after a move is missed only then, and until then nobody places anew what ran there. A controller is warm two "
    "minutes after it began to lead, when it has loaded its planners; one that only stands by needs 100 MB less. "
    "Where no `REPAIR` follows the loss of a host nothing was placed anew: none of the job's executors ran there.",
}
