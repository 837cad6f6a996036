"""The linear micro topology sized by the models, carried out by `apply-size`, and fed around its prediction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from streamparse import Grouping
from streamparse.dsl.topology import Topology, TopologyType

from micro_tasks.file_write import BatchFileWrite
from micro_tasks.parse_xml import ParseXml
from micro_tasks.pi import Pi
from stormpilot.errors import UnreachableError
from stormpilot.instrument.trial import TrialSource
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec, NodeSpec
from stormpilot.observe.reader import Reader
from stormpilot.operate.placing import await_snapshot
from stormpilot.sizing.allocation import allocate
from stormpilot.sizing.prediction import predict
from stormpilot.sizing.problem import Component, Problem, Static, Stream, VmSize
from stormpilot.sizing.profiling import RateGrid, Rules, Trial, search
from stormpilot.submit.assembly import assemble
from stormpilot.submit.options import resolve_options
from stormpilot.submit.project import Project
from stormpilot.submit.submission import Submission, default_runner, send
from stormpilot.trials.feeder import Feeder, Times
from stormpilot.zookeeper.client import connect
from stormpilot.zookeeper.paths import Paths

CLUSTER = "bench-profile-linear"
NAME = "linear"
NODES = 4
RATE_PART = 0.9
"""The topology is sized for this part of what one slot of the slowest task sustains."""
SOURCE = Static(threads=1, cpu_share=0.6, memory_share=0.2)
GRID_STEP = 0.05
PLACED_S = 180.0


def problem_of(models: dict[str, Problem]) -> Problem:
    """The linear topology on the measured models; rated by the slowest task."""
    first = next(iter(models.values()))
    slowest = min(p.models[0].best.rate_tps for p in models.values())
    names = list(models)
    components = [Component(id="source", static=SOURCE)]
    components += [
        Component(id=name, model=models[name].models[0].name, inputs=[Stream(component=before)])
        for before, name in zip(["source", *names], names, strict=False)
    ]
    return Problem(
        name=NAME,
        rate_tps=round(RATE_PART * slowest, 1),
        slot=first.slot,
        vms=[VmSize(name="node", slots=1)],
        components=components,
        models=[p.models[0] for p in models.values()],
    )


def measure(out: Path, project: Path, say: Callable[[str], None]) -> None:
    """Size, submit with two tasks of each, carry the size out, and search the highest stable rate."""
    models = {
        task: msgspec.json.decode((out / f"{task}-1.json").read_bytes(), type=Problem)
        for task in ("xml", "pi", "file")
        if (out / f"{task}-1.json").exists()
    }
    if len(models) < 3:
        say("the linear topology needs the models of all tasks")
        return
    problem = problem_of(models)
    file = out / "linear-sizing.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(problem), indent=1) + b"\n")
    slot_cores = json.loads((out / "xml-1.trials.jsonl").read_text().splitlines()[-1])["slot"]["cores"]
    spec = ClusterSpec(
        name=CLUSTER,
        supervisors=NODES,
        slots=1,
        memory_mb=problem.slot.memory_mb,
        hook=True,
        isolate=True,
        nodes=(NodeSpec(cores=slot_cores, mbit=200.0),) * NODES,
    )
    cluster = LocalCluster.up(spec, lambda _: None)
    session = connect(cluster.zookeeper_hosts)
    try:
        wanted = {a.component: a.threads for a in allocate(problem, problem.rate_tps, "mba").allotments}
        topology_id = send(_submission(cluster, project, wanted))
        say(f"{topology_id} runs with one thread of each task, placed by Storm")
        await_snapshot(session, Paths(), topology_id, lambda s: all(e.supervisor for e in s.executors), PLACED_S)
        feeder = Feeder(session, Paths(), topology_id, 1)
        _hear(feeder)
        command = [
            *(sys.executable, "-m", "stormpilot", "apply-size", str(file), "--nimbus", str(cluster.nimbus_address)),
            *("--zookeeper", cluster.zookeeper_hosts, "-f", "json"),
        ]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        now = ", ".join(f"{c} {n['after']}" for c, n in answer["threads"].items())
        say(f"apply-size: {now}")
        snapshot = Reader(session, Paths()).read().topologies[topology_id]
        component = {task: e.component for e in snapshot.executors for task in range(e.start, e.end + 1)}
        threads: dict[tuple[str, int], Counter[str]] = {}
        for worker in answer["workers"]:
            held = Counter(component[start] for start, _ in worker["executors"])
            sized = Counter({c: n for c, n in held.items() if c in answer["threads"]})
            threads[worker["supervisor"], worker["port"]] = sized
        cores = {supervisor: 1.0 for supervisor, _ in threads}
        predicted = predict(problem, threads, cores)
        _hear(feeder)
        feeder.busy(8.0, 30)
        feeder.emptied()
        grid = RateGrid(problem.rate_tps * 0.4, GRID_STEP, True, problem.rate_tps * 3)
        (peak,) = search(_trial(feeder, grid, say), grid, Rules(most_threads=1), guess=lambda _: _near(grid, predicted))
        found = {
            "sizedForTps": problem.rate_tps,
            "method": "mba+sam",
            "threads": wanted,
            "placement": {f"{s}:{p}": dict(c) for (s, p), c in sorted(threads.items())},
            "predictedTps": predicted.supported_tps,
            "actualTps": peak.rate_tps,
            "step": GRID_STEP,
            "loadAverage": round(os.getloadavg()[0], 2),
        }
        (out / "linear.json").write_text(json.dumps(found, indent=1) + "\n")
        say(f"predicted {predicted.supported_tps:.1f}/s, actual {peak.rate_tps:.1f}/s")
    finally:
        session.stop()
        cluster.down(purge=True)


def _near(grid: RateGrid, predicted: Any) -> int:
    return grid.step_at(predicted.supported_tps or grid.first_tps)


def _submission(cluster: LocalCluster, project: Path, tasks: dict[str, int]) -> Submission:
    """The topology with the trials' source, so that its rate changes without a restart; one executor of each."""
    own = {c: {"topology.tasks": n} for c, n in tasks.items()}
    source = TrialSource.spec(par=1)
    xml = ParseXml.spec(inputs={source: Grouping.SHUFFLE}, config=own["xml"])
    pi = Pi.spec(inputs={xml: Grouping.SHUFFLE}, config=own["pi"])
    file = BatchFileWrite.spec(inputs={pi: Grouping.SHUFFLE}, config=own["file"])
    parts: dict[str, Any] = {"config": {}, "source": source, "xml": xml, "pi": pi, "file": file}
    topology_class: type[Topology] = TopologyType("Linear", (Topology,), parts)
    read = Project.read(project)
    environment = read.environment("local")
    options = {
        "topology.workers": NODES,
        "topology.acker.executors": 1,
        "topology.message.timeout.secs": 120,
        "topology.executor.receive.buffer.size": 1024,
        "stormpilot.report.secs": 1,
    }
    conf = resolve_options(options, {}, environment, NAME, lambda: ["any"])
    command = default_runner(conf, environment, NAME, cluster.nimbus_address, instrument=True)
    topology, _ = assemble(topology_class, "local", command, "json", instrument=False)
    return Submission(NAME, cluster.nimbus_address, conf, topology, [], command, read.sources)


def _hear(feeder: Feeder) -> None:
    """Wait until tuples come through."""
    deadline = time.monotonic() + PLACED_S
    while True:
        try:
            if feeder.feed(5.0, Times(warm_up_s=1.0, trial_s=3.0)).completed_tps >= 1.0:
                return
        except UnreachableError:
            pass  # its worker starts
        if time.monotonic() > deadline:
            raise UnreachableError(f"{feeder.topology_id}: no tuples came through within {PLACED_S:.0f} s")


def _trial(feeder: Feeder, grid: RateGrid, say: Callable[[str], None]) -> Any:
    times = Times(warm_up_s=2.0, trial_s=8.0)

    def run(threads: int, step: int, attempt: int) -> Trial:
        fed = feeder.feed(grid.rate(step), times)
        feeder.emptied()
        say(f"{grid.rate(step):.1f}/s: {fed.why or 'stable'}")
        return Trial(
            threads=threads, step=step, rate_tps=round(grid.rate(step), 2), stable=not fed.why, clear=fed.clear
        )

    return run
