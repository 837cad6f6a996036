"""The demo's findings: `report.json`, the table on the screen, and what the page is drawn from."""

from __future__ import annotations

import itertools
import os
import platform
from collections import defaultdict
from typing import Any

import stormpilot
from benchmarks.demo.measure import Tick, Window, quantile
from benchmarks.demo.page import ROWS, metric
from stormpilot.cli.output import print_table
from stormpilot.messages.core import PlanMessage, TopologySnapshot
from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import Model

DOWN_BELOW = 0.5
"""A second counts as lost throughput when fewer than this part of the tuples before are acked in it."""


def moved_executors(before: Window, after: Window, planned: Model) -> list[dict[str, Any]]:
    """Executors that changed their worker's slot or node, each with the traffic that decided it.

    `why` compares the tuples/s that an executor exchanges with executors on its own node: before, as measured, and
    after, as the flow model that the plan was made with predicts it (`planned`): shuffles send to near executors, so
    that what was measured before tells nothing about after.
    """
    was, now = _places(before.snapshot), _places(after.snapshot)
    host = {s.id: s.host for s in before.model.supervisors} | {s.id: s.host for s in after.model.supervisors}
    measured, predicted = _peers(before.model), _peers(planned)
    moved = []
    for e in before.snapshot.executors:
        if was[e.start] == now.get(e.start):
            continue
        local_before, total_before = _kept(measured[e.start], was, e.start)
        local_after, total_after = _kept(predicted[e.start], now, e.start)
        moved.append(
            {
                "start": e.start,
                "component": e.component,
                "from": _slot(was[e.start], host),
                "to": _slot(now[e.start], host),
                "local_tps_before": local_before,
                "local_tps_after": local_after,
                "why": f"{local_before:,.0f} of its {total_before:,.0f} tuples/s stayed on its node, "
                f"with the plan {local_after:,.0f} of {total_after:,.0f}",
            }
        )
    return moved


def _peers(model: Model) -> defaultdict[int, dict[int, float]]:
    """Tuples/s that executors exchange, by first task."""
    peers: defaultdict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for edge in model.traffic:
        peers[edge.from_][edge.to] += edge.rate
        peers[edge.to][edge.from_] += edge.rate
    return peers


def _kept(tps: dict[int, float], at: dict[int, tuple[str, int]], start: int) -> tuple[float, float]:
    """Traffic of an executor within its node, and in all."""
    node = at[start][0]
    return sum(t for peer, t in tps.items() if peer in at and at[peer][0] == node), sum(tps.values())


def placement(snapshot: TopologySnapshot, host: dict[str, str]) -> list[dict[str, Any]]:
    """Workers with their executors, for the picture."""
    workers: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for e in snapshot.executors:
        if e.supervisor is not None and e.port is not None:
            workers[e.supervisor, e.port].append({"start": e.start, "component": e.component})
    return [
        {"supervisor": s, "host": host.get(s, s), "port": port, "executors": executors}
        for (s, port), executors in sorted(workers.items())
    ]


def busiest(after: Window, planned: Model, limit_ratio: float) -> dict[str, Any]:
    """The node that uses most of its CPU: as measured after the move, and as the plan predicted it; of B(n) too."""
    measured: dict[str, float] = after.figures["cpu_per_node_percent"]
    host = max(sorted(measured), key=lambda h: measured[h])
    load_mhz = node_load_mhz(planned)
    predicted = {s.host: 100 * load_mhz[s.id] / s.cpu_mhz for s in planned.supervisors}
    limit = 100 * limit_ratio
    return {
        "host": host,
        "cpu_percent": measured[host],
        "predicted_percent": predicted.get(host, 0.0),
        "predicted_busiest_percent": max(predicted.values(), default=0.0),
        "limit_percent": limit,
        "within_limit": measured[host] <= limit,
    }


