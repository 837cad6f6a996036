"""A submission of 3,000 executors goes through the controller: snapshot, model, first plan, znodes."""

from __future__ import annotations

import msgspec

from doubles import snapshots
from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.config import Config, parse
from stormpilot.control.assembly import cycle_of
from stormpilot.control.current_config import CurrentConfig
from stormpilot.messages.core import MAX_BYTES, ExecutorPart, PlanMessage, decode, encode
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader
from stormpilot.planner import compute
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.paths import Paths

EXECUTORS, WORKERS = 3_000, 300
NODES = [f"supervisor-{n:02d}" for n in range(75)]
"""With four slots each."""


def test_a_submission_of_three_thousand_executors_is_planned_and_published() -> None:
    store, paths = MemoryZooKeeper(lambda: snapshots.T0_MS), Paths()
    small = snapshots.topology(workers=WORKERS)
    names = [c.id for c in small.components if c.kind != "system"]
    executors = [ExecutorPart(start=n, end=n, component=names[n % len(names)]) for n in range(1, EXECUTORS + 1)]
    topology = msgspec.structs.replace(small, executors=executors)
    store.put(paths.cluster, encode(snapshots.cluster(*NODES, cpu_pcore_percent=2_000.0, memory_mb=64_000.0)))
    store.put(paths.topology(topology.id), encode(topology))
    config: Config = parse("decide: {mode: act}\nplanner: {budget_s: 2}\n", "large.yaml")
    reader, epoch = Reader(store, paths), raise_epoch(store, paths)  # type: ignore[arg-type]
    cycle = cycle_of(
        Observer(reader, config.load, config.decide.cpu_limit_ratio, config),
        Publisher(store, paths, epoch),  # type: ignore[arg-type]
        CurrentConfig(config, "online", "offline"),
        compute,
        new_id=lambda: "1",
        clock_ms=lambda: snapshots.T0_MS,
        name="large",
    )
    report = cycle.run(cycle.observer.observe(snapshots.T0_MS))
    assert report.decisions[topology.id].action == "publish", report.decisions[topology.id]
    (node,) = store.read([paths.plan(topology.id)])
    assert node is not None
    assert len(node.data) < MAX_BYTES
    plan = decode(node.data, PlanMessage, "plan")
    assert sorted(start for w in plan.workers for start, _ in w.executors) == list(range(1, EXECUTORS + 1))
    assert len(plan.workers) == WORKERS
