"""Measurements as JSON and as a page."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import textwrap
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

KEY = ("part", "engine", "size", "repetition")
ROWS = 100_000_000
MOST_S, MOST_MB = 600, 8_000
BY_HAND = "## About this run"
Row = dict[str, Any]


def key(row: Row) -> tuple[Any, ...]:
    """Key of a row: one that is measured again replaces the old one."""
    return tuple(row.get(k) for k in KEY)


def machine() -> dict[str, Any]:
    """Machine of the run."""
    memory = next(
        (int(line.split()[1]) / 1e6 for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line),
        0.0,
    )
    versions = {p: importlib.metadata.version(p) for p in ("pyspark", "duckdb", "sqlframe", "pyarrow")}
    return {"cores": os.cpu_count(), "memory GB": round(memory), "Python": platform.python_version(), **versions}


def write_json(path: Path, rows: list[Row]) -> None:
    """Write the rows with the machine, whole or not at all."""
    hidden = path.with_suffix(".tmp")
    hidden.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
    hidden.replace(path)


def page(rows: list[Row]) -> str:
    """The tables as Markdown."""
    lines = [
        "# The traffic history, mined and replayed",
        "",
        "Written by `make bench-history`. Machine: " + ", ".join(f"{k} {v}" for k, v in machine().items()) + ".",
        "Seconds are on the clock, with the start of Spark; CPU seconds are those of all processes; memory is the most "
        "that all processes held at one time. Where repetitions were made: median (least to most).",
    ]
    for section in (
        _both(rows),
        _layer(rows),
        _knees(rows),
        _shapes(rows),
        _mining(rows),
        _engines(rows),
        _standalone(rows),
        _replay(rows),
        _forecast(rows),
    ):
        lines += ["", *section] if section else []
    return "\n".join(lines) + "\n"


def wrapped(page: str) -> str:
    """The page with lines of prose that are not longer than those of other pages."""
    lines = page.splitlines()
    fill = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(line if line.startswith(("|", "#")) else fill(line) for line in lines) + "\n"


def merged(published: str, page: str) -> str:
    """The page with what only the published one has: sections that were not measured now, and what people wrote."""
    before, now = _sections(published), _sections(page)
    last = before.pop(BY_HAND, None)
    order = [*now, *(h for h in before if h not in now)]
    sections = {**before, **now}
    return "\n\n".join(sections[h] for h in order) + (f"\n\n{last}" if last is not None else "") + "\n"


def _sections(page: str) -> dict[str, str]:
    """The parts of a page by their heading."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith(("# ", "## ")):
            heading = line if line.startswith("## ") else ""
        found.setdefault(heading, []).append(line)
    return {h: "\n".join(lines).strip() for h, lines in found.items()}


