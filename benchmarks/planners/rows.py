"""One measured plan, and the file of all of them: a run that is interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from stormpilot.model.cost import evaluate
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.flow.planning import Traffic

ROOT = Path(__file__).resolve().parents[2]
OPTIMAL = "optimal: "  # how the note of `exact` on a proved optimum begins
ROUNDING_MHZ = 1e-3  # what a prediction may be above a limit
SOURCES = {
    "ours": ("controller/stormpilot/model", "controller/stormpilot/planner"),
    "storm": ("storm-plugin/storm-schedulers/src", "controller/stormpilot/model"),
    "bound": ("controller/stormpilot/planner/bounds", "controller/stormpilot/model"),
    "known": ("benchmarks/planners/unlike.py",),
    "baseline": ("benchmarks/planners/baselines.py", "controller/stormpilot/model"),
}


class Row(msgspec.Struct, kw_only=True):
    """Result of one contestant on one instance.

    `kind`: ours, storm, baseline, bound (no plan: what none can be below) or known (of a plan that is told); `held`:
    every executor placed and no constraint broken (`broken` names those that are); `proved`: the planner proved its
    plan to be optimal. Seconds are on the clock, or CPU seconds of all threads where `shared`. `plan_s`: the call alone
    (median of rounds where there are several), `first_s`: its first round in a new JVM, `process_s`, `cpu_s` (of all
    threads) and `peak_mb`: the whole process (start, read, plan, write).
    """

    part: str
    instance: str
    contestant: str
    kind: str
    code: str = ""
    seed: int = 0
    executors: int = 0
    nodes: int = 0
    pairs: int = 0
    placed: bool = False
    held: bool = False
    broken: list[str] = []
    proved: bool = False
    metrics: dict[str, float] = {}
    plan_s: float | None = None
    first_s: float | None = None
    process_s: float | None = None
    peak_mb: float | None = None
    cpu_s: float | None = None
    shared: bool = False
    notes: list[str] = []

    @property
    def key(self) -> str:
        """Key of a measurement: rows with the same key are the same one."""
        return f"{self.part}/{self.instance}/{self.contestant}/{self.seed}"


def judged(row: Row, model: Model, answer: Plan | Infeasible, traffic: Traffic = "measured") -> Row:
    """The row with what the answer is worth: by the checker and the metrics of the model, whoever planned it.

    With `traffic` "flow" metrics are those that the flow model predicts, and what it says overloads a node (`cpu`) or
    wants more of an executor than its core (`core`) counts as broken too.
    """
    row.executors = sum(len(t.executors) for t in model.topologies)
    row.nodes = len(model.supervisors)
    row.pairs = len(model.traffic)
    if isinstance(answer, Infeasible):
        row.broken = [f"no plan ({answer.constraint})"]
        row.notes = [answer.text]
        return row
    found = violations(model, answer)
    row.broken = sorted({v.constraint for v in found})
    row.placed = not {"topology", "executor-once", "slot-exists"} & set(row.broken)
    row.held = not found
    row.notes = [*answer.notes, *sorted({v.text for v in found})[:3]]
    row.proved = any(note.startswith(OPTIMAL) for note in answer.notes)
    if row.placed:
        row.metrics = evaluate(model, answer)
    if row.placed and traffic == "flow":
        flow = flow_model(model)
        predicted = flow.predict(flow.compiled.slots_of(answer))
        row.metrics |= predicted.metrics()
        too_much = {"cpu": predicted.overload_mhz, "core": predicted.full_mhz}
        row.broken = sorted({*row.broken, *(name for name, mhz in too_much.items() if mhz > ROUNDING_MHZ)})
        row.held = not row.broken
    return row


class Store:
    """Rows in a JSON-lines file; a later row of the same key replaces an earlier one.

    Rows that other sources made (a planner was changed since) are not shown, and are measured again.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._rows: dict[str, Row] = {}
        self._code = {kind: fingerprint(paths) for kind, paths in SOURCES.items()}
        if file.exists():
            for line in file.read_bytes().splitlines():
                row = msgspec.json.decode(line, type=Row)
                self._rows[row.key] = row

    def has(self, row: Row) -> bool:
        """Whether this measurement was made with the present sources."""
        old = self._rows.get(row.key)
        return old is not None and old.code == self._code[row.kind]

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows, at once on disk."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab") as out:
            for row in rows:
                row.code = self._code[row.kind]
                self._rows[row.key] = row
                out.write(msgspec.json.encode(row) + b"\n")

    def rows(self) -> Iterator[Row]:
        """Every row that the present sources made."""
        return (r for r in self._rows.values() if self.has(r))

    @property
    def stale(self) -> int:
        """Number of rows that were made by other sources and are not shown."""
        return sum(not self.has(r) for r in self._rows.values())


def fingerprint(paths: Iterable[str]) -> str:
    """Of the sources in these files and folders: changes when one of them does."""
    digest = hashlib.sha256()
    for path in paths:
        base = ROOT / path
        for file in sorted(base.rglob("*")) if base.is_dir() else [base]:
            if file.suffix in (".py", ".java"):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
