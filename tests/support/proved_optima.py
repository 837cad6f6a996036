"""Small clusters with their proved optimum, each solved once in a process."""

from __future__ import annotations

import functools

import numpy as np

from stormpilot.generate.models import Small, small
from stormpilot.model.values import Model, Plan
from stormpilot.planner import compute


@functools.cache
def proved(seed: int) -> tuple[Model, float]:
    """The model of that seed, and the least traffic between nodes (tuples/s) that any plan of it has."""
    model = small(Small(), np.random.default_rng(seed))
    plan = compute(model, "exact", {"threads": 1})
    assert isinstance(plan, Plan)
    assert plan.notes[0].startswith("optimal")
    return model, plan.metrics["inter_node_tps"]
