"""The tables of the results, on screen and as `docs/results/react.md`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.control.page import made, markdown

WIDTH = 118
WITHIN_S = 30.0
"""Wanted where nothing restarts: from a step to a better placement that runs."""
STEP_S = 20.0
"""Of a step of a rollout, by Storm's default timings: supervisors ask Nimbus, then workers their supervisors."""
TITLES = {
    "step": "From a step in the traffic to a better placement",
    "held": "A topology that is held up is freed",
}
WHAT = {
    "step": "A real cluster of three supervisors, each a site, with Storm's default timings (`quick`: as `stormpilot "
    "local` tunes them, with cycles of 5 s over windows of 20 s). A source on one site sends to two executors "
    "that sort, which send five tuples for one: nine of ten to the second site and, at some moment, to the third. "
    "Each executor has a worker of its own, so that a plan moves two workers. `before`: steps are not looked for "
    "(`load.change_window_s: 0`), so that a gain is seen when the windows of whole cycles show it; everything "
    "else is the same. `rolling`: the two move without restarts that stop anything, one after "
    "the other. `standby`: two more stand by on each of the other sites, in one worker with all else there; "
    "tuples are switched to them. `reports every 2 s`: and not 5 s, read every second (`cycle.poll_s`), with looks "
    "after 4 s and not 5 s (`load.change_window_s`). All but `restarts` were measured when looks came after 8 s, and "
    "workers restarted after two of them. Carried out: from publishing until the last moved task works. "
    "Where workers restart that is Storm's own part (the next round of Nimbus, supervisors that notice, JVMs that "
    "start), else the phases of the rollout, told below. Every further plan within an hour must have been worth it "
    "for longer, so later steps take longer to be answered where workers restart.",
    "held": "Isolated nodes, one of them small: its part of the keyed work takes more CPU than it has, and by "
    "`topology.max.spout.pending` the source is held for all keys. Storm's placement is measured, then the controller "
    "starts as it is installed, in mode `act`. `predicted` is what `stormpilot what-if` said before: the rate that a "
    "placement carries until a node or an executor is full. Freed: seconds from the controller's start until 95% of "
    "the demand got through.",
}


def tables(results: Mapping[str, Any]) -> list[Table]:
    """One for every part that there is."""
    return [MAKERS[part](found["rows"]) for part, found in results.items()]


def page(results: Mapping[str, Any], settings: Sequence[str]) -> str:
    """The page; it names the parts, and the `settings` of the step, that were not measured."""
    lines = ["# How fast a better placement runs", "", "`make bench-react`; the JSON is [react.json](react.json).", ""]
    for part, found in results.items():
        lines += [f"## {TITLES[part]}", "", *textwrap.wrap(WHAT[part], WIDTH), ""]
        m = found["machine"]
        lines += [f"Taken {m['date']} on {m['cores']} cores and {m['memory_gb']} GB, Python {m['python']}.", ""]
        lines += [*markdown(MAKERS[part](found["rows"])), ""]
        lines += [*NOTES[part](found["rows"]), ""]
    measured = {r["setting"] for r in results.get("step", {"rows": ()})["rows"]}
    missing = [f"`{s}`" for s in settings if s not in measured]
    missing += [f"the part `{part}`" for part in TITLES if part not in results]
    if missing:
        lines += [*textwrap.wrap(f"Not measured yet: {', '.join(missing)}.", WIDTH), ""]
    return "\n".join(lines)


def _step(rows: list[dict[str, Any]]) -> Table:
    columns = (
        *("setting", "step", "moved by", "gain seen", "plan published", "applied", "works in its new place"),
        *("they stood", "carried out in", "all ÷ carried out", "load average"),
    )
    cells = []
    for r in rows:
        steps = [(str(i), s, strategy(s["strategy"])) for i, s in enumerate(r["steps"], 1)]
        for label, s, moved_by in [*steps, *([("median", r["median"], "")] if len(steps) > 1 else [])]:
            times = [s[k] for k in ("gain_seen_s", "published_s", "applied_s", "running_s", "downtime_s")]
            carried_out_s = s["running_s"] - s["published_s"]
            ratio = f"{s['running_s'] / carried_out_s:.1f}" if carried_out_s > 0 else "-"
            busy = f"{r['machine']['load_average'][0]:g}" if "machine" in r else "-"
            told = (*(f"{t:.1f}" for t in times), f"{carried_out_s:.1f}", ratio, busy)
            cells.append((r["setting"], label, moved_by, *told))
    return made("Seconds after the step", columns, cells)


