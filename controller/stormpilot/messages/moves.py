"""Outcome of a topology's moves: `moves/<topology-id>`, written by the leading controller beside every plan.

It outlives the controller: the next leader goes on with the effect check, the back-off and the move budget.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stormpilot.messages.core import Message, Part, Worker

Phase = Literal["none", "moving", "measuring", "rollback"]
Metric = Literal["inter_node_share", "load_ratio", "us_per_tuple"]


class Spent(Part, frozen=True, kw_only=True):
    """Executors that changed their slot and workers that restarted with a plan, for the move budget.

    `plan` is the id of that plan, for a step of a rollout that of the whole ("": of an older version). Where it was
    made because the nodes (supervisor ids) `relieved` were overloaded, `left` are the start tasks that moved.
    """

    at_ms: int
    executors: int
    workers: int
    plan: str = ""
    relieved: list[str] = msgspec.field(default_factory=list)
    left: list[int] = msgspec.field(default_factory=list)


class CpuSums(Part, frozen=True, kw_only=True):
    """State of the CPU law of a topology, learned from windows of its workers (`observe/cpu_law.py`).

    Sums over `rows` windows, older ones faded, of `seen` in all: `gram` is the upper triangle, row by row, of the
    products of what a worker was made of (by the unknowns `names`), `moment` those with the cores that it used,
    `squares` of these, all by how much they vary by themselves.
    """

    names: list[str]
    gram: list[float]
    moment: list[float]
    squares: float
    rows: float
    seen: int


class MoveState(Message, frozen=True, kw_only=True):
    """The last plan of a topology and what it did; `phase` is the state of the effect check (`decide/effect.py`).

    `metric` is what it is judged by (None: not judged): `inter_node_share` (tuples between nodes per tuple processed),
    `load_ratio` (load of `nodes` per part of B(n) and tuple processed, as at the throughput before), or `us_per_tuple`
    (1e6 / throughput, of a topology whose sources are held); lower is better. `throughput_tps` is that after the move,
    once it is judged, `throughput_before_tps` that before it. `noise_ratio` is how much the metric varies by itself, as
    a part of it. `former` is what ran before. `failures` moves in a row did not help; until `back_off_until_ms` nothing
    else is tried, because of `back_off_why`. `rejections` plans in a row were rejected by the scheduler plug-in;
    `unanswered`: it did not answer to the last plan that it was to answer to. `cpu` is what was learned of its CPU
    under its placements.
    """

    topology_id: str
    phase: Phase = "none"
    plan_id: str | None = None
    reason: str = ""
    published_at_ms: int = 0
    applied_at_ms: int | None = None
    window_s: float = 0.0
    metric: Metric | None = None
    nodes: list[str] = msgspec.field(default_factory=list)
    before: float | None = None
    predicted: float | None = None
    measured: float | None = None
    noise_ratio: float = 0.0
    throughput_tps: float = 0.0
    throughput_before_tps: float = 0.0
    moved: list[int] = msgspec.field(default_factory=list)
    former: list[Worker] = msgspec.field(default_factory=list)
    verdict: str = ""
    text: str = ""
    judged_at_ms: int | None = None
    failures: int = 0
    rejections: int = 0
    unanswered: bool = False
    back_off_until_ms: int | None = None
    back_off_why: str = ""
    timed: bool = False
    spent: list[Spent] = msgspec.field(default_factory=list)
    cpu: CpuSums | None = None
