"""One task at a time, on the word counts of the N-Storm paper: what goes between nodes and comes out.

As published: two nodes with four workers each, 12 tasks that split and 24 that count, a source that sends as fast as
it may. As many of both stand by: Storm's scheduler deals tasks out by number, round and round, so that the numbers
below say where source and acker are, which cannot be switched: on one node. The paper's input is a client's calls, so
the sentences under way are few on the communication-bound one: what it gains is shorter ways, not more CPU.
"""

from __future__ import annotations

import argparse
import itertools
import os
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.command import cpu_name, until
from benchmarks.control.live import Controller, history, take_down, write_config
from benchmarks.demo.measure import Watcher, quantile
from benchmarks.headlines.phases import LATE_S, mean_ms
from stormpilot.config import LoadSection
from stormpilot.errors import UnreachableError
from stormpilot.instrument.partitions import partition_of
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec, NodeSpec
from stormpilot.messages.routes import PARTITIONS_PER_TASK
from stormpilot.submit import submit_topology
from word_count.sentences import topic_name
from word_count.settings import Settings
from word_count.work import HotTopics

PROJECT = Path(__file__).resolve().parents[2] / "topologies"
NODES, SLOTS = 2, 4
MOST_STEPS = 61
"""The paper's steps until its communication-bound word count changes no more."""
IDLE = "topology.bolt.wait.progressive.level3.sleep.millis"
"""75 tasks that look for tuples every ms, as is Storm's default, take most of these nodes."""
UNCAPPED_TPS = 100_000
TASKS = {"split": 12, "count": 24}
"""The paper's, which the environment `standby` of the topologies has."""
SPARE = {"count": 25, "split": 12}
"""Tasks that stand by: one acker, 24 + 25 tasks that count, and the source is on the acker's node."""
WINDOW_S, LONG_S = 15.0, 30.0
"""Seconds that are measured after a step; before the first and after the last one."""
SETTLE_S = 8.0
SHIFT_S = 600
"""After so long, or up to twice that, other topics are hot."""
CHANGED = "other topics are hot by now"
STEP_S = 120.0
"""A loop that has found nothing to move for so long is done."""
LOG_LINES = 6
"""Of the controller's, which say why."""
START_S = 600.0


@dataclass(frozen=True)
class Form:
    """A word count and how the loop is set: bound by communication or by computation."""

    topology: str
    note: str
    node: NodeSpec
    options: Mapping[str, Any]
    otd: Mapping[str, Any]


FORMS = {
    "communication": Form(
        "wordcount_comm",
        "The link is what limits: Storm's placement sends half of all tuples over it.",
        NodeSpec(cores=1.0, mbit=2.0),
        {
            IDLE: 5,
            "topology.max.spout.pending": 1,
            "wordcount.call.sentences": 1,
            "wordcount.word.bytes": 1000,
        },
        {"cpu_high": 0.95, "cpu_low": 0.9},
    ),
    "computation": Form(
        "wordcount_comp",
        "Seed and time are such that all topics that are hot at first come to tasks of one node; later others are hot. "
        "The source fills both nodes in the end, of which one is above half at first by what runs on it and has little "
        "to do (37 Python processes, four JVMs). No worker is low then, and a move for traffic alone needs one: those "
        "made here are all for load. Of an overloaded worker goes the task with the largest ASC and not the one with "
        "the most load, as published: some that do little may go before one that is hot.",
        NodeSpec(cores=0.7, mbit=200.0),
        {
            IDLE: 20,
            "topology.max.spout.pending": 40,
            "wordcount.call.sentences": 1,
            "wordcount.harmonic.terms": 50_000,
            "wordcount.hot.share": 0.0625,
            "wordcount.hot.factor": 32,
        },
        {"cpu_high": 0.9, "cpu_low": 0.8},
    ),
}


