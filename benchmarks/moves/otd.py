"""One task at a time, on the word counts of the N-Storm paper: what goes between nodes and comes out.

Few tasks work, and enough of each component stand by on every node: Storm's scheduler deals tasks out by number, round
and round, so that the numbers below say where spout and acker are, which cannot be switched: communication-bound on one
node, beside a task that splits; computation-bound on two, on which the others gather until these are full.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.control.live import Controller, history, take_down, until, write_config
from benchmarks.demo.measure import Watcher
from stormpilot.config import LoadSection
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.model.values import Model
from stormpilot.submit import submit_topology

PROJECT = Path(__file__).resolve().parents[2] / "topologies"
MOST_STEPS = 61
WANTED_SHARE = 0.06
WANTED_THROUGHPUT = 0.8
WINDOW_S = 10.0
SETTLE_S = 8.0
STEP_S = 120.0
"""A loop that has found nothing to move for so long is done."""
LOG_LINES = 6
"""Of the controller's, which say why."""
START_S = 600.0
LEAST_TPS = 0.1
"""Less than this is no traffic: a node with no more has nothing to do."""


@dataclass(frozen=True)
class Form:
    """A word count and how the loop is set: bound by communication or by computation."""

    topology: str
    options: Mapping[str, Any]
    standby: Mapping[str, int]
    cpu_points: float
    otd: Mapping[str, Any]


FORMS = {
    "communication": Form(
        "wordcount_comm", {"wordcount.rate.tps": 25}, {"count": 27, "split": 4}, 200, {"threshold_asc_tps": 0.5}
    ),
    "computation": Form(
        "wordcount_comp",
        {"wordcount.rate.tps": 20, "wordcount.harmonic.terms": 220_000, "wordcount.shift.period.secs": 86400},
        {"count": 4, "split": 12},
        40,
        {"threshold_asc_tps": 0.5, "cpu_high": 0.9, "cpu_low": 0.75},
    ),
}


