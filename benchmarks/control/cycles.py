"""CPU of a cycle by the amount of changes since the one before: CPU seconds of the controller, without planner.

The cluster is in memory, and so is its ZooKeeper; readers, windows, model, decisions and records are the controller's
own. The planner leaves everything as it runs, so that what is measured is the controller's part, judgement included.

python -m benchmarks.control.cycles MODEL.json REPEAT
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.control.feeder import Feed, cluster_of, snapshot_of
from benchmarks.control.scale import PERIOD_S, REPORT_S, ROOT, running_model
from stormpilot.cli.control import GC_THRESHOLDS
from stormpilot.config import parse
from stormpilot.control.assembly import cycle_of
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.recorder import Recorder
from stormpilot.messages.core import encode
from stormpilot.model.subset import as_it_runs
from stormpilot.model.values import Model, Plan
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import Node, NodeStat
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Append, Delete, Put, Step

ROUNDS = int(PERIOD_S / REPORT_S)
"""Reports of every task in a cycle."""
FASTER = 1.5
"""Factor by which rates become higher, and go back to what they were at the next repetition."""
SETTLED = 3
"""Cycles until a window of 60 s holds nothing but the new rates."""
START_MS = 1_763_690_000_000


def run(supervisors: int, executors: int, topologies: int, repeat: int, seed: int) -> dict[str, Any]:
    """One size, in a process of its own: a row of figures."""
    model = running_model(supervisors, executors, topologies, seed)
    roomy = [msgspec.structs.replace(s, cores=4 * s.cores, cpu_limit_mhz=None) for s in model.supervisors]
    with TemporaryDirectory() as name:
        file = Path(name) / "model.json"
        file.write_bytes(msgspec.json.encode(msgspec.structs.replace(model, supervisors=roomy)))
        command = [sys.executable, "-m", "benchmarks.control.cycles", str(file), str(repeat)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    sizes = {"supervisors": supervisors, "executors": executors, "topologies": topologies, "pairs": len(model.traffic)}
    return {**sizes, **figures}


class Store:
    """The calls of `ZooKeeper` that a cycle makes, in memory."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._nodes: dict[str, Node] = {}
        self._below: dict[str, set[str]] = {}
        self._written: dict[str, int] = {}

    def read(self, paths: Sequence[str], watch: object = None, *, keep_denied: bool = False) -> list[Node | None]:
        """State that is there."""
        return [self._nodes.get(p) for p in paths]

    def stats(self, paths: Sequence[str], *, keep_denied: bool = False) -> list[NodeStat | None]:
        """Without data."""
        return [None if (n := self._nodes.get(p)) is None else self._stat(p, n) for p in paths]

    def _stat(self, path: str, node: Node) -> NodeStat:
        return NodeStat(self._written[path], node.written_at_ms, len(node.data), len(self._below.get(path, ())))

    def children(self, paths: Sequence[str], watch: object = None) -> list[list[str]]:
        """Names below."""
        return [sorted(self._below.get(p, ())) for p in paths]

    def ensure(self, paths: Iterable[str]) -> None:
        """Create what is not there."""
        for path in paths:
            if path not in self._nodes:
                self.put(path, b"")

    def put(self, path: str, data: bytes) -> None:
        """Write."""
        parent, _, name = path.rpartition("/")
        if parent:
            self.ensure([parent])
        self._below.setdefault(parent, set()).add(name)
        before = self._nodes.get(path)
        self._written[path] = 1 + len(self._written) + self._written.get(path, 0)
        self._nodes[path] = Node(data, 0 if before is None else before.version + 1, self.now_ms)

    def commit(self, steps: Sequence[Step]) -> None:
        """Write all of it."""
        for step in steps:
            if isinstance(step, Append):
                self.put(f"{step.prefix}{len(self._nodes):010d}", step.data)
            elif isinstance(step, Put):
                self.put(step.path, step.data)
            elif isinstance(step, Delete):
                self._below[step.path.rpartition("/")[0]].discard(step.path.rpartition("/")[2])
                del self._nodes[step.path]


