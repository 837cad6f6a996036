"""Storm's own schedulers on our models: our `default` places as Storm's DefaultScheduler does."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from benchmarks.planners import storm
from stormpilot.generate.models import Loaded, loaded
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def runner():
    storm.build()


def placement(plan: Plan) -> dict[tuple[str, int], tuple[str, int]]:
    return {
        (t.id, start): (w.supervisor, w.port) for t in plan.topologies for w in t.workers for start, _ in w.executors
    }


@pytest.mark.parametrize("topologies", [pytest.param(1, marks=pytest.mark.long), 3])
def test_our_default_is_storms_default_scheduler(tmp_path, topologies):
    """On roomy clusters of equal nodes. Storm orders topologies by hash: with several, nodes are not compared."""
    models = {}
    for seed in range(4):
        params = Loaded(executors=60 + 40 * seed, topologies=topologies, load=0.3, slow_share=0.0)
        models[f"m{seed}"] = _roomy(loaded(params, np.random.default_rng(seed)))
        (tmp_path / f"m{seed}.json").write_bytes(msgspec.json.encode(models[f"m{seed}"]))
    files = {name: tmp_path / f"{name}.json" for name in models}
    plans = storm.schedule(files, ["default"], tmp_path / "plans", warmup=0, rounds=1)
    for name, model in models.items():
        theirs = plans[name, "default"]
        ours = compute(model, "default")
        assert isinstance(ours, Plan)
        assert violations(model, theirs) == []
        our_workers, our_nodes = _groups(placement(ours))
        their_workers, their_nodes = _groups(placement(theirs))
        assert our_workers == their_workers
        assert topologies > 1 or our_nodes == their_nodes


def _roomy(model: Model) -> Model:
    nodes = [msgspec.structs.replace(s, cores=1000.0) for s in model.supervisors]
    return msgspec.structs.replace(model, supervisors=nodes)


def _groups(slots: dict[tuple[str, int], tuple[str, int]]) -> tuple[set[frozenset], set[frozenset]]:
    """Who shares a worker, and who shares a node."""
    workers: dict[object, set] = {}
    nodes: dict[object, set] = {}
    for executor, (node, port) in slots.items():
        workers.setdefault((node, port), set()).add(executor)
        nodes.setdefault(node, set()).add(executor)
    return {frozenset(g) for g in workers.values()}, {frozenset(g) for g in nodes.values()}
