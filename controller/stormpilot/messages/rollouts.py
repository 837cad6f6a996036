"""A plan that is carried out by rolling moves: `rollouts/<topology-id>`.

The leading controller writes it in the transactions that change the routing table and publish the plan of a step, so
that whoever leads next knows which tasks were routed around, and what for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from stormpilot.messages.core import HistoryEntry, Message, Part, Worker

Phase = Literal["ready", "draining", "moving", "returning", "ended"]
Outcome = Literal["", "DONE", "ABORTED", "OVERTAKEN", "REJECTED", "DISTURBED", "TOO_LATE", "INTERFERED", "GAVE_UP"]


class ProcessPart(Part, frozen=True, kw_only=True):
    """The process that a task reported from before its worker changed; `jvm`: its worker reported, not the task."""

    task: int
    jvm: bool
    pid: int
    start_ms: int


class RolloutStepPart(Part, frozen=True, kw_only=True):
    """One step: the workers that start with it, in place of those that have their executors now.

    `away` are the tasks that get no tuples meanwhile; `stand_ins` those that stood by and get them instead, where no
    other task of the component would be left. The ports are wishes. `switches` are pairs of tasks, of which the second
    stands by and gets what the first got, for good: then there are no workers.
    """

    workers: list[Worker]
    away: list[int] = msgspec.field(default_factory=list)
    stand_ins: list[int] = msgspec.field(default_factory=list)
    switches: list[tuple[int, int]] = msgspec.field(default_factory=list)


class Rollout(Message, frozen=True, kw_only=True):
    """`rollouts/<topology-id>`: the plan to arrive at (`entry`), the steps, and how far it came.

    `entry` is what the history gets with the last step. `standing_plan_id` is the plan that is published now (None:
    there was none), `former` what ran before the first step. `applied_at_ms` is when the plug-in said that the plan of
    this step is applied, `processes` where its tasks reported from before, and `reported_at_ms` when all of them had
    reported from new processes. `uninformed_supervisors` learn of this step only when they ask, and have workers which
    send to its tasks. `back` are the tasks of `returning` that are still to get tuples again. `paused_by`
    and `abort_by` are wishes of operators; `text` says what it waits for, or how it ended, and `outcome` is a code for
    the latter. `cpu_mhz` is what executors used before the first step, by first task: what they use is not known
    between two steps. `withdrawn` counts plans of steps that were taken back. `window_s`, `nodes` and `throughput_tps`
    are for the effect check, which is made once, after the last step.
    """

    topology_id: str
    entry: HistoryEntry
    steps: list[RolloutStepPart]
    step: int = 0
    phase: Phase = "ready"
    since_ms: int
    started_at_ms: int
    started_by: str = ""
    standing_plan_id: str | None = None
    applied_at_ms: int | None = None
    reported_at_ms: int | None = None
    processes: list[ProcessPart] = msgspec.field(default_factory=list)
    uninformed_supervisors: list[str] = msgspec.field(default_factory=list)
    back: list[int] = msgspec.field(default_factory=list)
    paused_by: str = ""
    abort_by: str = ""
    text: str = ""
    outcome: Outcome = ""
    former: list[Worker] = msgspec.field(default_factory=list)
    cpu_mhz: dict[int, int] = msgspec.field(default_factory=dict)
    withdrawn: int = 0
    window_s: float = 0.0
    nodes: list[str] = msgspec.field(default_factory=list)
    throughput_tps: float = 0.0

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.phase != "ended"

    @property
    def stage(self) -> RolloutStepPart:
        """The present step."""
        return self.steps[self.step]

    @property
    def target(self) -> list[Worker]:
        """Where the executors are when it is done."""
        return self.entry.plan.workers

    @property
    def times_ms(self) -> dict[str, int]:
        """Times that its limits count from, by field."""
        names = ("since_ms", "started_at_ms", "applied_at_ms", "reported_at_ms")
        return {name: at_ms for name in names if (at_ms := getattr(self, name)) is not None}

    def shifted(self, by_ms: int) -> Rollout:
        """The rollout with these times later by so much: by a clock that was set meanwhile."""
        return msgspec.structs.replace(self, **{name: at_ms + by_ms for name, at_ms in self.times_ms.items()})

    def sentence(self, now_ms: int) -> str:
        """Progress in one line."""
        plan = self.entry.plan.plan_id
        if not self.running:
            return f"{plan}: {self.outcome.lower().replace('_', ' ')}" + (f", {self.text}" if self.text else "")
        for_s = (now_ms - self.since_ms) / 1000
        wish = " (to be aborted)" if self.abort_by else " (paused)" if self.paused_by else ""
        said = f"{plan}: step {self.step + 1} of {len(self.steps)}, {self.phase} for {for_s:.0f} s{wish}"
        if self.phase == "moving" and self.reported_at_ms is not None:
            late = (
                f", {len(self.uninformed_supervisors)} of these nodes only when they ask"
                if self.uninformed_supervisors
                else ""
            )
            said += f", what moved runs, nodes that send to it get to know where{late}"
        return f"{said}: {self.text}" if self.text else said


def belongs_to(entry: HistoryEntry, plan_id: str) -> bool:
    """Whether an entry of a history is this plan, or a step on the way to it, whose id begins with that of the plan."""
    own = entry.rollout_of or entry.plan.plan_id
    return own == plan_id or own.startswith(f"{plan_id}-") or plan_id.startswith(f"{own}-")


def whole_plans(entries: Sequence[HistoryEntry | None]) -> list[bool]:
    """Which entries of a history, newest first, are more than steps; None is an entry that cannot be read.

    Of each rollout one is: the plan that it led to or, if it ended early, what was published last. Plans that the
    scheduler plug-in rejected, or never answered to, are none.
    """
    found: list[bool] = []
    newer: HistoryEntry | None = None
    for entry in entries:
        if entry is not None and entry.rejected:
            found.append(False)
            continue
        plan_id = "" if entry is None else entry.rollout_of or entry.plan.plan_id
        found.append(entry is not None and (newer is None or not belongs_to(newer, plan_id)))
        newer = entry or newer
    return found


Workers = set[tuple[str, frozenset[int]]]
"""A placement without ports: supervisor and first tasks of the executors, per worker."""


def workers_of(parts: Iterable[Worker]) -> Workers:
    """The placement that these workers are."""
    return {(w.supervisor, frozenset(start for start, _ in w.executors)) for w in parts}


def running_as(placed: Mapping[int, tuple[str, int]]) -> Workers:
    """The placement of executors with these slots (by first task), to compare with `workers_of` a plan.

    Ports are left out: the plug-in brings workers up on ports of its own choice.
    """
    return {(supervisor, frozenset(starts)) for (supervisor, _), starts in running_workers(placed).items()}


def running_workers(placed: Mapping[int, tuple[str, int]]) -> dict[tuple[str, int], set[int]]:
    """First tasks of the executors by slot, from the slots by first task."""
    found: dict[tuple[str, int], set[int]] = {}
    for start, slot in placed.items():
        found.setdefault(slot, set()).add(start)
    return found