def _both(rows: list[Row]) -> list[str]:
    own = [r for r in rows if r["part"] == "engines"]
    if not own:
        return []
    lines = [
        "## Both engines", "",
        "`stormpilot trafficlog mine --engine duckdb|spark` on two cores, all findings; with the start of Python and "
        "of the JVM. Every number is compared in each run: the same to nine digits.", "",
        "| edge rows | DuckDB s | CPU s | peak MB | Spark s | CPU s | peak MB |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for same in _by_size(own).values():
        cells = [f"{same[0]['rows']:,}"]
        for engine in ("duckdb", "spark"):
            mine = [r for r in same if r["engine"] == engine]
            cells += [_spread(mine, k) if mine else "-" for k in ("seconds", "cpu_s", "peak_mb")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _layer(rows: list[Row]) -> list[str]:
    sizes = _by_size([r for r in rows if r["part"] == "layer"])
    if not sizes:
        return []
    lines = [
        "## The dataframe layer on DuckDB", "",
        "All findings by DuckDB in one process, without the start of Python: with the texts of the queries built from "
        "the definitions (`make build` does that; else the first mining of a log after a change of the code), with the "
        "texts there (every other one), and the same queries without any code of ours. CPU seconds.", "",
        "| edge rows | built | kept | by hand | kept against by hand | queries |",
        "|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for same in sizes.values():
        way = {r["engine"]: r for r in same}
        built, kept, by_hand = (way[w]["cpu_s"] for w in ("built", "kept", "by hand"))
        lines.append(
            f"| {same[0]['rows']:,} | {built:.2f} | {kept:.2f} | {by_hand:.2f} | {kept / by_hand - 1:+.0%} "
            f"| {way['asked']['queries']} |"
        )
    return lines


def _knees(rows: list[Row]) -> list[str]:
    own = [r for r in rows if r["part"] == "knees"]
    if not own:
        return []
    lines = [
        "## Limits of nodes", "",
        f"B(n) of {own[0]['supervisors']} supervisors in {own[0]['logs']} synthetic logs, beside the planted knees, "
        "which lie between 0.62 and 0.76. Of the others too little was seen. *Proposed* ones wait for an operator. "
        f"The seeds of these logs, from {own[0]['first_seed']} on, are not those that the method was chosen on.", "",
        "| days | mined | of these proposed | within 0.03 | low by more than 0.05 | high by more than 0.05 "
        "| planted in the interval |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for r in sorted(own, key=lambda r: float(r["days"])):
        near = f"{r['near']} ({r['near'] / r['mined']:.0%})"
        lines.append(
            f"| {r['days']:g} | {r['mined']} | {r['proposed']} | {near} | {r['low']} | {r['high']} "
            f"| {r['covered']} of {r['intervals']} |"
        )
    return lines


def _shapes(rows: list[Row]) -> list[str]:
    own = [r for r in rows if r["part"] == "shapes"]
    if not own:
        return []
    lines = [
        "## Limits of nodes of other shapes", "",
        "Nodes of shapes that `trafficlog generate` does not make, of two weeks unless it says otherwise. *Right*: "
        "within 0.03 of the planted knee, between both, or left at the default with the right reason. *Low*: by more "
        "than 0.05.", "",
        "| shape | nodes | mined | right | low |", "|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    lines += [f"| {r['engine']} | {r['nodes']} | {r['mined']} | {r['right']} | {r['low']} |" for r in own]
    return lines


def _mining(rows: list[Row]) -> list[str]:
    sizes = _by_size([r for r in rows if r["part"] == "mine"])
    if not sizes:
        return []
    lines = [
        "## Mining", "", "`stormpilot trafficlog mine --master local[2]`: all findings of a log of 30 days.", "",
        "| edge rows | seconds | CPU seconds | peak MB | CPU us per row |", "|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for own in sizes.values():
        n = own[0]["rows"]
        per_row = median(r["cpu_s"] for r in own) / n * 1e6
        lines.append(
            f"| {n:,} | {_spread(own, 'seconds')} | {_spread(own, 'cpu_s')} | {_spread(own, 'peak_mb')} "
            f"| {per_row:.2f} |"
        )
    measured = {own[0]["rows"]: own for own in sizes.values()}
    if len(measured) > 1:
        few, many = min(measured), max(measured)
        a, b = (median(r["cpu_s"] for r in measured[n]) for n in (few, many))
        power = math.log(b / a) / math.log(many / few)
        growth = f"CPU grows with rows to the power of {power:.2f} from {few:,} to {many:,} rows (1 = linear)."
        lines += ["", *(_fit([(n, median(r["cpu_s"] for r in own)) for n, own in measured.items()]) or [growth])]
    large = [r for r in rows if r["part"] == "mine" and r["rows"] >= ROWS]
    if large:
        s, mb = max(r["seconds"] for r in large), max(r["peak_mb"] for r in large)
        met = "met" if s <= MOST_S and mb <= MOST_MB else "**not met**"
        lines.append(f"Target: 100 million rows within {MOST_S} s and {MOST_MB:,} MB: {met} ({s:.0f} s, {mb:,.0f} MB).")
    return lines


def _fit(points: list[tuple[int, float]]) -> list[str]:
    """The straight line through CPU seconds over rows: what does not grow with them, and what does."""
    if len(points) < 3:
        return []
    fit = linear_regression([n / 1e6 for n, _ in points], [s for _, s in points])
    worst = max(abs(fit.intercept + fit.slope * n / 1e6 - s) / s for n, s in points)
    return [
        f"The straight line through these: {fit.intercept:.0f} CPU seconds for the start of Spark and the tables that "
        f"are about as long in all of them (30 days of windows, latencies), and {fit.slope:.2f} for each million rows "
        f"of edges; no point is further from it than {worst:.0%}."
    ]


def _engines(rows: list[Row]) -> list[str]:
    own = [r for r in rows if r["part"] == "aggregate"]
    if not own:
        return []
    lines = [
        "## The heaviest query, beside DuckDB", "",
        "Rates between components by window, then by hour of the week: the pass over all edges. Same files, same "
        "results (compared in each run), two threads each; `query` leaves out the start of the engine.", "",
        "| edge rows | Spark query s | Spark CPU s | Spark MB | DuckDB query s | DuckDB CPU s | DuckDB MB |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for same in _by_size(own).values():
        cells = [f"{same[0]['rows']:,}"]
        for engine in ("spark", "duckdb"):
            mine = [r for r in same if r["engine"] == engine]
            cells += [_spread(mine, k) if mine else "-" for k in ("query_s", "cpu_s", "peak_mb")]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", _who_wins(own)]


def _who_wins(rows: list[Row]) -> str:
    size = max(r["rows"] for r in rows)
    by = {e: [r["query_s"] for r in rows if r["rows"] == size and r["engine"] == e] for e in ("spark", "duckdb")}
    if not all(by.values()):
        return ""
    spark, duckdb = (median(by[e]) for e in ("spark", "duckdb"))
    first, other, times = ("DuckDB", "Spark", spark / duckdb) if duckdb < spark else ("Spark", "DuckDB", duckdb / spark)
    return (
        f"On this one machine {first} is {times:.1f} times as fast as {other} at {size:,} rows. Spark is for what does "
        "not fit one machine: logs in object storage that take longer to fetch than to add up, and replays, which are "
        "hundreds of independent runs of Python planners that it spreads over a cluster."
    )


def _standalone(rows: list[Row]) -> list[str]:
    own = [r for r in rows if r["part"] == "standalone"]
    return [] if not own else [
        "## On a cluster", "",
        *(
            f"A standalone cluster on loopback (a master, two workers of one core): {r['rows']:,} rows mined in "
            f"{r['seconds']:.0f} s; of {r['numbers']:,} numbers found with `local[2]`, {r['differences']} differ."
            for r in own
        ),
    ]  # fmt: skip


def _replay(rows: list[Row]) -> list[str]:
    own = [r for r in rows if r["part"] == "replay"]
    if not own:
        return []
    r = own[0]
    lines = [
        "## Replay", "",
        f"7 days in {r['steps']} steps of {r['step_s'] / 60:g} min, {len(own)} topologies, {r['planners']} planners, "
        f"{r['settings']} settings each, {r['budget_s']:g} s for each plan: "
        f"{r['seconds']:.0f} s on the clock, {r['cpu_s']:,.0f} s of CPU, {r['peak_mb']:,.0f} MB; {r['held_out_days']} "
        "days are held out. Cost: mean distance of a tuple, with penalties for overload and restarts. *Best*: of all "
        "settings on the days before; it is recommended if its gain on the days held out is above the model's error "
        "in 90% of draws of days ([how](../concepts/replay.md)).", "",
        "| topology | recommended | cost: as it was | default | recommended "
        "| held out: as it was | default | recommended | gain of the best, held out | model's error |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|---:|",
    ]  # fmt: skip
    for r in sorted(own, key=lambda r: str(r["size"])):
        name = _setting(r["setting"])
        costs = [f"{r['scores'][n][i]:.3f}" for i in (0, 1) for n in ("as_it_was", "default", "recommended")]
        g = r["gain"]
        gain, off = "-", "-"
        if g is not None:
            gain, off = f"{g['ratio']:+.1%}", f"{g['yardstickRatio']:.1%}"
            gain += f" ({g['low']:+.1%} to {g['high']:+.1%})" if g["low"] is not None else ""
        lines.append(f"| {r['size']} | {name} | {' | '.join(costs)} | {gain} | {off} |")
    better = sum(not r["kept_default"] for r in own)
    return [
        *lines,
        "",
        f"A setting other than the default is recommended for {better} of {len(own)} topologies.",
    ]


def _forecast(rows: list[Row]) -> list[str]:
    own = [r for r in rows if r["part"] == "forecast"]
    if not own:
        return []
    r = own[0]
    lines = [
        "## Planning for the hour that comes", "",
        f"A week with a peak a day ({r['steps']} steps of {r['step_s'] / 60:g} min), planned by `best` "
        f"(`iterations={r['iterations']}`) for what was measured in the step before, and for the most that the profile "
        "foretells until the end of the step that comes, or of the 24 hours that come. Profiles were mined of the 15 "
        "days before (`trafficlog mine --until`), so the whole week is held out. Network cost: the mean distance of a "
        "tuple; cost has penalties for overload and restarts on top ([how](../concepts/replay.md)).", "",
        "| topology | profile off by | planned for | network cost | overload min | tuples on full nodes | moves "
        "| restart s | cost |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for name, same in _by_size(own).items():
        first = same[0]
        named = [("as it was", first["tries"]["as it was"]), ("what was measured", first["tries"]["measured"])]
        named += [
            (f"the next {r['lead_h']} h", r["tries"]["forecast"]) for r in sorted(same, key=lambda r: int(r["lead_h"]))
        ]
        for what, t in named:
            lines.append(
                f"| {name} | {first['error_ratio']:.1%} | {what} | {t['network_cost'] / t['tuples']:.3f} "
                f"| {t['overload_minutes']:,.0f} | {t['overloaded_tuples'] / t['tuples']:.2%} | {t['moves']} "
                f"| {t['restart_s']:,.0f} | {t['score']:.3f} |"
            )
    return [*lines, "", *(_effect(own, lead_h) for lead_h in sorted({int(r["lead_h"]) for r in own}))]


def _effect(rows: list[Row], lead_h: int) -> str:
    """All topologies together, forecasts against none."""
    own = [r["tries"] for r in rows if r["lead_h"] == lead_h]
    parts = []
    for key, what in (("overload_minutes", "overload minutes"), ("network_cost", "network cost"), ("moves", "moves")):
        before, after = (sum(t[n][key] for t in own) for n in ("measured", "forecast"))
        change = f"{after / before - 1:+.0%}" if before else f"{after:,.0f} instead of 0"
        parts.append(f"{what} {change}")
    better = sum(t["forecast"]["score"] < t["measured"]["score"] for t in own)
    return (
        f"For the next {lead_h} h against what was measured: {', '.join(parts)}; a lower cost for {better} of "
        f"{len(own)} topologies."
    )


def _setting(s: Row) -> str:
    parts = [f"{k}={v}" for k, v in sorted(s["params"].items())]
    parts += [f"decide.{k}={v}" for k, v in sorted(s["decide"].items())] + (["forecast"] if s["forecast"] else [])
    return f"`{s['planner']} {', '.join(parts)}`".replace(" `", "`")


def _by_size(rows: list[Row]) -> dict[int, list[Row]]:
    return {size: [r for r in rows if r["size"] == size] for size in sorted({r["size"] for r in rows})}


def _spread(rows: list[Row], key: str) -> str:
    values = sorted(r[key] for r in rows)
    digits = 0 if values[-1] >= 100 else 1
    text = f"{median(values):,.{digits}f}"
    return text if len(values) == 1 else f"{text} ({values[0]:,.{digits}f} to {values[-1]:,.{digits}f})"
