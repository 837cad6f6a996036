"""The demo, stage by stage: Storm's placement measured, the controller's plan applied, measured again, reported."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import console, exit_with, resumable, say, until
from benchmarks.demo import repeated
from benchmarks.demo import report as reporting
from benchmarks.demo.measure import WINDOW_S, Tick, Watcher, Window
from benchmarks.demo.page import page
from flight_delays.progress import Progress
from stormpilot import config as configuration
from stormpilot.cli.files import read_model
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.core import PlanMessage, TopologySnapshot
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import metrics
from stormpilot.model.flow.model import predicted
from stormpilot.model.values import Plan, TopologyPlan
from stormpilot.planner.methods.exact import optimum
from stormpilot.submit import submit_topology
from stormpilot.trafficlog import models

REPOSITORY = Path(__file__).resolve().parents[2]
OUT = REPOSITORY / "build" / "demo"
CLUSTER = "demo"
TOPOLOGY = "flights"
RATE_TPS = 100
"""Two slow cores do this, Storm and all; what the report compares are parts of it."""
DECLARED = {"cpu_points": 200, "memory_mb": 1280}
"""Of each supervisor, whatever this machine has. Memory for ten executors: the job needs three of the four nodes. CPU
for more than they use, on a slow machine too: what is measured changes with the machine, what can be won does not."""
SETTLED_TPS_RATIO = 0.95
SETTLED_S = 5
HELD_S = 20
PATIENCE_S = 600.0
"""Of every wait: only what is broken takes so long, not a machine that is slow or busy."""
OPTIMUM_BUDGET_S = 120.0
CONTROLLER_YAML = """\
# Written by `make demo`: a controller in a hurry, for a cluster on this machine. Production wants the defaults.
zookeeper: {{hosts: "{hosts}"}}
cycle: {{period_s: 3, poll_s: 1}}
load: {{window_s: 20, settle_s: 5}}
planner: {{budget_s: 5, seed: 1}}
decide: {{mode: act, consecutive_hits: 2, gain_threshold_ratio: 0.1, cool_down_s: 600}}
traffic_log: {{dir: {log_dir}}}
"""


@dataclass(frozen=True)
class Run:
    """Measurements: windows before and after the plan, the move in between (ms since 1970), what spouts did."""

    before: Window
    after: Window
    plan: PlanMessage
    submitted_ms: int
    move_ms: tuple[int, int]
    emitted: int
    progress: Progress


def main() -> int:
    """Run the demo; 0 when the measured inter-node traffic fell, of repeated runs when every node kept its limit."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the cluster and the controller up (make demo KEEP=1)")
    parser.add_argument("--cpu-points", type=int, default=DECLARED["cpu_points"], help="that each supervisor declares")
    parser.add_argument("--runs", type=int, help="make bench-demo: how many, with those made before; no report is kept")
    resumable(parser, "docs/results/demo.md")
    arguments = parser.parse_args()
    points: int = arguments.cpu_points
    if arguments.runs is not None or arguments.report:
        return repeated.main(arguments, lambda: demo(points, keep=False))
    report = demo(points, keep=arguments.keep)
    print()
    reporting.show(report)
    print(f"\n{OUT / 'report.html'}\n{OUT / 'report.json'}")
    return 0 if report["after"]["inter_node_tps"] < report["before"]["inter_node_tps"] else 1