def run(form_name: str, arguments: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure Storm's placement, then let the loop move one executor after the other."""
    form = FORMS[form_name]
    watcher: Watcher | None = None
    controller: Controller | None = None
    with TemporaryDirectory() as folder:
        cluster = LocalCluster.up(
            ClusterSpec(
                name="bench-otd",
                supervisors=NODES,
                slots=SLOTS,
                hook=True,
                isolate=True,
                nodes=(form.node,) * NODES,
            ),
            lambda _: None,
        )
        try:
            name = f"otd-{form_name}"
            options = {**form.options, **(uneven(form.options) if form_name == "computation" else {})}
            period_s = options.get("wordcount.shift.period.secs")
            changes_s = (time.time() // period_s + 1) * period_s if period_s else 0.0
            topology_id = submit_topology(
                PROJECT,
                form.topology,
                "standby",
                options={
                    "topology.workers": NODES * SLOTS,
                    "topology.acker.executors": 1,
                    # Tuples are dealt out evenly, as by the paper's Storm: that of today prefers tasks nearby itself.
                    "topology.disable.loadaware.messaging": True,
                    "stormpilot.report.secs": 1,
                    "wordcount.rate.tps": UNCAPPED_TPS,
                    **options,
                },
                nimbus=str(cluster.nimbus_address),
                override_name=name,
                instrument=True,  # one reporter: those of workers that are gone would count again and again
                standby=SPARE,
            )
            watcher = Watcher(cluster, topology_id, LoadSection(), 0.8)
            until("every task to report", lambda: None if ready(watcher) else watcher.readiness(SETTLE_S).text, START_S)
            time.sleep(SETTLE_S)
            rows = [measured(watcher, 0, "Storm's placement", len(watcher.ticks), LONG_S)]
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
                    "switch_cool_down_s": WINDOW_S + SETTLE_S + LATE_S,  # each step is measured before the next one
                    **form.otd,
                },
                "api": {"enabled": False},
            }
            config = write_config(Path(folder) / "otd.yaml", settings)
            controller = Controller("otd", config, Path(folder) / "log")
            known = 0
            while rows[-1]["step"] < arguments.steps:
                at = len(watcher.ticks)
                found = plans(cluster, topology_id, known)
                step, changed = rows[-1]["step"], changes_s and (found is None or time.time() > changes_s)
                if found is None and not changed:
                    say("\n".join((Path(folder) / "log").read_text().splitlines()[-LOG_LINES:]))
                    break
                if found is None:
                    time.sleep(max(0.0, changes_s - time.time()))
                    how = CHANGED
                else:
                    known, how = found
                    how, step = f"{how}; {CHANGED}" if changed else how, step + 1
                changes_s = 0.0 if changed else changes_s
                time.sleep(SETTLE_S)
                rows.append(measured(watcher, step, how, at))
                say(told(form_name, rows[-1]))
            rows.append(measured(watcher, rows[-1]["step"], "as it stays", len(watcher.ticks), LONG_S))
            say(told(form_name, rows[-1]))
        finally:
            take_down(cluster, controller, watcher)
    at_utc = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    told_once = {"at": at_utc, "load_average": round(os.getloadavg()[0], 1), "cpu": cpu_name()}
    return {"form": form_name, "topology": form.topology, "rows": rows, **told_once}


def uneven(options: Mapping[str, Any]) -> dict[str, Any]:
    """Seed and period of hot topics that all come to tasks of one node at first, and change in that many seconds."""
    now_s = time.time()
    period_s = next(p for p in range(SHIFT_S, 2 * SHIFT_S) if now_s % p < SHIFT_S / 10)
    found = ({"wordcount.seed": seed, "wordcount.shift.period.secs": period_s} for seed in itertools.count(1))
    return next(f for f in found if _on_one_node(Settings.from_storm_conf({**options, **f}), now_s))


def _on_one_node(settings: Settings, now_s: float) -> bool:
    """Whether hot topics come to different tasks that split, all on the same node."""
    names = [topic_name(n) for n in range(settings.topics)]
    topics, tasks = HotTopics(settings), TASKS["split"]
    hot = [name for name in names if topics.terms(name, now_s) > settings.harmonic_terms]
    owners = {partition_of([name], tasks * PARTITIONS_PER_TASK) % tasks for name in hot}
    return len(owners) == len(hot) and len({owner % NODES for owner in owners}) == 1


def ready(watcher: Watcher) -> bool:
    """Whether every task has reported for a while."""
    return watcher.readiness(SETTLE_S).ready


def plans(cluster: LocalCluster, topology_id: str, known: int) -> tuple[int, str] | None:
    """Wait for the next plan of the loop; when it was made (ms), and why. None: no more came."""
    deadline = time.monotonic() + STEP_S
    while time.monotonic() < deadline:
        entries = [e for e in history(cluster.zookeeper_hosts, topology_id) if not e.rollout_of]
        newest = max((e.plan.created_at_ms for e in entries), default=0)
        if newest > known:
            entry = max(entries, key=lambda e: e.plan.created_at_ms)
            return newest, entry.text
        time.sleep(0.5)
    return None


def measured(watcher: Watcher, step: int, how: str, since: int, seconds: float = WINDOW_S) -> dict[str, Any]:
    """One row: traffic between nodes, throughput, latency and how busy nodes are after the step.

    `since`: number of the reading at which the step before was measured: what came out from then on counts the move.
    """
    window = watcher.window(seconds, lambda _: None)
    time.sleep(LATE_S)
    done = watcher.completed(window.from_ms, window.to_ms)
    if not done.latency:
        raise UnreachableError(f"{watcher.topology_id}: no sentence was acked in a window")
    figures, ticks = window.figures, watcher.ticks[max(0, since - 1) :]
    passed_s = (ticks[-1].at_ms - ticks[0].at_ms) / 1000
    busy = figures["cpu_per_node_percent"]
    return {
        "step": step,
        "how": how,
        "inter_node_share": round(figures["inter_node_share"], 4),
        "inter_node_tps": round(figures["inter_node_tps"], 1),
        "throughput_tps": round(done.tps, 2),
        "with_move_tps": round(sum(t.completed for t in ticks[1:]) / passed_s, 2),
        "failed": sum(t.failed for t in ticks[1:]),
        "mean_ms": round(mean_ms(done.latency), 2),
        "p99_ms": quantile(done.latency, 0.99),
        "cpu_percent": [round(busy[host], 1) for host in sorted(busy)],
    }


