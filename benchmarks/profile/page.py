"""Measurements as a table, a JSON file and a page."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import textwrap
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.profile import speed

NAMES = {
    "xml": "parse XML",
    "pi": "pi",
    "file": "batch file write",
    "blob": "blob download",
    "table": "table query",
}
SHAPES = {
    "xml": "310, falling to 255",
    "pi": "105, 110, then about 100",
    "file": "60,000, 45,000, then 50,000",
    "blob": "rising, then flat",
    "table": "rising, then flat",
}
"""Tuples/s of the paper, with one thread and more."""
WIDTH = 118


LITTLE = """CPU of the slot with little to do. A thread without tuples looks for them a thousand times a second
(`topology.bolt.wait.progressive.level3.sleep.millis`) and keeps a Python process. Far below the peak a tuple takes
more than near it, for it finds both asleep:

{}

"""


SPEED = """
Speed of the machine: what small Python processes got through in a second of CPU during the trials with so many threads,
to the median of all; `-`: not noted then. At one speed: steps between the peaks of those repetitions that know theirs,
each divided by its speed.
"""


def collect(out: Path, tasks: list[str], repetitions: int, published: Path, *, beside: bool = False) -> dict[str, Any]:
    """Profiles that are complete in the folder; of other tasks those that were published, `beside` these of all."""
    before = _published(published)
    profiles: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        profiles[task] = []
        for n in range(1, repetitions + 1):
            if not (out / f"{task}-{n}.json").exists():
                continue
            model = json.loads((out / f"{task}-{n}.json").read_text())["models"][0]
            lines = [json.loads(x) for x in (out / f"{task}-{n}.trials.jsonl").read_text().splitlines()[1:]]
            speeds = speed.read(out / f"{task}-{n}.speed.jsonl")
            trials = [x["trial"] for x in lines if "trial" in x]
            at_speeds: dict[int, list[float]] = {}
            for i, x in enumerate(lines, 2):
                if "trial" in x and i in speeds:
                    at_speeds.setdefault(x["trial"]["threads"], []).append(speeds[i])
            best = {
                p["threads"]: max((t for t in trials if t["threads"] == p["threads"] and t["stable"]), key=_rate)
                for p in model["points"]
            }
            load = out / f"{task}-{n}.load.json"
            profiles[task].append(
                {
                    "points": [
                        {**p, **({"probe_tps": round(statistics.fmean(at_speeds[q]), 1)} if q in at_speeds else {})}
                        for q, p in best.items()
                    ],
                    "base": model.get("base"),
                    "light": model.get("light", []),
                    "trials": len(trials),
                    "slot": lines[-1]["slot"],
                    **(json.loads(load.read_text()) if load.exists() else {}),
                }
            )
        kept = before.get(task, []) if beside or not profiles[task] else []
        profiles[task] = [r for r in kept if r not in profiles[task]] + profiles[task]
    return {"cores": os.cpu_count(), "profiles": profiles}


def _published(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Task -> repetitions that were published."""
    return json.loads(file.read_text())["profiles"] if file.exists() else {}


def _rate(trial: dict[str, Any]) -> float:
    return float(trial["rate_tps"])


def apart(found: dict[str, Any], task: str) -> dict[int, int]:
    """Threads -> steps of the rate between the repetitions of a task, where several measured them."""
    steps: dict[int, list[int]] = {}
    for repetition in found["profiles"][task]:
        for p in repetition["points"]:
            steps.setdefault(p["threads"], []).append(p["step"])
    return {q: max(s) - min(s) for q, s in steps.items() if len(s) > 1}


def apart_at_one_speed(found: dict[str, Any], task: str) -> dict[int, int]:
    """As `apart`, of rates as they would be on a machine of one speed: of those repetitions that know theirs."""
    points: dict[int, list[dict[str, Any]]] = {}
    for repetition in found["profiles"][task]:
        for p in (p for p in repetition["points"] if "probe_tps" in p):
            points.setdefault(p["threads"], []).append(p)
    steps = {q: speed.steps_apart(ps) for q, ps in points.items()}
    return {q: s for q, s in steps.items() if s is not None}


def good(found: dict[str, Any]) -> bool:
    """Whether everything is there, and repetitions are within a step, at one speed of the machine where it is known."""
    within = all(d <= 1 for t in found["profiles"] for d in (apart(found, t) | apart_at_one_speed(found, t)).values())
    return within and all(len(r) > 1 for r in found["profiles"].values())


def _rows(found: dict[str, Any]) -> list[list[str]]:
    rows = []
    speeds = [p["probe_tps"] for p in _points(found) if "probe_tps" in p]
    middle = statistics.median(speeds) if speeds else 1.0
    for task, repetitions in found["profiles"].items():
        at_one_speed = apart_at_one_speed(found, task)
        for q in sorted({p["threads"] for r in repetitions for p in r["points"]}):
            points = [p for r in repetitions for p in r["points"] if p["threads"] == q]
            rows.append(
                [
                    NAMES[task],
                    str(q),
                    " / ".join(f"{p['rate_tps']:,.1f}" for p in points),
                    " / ".join(f"{p['cpu_share']:.0%}" for p in points),
                    " / ".join(f"{p['memory_mb']:,.0f}" for p in points),
                    " / ".join("-" if p["heap_mb"] is None else f"{p['heap_mb']:,.0f}" for p in points),
                    " / ".join(f"{p['probe_tps'] / middle:.0%}" if "probe_tps" in p else "-" for p in points),
                    str(apart(found, task).get(q, "-")),
                    str(at_one_speed.get(q, "-")),
                ]
            )
    return rows