def run(form_name: str, arguments: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure Storm's placement, then let the loop move one executor after the other."""
    form = FORMS[form_name]
    watcher: Watcher | None = None
    controller: Controller | None = None
    with TemporaryDirectory() as folder:
        cluster = LocalCluster.up(
            ClusterSpec(name="bench-otd", supervisors=4, slots=4, cpu_points=form.cpu_points), lambda _: None
        )
        try:
            name = f"otd-{form_name}"
            topology_id = submit_topology(
                PROJECT,
                form.topology,
                "standby",
                options={
                    "topology.workers": 4,
                    "topology.acker.executors": 1,
                    "stormpilot.report.secs": 1,
                    **form.options,
                },
                nimbus=str(cluster.nimbus_address),
                override_name=name,
                instrument=True,  # one reporter: those of workers that are gone would count again and again
                standby=form.standby,
            )
            watcher = Watcher(cluster, topology_id, LoadSection(), 0.8)
            until("every task to report", lambda: None if ready(watcher) else watcher.readiness(SETTLE_S).text, START_S)
            time.sleep(SETTLE_S)
            at = len(watcher.ticks)
            rows = [measured(watcher, 0, "Storm's placement", at)]
            say(told(form_name, rows[-1]))
            settings = {
                "zookeeper": {"hosts": cluster.zookeeper_hosts},
                "cycle": {"period_s": 2, "poll_s": 1},
                "load": {"window_s": 10, "settle_s": 3},
                "decide": {
                    "mode": "act",
                    "move_strategy": "rolling",
                    "consecutive_hits": 1,
                    "cool_down_s": 0,
                    "cpu_limit_ratio": 1,
                },
                "rollout": {"task_refresh_s": 3, "step_interval_s": 1, "peer_limit_ratio": 1},
                "otd": {
                    "enabled": True,
                    "period_s": 2,
                    "cool_down_s": 2 * WINDOW_S + SETTLE_S,
                    "switch_cool_down_s": WINDOW_S + SETTLE_S,  # each step is measured before the next one
                    **form.otd,
                },
                "api": {"enabled": False},
            }
            config = write_config(Path(folder) / "otd.yaml", settings)
            controller = Controller("otd", config, Path(folder) / "log")
            known = 0
            while len(rows) <= arguments.steps:
                at = len(watcher.ticks)
                found = plans(cluster, topology_id, known)
                if found is None:
                    say("\n".join((Path(folder) / "log").read_text().splitlines()[-LOG_LINES:]))
                    break
                known, how = found
                time.sleep(SETTLE_S)
                rows.append(measured(watcher, len(rows), how, at))
                say(told(form_name, rows[-1]))
                if form_name == "communication" and rows[-1]["inter_node_share"] < WANTED_SHARE:
                    break
        finally:
            take_down(cluster, controller, watcher)
    return {"form": form_name, "topology": form.topology, "rows": rows, "at": time.strftime("%Y-%m-%d %H:%M")}


def ready(watcher: Watcher) -> bool:
    """Whether every task has reported for a while."""
    return watcher.readiness(SETTLE_S).ready


def plans(cluster: LocalCluster, topology_id: str, known: int) -> tuple[int, str] | None:
    """Wait for the next plan of the loop; how many there are now, and how it was carried out. None: no more came."""
    deadline = time.monotonic() + STEP_S
    while time.monotonic() < deadline:
        entries = [e for e in history(cluster.zookeeper_hosts, topology_id) if not e.rollout_of]
        newest = max((e.plan.created_at_ms for e in entries), default=0)
        if newest > known:
            entry = max(entries, key=lambda e: e.plan.created_at_ms)
            return newest, f"{entry.text}; {entry.move_strategy}" if entry.move_strategy else entry.text
        time.sleep(0.5)
    return None


def measured(watcher: Watcher, step: int, how: str, since: int) -> dict[str, Any]:
    """One row: the traffic between nodes and how busy nodes are after the step, what came out since the step before.

    `since`: number of the reading at which the step before was measured, so that the move itself counts as well.
    """
    window = watcher.window(WINDOW_S, lambda _: None)

    figures, ticks = window.figures, watcher.ticks[max(0, since - 1) :]
    passed_s = (ticks[-1].at_ms - ticks[0].at_ms) / 1000
    busy = [figures["cpu_per_node_percent"][host] for host in working(window.model)]
    return {
        "step": step,
        "how": how,
        "inter_node_share": round(figures["inter_node_share"], 4),
        "inter_node_tps": round(figures["inter_node_tps"], 1),
        "throughput_tps": round(sum(t.completed for t in ticks[1:]) / passed_s, 2),
        "failed": sum(t.failed for t in ticks[1:]),
        "p99_ms": figures["complete_latency_ms"]["p99"],
        "nodes": len(busy),
        "busy_cpu_percent": round(sum(busy) / len(busy), 1) if busy else 0.0,
    }


def working(model: Model) -> list[str]:
    """Hosts with executors of the only topology that get or send tuples."""
    tps: Counter[int] = Counter()
    for edge in model.traffic:
        tps[edge.from_] += edge.rate  # type: ignore[assignment]
        tps[edge.to] += edge.rate  # type: ignore[assignment]
    hosts = {s.id: s.host for s in model.supervisors}
    (topology,) = model.topologies
    return sorted({hosts[a.supervisor] for a in topology.assignment if tps[a.start] > LEAST_TPS})


def told(form: str, row: Mapping[str, Any]) -> str:
    """A row as one line."""
    return (
        f"otd, {form}, step {row['step']}: {row['inter_node_share']:.1%} between nodes, "
        f"{row['throughput_tps']:.1f} sentences/s, {row['nodes']} nodes at {row['busy_cpu_percent']:.0f}%"
        f" ({row['how']})"
    )


def judged(result: Mapping[str, Any]) -> list[str]:
    """Targets of a form, and whether they were reached; a line each."""
    rows: Sequence[Mapping[str, Any]] = result["rows"]
    first, last = rows[0], rows[-1]
    start = first["throughput_tps"]
    least = min(r["throughput_tps"] for r in rows) / start if start else 0.0
    name = f"otd, {result['form']}"
    lines = [f"{name}: throughput at least {least:.0%} of the start's (wanted 80%)" + _mark(least >= WANTED_THROUGHPUT)]
    if result["form"] == "communication":
        reached = last["inter_node_share"] < WANTED_SHARE and last["step"] <= MOST_STEPS
        lines.append(
            f"{name}: {first['inter_node_share']:.1%} of the tuples between nodes at first, "
            f"{last['inter_node_share']:.1%} after {last['step']} steps (wanted < 6% within {MOST_STEPS})"
            + _mark(reached)
        )
    else:
        highest = max(rows, key=lambda r: float(r["busy_cpu_percent"]))
        rises = highest["busy_cpu_percent"] > first["busy_cpu_percent"]
        lines.append(
            f"{name}: busy nodes at {first['busy_cpu_percent']:.0f}% of their CPU at first, "
            f"{highest['busy_cpu_percent']:.0f}% after {highest['step']} steps (wanted more)" + _mark(rises)
        )
    return lines


def markdown(result: Mapping[str, Any]) -> list[str]:
    """The steps as a page has them."""
    form = FORMS[result["form"]]
    return [
        f"## One task at a time: {result['topology']}",
        "",
        f"Four supervisors of {form.cpu_points:g}% of a core each, `-e standby --standby "
        + " --standby ".join(f"{c}={n}" for c, n in form.standby.items())
        + "`, one acker, `decide.move_strategy: rolling`.",
        "Sentences/s and failed count from one step to the next, the move included; the rest is measured after it.",
        "Nodes are those on which tuples flow, CPU is that of their processes.",
        "",
        "| step | between nodes | tuples/s | sentences/s | failed | p99 | nodes | their CPU | why |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---|",
        *(
            f"| {r['step']} | {r['inter_node_share']:.1%} | {r['inter_node_tps']:,.0f} | {r['throughput_tps']:.1f} "
            f"| {r['failed']} | {_ms(r['p99_ms'])} | {r['nodes']} | {r['busy_cpu_percent']:.0f}% | {r['how']} |"
            for r in result["rows"]
        ),
        "",
        *(f"- {line}" for line in judged(result)),
        "",
    ]


def checked(name: str) -> str:
    """A form by its name; `UnreachableError` lists those there are."""
    if name not in FORMS:
        raise UnreachableError(f"{name!r} is no form of the word count; there are {', '.join(FORMS)}")
    return name


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"


def _mark(good: bool) -> str:
    return "" if good else ", missed"