def told(form: str, row: Mapping[str, Any]) -> str:
    """A row as one line."""
    return (
        f"otd, {form}, step {row['step']}: {row['inter_node_share']:.1%} between nodes, {row['throughput_tps']:.1f} "
        f"sentences/s in {row['mean_ms']:.1f} ms, nodes at {_cpu(row)} ({row['how']})"
    )


@dataclass(frozen=True)
class Claim:
    """Claim of the paper, what is measured here, and whether that is as much."""

    what: str
    here: str
    claimed: str
    reached: bool


def claims(result: Mapping[str, Any]) -> list[Claim]:
    """Claims of the paper for a form: the last row against the first."""
    rows: Sequence[Mapping[str, Any]] = result["rows"]
    first, last = rows[0], rows[-1]
    share = f"{first['inter_node_share']:.1%} at first, {last['inter_node_share']:.1%} after {last['step']} steps"
    faster = last["throughput_tps"] / first["throughput_tps"] - 1
    if result["form"] == "communication":
        later = last["mean_ms"] / first["mean_ms"] - 1
        near = last["inter_node_share"] < 0.06 and last["step"] <= MOST_STEPS
        return [
            Claim("tuples between nodes", share, f"50% to < 6% within {MOST_STEPS} steps", near),
            Claim("throughput", f"{faster:+.0%}", "+19%", faster >= 0.19),
            Claim("mean latency", f"{later:+.0%}", "-14%", later <= -0.14),
        ]
    used = mean_cpu(last) / mean_cpu(first) - 1
    busy = f"{used:+.0%} ({mean_cpu(first):.0f}% to {mean_cpu(last):.0f}%)"
    return [
        Claim("mean CPU of the nodes", busy, "+51% (51% to 77%)", used >= 0.51),
        Claim("throughput", f"{faster:+.0%}", "+14%", faster >= 0.14),
        Claim("tuples between nodes", share, "50% to < 20%", last["inter_node_share"] < 0.2),
    ]


def judged(result: Mapping[str, Any]) -> list[str]:
    """Claims of the paper for a form, a line each."""
    return [
        f"otd, {result['form']}, {c.what}: {c.here} (claimed {c.claimed}){'' if c.reached else ', missed'}"
        for c in claims(result)
    ]


def mean_cpu(row: Mapping[str, Any]) -> float:
    """Mean over the nodes, in percent of what they have."""
    return float(sum(row["cpu_percent"]) / len(row["cpu_percent"]))


def markdown(result: Mapping[str, Any]) -> list[str]:
    """The steps as a page has them."""
    form = FORMS[result["form"]]
    options = ", ".join(f"`{key}: {value}`" for key, value in form.options.items())
    return [
        f"## One task at a time: {result['topology']}",
        "",
        *textwrap.wrap(
            f"{NODES} isolated nodes of {form.node.cores:g} cores and {form.node.mbit:g} Mbit/s, {SLOTS} workers each, "
            f"on a machine of 2 cores ({result['cpu']}; {result['at']} UTC, load average {result['load_average']} at "
            f"the end); {TASKS['split']} tasks that split, {TASKS['count']} that count, one source that sends as fast "
            f"as it may ({options}), one acker, even shuffle; "
            + ", ".join(f"{n} more tasks `{c}`" for c, n in SPARE.items())
            + " stand by. Each step gives the tuples of one task to one that stands by on the other node. Sentences/s, "
            f"latency and CPU are those of {WINDOW_S:g} s after the step ({LONG_S:g} s in the first and the last row); "
            f"with the move: sentences/s from the measurement before. {form.note}",
            width=118,
            break_long_words=False,
            break_on_hyphens=False,
        ),
        "",
        "| step | between nodes | tuples/s | sentences/s | with the move | failed | mean | p99 | CPU of nodes | why |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---|---|",
        *(
            f"| {r['step']} | {r['inter_node_share']:.1%} | {r['inter_node_tps']:,.0f} | {r['throughput_tps']:.1f} "
            f"| {r['with_move_tps']:.1f} | {r['failed']} | {_ms(r['mean_ms'])} | {_ms(r['p99_ms'])} | {_cpu(r)} "
            f"| {r['how']} |"
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
    return "" if value is None else f"{value:,.1f} ms"


def _cpu(row: Mapping[str, Any]) -> str:
    return " and ".join(f"{share:.0f}%" for share in row["cpu_percent"])
