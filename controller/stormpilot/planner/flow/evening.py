"""Even loads at the same traffic: of plans whose traffic differs by next to nothing, the one with the freest nodes.

What a plan of the least traffic puts on its fullest node is chance as long as that keeps B(n), and decides how much
more comes through before a node is full, and how long tuples wait there. So limits are lowered, half of the way to an
even load at a time, and the search goes on below them, as long as it finds a plan that costs no more than it may.
Nobody restarts a worker for that. stormpilot's own (docs/decisions/0022-even-nodes.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stormpilot.model.compiled import Floats
from stormpilot.model.flow.model import FlowModel
from stormpilot.planner.flow.annealing import FlowSearch
from stormpilot.planner.placement.layout import Layout, relabel
from stormpilot.planner.placement.problem import NO_VIOLATION, LeftS
from stormpilot.planner.placement.slots import to_slots
from stormpilot.planner.search.parallel import at_once

NEAR = 0.005
"""Part of the cost by which plans may differ and count as equal: measured rates vary by more."""
ROUNDS, RUNS = 5, 2
"""Levels that are tried, and runs at each."""
TRIES = 1_000
"""Of a run, at most, per executor that may move."""
LESS = 0.005
"""Part of B(n) by which the fullest node has to be freer."""


def evened(
    search: FlowSearch,
    flow: FlowModel,
    layout: Layout,
    most_cost: float,
    tries: int,
    rng: np.random.Generator,
    left_s: LeftS,
    threads: int,
) -> Layout:
    """The layout, or one with more even nodes that restarts and violates no more, and costs at most `most_cost`.

    `most_cost` is in tuples/s, with what restarts cost, as `search` judges. `tries` are those of a run, at most, and
    `threads` runs are made at a time. The result is complete as `layout` is (E executors); `search` has its rules
    again.
    """
    c, rules = flow.compiled, search.rules
    limit_mhz = rules.limit_mhz
    some = limit_mhz > 0  # others have nothing to fill
    if not some.any():
        return layout
    tries = min(tries, TRIES * len(rules.movable))

    def fullest(one: Layout) -> float:
        return float((flow.predict(to_slots(search.frame, one)).node_load_mhz[some] / limit_mhz[some]).max())

    load_mhz: Floats = flow.predict(to_slots(search.frame, layout)).node_load_mhz
    restarted = search.restarted(layout)
    full, even = fullest(layout), float(load_mhz[some].sum() / limit_mhz.sum())
    for _ in range(ROUNDS):
        if full - even <= LESS or left_s() <= 0:
            break
        level = (full + even) / 2
        # measured CPU is that of another placement's traffic: the limits themselves hold for it, levels do not
        search.rules = rules._replace(limit_mhz=level * limit_mhz, cpu_mhz=np.zeros(c.executors))
        seeds = rng.integers(1, 2**62, RUNS).tolist()
        found = at_once([_run(search, layout, int(seed), tries, left_s) for seed in seeds], threads)
        search.rules = rules
        better = []
        for one in (relabel(search.frame, x) for x in found):
            violation, cost = search.judge(one)
            if violation > NO_VIOLATION or cost > most_cost or search.restarted(one) > restarted:
                continue
            if (now := fullest(one)) < full - LESS:
                better.append((now, cost, one))
        if better:
            full, _, layout = min(better, key=lambda x: x[:2])
        else:
            even = level
    return layout


def _run(search: FlowSearch, start: Layout, seed: int, tries: int, left_s: LeftS) -> Callable[[], Layout]:
    return lambda: search.search(start, np.random.default_rng(seed), tries, left_s).layout
