"""State of the search on flows: what it may not change, and a layout with all that it costs."""

from __future__ import annotations

from typing import NamedTuple

from stormpilot.model.compiled import Bools, Floats, Ints
from stormpilot.model.flow.delta import Links, Now


class Rules(NamedTuple):
    """Fixed part of the search. Sizes: E executors, W workers, N nodes, T topologies, K classes."""

    links: Links
    topology: Ints  # E
    klass: Ints  # E
    cpu_mhz: Floats  # E, measured
    memory_mb: Floats  # E
    home: Ints  # E: worker now
    movable: Ints  # executors
    first_executor: Ints  # T + 1
    first_worker: Ints  # T + 1
    fixed: Bools  # W
    home_node: Ints  # W
    allowed: Bools  # K x N
    limit_mhz: Floats  # N
    limit_mb: Floats  # N
    slots: Ints  # N
    distance: Floats  # 3: other worker on the node, other node in the rack, other rack
    restart_tps: Floats  # (1,)
    keep_workers: Bools  # (1,): as many workers in use as there are now
    mhz_per_mb: Floats  # (1,)
    most_executors: Ints  # T: of a worker
    heap: Floats  # E, MB; from here on what says who may share a worker or a node (`model/sharing.py`)
    most_heap: Floats  # T, MB
    kind: Ints  # E, or -1
    first_kind: Ints  # T + 1
    apart: Bools  # kinds x kinds of their topology
    keeps_apart: Bools  # T
    demand: Floats  # kinds x amounts
    room: Floats  # amounts x N


class State(NamedTuple):
    """A layout, what it costs, and room for the next try."""

    now: Now
    worker: Ints  # E
    node: Ints  # W
    size: Ints  # W
    used: Ints  # N: slots
    changes: Ints  # W: executors that came or left, against what runs
    cpu: Floats  # E, predicted
    sums: Floats  # 3
    predicted_mhz: Floats  # N
    measured_mhz: Floats
    memory_mb: Floats
    new_cpu: Floats  # E
    nodes: Ints  # whose load a try changes
    counts: Ints  # (1,): of `nodes`
    is_changed: Bools  # N
    more_predicted_mhz: Floats  # N: by a try
    more_measured_mhz: Floats
    more_memory_mb: Floats
    random: Ints  # (1,)
    worker_heap: Floats  # W, MB
    of_kind: Ints  # W x kinds of their topology: executors
    taken: Floats  # amounts x N