def demo(cpu_points: int, *, keep: bool) -> dict[str, Any]:
    """One run; its report is written to `build/demo`, too."""
    OUT.mkdir(parents=True, exist_ok=True)
    cluster: LocalCluster | None = None
    controller: subprocess.Popen[bytes] | None = None
    kept = False
    try:
        declared = {**DECLARED, "cpu_points": cpu_points}
        cluster = LocalCluster.up(ClusterSpec(name=CLUSTER, supervisors=4, slots=4, conf=PATIENT, **declared), say)
        say(f"a Storm cluster is up: 4 supervisors x 4 slots, Nimbus {cluster.nimbus_host}:{cluster.nimbus_port}")
        config = _controller_config(cluster)
        topology_id = submit_topology(
            REPOSITORY / "topologies",
            TOPOLOGY,
            "local",
            options={"topology.workers": 8, "flights.rate.tps": RATE_TPS, "stormpilot.report.secs": 1},
            nimbus=f"{cluster.nimbus_host}:{cluster.nimbus_port}",
        )
        submitted_ms = _now_ms()
        say(f"submitted {topology_id}; no controller runs, so Storm's own scheduler places it")
        settings = configuration.load(config)
        watcher = Watcher(cluster, topology_id, settings.load, settings.decide.cpu_limit_ratio)
        with closing(watcher):
            _steady(watcher, "the job starts")
            before = _measured(watcher, "before")
            move_from_ms = _now_ms()
            controller = _start_controller(config)
            say("started the controller in mode act")
            plan = _applied(watcher, controller)
            _steady(watcher, "the moved executors start", before.figures["throughput_tps"])
            move_ms = (move_from_ms, _now_ms())
            emitted = watcher.progress().emitted
            after = _measured(watcher, "after")
            _accounted(watcher, emitted)
            run = Run(before, after, plan, submitted_ms, move_ms, emitted, watcher.progress())
        report = _report(run, cluster, watcher.ticks, settings.decide.cpu_limit_ratio)
        (OUT / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        (OUT / "report.html").write_text(page(report))
        kept = keep
        return report
    finally:
        _end(cluster, controller, kept)


def _report(run: Run, cluster: LocalCluster, ticks: list[Tick], cpu_limit_ratio: float) -> dict[str, Any]:
    """Both placements, the way between them, and the distance to the proved optimum."""
    before, after, plan = run.before, run.after, run.plan
    planned_on = read_model(OUT / "traffic" / models.FOLDER / f"{plan.plan_id}.json")
    expected_model = predicted(planned_on, _placement(plan))  # the traffic as shuffles send it under the plan
    best = optimum(expected_model, OPTIMUM_BUDGET_S)
    compiled = compile_model(expected_model)
    planned = metrics(compiled, compiled.slots_of(_placement(plan)))
    host = {s.id: s.host for s in cluster.description.supervisors}
    moved = reporting.moved_executors(before, after, expected_model)
    return {
        "before": before.figures,
        "after": after.figures,
        "optimum_inter_node_tps": best.value if best.proved else best.bound,
        "optimum_proved": best.proved,
        "plan_inter_node_tps": planned["inter_node_tps"],
        "gap_to_optimum": reporting.gap(planned["inter_node_tps"], best.value if best.proved else best.bound),
        "busiest_node": reporting.busiest(after, expected_model, cpu_limit_ratio),
        "moves": len(moved),
        "executors": len(before.snapshot.executors),
        "restarted_workers": _restarted(before.snapshot, after.snapshot),
        "downtime_s": reporting.downtime_s(ticks, *run.move_ms, before.figures["throughput_tps"]),
        "lost": max(0, run.emitted - run.progress.committed),
        "replayed": run.progress.replayed,
        "reason": plan.reason,
        "plan_id": plan.plan_id,
        "planner": plan.planner,
        "moved": moved,
        "placement": {
            "before": reporting.placement(before.snapshot, host),
            "after": reporting.placement(after.snapshot, host),
        },
        "timeline": reporting.timeline(ticks, run.submitted_ms),
        "phases": {
            name: [(a - run.submitted_ms) / 1000, (b - run.submitted_ms) / 1000]
            for name, a, b in (
                ("before", before.from_ms, before.to_ms),
                ("move", *run.move_ms),
                ("after", after.from_ms, after.to_ms),
            )
        },
        "how": reporting.how(cluster.description.storm_version, plan),
    }


def _until(what: str, missing: Callable[[], str | None]) -> None:
    with console.status(what) as status:
        until(what, missing, PATIENCE_S, lambda text: status.update(f"{what}: {text}"))


def _measured(watcher: Watcher, what: str) -> Window:
    """A measured window, with a count-down."""
    with console.status(what) as status:
        window = watcher.window(WINDOW_S, lambda left: status.update(f"{what}: {left:.0f} s left"))
    f = window.figures
    say(
        f"{what}: {f['inter_node_tps']:,.0f} of {f['total_tps']:,.0f} tuples/s between nodes "
        f"({f['inter_node_share']:.0%}), latency p50 {f['complete_latency_ms']['p50'] or 0:,.0f} ms"
    )
    return window


def _controller_config(cluster: LocalCluster) -> Path:
    log_dir = OUT / "traffic"
    shutil.rmtree(log_dir, ignore_errors=True)
    file = OUT / "controller.yaml"
    file.write_text(CONTROLLER_YAML.format(hosts=cluster.zookeeper_hosts, log_dir=log_dir))
    return file


def _start_controller(config: Path) -> subprocess.Popen[bytes]:
    stormpilot = Path(sys.executable).with_name("stormpilot")
    with (OUT / "controller.log").open("wb") as log:
        return subprocess.Popen([stormpilot, "run", config], stdout=log, stderr=log, start_new_session=True)


def _steady(watcher: Watcher, what: str, usual_tps: float | None = None) -> None:
    """Wait until every task reports and throughput has its usual level, or, without one, no longer grows.

    Where others use the machine too, the usual level may be gone: one that has held for `HELD_S` will do then.
    """

    def missing() -> str | None:
        readiness = watcher.readiness(SETTLED_S * 2)
        if not readiness.ready:
            return readiness.text
        now, earlier = watcher.throughput_tps(SETTLED_S), watcher.throughput_tps(SETTLED_S * 2)
        wanted = (earlier,) if usual_tps is None else (usual_tps, watcher.throughput_tps(HELD_S))
        if not any(w and SETTLED_TPS_RATIO <= now / w <= 1 / SETTLED_TPS_RATIO for w in wanted):
            return f"{now:,.0f} tuples/s" + (f" of {wanted[0]:,.0f}" if wanted[0] else "")
        return None

    _until(what, missing)
    say(f"steady at {watcher.throughput_tps(SETTLED_S):,.0f} tuples/s")


def _applied(watcher: Watcher, controller: subprocess.Popen[bytes]) -> PlanMessage:
    """Wait until Nimbus has applied a plan."""

    def missing() -> str | None:
        if controller.poll() is not None:
            raise UnreachableError(f"the controller ended with {controller.returncode}; see {OUT / 'controller.log'}")
        status = watcher.seen.statuses.get(watcher.topology_id) if watcher.seen else None
        if status is not None and status.state == "applied" and status.plan_id:
            return None
        state = watcher.seen.controller if watcher.seen else None
        sentence = state.topologies[0].sentence if state and state.topologies else "no cycle yet"
        return sentence if status is None else f"{sentence}; Nimbus: {status.state}"

    _until("the controller measures and plans", missing)
    assert watcher.seen is not None
    plan = watcher.seen.plans[watcher.topology_id].message
    if plan is None:
        raise UnreachableError("the applied plan cannot be read")
    say(f"plan {plan.plan_id} applied: {plan.reason}")
    return plan


def _accounted(watcher: Watcher, emitted: int) -> None:
    """Wait until the spouts have committed all that was emitted up to the end of the move."""

    def missing() -> str | None:
        left = emitted - watcher.progress().committed
        return None if left <= 0 else f"{left} tuples are not acked yet"

    _until("every tuple from before and during the move is acked", missing)


def _placement(plan: PlanMessage) -> Plan:
    return Plan(topologies=[TopologyPlan(id=plan.topology_id, workers=plan.workers)])


def _restarted(before: TopologySnapshot, after: TopologySnapshot) -> int:
    """Workers of the new placement that did not run before with just these executors."""

    def workers(snapshot: TopologySnapshot) -> set[tuple[Any, ...]]:
        held: dict[tuple[str | None, int | None], list[int]] = {}
        for e in snapshot.executors:
            held.setdefault((e.supervisor, e.port), []).append(e.start)
        return {(*slot, *sorted(starts)) for slot, starts in held.items()}

    return len(workers(after) - workers(before))


def _end(cluster: LocalCluster | None, controller: subprocess.Popen[bytes] | None, kept: bool) -> None:
    if kept and cluster is not None and controller is not None:
        say(
            f"kept: .venv/bin/stormpilot local status --name {CLUSTER}\n"
            f"         .venv/bin/stormpilot status --zookeeper {cluster.zookeeper_hosts}\n"
            f"         controller: process {controller.pid}, log {OUT / 'controller.log'}\n"
            f"         end it all: kill {controller.pid}; .venv/bin/stormpilot local down --name {CLUSTER}"
        )
        return
    if controller is not None and controller.poll() is None:
        controller.terminate()
        try:
            controller.wait(10.0)
        except subprocess.TimeoutExpired:
            controller.kill()
            controller.wait()
    if cluster is not None:
        cluster.down()
        say("the cluster is down, no process is left")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    exit_with("demo", main)
