"""Focused runs: one topology after the other is annealed, in the room that all others leave it.

Only traffic within a topology counts, so a placement is nearly a sum of placements of single topologies, which share
nodes. A run that melts all of them ends with some of them placed well; which ones is chance. A focused run lets tries
begin at one topology alone, chosen by what it still sends between nodes; executors of others move in exchange for its
own. What it finds is kept if it is better. Its few data stay at hand, so that it tries several times as many moves.
Runs at the same time are given different topologies, and their changes are put together.

Temperatures are counted in the geometric mean of what an executor of the topology exchanges with all others and with
those on other nodes: the first is far too hot where nearly nothing is left between nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stormpilot.model.compiled import NOWHERE, Floats, Ints
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.objective import weights
from stormpilot.planner.placement.problem import NO_VIOLATION, LeftS, Limits, Objective
from stormpilot.planner.search.annealing import Annealer, Found
from stormpilot.planner.search.parallel import at_once

TEMPERATURES = (0.2, 0.4, 0.8)  # where a run begins: one of them, by chance
TRIES = 500  # of a run, per executor
WAVES = 8  # how often what runs at the same time found is put together
LEAST_PART = 0.2  # of the tries of a run: with less time than they take, it is not begun


class Focus:
    """Improves layouts of one problem, topology by topology."""

    def __init__(self, frame: Frame, objective: Objective, annealer: Annealer) -> None:
        c = frame.compiled
        self._annealer = annealer
        self._compiled = c
        self._pairs = weights(c, objective)
        self._distance = np.array(objective.distance)
        self._own = [np.flatnonzero(~c.fixed & (c.topology == t)) for t in range(c.topologies)]
        self._traffic = np.bincount(
            c.topology[self._pairs[0]], 2.0 * self._pairs[2], c.topologies
        )  # counted at both ends
        self.executors = np.array([len(own) for own in self._own], dtype=np.int64)

    def to_win(self, layout: Layout) -> Floats:
        """T -> traffic x distance between nodes of each topology, 0 where none of its executors may move."""
        c = self._compiled
        a, b, tps = self._pairs
        node = layout.node[layout.worker]
        apart = np.flatnonzero(node[a] != node[b])
        m, n = node[a[apart]], node[b[apart]]
        far = np.where(c.node_rack[m] == c.node_rack[n], 1, 2)
        distance = self._distance[np.where(c.node_host[m] == c.node_host[n], 0, far)]
        won: Floats = np.bincount(c.topology[a[apart]], tps[apart] * distance, c.topologies).astype(np.float64)
        won[self.executors == 0] = 0.0
        return won

    def wave(
        self, base: Layout, runs: int, tries: int | None, left_s: LeftS, rng: np.random.Generator, threads: int
    ) -> list[Found]:
        """So many runs at the same time from a sound layout, cheapest first; `tries` of each, None: by the clock.

        Nothing where there is nothing to win.
        """
        to_win = self.to_win(base)
        if not to_win.any():
            return []
        hands = dealt(to_win, runs, rng)
        seeds = [np.random.default_rng(int(s)) for s in rng.integers(1, 2**62, runs)]
        jobs = [
            lambda own=own, seed=seed: self.run(base, own, seed, tries, left_s)
            for own, seed in zip(hands, seeds, strict=True)
        ]
        return sorted(at_once(jobs, threads), key=lambda found: found.cost)

    def run(self, start: Layout, topologies: Ints, rng: np.random.Generator, tries: int | None, left_s: LeftS) -> Found:
        """Improve a sound layout by so many tries at these topologies, or as many as the clock leaves."""
        layout, cost = start, self._annealer.cost(start)
        done = 0
        span_s = left_s()
        while left_s() > 0:
            to_win = self.to_win(layout)[topologies]
            if to_win.sum() <= 0:
                break
            i = int(rng.choice(len(topologies), p=to_win / to_win.sum()))
            own = self._own[topologies[i]]
            wanted = TRIES * len(own)
            if tries is not None:
                can = float(tries - done)
            elif done:
                can = done * left_s() / max(span_s - left_s(), 1e-9)  # as fast as so far
            else:
                can = wanted
            if can < (LEAST_PART * wanted if done else 1):
                break
            found = self._annealer.search(
                layout,
                rng,
                int(min(wanted, can)),
                left_s,
                first_temperature=float(rng.choice(TEMPERATURES)),
                movable=own,
                unit_tps=float(np.sqrt(2.0 * to_win[i] * self._traffic[topologies[i]])) / len(own),
            )
            done += found.tries
            if found.violation <= NO_VIOLATION and found.cost < cost:
                layout, cost = found.layout, found.cost
        return Found(layout, cost, 0.0, done, left_s() <= 0)


def dealt(to_win: Floats, runs: int, rng: np.random.Generator) -> list[Ints]:
    """Topologies with traffic to win for so many runs at the same time, about as much for each.

    Where there are fewer of them than runs, some runs have the same.
    """
    some = rng.permutation(np.flatnonzero(to_win > 0))
    order = some[np.argsort(-to_win[some], kind="stable")]
    hands: list[list[int]] = [[] for _ in range(runs)]
    for t in order.tolist():
        min(hands, key=lambda hand: float(to_win[hand].sum())).append(t)
    return [np.array(hand if hand else order[i % len(order) :][:1], dtype=np.int64) for i, hand in enumerate(hands)]


def together(frame: Frame, limits: Limits, base: Layout, found: Sequence[Layout]) -> Layout | None:
    """The base with the changes of several runs, the first before others; None where a worker has no slot.

    CPU, memory and rules on sharing are the caller's to check.
    """
    c = frame.compiled
    worker, node = base.worker.copy(), base.node.copy()
    moved, reseated = np.zeros(len(worker), dtype=np.bool_), np.zeros(len(node), dtype=np.bool_)
    for layout in found:
        news = (layout.worker != base.worker) & ~moved
        worker[news] = layout.worker[news]
        moved |= news
        seats = (layout.node != base.node) & ~reseated
        node[seats] = layout.node[seats]
        reseated |= seats
    sizes = np.bincount(worker, minlength=len(node))
    used = sizes > 0
    node[~used] = NOWHERE
    if (node[used] == NOWHERE).any() or (sizes > limits.max_executors[frame.topology]).any():
        return None
    if (np.bincount(node[used], minlength=c.nodes) > c.slots_per_node()).any():
        return None
    if (limits.exact_workers & (np.bincount(frame.topology[used], minlength=c.topologies) < c.workers)).any():
        return None
    return Layout(worker, node)
