"""`report.html`: the demo's report as one page without any outside resource."""

from __future__ import annotations

import html
import io
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PALETTE = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#e15759", "#ff9da7", "#9c755f", "#bab0ac")
CSS = """
body{font:15px/1.45 system-ui,sans-serif;max-width:1120px;margin:2rem auto;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem;margin-bottom:.2rem} h2{font-size:1.1rem;margin:2rem 0 .6rem;border-bottom:1px solid #d8dee5}
p.lead{font-size:1.05rem;margin:.2rem 0 1.2rem} .muted{color:#66727f}
table{border-collapse:collapse} td,th{padding:.25rem .9rem .25rem 0;text-align:right}
td:first-child,th:first-child{text-align:left}
th{color:#66727f;font-weight:600;border-bottom:1px solid #d8dee5}
td.better{color:#1b7f3b} td.worse{color:#b3261e}
.nodes{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:10px}
.node{border:1px solid #c5ced8;border-radius:6px;padding:8px;background:#f7f9fb}
.node b{font-size:.85rem}
.worker{border:1px dashed #9aa7b4;border-radius:4px;padding:4px;margin-top:6px;background:#fff}
.worker i{font-style:normal;color:#66727f;font-size:.72rem;display:block}
.chip{display:inline-block;border-radius:3px;padding:0 5px;margin:1px;font-size:.75rem;color:#fff}
.chip.moved{outline:2px solid #1c2733} svg{max-width:100%;height:auto}
"""
# key, label, unit, digits, whether lower is better (None: neither)
ROWS: tuple[tuple[str, str, str, int, bool | None], ...] = (
    ("inter_node_tps", "traffic between nodes", "tuples/s", 0, True),
    ("inter_node_share", "share of traffic between nodes", "%", 1, True),
    ("inter_worker_tps", "traffic between workers", "tuples/s", 0, True),
    ("inter_worker_share", "share of traffic between workers", "%", 1, True),
    ("latency_p50", "complete latency, median", "ms", 1, True),
    ("latency_p99", "complete latency, 99th percentile", "ms", 1, True),
    ("throughput_tps", "throughput (acked at the spout)", "tuples/s", 0, False),
    ("failed", "failed tuples", "", 0, True),
)


def metric(window: dict[str, Any], key: str) -> float | None:
    """A figure of `before` or `after` as the tables show it: shares in percent, latency taken out of its mapping."""
    if key.startswith("latency_"):
        return window["complete_latency_ms"][key.removeprefix("latency_")]
    value = window[key]
    return value * 100 if key.endswith("_share") else value


def page(report: dict[str, Any]) -> str:
    """The whole page as text."""
    before, after = report["before"], report["after"]
    colours = _colours(report)
    lead = (
        f"Traffic between nodes fell from {before['inter_node_share']:.0%} to {after['inter_node_share']:.0%} of all "
        f"tuples ({before['inter_node_tps']:,.0f} to {after['inter_node_tps']:,.0f} tuples/s). "
        f"The plan moved {report['moves']} of {report['executors']} executors; throughput was down for "
        f"{report['downtime_s']:.0f} s while they moved, and {report['lost']} tuples were lost."
    )
    parts = [
        f"<h1>stormpilot demo</h1><p class=lead>{html.escape(lead)}</p>",
        "<h2>Before and after</h2>",
        _comparison(report),
        _optimum(report),
        "<h2>Over time</h2>",
        _timeline(report),
        "<h2>Placement before: Storm's own scheduler</h2>",
        _placement(report["placement"]["before"], set(), colours, before["cpu_per_node_percent"]),
        "<h2>Placement after: the plan</h2>",
        _placement(
            report["placement"]["after"], {m["start"] for m in report["moved"]}, colours, after["cpu_per_node_percent"]
        ),
        "<h2>What moved, and why</h2>",
        _moves(report),
        f"<h2>How this was made</h2><p class=muted>{html.escape(report['how'])}</p>",
    ]
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>stormpilot demo</title><style>{CSS}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _comparison(report: dict[str, Any]) -> str:
    rows = []
    for key, label, unit, digits, lower_is_better in ROWS:
        a, b = metric(report["before"], key), metric(report["after"], key)
        change, css = "", ""
        if a is not None and b is not None and a:
            change = f"{(b - a) / a:+.0%}"
            if lower_is_better is not None and abs(b - a) / a > 0.02:
                css = "better" if (b < a) == lower_is_better else "worse"
        cells = "".join(f"<td>{'-' if v is None else f'{v:,.{digits}f}'}</td>" for v in (a, b))
        rows.append(f"<tr><td>{label}</td>{cells}<td class='{css}'>{change}</td><td class=muted>{unit}</td></tr>")
    return (
        "<table><tr><th></th><th>Storm's scheduler</th><th>stormpilot</th><th>change</th><th></th></tr>"
        + "".join(rows)
        + "</table>"
    )


