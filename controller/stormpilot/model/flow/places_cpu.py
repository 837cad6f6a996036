"""CPU that follows from places: of every worker, of threads that stay awake, and of tuples by how far they go.

    parts = places_mhz(compiled, placement, received, sums)     # MHz, E
    cpu = proved_mhz(compiled, placement)                       # MHz, E

`sums` as in `Scratch.sums`. What is of a worker is shared out equally over its executors, what a tuple costs over its
two ends: the sum over a node is what counts. Why so: docs/decisions/0018-cpu-by-places.md.
"""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE, Compiled, Floats, Ints
from stormpilot.model.flow.arrays import (
    ENDS,
    FAR_RECEIVED,
    FAR_SENT,
    IN_WORKER,
    NODE_RECEIVED,
    NODE_SENT,
)
from stormpilot.model.values import Executor, Model

TRANSFER_S = 0.05
"""Of a worker that sends (gets) a tuple in so many seconds, the threads that send (receive) are awake about half of the
time; at ten times as many they always are. Other wait strategies than those of executors hold for them.
"""
SAVED_ERRORS, LEAST_ERROR = 2.0, 0.06
"""Of CPU that a law promises to save, so many times its error is not relied on; at least the error of predictions for
other places (docs/results/accuracy.md) counts, whatever it is on what the law was learned from."""

GIVES_WAY = 0.5
"""Of the CPU with which a thread looks for tuples, the part that it does without on a full node: it looks less often
there, and finds more tuples each time (docs/decisions/0023-polling.md)."""


def has_law(compiled: Compiled) -> bool:
    """Whether the CPU of any topology follows its places."""
    return any(t.cpu_law is not None for t in compiled.model.topologies)


def awake(tps: Floats, awake_s: Floats | float) -> Floats:
    """The part of the time that a thread is awake to which so many tuples/s come, at random."""
    return 1.0 - np.exp(-tps * awake_s)


def measured_sums(compiled: Compiled, placement: Ints) -> Floats:
    """Tuples/s of every executor by how far the other end is, of the measured pairs; E x ENDS."""
    c = compiled
    sums = np.zeros((c.executors, ENDS))
    a, b = c.sent_from, c.sent_to
    both = (placement[a] != NOWHERE) & (placement[b] != NOWHERE)
    a, b, tps = a[both], b[both], c.sent_tps[both]
    place_a, place_b = placement[a], placement[b]
    host_a, host_b = c.node_host[c.slot_node[place_a]], c.node_host[c.slot_node[place_b]]
    here, near = place_a == place_b, (place_a != place_b) & (host_a == host_b)
    far = host_a != host_b
    for chosen, ends, column in (
        (here, a, IN_WORKER),
        (here, b, IN_WORKER),
        (near, a, NODE_SENT),
        (near, b, NODE_RECEIVED),
        (far, a, FAR_SENT),
        (far, b, FAR_RECEIVED),
    ):
        sums[:, column] += np.bincount(ends[chosen], weights=tps[chosen], minlength=c.executors)
    return sums


