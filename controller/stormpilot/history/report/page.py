"""The report as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from stormpilot.clock import utc
from stormpilot.history.mine.findings import Mined
from stormpilot.history.replay.choose import Tried, Verdict, of_each_name
from stormpilot.history.replay.limits import sentences
from stormpilot.history.replay.study import Replay
from stormpilot.history.report import plots
from stormpilot.history.report.gather import TopologyLog
from stormpilot.history.report.style import document, per_cent
from stormpilot.messages.thresholds import CPU_LIMIT_RATIO, ThresholdEntry


def page(
    log: str, topologies: Sequence[TopologyLog], mined: Sequence[Mined], replay: Replay | None, runs: Path | None
) -> str:
    """The page; sections without data say how to get it."""
    by_name = {m.thresholds.topology_name: m for m in mined}
    verdicts = {} if replay is None else of_each_name(replay.verdicts)
    links = "".join(f"<a href='#{html.escape(t.name)}'>{html.escape(t.name)}</a>" for t in topologies)
    parts = [f"<h1>Traffic history</h1><p class=muted>{html.escape(log)}</p><nav>{links}</nav>"]
    for t in topologies:
        parts += [
            f"<h2 id='{html.escape(t.name)}'>{html.escape(t.name)}</h2>",
            f"<p>{utc(t.from_ms)} to {utc(t.to_ms)} UTC, {t.windows:,} windows, {t.placements} placements; "
            f"traffic between nodes varies by {per_cent(t.noise_ratio)} by itself.</p>",
            "<h3>Over time</h3><p class=muted>By hour: means, the highest load of any window, the median latency.</p>",
            plots.over_time(t.hours),
            "<h3>Who sends to whom</h3><p class=muted>Tuples/s in the mean, and the part of them between nodes.</p>",
            plots.heat(t.pairs) if t.pairs else "<p>The log does not name components (written before version 2).</p>",
            "<h3>A week</h3><p class=muted>Mean by hour of the week, UTC. A gap: an hour that was not seen.</p>",
            plots.week(t.week_tps),
            _forecast_error(by_name.get(t.name)),
            "<h3>Latency over load</h3><p class=muted>By node, against the usual; red: its mined B(n).</p>",
            plots.knee(t.knees, _limits(by_name.get(t.name))) if t.knees else "<p>No latency was measured.</p>",
            "<h3>Mined thresholds</h3>",
            _thresholds(by_name.get(t.name)),
            "<h3>Replay</h3>",
            _replay(replay, verdicts.get(t.name), runs),
        ]
    return document("Traffic history", parts)


def _forecast_error(mined: Mined | None) -> str:
    """Error of last week's profile on the next week."""
    if mined is None:
        return ""
    if mined.profile is None:
        return "<p>No profile of it was mined: that takes a week.</p>"
    error = mined.profile.forecast_error_ratio
    if error is None:
        return "<p>Its profile was never tested on days that it was not made from: nothing is planned by it.</p>"
    return f"<p>Its profile is off by {error:.1%} in windows that it was not made from.</p>"


def _limits(mined: Mined | None) -> dict[str, float]:
    """B(n) by supervisor, where there was enough to mine it from."""
    entries = [] if mined is None else mined.thresholds.entries
    own = (e for e in entries if e.name == CPU_LIMIT_RATIO and e.scope == "supervisor" and e.source == "mined")
    return {e.of[0]: e.value for e in own if e.value is not None}


def _thresholds(mined: Mined | None) -> str:
    if mined is None:
        return "<p>Not mined: <code>stormpilot trafficlog mine -o mined.json</code>, then <code>--mined</code>.</p>"
    rows = "".join(_threshold(e) for e in mined.thresholds.entries)
    head = "<tr><th>number</th><th class=text>of</th><th>value</th><th>rows</th><th class=text>from</th></tr>"
    return f"<table>{head}{rows}</table>"


def _threshold(e: ThresholdEntry) -> str:
    of = " ".join(e.of) or e.scope
    value = "-" if e.value is None else f"{e.value:.4g} {e.unit}"
    origin = e.source + (f": {e.text}" if e.text else "")
    css = " class=default" if e.source == "default" else ""
    cells = f"<td>{html.escape(e.name)}</td><td class=text>{html.escape(of)}</td><td>{html.escape(value)}</td>"
    return f"<tr{css}>{cells}<td>{e.rows:,}</td><td class=text>{html.escape(origin)}</td></tr>"


def _replay(replay: Replay | None, verdict: Verdict | None, runs: Path | None) -> str:
    if replay is None or verdict is None:
        return "<p>Not replayed: <code>stormpilot trafficlog replay -o replay</code>, then <code>--replay</code>.</p>"
    held = "" if replay.split_ms is None else f"; held out: from {utc(replay.split_ms)} on"
    parts = [
        f"<p>{utc(replay.from_ms)} to {utc(replay.to_ms)} UTC in steps of {replay.step_s / 60:g} min{held}. "
        f"{len(verdict.tried)} settings, {replay.budget_s:g} s for each plan.</p>"
    ]
    if not replay.together:
        parts.append(
            f"<p>Recommended: <b>{html.escape(verdict.recommended.name)}</b>. {html.escape(verdict.text)}.</p>"
        )
        parts += [f"<p>{html.escape(text)}.</p>" for text in sentences(verdict.limits)]
    shown = [verdict.as_it_was, *verdict.tried[:8]]
    shown += [] if replay.together or verdict.default in shown else [verdict.default]
    default = None if replay.together else verdict.default.name
    head = "".join(
        f"<th>{c}</th>"
        for c in ("", "cost", "held out", "between nodes", "overload min", "moves", "executors moved", "restart s")
    )
    rows = "".join(_tried(t, verdict, default) for t in shown)
    parts += [f"<table><tr>{head}</tr>{rows}</table>", plots.settings(verdict, default)]
    if runs is not None and runs.exists():
        parts.append(_lines(verdict, runs))
    w = replay.weights
    parts.append(
        f"<p class=muted>Cost: mean distance of a tuple (1 same node, 2 same rack, 3 beyond), + {w.overload:g} for one "
        f"on a node at B(n) or more, + {w.restart:g} for one held up by a restart ({verdict.restart_s:.0f} s).</p>"
    )
    return "".join(parts)


def _tried(t: Tried, verdict: Verdict, default: str | None) -> str:
    s = t.chosen_by
    name = t.name + (" (default)" if t.name == default else "")
    held = "-" if t.held_out_score is None else f"{t.held_out_score:.3f}"
    cells = (
        f"{t.score:.3f}",
        held,
        f"{s.inter_node_share:.1%}",
        f"{s.overload_minutes:,.0f}",
        s.moves,
        s.moved_executors,
    )
    css = " class=best" if default is not None and t == verdict.recommended else ""
    numbers = "".join(f"<td>{c}</td>" for c in (*cells, f"{s.restart_s:,.0f}"))
    return f"<tr{css}><td>{html.escape(name)}</td>{numbers}</tr>"


def _lines(verdict: Verdict, runs: Path) -> str:
    table = pq.read_table(runs, filters=[("topology_id", "=", verdict.topology_id)])
    lines = []
    for t in dict.fromkeys((verdict.as_it_was.name, verdict.default.name, verdict.recommended.name)):
        setting = "" if t == verdict.as_it_was.name else t
        own = table.filter(pc.equal(table["setting"], setting)).to_pylist()
        at = [int(r["step_from"].timestamp() * 1000) for r in own]
        lines.append((t, at, [r["network_cost_tps"] / r["total_tps"] if r["total_tps"] else 0.0 for r in own]))
    return plots.played(lines)
