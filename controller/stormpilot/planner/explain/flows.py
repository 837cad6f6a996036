"""Effect of moving one executor on the traffic that shuffles will send: each candidate judged anew by the flow model.

Under shuffles a move changes where others send too, and what CPU that takes, so that no sum over the executor's own
pairs tells it. Cost: the topology of the executor is worked out anew for each supervisor that is looked at; in large
topologies only those supervisors are that are cheapest by the pairs as predicted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.flow import arrays
from stormpilot.model.flow.kernel import follow
from stormpilot.model.flow.model import FlowModel

WORK = 30_000_000  # executors and pairs that are worked out in one answer, about: some seconds
LEAST_SUPERVISORS = 4
SLACK = 1e-9


@dataclass(frozen=True)
class Judged:
    """Moves of R executors to N supervisors (arrays R x N); `inf` where a supervisor was not looked at.

    `lacking_mhz`: what the node that is worst off after it (`lacking_node`) lacks against its limit, beyond what it
    lacks now, `full_mhz`: what shuffles want of near executors beyond the cores that they can use, likewise.
    """

    node_delta: Floats
    worker_delta: Floats
    lacking_mhz: Floats
    lacking_node: Ints
    full_mhz: Floats
    seen: Bools


def judged(flow: FlowModel, placement: Ints, executors: Ints, slot: Ints, order: Ints) -> Judged:
    """Judge moves out of a complete placement (E slots).

    `slot` (R x N) is where each executor would go on each supervisor, NOWHERE: nowhere; `order` (R x N) the supervisors
    in the order in which they are looked at as far as there is time.
    """
    c = flow.compiled
    shape = (len(executors), c.nodes)
    found = Judged(
        node_delta=np.full(shape, np.inf),
        worker_delta=np.full(shape, np.inf),
        lacking_mhz=np.zeros(shape),
        lacking_node=np.zeros(shape, dtype=np.int64),
        full_mhz=np.zeros(shape),
        seen=np.zeros(shape, dtype=np.bool_),
    )
    size = np.diff(c.first_executor) + np.bincount(c.topology[c.pair_a], minlength=c.topologies)
    now = _Present(flow, placement)
    for r, e in enumerate(executors.tolist()):
        t = int(c.topology[e])
        most = max(int(WORK / max(len(executors), 1) / max(int(size[t]), 1)), LEAST_SUPERVISORS)
        candidates = [n for n in order[r].tolist() if slot[r, n] != NOWHERE and n != c.slot_node[placement[e]]]
        for n in candidates[:most]:
            totals, load_mhz = now.with_executor_at(t, e, int(slot[r, n]))
            found.node_delta[r, n] = totals[arrays.HOSTS] - now.totals[t][arrays.HOSTS]
            found.worker_delta[r, n] = totals[arrays.WORKERS] - now.totals[t][arrays.WORKERS]
            found.full_mhz[r, n] = max(totals[arrays.FULL] - now.totals[t][arrays.FULL], 0.0)
            lacking = np.maximum(load_mhz - c.node_limit_mhz * (1 + SLACK), 0.0) - now.lacking_mhz
            worst = int(lacking.argmax())
            found.lacking_node[r, n] = worst
            found.lacking_mhz[r, n] = max(float(lacking[worst]), 0.0)
            found.seen[r, n] = True
    return found


class _Present:
    """Traffic and CPU as they are without a move, topology by topology."""

    def __init__(self, flow: FlowModel, placement: Ints) -> None:
        c = flow.compiled
        self.flow, self.placement = flow, placement.copy()
        self.room = arrays.scratch(flow.flows, c.slots)
        self.received, self.cpu = np.zeros(c.executors), np.zeros(c.executors)
        self.totals = [self._followed(t, self.cpu) for t in range(c.topologies)]
        self.load_mhz = self._load(slice(None), self.cpu)
        self.own_mhz = [self._load(self._executors(t), self.cpu) for t in range(c.topologies)]
        self.lacking_mhz = np.maximum(self.load_mhz - c.node_limit_mhz * (1 + SLACK), 0.0)
        self._cpu = np.zeros(c.executors)

    def with_executor_at(self, t: int, e: int, slot: int) -> tuple[Floats, Floats]:
        """Totals of topology t, and CPU of every node, with its executor e there."""
        before = self.placement[e]
        self.placement[e] = slot
        totals = self._followed(t, self._cpu)
        load_mhz = self.load_mhz - self.own_mhz[t] + self._load(self._executors(t), self._cpu)
        self.placement[e] = before
        return totals, load_mhz

    def _executors(self, t: int) -> slice:
        c = self.flow.compiled
        return slice(int(c.first_executor[t]), int(c.first_executor[t + 1]))

    def _followed(self, t: int, cpu: Floats) -> Floats:
        totals = np.zeros(arrays.TOTALS)
        follow(self.flow.flows, t, self.placement, self.flow.compiled.slot_node, self.received, cpu, totals, self.room)
        return totals

    def _load(self, of: slice, cpu: Floats) -> Floats:
        c = self.flow.compiled
        return np.bincount(c.slot_node[self.placement[of]], cpu[of], c.nodes).astype(np.float64)
