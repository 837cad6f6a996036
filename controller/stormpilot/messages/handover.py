"""Keyed state on its way from one task to another: what a route holds of it, and when it takes the next step.

New tuples go to the task `to` at once. The task `from` drains, is told to save when nothing more comes for these
partitions, then `to` is told to load; it adds what it is given to what it counted meanwhile. The steps are in the
table, the answers of the tasks in `keyed/<topology-id>/tasks/<task>`: whoever drives may be cut off anywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.messages.core import Message, Part

HANDOVER_KEY = "stormpilot.handover"
"""Key of a component's configuration: its tasks hand keyed state over (`instrument/keyed.py`)."""
ANSWER_MS = 60_000
"""Limit for a task to save, and for another to load, before the hand-over is given up."""
DRAIN_MIN_MS = 2_000
"""DK of N-Storm: how long a task that was left is given at least; its senders may still have tuples under way."""

Phase = Literal["drain", "save", "load"]


class Handover(Part, frozen=True, kw_only=True):
    """State of `partitions` that goes `from` one task `to` another; in this phase since `since_ms`."""

    partitions: list[int]
    from_: int = msgspec.field(name="from")
    to: int
    begun_ms: int
    since_ms: int
    phase: Phase = "drain"

    @property
    def key(self) -> str:
        """Name of the step in the answers of tasks."""
        return f"{self.from_}-{self.to}-{self.begun_ms}"


class KeyedTask(Message, frozen=True, kw_only=True):
    """`keyed/<topology-id>/tasks/<task>`: what a task that hands state over did, by the keys of hand-overs.

    `failed`: it could not save, with the reason; the state stays with it. `late`: partitions that it gave away and got
    tuples of since.
    """

    topology_id: str
    task: int
    pid: int = 0
    start_ms: int = 0
    written_at_ms: int = 0
    saved: list[str] = msgspec.field(default_factory=list)
    loaded: list[str] = msgspec.field(default_factory=list)
    failed: dict[str, str] = msgspec.field(default_factory=dict)
    late: list[int] = msgspec.field(default_factory=list)


class Advance(NamedTuple):
    """Hand-overs after a look; `silent` and `owed` as in a route; `said`: what went wrong, as text."""

    handovers: list[Handover]
    silent: dict[int, int]
    owed: dict[int, list[int]]
    said: list[str]


def begun(
    component: str, handovers: Sequence[Handover], before: Sequence[int], after: Sequence[int], now_ms: int
) -> list[Handover]:
    """The hand-overs when the owners of the partitions change from `before` to `after`.

    `RefusedError` where state that is still on its way would have to go on.
    """
    gone: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for partition, (from_, to) in enumerate(zip(before, after, strict=True)):
        if from_ != to:
            gone[from_, to].append(partition)
    busy = under_way(handovers)
    if clash := sorted(busy & {p for partitions in gone.values() for p in partitions}):
        held = next(h for h in handovers if clash[0] in h.partitions)
        raise RefusedError(
            f"{component}: state of {len(clash)} partitions is still on its way (task {held.from_} -> {held.to}, "
            f"{held.phase}): wait until `stormpilot routes show` lists no hand-over"
        )
    found = list(handovers)
    for (from_, to), partitions in sorted(gone.items()):
        found.append(_new(found, partitions, from_, to, now_ms))
    return found


def under_way(handovers: Sequence[Handover]) -> set[int]:
    """The partitions whose state is on its way: they may not be moved again before it has arrived."""
    return {p for h in handovers for p in h.partitions}


def advanced(
    component: str,
    handovers: Sequence[Handover],
    owners: Sequence[int],
    draining: Collection[int],
    tasks: Mapping[int, KeyedTask],
    silent: Mapping[int, int],
    owed: Mapping[int, Sequence[int]],
    now_ms: int,
) -> Advance:
    """The hand-overs after a look at what their tasks did.

    Parameters
    ----------
    owners
        Task of each partition.
    draining
        Tasks that still drain.
    tasks
        What the component's tasks wrote last.
    silent
        When a task that did not save in time wrote last (0: never), by task: what it owes, and what came to it late, is
        asked for again once it has written anew. Else hand-overs from a task that is gone would never end.
    owed
        Partitions whose state such a task was asked for in vain.
    """
    left: list[Handover] = []
    still_silent = {t: at_ms for t, at_ms in silent.items() if t not in tasks or tasks[t].written_at_ms == at_ms}
    kept = {t: set(partitions) for t, partitions in owed.items()}
    said: list[str] = []
    for h in handovers:
        after, why = _step(h, draining, tasks, now_ms)
        wrote = tasks.get(h.from_)
        if after is not None:
            left.append(after)
        elif h.phase == "save" and (wrote is None or h.key not in wrote.failed):
            still_silent[h.from_] = 0 if wrote is None else wrote.written_at_ms
            kept.setdefault(h.from_, set()).update(h.partitions)
        if why:
            said.append(f"{component}: state of {len(h.partitions)} partitions, task {h.from_} -> {h.to}: {why}")
    for task, wrote in sorted(tasks.items()):
        if task in still_silent:
            continue
        asked = {*wrote.late, *kept.pop(task, ())}
        late = sorted(p for p in asked if p < len(owners) and owners[p] != task)
        known = {p for h in left if h.from_ == task and h.phase != "load" for p in h.partitions}
        for to in sorted({owners[p] for p in late if p not in known}):
            more = [p for p in late if p not in known and owners[p] == to]
            left.append(_new(left, more, task, to, now_ms))
    return Advance(left, still_silent, {t: sorted(partitions) for t, partitions in sorted(kept.items())}, said)


def _step(
    h: Handover, draining: Collection[int], tasks: Mapping[int, KeyedTask], now_ms: int
) -> tuple[Handover | None, str]:
    for_ms = now_ms - h.since_ms
    if for_ms < -DRAIN_MIN_MS:  # by a clock that was set back since, or is ahead of ours
        h, for_ms = msgspec.structs.replace(h, since_ms=now_ms), 0
    if h.phase == "drain":
        if for_ms < DRAIN_MIN_MS or h.from_ in draining:
            return h, ""
        return msgspec.structs.replace(h, phase="save", since_ms=now_ms), ""
    saves = h.phase == "save"
    answer = tasks.get(h.from_ if saves else h.to)
    if answer is not None and saves:
        if h.key in answer.failed:
            return None, f"not handed over, it stays where it was: {answer.failed[h.key]}"
        if h.key in answer.saved:
            return msgspec.structs.replace(h, phase="load", since_ms=now_ms), ""
    if answer is not None and not saves and h.key in answer.loaded:
        return None, ""
    if for_ms < ANSWER_MS:
        return h, ""
    if saves:
        return None, f"task {h.from_} did not save it within {ANSWER_MS // 1000} s: given up"
    return (
        None,
        f"task {h.to} did not load it within {ANSWER_MS // 1000} s: it lies ready, and is loaded when it is back",
    )


def _new(known: Sequence[Handover], partitions: list[int], from_: int, to: int, now_ms: int) -> Handover:
    taken = {h.key for h in known}
    begun_ms = now_ms
    while f"{from_}-{to}-{begun_ms}" in taken:
        begun_ms += 1
    return Handover(partitions=partitions, from_=from_, to=to, begun_ms=begun_ms, since_ms=now_ms)