def _points(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Of all repetitions of all tasks."""
    return [p for repetitions in found["profiles"].values() for r in repetitions for p in r["points"]]


HEAD = [
    *("task", "threads", "peak tuples/s", "CPU of the slot", "RSS MB", "heap MB"),
    *("speed of the machine", "steps apart", "at one speed"),
]


def show(found: dict[str, Any]) -> None:
    """Print the table."""
    table = Table(*HEAD, box=None)
    for row in _rows(found):
        table.add_row(*row)
    Console(width=160).print(table)


def _agreement(found: dict[str, Any]) -> str:
    """Spread of repetitions, in words."""
    words = []
    for task, repetitions in found["profiles"].items():
        steps, at_one_speed = apart(found, task), apart_at_one_speed(found, task)
        if not repetitions:
            words.append(f"{NAMES[task]} was not measured")
        elif not steps:
            words.append(f"{NAMES[task]} was measured once")
        else:
            most = max(steps.values())
            at_most = f" ({max(at_one_speed.values())} at one speed of the machine)" if at_one_speed else ""
            apart_by = f"at most {most} {'step' if most == 1 else 'steps'} apart{at_most}" if most else "the same"
            words.append(f"peaks of {NAMES[task]} are {apart_by}")
    text = "; ".join(words)
    left = (
        "" if all(apart(found, task) for task in found["profiles"]) else " `make bench-profile` goes on with the rest."
    )
    return f"{text[0].upper()}{text[1:]} (the aim is one step).{left}"


def _speeds(slots: list[dict[str, Any]]) -> str:
    """MHz of a core, from the least to the most."""
    return " to ".join(f"{mhz:,.0f}" for mhz in sorted({s["mhz"] for s in slots}))


def _unlike(found: dict[str, Any]) -> str:
    """The cores of those tasks whose repetitions ran on unlike ones, in words."""
    cores = {t: [f"{r['slot']['mhz']:,.0f}" for r in rs] for t, rs in found["profiles"].items()}
    words = [f"{NAMES[t]} ran on cores of {', then '.join(mhz)} MHz" for t, mhz in cores.items() if len(set(mhz)) > 1]
    text = "; ".join(words)
    return f" {text[0].upper()}{text[1:]}." if words else ""


LIGHT_HEAD = ["task", "worker without threads", "each thread without tuples", "one thread, at tuples/s"]


def _light_rows(found: dict[str, Any]) -> list[list[str]]:
    """CPU where there is little to do, of the first repetition."""
    rows = []
    for task, (first, *_) in ((task, r) for task, r in found["profiles"].items() if r and r[0].get("light")):
        base = first["base"]
        light = ", ".join(f"{x['rate_tps']:,.3g}: {x['cpu_share']:.0%}" for x in first["light"])
        rows.append([NAMES[task], f"{base['cpu_share']:.1%}", f"{base['thread_cpu_share']:.1%}", light])
    return rows


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _listed(points: list[dict[str, Any]]) -> str:
    return ", ".join(f"{_rate(p):,.0f}" for p in points)


def publish(found: dict[str, Any], out: Path, results: Path) -> None:
    """Write the page, its JSON and the plots of the first repetition; nothing where nothing was measured."""
    if not any(found["profiles"].values()):
        return
    before = _published(results / "profile.json")
    (results / "profile.json").write_text(json.dumps(found, indent=1) + "\n")
    plots = []
    for task, repetitions in found["profiles"].items():
        if repetitions:
            same = before.get(task, [])[:1] == repetitions[:1]
            if (plot := out / f"{task}-1.svg").exists() and not same:
                shutil.copy(plot, results / f"profile-{task}.svg")
            plots.append(f"![{NAMES[task]}](profile-{task}.svg)")
    slots = [r["slot"] for rs in found["profiles"].values() for r in rs]
    loads = [r["loadAverage"] for rs in found["profiles"].values() for r in rs if "loadAverage" in r]
    light = _light_rows(found)
    shapes = "\n".join(
        f"- {NAMES[t]}: {_listed(r[0]['points'])} tuples/s here; {SHAPES[t]} in the paper."
        for t, r in found["profiles"].items()
        if r
    )
    load = f"its load average at the end of the profiles was {min(loads):.1f} to {max(loads):.1f}"
    slot = f"{slots[0]['cores']:g} cores of {_speeds(slots)} MHz and {slots[0]['memory_mb']:,.0f} MB"
    head = textwrap.fill(
        "`make bench-profile ARGS=--publish` wrote this page; [profile.json](profile.json) has every number. Tasks of "
        f"`topologies/src/micro_tasks` run on an isolated local cluster: the component alone on a slot of {slot}, "
        "source and sink on another node. How a profile works: [Profile a component](../guide/profile.md).",
        WIDTH,
        break_long_words=False,
        break_on_hyphens=False,
    )
    intro = textwrap.fill(
        f"The machine has {found['cores']} cores and ran other programs too; {load}. Rates are tried in steps of 10%. "
        f"Numbers of the repetitions stand side by side. {_agreement(found)}{_unlike(found)}",
        WIDTH,
    )
    page = f"""# Performance models by trial runs

{head}

{intro}

{_markdown(HEAD, _rows(found))}
{SPEED if any("probe_tps" in p for p in _points(found)) else ""}
{shapes}

Absolute rates are those of another language, another slot and other tasks (Python components, a part of a core): only
shapes can be compared. Blob download and table query ask azurite behind a link with a delay, a bandwidth and a number
of answers a second (`benchmarks/profile/service.py`), which is not the paper's service either.

{LITTLE.format(_markdown(LIGHT_HEAD, light)) if light else ""}{chr(10).join(plots)}

What sizes by these models need, and whether they hold: [sizes by model](sizes.md).
"""
    (results / "profile.md").write_text(page)
