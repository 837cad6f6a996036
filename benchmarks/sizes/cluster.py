"""Dataflows of measured tasks on isolated nodes: sized, carried out by `apply-size`, and fed around their prediction.

One cluster carries all cases, one after the other. What was measured is kept after each.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from streamparse import Bolt, Grouping
from streamparse.dsl.topology import Topology, TopologyType

from benchmarks.flow.jobs import until
from benchmarks.profile import service
from benchmarks.sizes.cases import NODES, Case
from benchmarks.sizes.dags import SOURCE
from micro_tasks.blob_download import BlobDownload
from micro_tasks.file_write import BatchFileWrite
from micro_tasks.parse_xml import IN_TURN, ParseXml, ParseXmlInTurn
from micro_tasks.pi import Pi
from micro_tasks.table_query import TableQuery
from stormpilot.errors import UnreachableError
from stormpilot.instrument.reporting import cpu_mhz
from stormpilot.instrument.trial import TrialSource
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec, NodeSpec
from stormpilot.messages.load import LoadReport
from stormpilot.nimbus import Nimbus
from stormpilot.observe.reader import Reader
from stormpilot.operate.placing import await_snapshot
from stormpilot.sizing.prediction import Threads, predict
from stormpilot.sizing.problem import Problem
from stormpilot.sizing.profiling import RateGrid, RunTrial, Trial, search
from stormpilot.sizing.profiling import Rules as SearchRules
from stormpilot.submit.assembly import assemble
from stormpilot.submit.options import resolve_options
from stormpilot.submit.project import Project
from stormpilot.submit.routable import add_standby, make_routable
from stormpilot.submit.submission import Submission, default_runner, send
from stormpilot.trials.feeder import Feeder, Times
from stormpilot.trials.slot import jvm_reports, used
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.paths import Paths

CLUSTER = "bench-sizes"
CLASSES: Mapping[str, type[Bolt]] = {
    "xml": ParseXml,
    "pi": Pi,
    "file": BatchFileWrite,
    "blob": BlobDownload,
    "table": TableQuery,
}
MBIT = 200.0
GRID_STEP = 0.05
PLACED_S = 180.0
BUSY_S, BUSY_AHEAD = 8.0, 30
TIMES = Times(warm_up_s=4.0, trial_s=16.0)
"""A tuple of grid takes 2 s, and the queue of threads that are busy for 98% of the time is full only after several
times that: trials of 8 s took 5.9/s for too much, where 6.7 of 6.8/s came through for longer."""
CASE_S = 300.0
"""Seconds for a case; none is begun with less time left."""

Say = Callable[[str], None]


def measure(out: Path, project: Path, runs: Sequence[tuple[Case, int]], cores: float, ends_s: float, say: Say) -> None:
    """Measure the cases and repetitions that `out` lacks, as long as there is time; `cores` of each node."""
    left = [(case, n) for case, n in runs if not result(out, case, n).exists()]
    if not left or time.monotonic() + CASE_S > ends_s:
        return
    with ExitStack() as stack:
        cluster = stack.enter_context(isolated(CLUSTER, left[0][0].problem.slot.memory_mb, cores))
        say(f"{NODES} isolated nodes are up; load average {os.getloadavg()[0]:.1f}")
        session = connect(cluster.zookeeper_hosts)
        stack.callback(session.stop)
        asked: dict[str, Any] = {}
        runner = None
        if any({"blob", "table"} & {task_of(c.id) for c in case.problem.components} for case, _ in left):
            asked["micro.storage.connection"] = stack.enter_context(
                service.running(cluster.nimbus_host, service.Link())
            )
            runner = str(service.install() / "stormpilot_run")
        for i, (case, n) in enumerate(left, 1):
            if time.monotonic() + CASE_S > ends_s:
                say("the time is over; start again to go on")
                return
            say(f"{i} of {len(left)}: {case.name}, repetition {n}")
            file = out / f"sizing-{case.problem.name}.json"
            file.write_bytes(msgspec.json.format(msgspec.json.encode(case.problem), indent=1) + b"\n")
            found = Run(cluster, session, project, case, file, cores, asked, runner, say).measured()
            result(out, case, n).write_text(json.dumps(found, indent=1) + "\n")


@contextmanager
def isolated(name: str, memory_mb: float, cores: float) -> Iterator[LocalCluster]:
    """A cluster of isolated nodes of one slot each, taken down at the end."""
    spec = ClusterSpec(
        name=name,
        supervisors=NODES,
        slots=1,
        memory_mb=memory_mb,
        hook=True,
        isolate=True,
        nodes=(NodeSpec(cores=cores, mbit=MBIT),) * NODES,
    )
    cluster = LocalCluster.up(spec, lambda _: None)
    try:
        yield cluster
    finally:
        cluster.down(purge=True)


def result(out: Path, case: Case, repetition: int) -> Path:
    """The file of a case and a repetition, from 1 on."""
    return out / f"cluster-{case.name}{f'-{repetition}' if repetition > 1 else ''}.json"


def results(out: Path, case: Case) -> Iterator[Path]:
    """Files of the repetitions that were measured."""
    return itertools.takewhile(Path.exists, (result(out, case, n) for n in itertools.count(1)))


def task_of(component: str) -> str:
    """`xml` of `xml_2`."""
    return component.partition("_")[0]


class Run:
    """One case: a submission of its own, because Storm's tasks are fixed at submission."""

    def __init__(
        self,
        cluster: LocalCluster,
        session: ZooKeeper,
        project: Path,
        case: Case,
        file: Path,
        cores: float,
        options: Mapping[str, Any],
        runner: str | None,
        say: Say,
        standby: bool = False,
    ) -> None:
        self._cluster, self._session, self._project, self._case = cluster, session, project, case
        self._problem, self._name = case.problem, case.problem.name
        self._file, self._cores, self._options, self._runner, self._say = file, cores, options, runner, say
        self._standby = standby

    def measured(self) -> dict[str, Any]:
        """The highest stable rate, and what the slots used then."""
        problem = self._problem
        with self.carried_out(self._case.threads) as (feeder, threads):
            predicted = predict(problem, threads, dict.fromkeys({s for s, _ in threads}, 1.0))
            self._say(f"{len(threads)} slots support {predicted.supported_tps:.1f}/s as predicted")
            use: dict[int, dict[str, list[float]]] = {}
            grid = RateGrid(problem.rate_tps * 0.3, GRID_STEP, True, problem.rate_tps * 3)
            (peak,) = search(
                self._trial(feeder, grid, use),
                grid,
                SearchRules(most_threads=1),
                guess=lambda _: grid.step_at(predicted.supported_tps or problem.rate_tps),
            )
        self._say(f"{self._case.name}: predicted {predicted.supported_tps:.1f}/s, actual {peak.rate_tps:.1f}/s")
        return {
            "dag": problem.name,
            "shuffle": problem.shuffle,
            "sizedForTps": problem.rate_tps,
            "allocation": self._case.method,
            "mapping": self._case.mapping,
            "threads": dict(self._case.threads),
            "slots": len(threads),
            "placement": {f"{s}:{p}": dict(c) for (s, p), c in sorted(threads.items())},
            "actualTps": peak.rate_tps,
            "step": GRID_STEP,
            "trialS": TIMES.trial_s,
            "slotLoads": [
                {"slot": f"{s}:{p}", "actual": use.get(peak.step, {}).get(f"{s}:{p}")} for s, p in sorted(threads)
            ],
            "coreMhz": cpu_mhz(),
            "loadAverage": round(os.getloadavg()[0], 2),
        }

    @contextmanager
    def carried_out(self, tasks: Mapping[str, int]) -> Iterator[tuple[Feeder, Threads]]:
        """The dataflow with so many tasks, sized and warm: its feeder, and threads by slot. Killed at the end.

        With `standby`, each task but a component's first one is an executor on standby.
        """
        topology_id = send(self._submission(tasks))
        self._say(f"{topology_id} is submitted with one thread of each task")
        await_snapshot(self._session, Paths(), topology_id, lambda s: all(e.supervisor for e in s.executors), PLACED_S)
        feeder = Feeder(self._session, Paths(), topology_id, 1)
        try:
            # apply-size has to know how fast the cores are.
            until(f"{topology_id} reports", lambda: None if self._reports(feeder) else "no load reports", PLACED_S)
            threads = self._applied(topology_id)
            _hear(feeder, min(5.0, self._problem.rate_tps / 2))
            feeder.busy(BUSY_S, BUSY_AHEAD)
            feeder.emptied()
            yield feeder, threads
        finally:
            with Nimbus.connect_leader(self._cluster.nimbus_address) as nimbus:
                nimbus.kill(self._name, wait_s=0)
        until(f"{topology_id} ends", lambda: self._alive(topology_id), PLACED_S)

    def _applied(self, topology_id: str) -> Threads:
        """Threads of each slot after `apply-size`."""
        command = [
            *(sys.executable, "-m", "stormpilot", "apply-size", str(self._file)),
            *("--allocation", self._case.method, "--placement", self._case.mapping),
            *("--nimbus", str(self._cluster.nimbus_address), "--zookeeper", self._cluster.zookeeper_hosts),
            *("-f", "json", "--yes"),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise UnreachableError(f"apply-size {self._case.name}: {ended.stderr.strip()[-500:]}")
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
        topology_class = topology_of(self._problem, {} if self._standby else tasks)
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
            "topology.disable.loadaware.messaging": self._problem.shuffle == "even",
            **self._options,
        }
        conf = resolve_options(options, {}, environment, self._name, lambda: ["any"])
        address = self._cluster.nimbus_address
        command = self._runner or default_runner(conf, environment, self._name, address, instrument=True)
        topology, _ = assemble(topology_class, "local", command, "json", instrument=False)
        if self._standby:
            more = {c: n - 1 for c, n in tasks.items() if c != SOURCE and n > 1}
            add_standby(topology, more, make_routable(topology), self._name)
        return Submission(self._name, address, conf, topology, [], command, read.sources)