def places_mhz(compiled: Compiled, placement: Ints, received: Floats, sums: Floats) -> Floats:
    """MHz of every executor that follow from its place; 0 where it has none, or nothing is known of its topology."""
    c = compiled
    laws = [t.cpu_law for t in c.model.topologies]

    def each(name: str) -> Floats:
        values = np.array([0.0 if law is None else getattr(law, name) for law in laws], dtype=np.float64)
        return values[c.topology] if len(values) else np.zeros(c.executors)

    placed = placement != NOWHERE
    at = np.where(placed, placement, 0)
    size = np.bincount(at[placed], minlength=max(c.slots, 1)).astype(np.float64)
    sent = sums[:, NODE_SENT] + sums[:, FAR_SENT]
    received_outside = sums[:, NODE_RECEIVED] + sums[:, FAR_RECEIVED]
    leaving = np.bincount(at[placed], weights=sent[placed], minlength=max(c.slots, 1)).astype(np.float64)
    coming = np.bincount(at[placed], weights=received_outside[placed], minlength=max(c.slots, 1)).astype(np.float64)
    share = np.where(placed, 1.0 / np.maximum(size[at], 1.0), 0.0)
    awake_s = each("awake_s")
    mhz = each("worker_mhz") * share
    mhz += each("transfer_mhz") * share * awake(leaving[at], TRANSFER_S)
    mhz += each("receive_mhz") * share * awake(coming[at], TRANSFER_S)
    mhz += each("awake_mhz") * awake(np.where(_waits(c), received, 0.0), awake_s)
    mhz += each("in_worker_mhz") / 2 * sums[:, IN_WORKER]
    mhz += each("in_node_mhz") / 2 * (sums[:, NODE_SENT] + sums[:, NODE_RECEIVED])
    mhz += each("far_mhz") / 2 * (sums[:, FAR_SENT] + sums[:, FAR_RECEIVED])
    return np.where(placed, mhz, 0.0)


def proved_mhz(compiled: Compiled, placement: Ints) -> Floats:
    """CPU that executors can do with under a complete placement on nodes that are full; E, MHz.

    That is what they use there (`used_mhz`), less what looking for tuples gives up where others need the CPU.
    """
    return np.asarray(np.maximum(used_mhz(compiled, placement) - given_up_mhz(compiled), 0.0), dtype=np.float64)


def used_mhz(compiled: Compiled, placement: Ints) -> Floats:
    """CPU of every executor under a complete placement, with the pairs as measured: what can be relied on; E, MHz.

    That is what executors are measured to use, less what they save by their places: not all of it (`SAVED_ERRORS`), and
    nothing where no law was learned, or an executor has no place now.
    """
    c = compiled
    then = np.where(c.current == NOWHERE, NOWHERE, placement)
    received = np.bincount(c.sent_to, weights=c.sent_tps, minlength=c.executors).astype(np.float64)
    saved = places_mhz(c, c.current, received, measured_sums(c, c.current))
    saved -= places_mhz(c, then, received, measured_sums(c, then))
    errors = [None if t.cpu_law is None else t.cpu_law.error_ratio for t in c.model.topologies]
    trusted = np.array([0.0 if e is None else max(1.0 - SAVED_ERRORS * max(e, LEAST_ERROR), 0.0) for e in errors])
    trusted = trusted[c.topology]
    saved *= np.where((saved > 0) | (trusted == 0), trusted, 1.0)
    return np.asarray(np.maximum(c.cpu_mhz - saved, 0.0), dtype=np.float64)


def given_up_mhz(compiled: Compiled) -> Floats:
    """CPU of looking for tuples that executors do without where others need it; E, MHz."""
    executors = (e for t in compiled.model.topologies for e in sorted(t.executors, key=lambda e: e.start))
    return np.array([gives_up_mhz(e) for e in executors], dtype=np.float64)


def gives_up_mhz(executor: Executor) -> float:
    """The same of one."""
    return GIVES_WAY * min(executor.polling_mhz, executor.cpu_mhz)


def may_need_less(model: Model) -> bool:
    """Whether it is known of any executor that it can do with less CPU than it is measured to use (`proved_mhz`)."""
    return any(
        (t.cpu_law is not None and t.cpu_law.error_ratio is not None) or any(e.polling_mhz for e in t.executors)
        for t in model.topologies
    )


def _waits(compiled: Compiled) -> np.ndarray:
    """Executors that wait for tuples; spouts sleep between two calls whatever comes."""
    kinds = [{x.id: x.kind for x in t.components} for t in compiled.model.topologies]
    waits = np.array([kinds[t].get(name) != "spout" for t, name in compiled.component_names], dtype=np.bool_)
    return waits[compiled.component] if len(waits) else np.zeros(compiled.executors, dtype=np.bool_)