def strategy(sentence: str) -> str:
    """Move strategy of a plan in a word or two, from the sentence of the controller."""
    how, _, text = sentence.partition(": ")
    if how != "rolling":
        return "restarts" if how == "restart" else "-"
    return "switches" if "stand by" in text else "rolling" + text.removeprefix("without restarts").split(";")[0]


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """Goals of the reaction, and whether they were reached; then where the seconds of rollouts went."""
    lines = []
    for r in rows:
        running_s, published_s = r["median"]["running_s"], r["median"]["published_s"]
        storm_s = running_s - published_s
        if r["setting"].startswith("before"):
            continue
        if all(strategy(s["strategy"]) == "restarts" for s in r["steps"]):
            wanted, reached = f"within twice Storm's own part, {2 * storm_s:.0f} s", running_s <= 2 * storm_s
        else:
            wanted, reached = f"under {WITHIN_S:.0f} s", running_s < WITHIN_S
        missed = "" if reached else f", missed: the plan took {published_s:.0f} s, carrying it out {storm_s:.0f} s"
        missed += "" if reached else _least(r)
        lines.append(f"- {r['setting']}: a better placement runs after {running_s:.0f} s (wanted: {wanted}){missed}.")
    for r in rows:
        for i, s in enumerate(r["steps"], 1):
            if s["phases"]:
                moments = ", ".join(f"{phase} {at_s:.1f}" for phase, at_s in s["phases"].items())
                lines.append(f"- {r['setting']}, step {i}, begin of each phase in seconds after it: {moments}.")
    return [textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines]


def _least(row: dict[str, Any]) -> str:
    """Part of a rollout with Storm's default timings that nobody can save, where that alone is above the goal."""
    steps = max(int(n) for s in row["steps"] for n in re.findall(r"in (\d+) steps", strategy(s["strategy"])) or ["0"])
    least_s = STEP_S * steps
    if least_s <= WITHIN_S:
        return ""
    return (
        f". Of these {least_s:.0f} s are Storm's in {steps} steps: until all workers know where a task is, these "
        "may take task.refresh.poll.secs (10 s), and their supervisors 10 s (fixed) before; the two tasks stand in "
        "for each other, so they cannot move at once"
    )


def _held(rows: list[dict[str, Any]]) -> Table:
    columns = (
        *(
            "run",
            "wanted tps",
            "through before",
            "predicted before",
            "through after",
            "predicted after",
            "freed after s",
        ),
        *("latency ms before: p50, p99", "after", "plans", "load average"),
    )
    cells = []
    for i, r in enumerate(rows, 1):
        carried = next(iter(r["what_if"].get("carried") or []), {})
        predicted = [carried.get(k) for k in ("nowTps", "plannedTps")]
        told = ["-" if p is None else f"{p:.0f}" for p in predicted]
        cells.append(
            (
                str(i),
                f"{r['wanted_tps']:g}",
                f"{r['before']['through_tps']:.1f}",
                told[0],
                f"{r['after']['through_tps']:.1f}",
                told[1],
                "never" if r["freed_s"] is None else f"{r['freed_s']:.0f}",
                _latency(r["before"]["latency_ms"]),
                _latency(r["after"]["latency_ms"]),
                ", ".join(p["reason"] for p in r["plans"]) or "none",
                f"{r['machine']['load_average'][0]:g}" if "machine" in r else "-",
            )
        )
    return made("Tuples/s that get through, before and after", columns, cells)


def _latency(ms: Mapping[str, float | None]) -> str:
    return ", ".join("-" if ms[q] is None else f"{ms[q]:.0f}" for q in ("p50", "p99"))


MAKERS: dict[str, Callable[[list[dict[str, Any]]], Table]] = {"step": _step, "held": _held}
NOTES: dict[str, Callable[[list[dict[str, Any]]], list[str]]] = {"step": goals, "held": lambda _: []}