def _optimum(report: dict[str, Any]) -> str:
    how = "proved optimum" if report["optimum_proved"] else "best bound found"
    return (
        f"<p>For the traffic that was predicted for the plan, the {how} under the same CPU limits is "
        f"{report['optimum_inter_node_tps']:,.0f} tuples/s between nodes; the plan's figure is "
        f"{report['plan_inter_node_tps']:,.0f} (gap {report['gap_to_optimum']:z.1%}).</p>"
    )


def _timeline(report: dict[str, Any]) -> str:
    points = report["timeline"]
    t = [p["t_s"] for p in points]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(11, 4.6), sharex=True)
    top.plot(t, [p["throughput_tps"] for p in points], color=PALETTE[0], linewidth=1.2)
    top.set_ylabel("acked tuples/s")
    top.set_ylim(bottom=0)
    for key, colour in (("p50", PALETTE[2]), ("p99", PALETTE[6])):
        seen = [(p["t_s"], p[f"latency_{key}_ms"]) for p in points if p[f"latency_{key}_ms"] is not None]
        if seen:
            bottom.plot(*zip(*seen, strict=True), color=colour, linewidth=1.2, label=key)
    bottom.set_yscale("log")
    bottom.set_ylabel("complete latency, ms")
    bottom.set_xlabel("seconds since the job was submitted")
    bottom.legend(loc="upper right", frameon=False)
    for axis in (top, bottom):
        for name, colour in (("before", "#dfe7ef"), ("move", "#fbe3cf"), ("after", "#dcefdf")):
            axis.axvspan(*report["phases"][name], color=colour, zorder=0)
        axis.spines[["top", "right"]].set_visible(False)
    for name in ("before", "move", "after"):
        start, end = report["phases"][name]
        top.text((start + end) / 2, top.get_ylim()[1], name, ha="center", va="bottom", fontsize=9)
    figure.tight_layout()
    out = io.StringIO()
    figure.savefig(out, format="svg")
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _placement(
    workers: list[dict[str, Any]], moved: set[int], colours: dict[str, str], cpu_percent: dict[str, float]
) -> str:
    nodes: dict[str, list[dict[str, Any]]] = {host: [] for host in sorted(cpu_percent)}
    for worker in sorted(workers, key=lambda w: (w["host"], w["port"])):
        nodes.setdefault(worker["host"], []).append(worker)
    boxes = []
    for host, held in nodes.items():
        inner = "".join(_worker(w, moved, colours) for w in held) or "<p class=muted>no worker of this job</p>"
        load = cpu_percent.get(host)
        note = "" if load is None else f" <span class=muted>{load:.0f}% of its declared CPU</span>"
        boxes.append(f"<div class=node><b>{html.escape(host)}</b>{note}{inner}</div>")
    return f"<div class=nodes>{''.join(boxes)}</div>"


def _worker(worker: dict[str, Any], moved: set[int], colours: dict[str, str]) -> str:
    chips = []
    for e in worker["executors"]:
        name = html.escape(e["component"])
        css = "chip moved" if e["start"] in moved else "chip"
        chips.append(f"<span class='{css}' style='background:{colours[e['component']]}'>{name} {e['start']}</span>")
    return f"<div class=worker><i>port {worker['port']}</i>{''.join(chips)}</div>"


def _moves(report: dict[str, Any]) -> str:
    if not report["moved"]:
        return "<p>Nothing moved.</p>"
    rows = "".join(
        f"<tr><td>{html.escape(m['component'])} {m['start']}</td><td>{html.escape(m['from'])}</td>"
        f"<td>{html.escape(m['to'])}</td><td style='text-align:left'>{html.escape(m['why'])}</td></tr>"
        for m in report["moved"]
    )
    return (
        f"<p>{html.escape(report['reason'])}</p><table><tr><th>executor</th><th>from</th><th>to</th>"
        f"<th style='text-align:left'>why</th></tr>{rows}</table>"
    )


def _colours(report: dict[str, Any]) -> dict[str, str]:
    names = sorted(
        {e["component"] for side in ("before", "after") for w in report["placement"][side] for e in w["executors"]}
    )
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}
