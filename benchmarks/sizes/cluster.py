"""A line of measured tasks on isolated nodes: sized, carried out by `apply-size`, and fed around its prediction.

One cluster carries all pairs of an allocation and a mapping, one after the other. What was measured is kept after each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from streamparse import Bolt, Grouping
from streamparse.dsl.topology import Topology, TopologyType

from benchmarks.flow.jobs import until
from benchmarks.profile import service
from benchmarks.sizes.dags import SOURCE, linear_of
from micro_tasks.blob_download import BlobDownload
from micro_tasks.file_write import BatchFileWrite
from micro_tasks.parse_xml import ParseXml
from micro_tasks.pi import Pi
from micro_tasks.table_query import TableQuery
from stormpilot.errors import UnreachableError
from stormpilot.instrument.trial import TrialSource
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec, NodeSpec
from stormpilot.messages.load import LoadReport
from stormpilot.nimbus import Nimbus
from stormpilot.observe.reader import Reader
from stormpilot.operate.placing import await_snapshot
from stormpilot.sizing.allocation import Method, allocate
from stormpilot.sizing.performance import Performance
from stormpilot.sizing.prediction import Threads, predict
from stormpilot.sizing.problem import Problem, Slot, Static, VmSize
from stormpilot.sizing.profiling import RateGrid, RunTrial, Trial, search
from stormpilot.sizing.profiling import Rules as SearchRules
from stormpilot.submit.assembly import assemble
from stormpilot.submit.options import resolve_options
from stormpilot.submit.project import Project
from stormpilot.submit.submission import Submission, default_runner, send
from stormpilot.trials.feeder import Feeder, Times
from stormpilot.trials.slot import jvm_reports, used
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.paths import Paths

CLUSTER = "bench-sizes"
NAME = "linear"
CLASSES: Mapping[str, type[Bolt]] = {
    "xml": ParseXml,
    "pi": Pi,
    "file": BatchFileWrite,
    "blob": BlobDownload,
    "table": TableQuery,
}
NODES, MBIT = 4, 200.0
RATE_PART = 0.9
"""The topology is sized for this part of what one slot of the slowest task sustains."""
SOURCE_NEEDS = Static(threads=1, cpu_share=0.25, memory_share=0.19)
"""A Python source that sends some ten tuples/s, with its JVM: measured shares are told beside the predicted ones."""
GRID_STEP = 0.05
PAIRS: tuple[tuple[Method, str], ...] = (("mba", "sam"), ("lsa", "rsm"))
PLACED_S = 180.0
BUSY_S, BUSY_AHEAD = 8.0, 30
TIMES = Times(warm_up_s=2.0, trial_s=8.0)
PAIR_S = 200.0
"""Seconds for a pair; none is begun with less time left."""

Say = Callable[[str], None]


def problem_of(models: Mapping[str, Performance], slot: Slot, tasks: Sequence[str]) -> Problem:
    """The line of tasks on the measured models; its rate is that of the slowest task."""
    slowest = min(models[task].best.rate_tps for task in tasks)
    rate_tps = round(RATE_PART * slowest, 1)
    return Problem(
        name=NAME,
        rate_tps=rate_tps,
        slot=slot,
        vms=[VmSize(name="node", slots=1)],
        components=linear_of(tasks, [rate_tps]).components(models, SOURCE_NEEDS),
        models=[models[task] for task in tasks],
    )


def measure(out: Path, project: Path, problem: Problem, cores: float, ends_s: float, say: Say) -> None:
    """Measure the pairs that `out` lacks, as long as there is time; `cores` of each node."""
    left = [pair for pair in PAIRS if not result(out, *pair).exists()]
    if not left or time.monotonic() + PAIR_S > ends_s:
        return
    file = out / "sizing.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(problem), indent=1) + b"\n")
    spec = ClusterSpec(
        name=CLUSTER,
        supervisors=NODES,
        slots=1,
        memory_mb=problem.slot.memory_mb,
        hook=True,
        isolate=True,
        nodes=(NodeSpec(cores=cores, mbit=MBIT),) * NODES,
    )
    cluster = LocalCluster.up(spec, lambda _: None)
    with ExitStack() as stack:
        stack.callback(cluster.down, purge=True)
        say(f"{NODES} isolated nodes are up; load average {os.getloadavg()[0]:.1f}")
        session = connect(cluster.zookeeper_hosts)
        stack.callback(session.stop)
        asked: dict[str, Any] = {}
        runner = None
        if {"blob", "table"} & {c.id for c in problem.components}:
            asked["micro.storage.connection"] = stack.enter_context(
                service.running(cluster.nimbus_host, service.Link())
            )
            runner = str(service.install() / "stormpilot_run")
        for method, mapping in left:
            if time.monotonic() + PAIR_S > ends_s:
                say("the time is over; start again to go on")
                return
            run = Run(cluster, session, project, problem, file, cores, asked, runner, say)
            found = run.measured(method, mapping)
            result(out, method, mapping).write_text(json.dumps(found, indent=1) + "\n")


def result(out: Path, method: str, mapping: str) -> Path:
    """The file of a pair."""
    return out / f"cluster-{method}-{mapping}.json"


class Run:
    """Pairs on one cluster; each is a submission of its own, because Storm's tasks are fixed at submission."""

    def __init__(
        self,
        cluster: LocalCluster,
        session: ZooKeeper,
        project: Path,
        problem: Problem,
        file: Path,
        cores: float,
        options: Mapping[str, Any],
        runner: str | None,
        say: Say,
    ) -> None:
        self._cluster, self._session, self._project, self._problem = cluster, session, project, problem
        self._file, self._cores, self._options, self._runner, self._say = file, cores, options, runner, say

    def measured(self, method: Method, mapping: str) -> dict[str, Any]:
        """One pair: sized, carried out, fed; the highest stable rate, and what the slots used then."""
        problem = self._problem
        wanted = {a.component: a.threads for a in allocate(problem, problem.rate_tps, method).allotments}
        topology_id = send(self._submission(wanted))
        self._say(f"{method}+{mapping}: {topology_id} is submitted with one thread of each task")
        await_snapshot(self._session, Paths(), topology_id, lambda s: all(e.supervisor for e in s.executors), PLACED_S)
        feeder = Feeder(self._session, Paths(), topology_id, 1)
        try:
            # apply-size has to know how fast the cores are.
            until(f"{topology_id} reports", lambda: None if self._reports(feeder) else "no load reports", PLACED_S)
            threads = self._carried_out(topology_id, method, mapping)
            predicted = predict(problem, threads, dict.fromkeys({s for s, _ in threads}, 1.0))
            self._say(f"{len(threads)} slots support {predicted.supported_tps:.1f}/s as predicted")
            _hear(feeder)
            feeder.busy(BUSY_S, BUSY_AHEAD)
            feeder.emptied()
            use: dict[int, dict[str, list[float]]] = {}
            grid = RateGrid(problem.rate_tps * 0.3, GRID_STEP, True, problem.rate_tps * 3)
            (peak,) = search(
                self._trial(feeder, grid, use),
                grid,
                SearchRules(most_threads=1),
                guess=lambda _: grid.step_at(predicted.supported_tps or problem.rate_tps),
            )
        finally:
            with Nimbus.connect_leader(self._cluster.nimbus_address) as nimbus:
                nimbus.kill(NAME, wait_s=0)
        until(f"{topology_id} ends", lambda: self._alive(topology_id), PLACED_S)
        self._say(f"{method}+{mapping}: predicted {predicted.supported_tps:.1f}/s, actual {peak.rate_tps:.1f}/s")
        return {
            "sizedForTps": problem.rate_tps,
            "allocation": method,
            "mapping": mapping,
            "threads": wanted,
            "slots": len(threads),
            "placement": {f"{s}:{p}": dict(c) for (s, p), c in sorted(threads.items())},
            "actualTps": peak.rate_tps,
            "step": GRID_STEP,
            "slotLoads": [
                {"slot": f"{s}:{p}", "actual": use.get(peak.step, {}).get(f"{s}:{p}")} for s, p in sorted(threads)
            ],
            "loadAverage": round(os.getloadavg()[0], 2),
        }

    def _carried_out(self, topology_id: str, method: Method, mapping: str) -> Threads:
        """Threads of each slot after `apply-size`."""
        command = [
            *(sys.executable, "-m", "stormpilot", "apply-size", str(self._file)),
            *("--allocation", method, "--placement", mapping),
            *("--nimbus", str(self._cluster.nimbus_address), "--zookeeper", self._cluster.zookeeper_hosts),
            *("-f", "json"),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise UnreachableError(f"apply-size {method}+{mapping}: {ended.stderr.strip()[-500:]}")
        answer = json.loads(ended.stdout)
        snapshot = Reader(self._session, Paths()).read().topologies[topology_id]
        component = {task: e.component for e in snapshot.executors for task in range(e.start, e.end + 1)}
        threads: dict[tuple[str, int], Counter[str]] = {}
        for worker in answer["workers"]:
            held = Counter(component[start] for start, _ in worker["executors"])
            sized = Counter({c: n for c, n in held.items() if c in answer["threads"]})
            threads[worker["supervisor"], worker["port"]] = sized
        return threads

    def _trial(self, feeder: Feeder, grid: RateGrid, use: dict[int, dict[str, list[float]]]) -> RunTrial:
        """A trial that keeps CPU and memory of each slot, as shares of a slot, by the step of its rate."""

        def run(threads: int, step: int, attempt: int) -> Trial:
            before: list[Mapping[tuple[str, int], LoadReport]] = []
            fed = feeder.feed(grid.rate(step), TIMES, lambda: before.append(self._reports(feeder)))
            if before:
                use[step] = self._shares(before[0], self._reports(feeder))
            feeder.emptied()
            self._say(f"{grid.rate(step):.1f}/s: {fed.why or 'stable'}")
            return Trial(
                threads=threads, step=step, rate_tps=round(grid.rate(step), 2), stable=not fed.why, clear=fed.clear
            )

        return run

    def _reports(self, feeder: Feeder) -> Mapping[tuple[str, int], LoadReport]:
        """The newest report of each worker, by host and port."""
        reports = jvm_reports(self._session, Paths(), feeder.topology_id)
        return {(r.tasks[0].host, r.worker.port): r for r in reports if r.worker is not None}

    def _shares(
        self, before: Mapping[tuple[str, int], LoadReport], now: Mapping[tuple[str, int], LoadReport]
    ) -> dict[str, list[float]]:
        seen = Reader(self._session, Paths()).read()
        assert seen.cluster is not None
        names = {s.host: s.id for s in seen.cluster.supervisors}
        shares = {}
        for (host, port), report in now.items():
            first = before.get((host, port))
            measured = None if first is None else used(first, report)
            if measured is not None:
                memory_share = measured.memory_mb / self._problem.slot.memory_mb
                shares[f"{names[host]}:{port}"] = [round(measured.cores / self._cores, 4), round(memory_share, 4)]
        return shares

    def _alive(self, topology_id: str) -> str | None:
        return "its workers run" if any(w.topology_id == topology_id for w in self._cluster.workers()) else None

    def _submission(self, tasks: Mapping[str, int]) -> Submission:
        """The line with the trials' source, so that its rate changes without a restart; one executor of each."""
        parts: dict[str, Any] = {"config": {}, SOURCE: TrialSource.spec(par=1)}
        before = parts[SOURCE]
        for component in self._problem.components[1:]:
            before = parts[component.id] = CLASSES[component.id].spec(
                inputs={before: Grouping.SHUFFLE}, config={"topology.tasks": tasks[component.id]}
            )
        topology_class: type[Topology] = TopologyType("Linear", (Topology,), parts)
        read = Project.read(self._project)
        environment = read.environment("local")
        options = {
            "topology.workers": NODES,
            "topology.acker.executors": 1,
            "topology.message.timeout.secs": 120,
            "topology.executor.receive.buffer.size": 1024,
            # As in the profiles: an executor without tuples sleeps at once.
            "topology.bolt.wait.progressive.level2.count": 0,
            "stormpilot.report.secs": 1,
            **self._options,
        }
        conf = resolve_options(options, {}, environment, NAME, lambda: ["any"])
        address = self._cluster.nimbus_address
        command = self._runner or default_runner(conf, environment, NAME, address, instrument=True)
        topology, _ = assemble(topology_class, "local", command, "json", instrument=False)
        return Submission(NAME, address, conf, topology, [], command, read.sources)


def _hear(feeder: Feeder) -> None:
    """Wait until tuples come through the whole line."""
    deadline = time.monotonic() + PLACED_S
    while True:
        try:
            if feeder.feed(5.0, Times(warm_up_s=1.0, trial_s=3.0)).completed_tps >= 1.0:
                return
        except UnreachableError:
            pass  # its worker starts
        if time.monotonic() > deadline:
            raise UnreachableError(f"{feeder.topology_id}: no tuples came through within {PLACED_S:.0f} s")