class Controller:
    """Cycles of a controller over a store, and what each cost."""

    def __init__(self, store: Store) -> None:
        config = parse("load: {settle_s: 0}\ndecide: {mode: act}\napi: {enabled: false}\n", "bench.yaml")
        paths, current = Paths(), CurrentConfig(config, "as it runs", "as it runs")
        self._store = store
        self._observer = Observer(Reader(store, paths), config.load, config.decide.cpu_limit_ratio, config)  # type: ignore[arg-type]
        self._publisher = Publisher(store, paths, raise_epoch(store, paths))  # type: ignore[arg-type]
        self._cycle = cycle_of(
            self._observer,
            self._publisher,
            current,
            self._compute,
            new_id=lambda: "bench",
            clock_ms=lambda: store.now_ms,
            name="bench",
            max_skips=1_000_000,
        )
        self._recorder = Recorder(current, "bench", store.now_ms)
        self._put = partial(self._publisher.put, paths.controller)
        self.planned = 0

    def _compute(self, model: Model, *_: object, **__: object) -> Plan:
        self.planned += len(model.topologies)
        return Plan(planner="as it runs", topologies=[as_it_runs(t) for t in model.topologies])

    def period(self, report: Callable[[], None]) -> dict[str, float]:
        """A period with its reports, and a cycle: CPU s of reading reports, looking, deciding and recording."""
        self.planned = 0
        read_s = 0.0
        for _ in range(ROUNDS):
            self._store.now_ms += int(REPORT_S * 1000)
            report()
            began_s = time.process_time()
            self._observer.poll_loads(self._store.now_ms)
            self._observer.newly_changed(self._store.now_ms)
            read_s += time.process_time() - began_s
        times_s = [time.process_time()]
        observation = self._observer.observe(self._store.now_ms)
        times_s.append(time.process_time())
        decided = self._cycle.run(observation)
        times_s.append(time.process_time())
        epoch, counters = self._publisher.epoch.number, self._observer.counters
        self._recorder.record(decided, observation, epoch, counters, 0.0, lambda: self._store.now_ms, self._put)
        times_s.append(time.process_time())
        look_s, decide_s, record_s = (b - a for a, b in pairwise(times_s))
        parts = {"reports": read_s, "look": look_s, "decide": decide_s, "record": record_s}
        return {**parts, "all": sum(parts.values()), "planned": float(self.planned)}


def main() -> None:
    """Entry point."""
    file, repeat = Path(sys.argv[1]), int(sys.argv[2])
    store, paths = Store(), Paths()
    feeds = _fed(store, paths, msgspec.json.decode(file.read_bytes(), type=Model))
    gc.collect()
    gc.freeze()  # what feeds is no part of a controller
    gc.set_threshold(*GC_THRESHOLDS)
    before_mb = _rss_mb()
    number = iter(range(1_000_000))

    def report() -> None:
        n = next(number)
        for feed in feeds:
            for path, told in feed.reports(n, store.now_ms):
                store.put(path, encode(told))

    def change(changed: Sequence[Feed], by: float) -> None:
        for feed in changed:
            feed.pace *= by

    one_percent = max(1, len(feeds) // 100)
    controller, found, most_mb = Controller(store), dict[str, list[dict[str, float]]](), 0.0
    for _ in range(1 + SETTLED):  # compiles, and fills the windows
        controller.period(report)
    for i in range(repeat):
        few = feeds[i * one_percent : (i + 1) * one_percent]
        for kind, changed in (("same rates", []), ("1% changed", few), ("all changed", feeds)):
            change(changed, FASTER if i % 2 == 0 else 1 / FASTER)  # and back, so that there is always room
            cycles = [controller.period(report) for _ in range(SETTLED if changed else 1)]
            found.setdefault(kind, []).append(max(cycles, key=lambda c: (c["planned"], c["all"])))
            most_mb = max(most_mb, _rss_mb())
        found.setdefault("no new reports", []).append(controller.period(lambda: None))
    print(json.dumps({"cpu_s": found, "memory_mb": most_mb - before_mb}))


def _fed(store: Store, paths: Paths, model: Model) -> list[Feed]:
    store.put(paths.cluster, encode(cluster_of(model, START_MS)))
    for t in model.topologies:
        store.put(paths.topology(t.id), encode(snapshot_of(t, START_MS)))
    return [Feed(model, t, START_MS) for t in model.topologies]


def _rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    main()
