"""Runs contestants on instances, one measurement after the other, and keeps the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.planners import process, storm
from benchmarks.planners.baselines import BY_FLOWS
from benchmarks.planners.contestants import Ours
from benchmarks.planners.instances import Instance, Instances
from benchmarks.planners.rows import ROOT, Row, Store, judged
from benchmarks.planners.targets import COST
from stormpilot.model.compiled import Compiled, compile_model
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.bounds.semidefinite import inter_node_bound
from stormpilot.planner.flow.planning import Traffic

LIMIT_S = 900.0  # of one process
PYTHON = ROOT / ".venv" / "bin" / "python"


@dataclass
class Bench:
    """Where rows and files are, how much is to be done, and how it is told.

    `shared`: other work disturbs the clock, so that budgets and times of ours are CPU seconds of all threads.
    `given`: a folder of clusters whose best known plans are told.
    """

    folder: Path
    quick: bool
    console: Console
    seeds: int = 3
    shared: bool = False
    given: Path | None = None

    def __post_init__(self) -> None:
        self.store = Store(self.folder / "rows.jsonl")
        self.instances = Instances(self.folder)
        self.plans = self.folder / "plans"
        self.plans.mkdir(parents=True, exist_ok=True)
        self._warm: set[tuple[str, str]] = set()
        self._left_out: set[tuple[str, str]] = set()

    def ours(self, part: str, instance: Instance, contestant: Ours, seed: int = 0) -> None:
        """Plan in this process; numba's compiling is done before the clock starts."""
        row = Row(part=part, instance=instance.name, contestant=contestant.name, kind="ours", seed=seed)
        if not self._wanted(row, contestant):
            return
        self._warm_up(contestant)
        row.shared = self.shared
        clock = time.process_time if self.shared else time.perf_counter
        begin = clock()
        answer = compute(
            instance.model,
            contestant.planner,
            contestant.params,
            seed=seed,
            left_s=_left(contestant.budget_s, clock),
            traffic=contestant.traffic,
        )
        row.plan_s = clock() - begin
        self.keep(judged(row, instance.model, answer, contestant.traffic))

    def whole_process(self, part: str, instance: Instance, contestant: Ours, seed: int = 0) -> None:
        """Plan with the command line: start, read, plan, write."""
        row = Row(part=part, instance=instance.name, contestant=contestant.name, kind="ours", seed=seed)
        if not self._wanted(row, contestant):
            return
        out = self._fresh(row)
        command = process.plan_command(
            instance.file, contestant.planner, contestant.params, seed, contestant.budget_s, out
        )
        self._run(row, instance, command, out)

    def storm_process(self, part: str, instance: Instance, scheduler: str) -> None:
        """The same for a scheduler of Storm, in a JVM of its own."""
        row = Row(part=part, instance=instance.name, contestant=f"storm {scheduler}", kind="storm")
        if self.store.has(row):
            return
        storm.build()
        command, out = storm.process_command(instance.file, scheduler, self.plans)
        out.unlink(missing_ok=True)
        self._run(row, instance, command, out)

    def storm(
        self, part: str, instances: Sequence[Instance], *, rounds: int, timeout_s: int = 60, budget_s: float = 60.0
    ) -> None:
        """Every scheduler of Storm on all instances in one JVM; what is timed is the call of the scheduler."""
        wanted = {
            (i.name, s): Row(part=part, instance=i.name, contestant=f"storm {s}", kind="storm")
            for i in instances
            for s in storm.SCHEDULERS
        }
        missing = {i.name: i for i in instances if any(not self.store.has(wanted[i.name, s]) for s in storm.SCHEDULERS)}
        if not missing:
            return
        storm.build()
        self.console.print(f"{part}: Storm's schedulers on {len(missing)} models")
        files = {name: i.file for name, i in missing.items()}
        plans = storm.schedule(
            files, storm.SCHEDULERS, self.plans, warmup=rounds, rounds=rounds, timeout_s=timeout_s, budget_s=budget_s
        )
        for (name, scheduler), plan in plans.items():
            row = wanted[name, scheduler]
            row.plan_s = plan.metrics["schedule_ms_median"] / 1000
            row.first_s = plan.metrics["schedule_ms_first"] / 1000
            self.keep(judged(row, missing[name].model, plan))

    def baseline(self, part: str, instance: Instance, name: str, seed: int = 0) -> None:
        """A graph partitioner, in a process of its own; what is timed is the partitioning and what follows it."""
        row = Row(part=part, instance=instance.name, contestant=name, kind="baseline", seed=seed)
        if self.store.has(row):
            return
        out = self._fresh(row)
        module = [str(PYTHON), "-m", "benchmarks.planners.baselines"]
        command = [*module, name, str(seed), str(instance.file), str(out)]
        self._run(row, instance, command, out, "flow" if name in BY_FLOWS else "measured")

    def bound(self, part: str, instance: Instance, prove: Callable[[Compiled], float] = inter_node_bound) -> None:
        """The traffic between nodes that no plan can be below."""
        row = Row(part=part, instance=instance.name, contestant="bound", kind="bound", shared=self.shared)
        if self.store.has(row):
            return
        clock = time.process_time if self.shared else time.perf_counter
        begin = clock()
        compiled = compile_model(instance.model)
        row.metrics = {COST: prove(compiled)}
        row.executors, row.nodes, row.pairs = compiled.executors, compiled.nodes, len(instance.model.traffic)
        row.plan_s = clock() - begin
        self.keep(row)

    def hidden(self, instance: Instance) -> None:
        """The placement that a planted instance hides."""
        row = Row(part="planted", instance=instance.name, contestant="planted", kind="ours")
        if not self.store.has(row):
            self.keep(judged(row, instance.model, instance.hidden_plan))

    def _wanted(self, row: Row, contestant: Ours) -> bool:
        if contestant.missing:
            if (row.part, contestant.name) in self._left_out:
                return False
            self._left_out.add((row.part, contestant.name))
            self.console.print(f"{row.part}: [yellow]{contestant.name} is left out: {contestant.missing}[/]")
            return False
        return not self.store.has(row)

    def _run(self, row: Row, instance: Instance, command: list[str], out: Path, traffic: Traffic = "measured") -> None:
        ran = process.run(command, LIMIT_S)
        if out.exists():
            answer = _answer(out.read_bytes())
        else:
            answer = Infeasible(constraint="failed", text=f"exit code {ran.code}: {ran.errors[-300:]}")
        row.shared = self.shared
        row.process_s, row.peak_mb = ran.cpu_s if self.shared else ran.seconds, ran.peak_mb
        row.cpu_s = ran.cpu_s
        if isinstance(answer, Plan):
            row.plan_s = answer.metrics.get("seconds")
            if "schedule_ms_first" in answer.metrics:
                row.first_s = answer.metrics["schedule_ms_first"] / 1000
        self.keep(judged(row, instance.model, answer, traffic))

    def _fresh(self, row: Row) -> Path:
        out = self.plans / (row.key.replace("/", "--").replace(" ", "_") + ".json")
        out.unlink(missing_ok=True)
        return out

    def _warm_up(self, contestant: Ours) -> None:
        if (contestant.planner, contestant.traffic) in self._warm:
            return
        self._warm.add((contestant.planner, contestant.traffic))
        compute(
            self.instances.small(0).model,
            contestant.planner,
            contestant.params,
            left_s=_left(2.0),
            traffic=contestant.traffic,
        )

    def keep(self, row: Row) -> None:
        """Store a measured row and print it."""
        self.store.add([row])
        seconds = next((s for s in (row.process_s, row.plan_s) if s is not None), None)
        took = "" if seconds is None else f"{seconds:9.3f} s"
        result = f"{row.metrics[COST]:14,.1f} tuples/s between nodes" if row.metrics else "no plan"
        broken = f"  [yellow]breaks {', '.join(row.broken)}[/]" if row.broken else ""
        self.console.print(f"{row.part:10} {row.instance:26} {row.contestant:22} {took:>11} {result}{broken}")


def _answer(data: bytes) -> Plan | Infeasible:
    fields = msgspec.json.decode(data)
    return msgspec.convert(fields, Infeasible if "constraint" in fields else Plan)


def _left(budget_s: float | None, clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    if budget_s is None:
        return lambda: float("inf")
    end = clock() + budget_s
    return lambda: end - clock()


def plan_of(bench: Bench, model: Model, planner: str) -> Plan:
    """A plan that other measurements start from."""
    answer = compute(model, planner, {}, seed=0, left_s=_left(30.0))
    if isinstance(answer, Infeasible):
        raise RuntimeError(answer.text)
    return answer