def timeline(ticks: list[Tick], zero_ms: int) -> list[dict[str, Any]]:
    """One point per reading, `t_s` since `zero_ms`; percentiles only where tuples were acked."""
    return [
        {
            "t_s": (b.at_ms - zero_ms) / 1000,
            "throughput_tps": b.completed * 1000 / max(1, b.at_ms - a.at_ms),
            "failed": b.failed,
            "latency_p50_ms": quantile(b.latency, 0.50),
            "latency_p99_ms": quantile(b.latency, 0.99),
        }
        for a, b in itertools.pairwise(ticks)
    ]


def downtime_s(ticks: list[Tick], from_ms: int, to_ms: int, usual_tps: float) -> float:
    """Seconds between two times in which throughput was below half of what was usual before."""
    lost_ms = 0
    for a, b in itertools.pairwise(ticks):
        span_ms = b.at_ms - a.at_ms
        if from_ms < b.at_ms <= to_ms and b.completed * 1000 < DOWN_BELOW * usual_tps * span_ms:
            lost_ms += span_ms
    return lost_ms / 1000


def gap(plan_tps: float, optimum_tps: float) -> float:
    """By which part the plan is above the optimum; 0 when both are 0."""
    if optimum_tps > 0:
        return (plan_tps - optimum_tps) / optimum_tps
    return 0.0 if plan_tps <= 1e-9 else float("inf")


def how(storm_version: str, plan: PlanMessage) -> str:
    """Placements of the runs, in a sentence."""
    return (
        f"stormpilot {stormpilot.__version__}, Storm {storm_version}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores; topology flights; planner {plan.planner}, seed {plan.seed}. Traffic and latency are "
        "counted inside the components; tuples to and from ackers are derived from the acks that the components sent. "
        "CPU per node is that of all worker processes, as a part of what the node declares, whatever this machine has."
    )


def show(report: dict[str, Any]) -> None:
    """Print the table and the sentences that go with it."""
    rows = []
    for key, label, unit, digits, _ in ROWS:
        a, b = metric(report["before"], key), metric(report["after"], key)
        change = f"{(b - a) / a:+.0%}" if a and b is not None else ""
        rows.append([label, *(("-" if v is None else f"{v:,.{digits}f}") for v in (a, b)), change, unit])
    cpu = [report[side]["cpu_per_node_percent"] for side in ("before", "after")]
    for host in sorted(cpu[0]):
        rows.append([f"CPU of {host}", *(f"{side[host]:.0f}" for side in cpu), "", "% of declared"])
    print_table(["", "Storm's scheduler", "stormpilot", "change", ""], rows)
    busy = report["busiest_node"]
    print(
        f"\nbusiest node: {busy['host']} at {busy['cpu_percent']:.0f}% of its CPU, predicted "
        f"{busy['predicted_percent']:.0f}%; its limit is {busy['limit_percent']:.0f}%, "
        + ("kept" if busy["within_limit"] else "exceeded")
    )
    proved = "proved optimum" if report["optimum_proved"] else "best proved bound"
    print(
        f"\nmoved {report['moves']} of {report['executors']} executors; workers restarted: "
        f"{report['restarted_workers']}; throughput below half for {report['downtime_s']:.0f} s; "
        f"tuples lost for good: {report['lost']} ({report['replayed']} replayed)\n"
        f"inter-node traffic of the plan, for the traffic predicted for it: {report['plan_inter_node_tps']:,.0f} "
        f"tuples/s; {proved}: {report['optimum_inter_node_tps']:,.0f} (gap {report['gap_to_optimum']:z.1%})"
    )


def _places(snapshot: TopologySnapshot) -> dict[int, tuple[str, int]]:
    return {
        e.start: (e.supervisor, e.port) for e in snapshot.executors if e.supervisor is not None and e.port is not None
    }


def _slot(place: tuple[str, int], host: dict[str, str]) -> str:
    return f"{host.get(place[0], place[0])}:{place[1]}"