def topology_of(problem: Problem, tasks: Mapping[str, int]) -> type[Topology]:
    """The dataflow with the trials' source, whose rate changes without a restart; one executor of each component.

    A component has as many tasks as `tasks` says, else one for each executor.
    """
    parts: dict[str, Any] = {"config": {}, SOURCE: TrialSource.spec(par=1)}
    in_turn: defaultdict[str, Iterator[str]] = defaultdict(lambda: iter(IN_TURN))
    halves = {s.component for c in problem.components for s in c.inputs if s.selectivity != 1}
    for component in problem.components[1:]:
        senders = [s.component for s in component.inputs]
        inputs = [parts[x][next(in_turn[x])] if x in halves else parts[x] for x in senders]
        task = ParseXmlInTurn if component.id in halves else CLASSES[task_of(component.id)]
        parts[component.id] = task.spec(
            inputs=dict.fromkeys(inputs, Grouping.SHUFFLE),
            config={"topology.tasks": tasks[component.id]} if component.id in tasks else {},
        )
    return TopologyType(problem.name.title(), (Topology,), parts)


def _hear(feeder: Feeder, rate_tps: float) -> None:
    """Wait until tuples come through the whole line, at a rate that it surely sustains."""
    deadline = time.monotonic() + PLACED_S
    while True:
        try:
            if feeder.feed(rate_tps, Times(warm_up_s=1.0, trial_s=3.0)).completed_tps >= rate_tps / 5:
                return
        except UnreachableError:
            pass  # its worker starts
        if time.monotonic() > deadline:
            raise UnreachableError(f"{feeder.topology_id}: no tuples came through within {PLACED_S:.0f} s")
