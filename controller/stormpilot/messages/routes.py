"""Routing tables: which tasks of a component get tuples, and what a change of that is.

The table is all the state that a move of traffic has: a move that is cut off anywhere leaves a table that workers can
follow, with the tasks that were left named in `draining` until somebody has seen that their queues are empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.messages.core import Message, Part
from stormpilot.messages.handover import DRAIN_MIN_MS, Handover, KeyedTask, advanced, begun, under_way

PARTITIONS_PER_TASK = 64
"""Logical partitions of the keys per task, a multiple, so that the first table sends every key where Storm did."""
STANDBY_KEY = "stormpilot.standby"
"""Key of a component's configuration: how many of its tasks, the last ones, wait for a route."""


class DrainingTask(Part, frozen=True, kw_only=True):
    """A task that gets no tuples any more and may still have some, since `since_ms`.

    `until_ms`: when it counts as drained at the latest (None: whoever looks has a limit).
    """

    task: int
    since_ms: int
    until_ms: int | None = None

    def shifted(self, by_ms: int) -> DrainingTask:
        """The same, later by so much."""
        until_ms = None if self.until_ms is None else self.until_ms + by_ms
        return msgspec.structs.replace(self, since_ms=self.since_ms + by_ms, until_ms=until_ms)


class ComponentRoute(Part, frozen=True, kw_only=True):
    """The route of one component: `active` task ids, rising; owner of each partition of the keys (fields groupings).

    `hands_over`: its tasks hand the state of partitions that move over to each other, as `handovers` says. `silent`:
    tasks that did not save in time, and when each wrote its last answer (`advanced`); `owed`: partitions whose state
    these still have.
    """

    component: str
    active: list[int]
    partitions: list[int] = msgspec.field(default_factory=list)
    draining: list[DrainingTask] = msgspec.field(default_factory=list)
    hands_over: bool = False
    handovers: list[Handover] = msgspec.field(default_factory=list)
    silent: dict[int, int] = msgspec.field(default_factory=dict)
    owed: dict[int, list[int]] = msgspec.field(default_factory=dict)


class Routes(Message, frozen=True, kw_only=True):
    """`routes/<topology-id>`: a component that is not there goes as without a table."""

    topology_id: str
    version: int = 0
    written_at_ms: int = 0
    by: str = ""
    why: str = ""
    components: list[ComponentRoute] = msgspec.field(default_factory=list)

    def of(self, component: str) -> ComponentRoute | None:
        """The route of a component; None where there is none."""
        return next((c for c in self.components if c.component == component), None)

    def with_route(self, route: ComponentRoute) -> Routes:
        """The table with this route in place of the component's present one."""
        others = [c for c in self.components if c.component != route.component]
        return msgspec.structs.replace(self, components=sorted([*others, route], key=lambda c: c.component))

    def shifted(self, by_ms: int) -> Routes:
        """The table with the times of what is under way later by so much: by a clock that was set meanwhile."""
        return msgspec.structs.replace(self, components=[_shifted(c, by_ms) for c in self.components])


def first_route(
    component: str, tasks: Collection[int], standby: int, keyed: bool, hands_over: bool = False
) -> ComponentRoute:
    """Route without a table: all tasks but the last `standby` ones, at least one.

    Keys go where Storm sends them: partition p belongs to the p-th active task, round and round.
    """
    active = sorted(tasks)[: max(1, len(tasks) - max(0, standby))]
    count = PARTITIONS_PER_TASK * len(active) if keyed else 0
    return ComponentRoute(
        component=component,
        active=active,
        partitions=[active[p % len(active)] for p in range(count)],
        hands_over=hands_over and keyed,
    )


def switch(route: ComponentRoute, tasks: Collection[int], from_: int, to: int, now_ms: int) -> ComponentRoute:
    """The route with the traffic of task `from_` going to task `to`, which is active already or stands by.

    Every other task keeps its keys. `RefusedError` says which of the two cannot be.
    """
    if from_ not in route.active:
        raise RefusedError(f"task {from_} of {route.component} gets no tuples now: active are {_listed(route.active)}")
    if to not in tasks:
        raise RefusedError(f"{to} is no task of {route.component}: it has {_listed(sorted(tasks))}")
    if from_ == to:
        raise RefusedError(f"task {from_} is on both ends: name two")
    return _moved(
        route,
        active=sorted({*route.active, to} - {from_}),
        partitions=[to if owner == from_ else owner for owner in route.partitions],
        draining=[
            *(d for d in route.draining if d.task not in (from_, to)),
            DrainingTask(task=from_, since_ms=now_ms),
        ],
        now_ms=now_ms,
    )


def rest(route: ComponentRoute, task: int, now_ms: int) -> ComponentRoute:
    """The route without `task`: its keys are dealt to the tasks that are left, those with the fewest first."""
    return rest_all(route, [task], now_ms)


def rest_all(route: ComponentRoute, tasks: Collection[int], now_ms: int) -> ComponentRoute:
    """The route without several tasks at once, so that no key is dealt to one that goes as well."""
    for task in sorted(tasks):
        if task not in route.active:
            active = _listed(route.active)
            raise RefusedError(f"task {task} of {route.component} gets no tuples now: active are {active}")
    left = [t for t in route.active if t not in tasks]
    if not left:
        only = "is the only one" if len(tasks) == 1 else "are all"
        raise RefusedError(f"task {_listed(sorted(tasks))} {only} of {route.component} that gets tuples")
    return _moved(
        route,
        active=left,
        partitions=_dealt(route.partitions, left),
        draining=[
            *(d for d in route.draining if d.task not in tasks),
            *(DrainingTask(task=t, since_ms=now_ms) for t in sorted(tasks)),
        ],
        now_ms=now_ms,
    )


def take_up(route: ComponentRoute, tasks: Collection[int], task: int, now_ms: int) -> ComponentRoute:
    """The route with `task` active as well; it gets its share of the keys from those that have the most.

    Keys whose state is still on its way stay where they are; `RefusedError` where these are too many.
    """
    return take_up_all(route, tasks, [task], now_ms)


def take_up_all(route: ComponentRoute, known: Collection[int], tasks: Collection[int], now_ms: int) -> ComponentRoute:
    """The route with several of the `known` tasks active at once, so that none waits for what another one takes."""
    for task in sorted(tasks):
        if task not in known:
            raise RefusedError(f"{task} is no task of {route.component}: it has {_listed(sorted(known))}")
        if task in route.active:
            raise RefusedError(f"task {task} of {route.component} gets tuples already")
    held = under_way(route.handovers)
    free = {t: [p for p, owner in enumerate(route.partitions) if owner == t and p not in held] for t in route.active}
    owned = Counter(route.partitions)
    partitions = list(route.partitions)
    share = len(partitions) // (len(route.active) + len(tasks))
    for task in sorted(tasks) * share:
        givers = [t for t in route.active if free[t]]
        if not givers:
            raise RefusedError(f"{route.component}: the state of its keys is still on its way: wait until it arrived")
        giver = min(givers, key=lambda t: (-owned[t], t))
        partitions[free[giver].pop()] = task
        owned[giver] -= 1
    return _moved(
        route,
        active=sorted([*route.active, *tasks]),
        partitions=partitions,
        draining=[d for d in route.draining if d.task not in tasks],
        now_ms=now_ms,
    )


def drained_at(route: ComponentRoute, task: int, until_ms: int) -> ComponentRoute:
    """The route in which `task`, which drains, counts as drained at `until_ms`, whoever looks then."""
    draining = [msgspec.structs.replace(d, until_ms=until_ms) if d.task == task else d for d in route.draining]
    return msgspec.structs.replace(route, draining=draining)


def settled(route: ComponentRoute, idle: Collection[int], now_ms: int, drain_timeout_ms: float) -> ComponentRoute:
    """The route without those draining tasks that are `idle` or had their time: they stand by from now on.

    A task gets `DRAIN_MIN_MS` at least; at most until its own limit, or `drain_timeout_ms` (infinite: until it is idle)
    where it has none. One that
    drains since a time that has not come, by a clock that was set back since or is ahead of ours, drains from now on.
    """

    def drains(d: DrainingTask) -> bool:
        until_ms = d.since_ms + drain_timeout_ms if d.until_ms is None else d.until_ms
        return now_ms - d.since_ms < DRAIN_MIN_MS or (d.task not in idle and now_ms < until_ms)

    draining = [_begun_by_now(d, now_ms) for d in route.draining]
    return msgspec.structs.replace(route, draining=[d for d in draining if drains(d)])


def _begun_by_now(d: DrainingTask, now_ms: int) -> DrainingTask:
    ahead_ms = d.since_ms - now_ms
    return d if ahead_ms <= DRAIN_MIN_MS else d.shifted(-ahead_ms)


def _shifted(route: ComponentRoute, by_ms: int) -> ComponentRoute:
    """With these times later by so much; the names of hand-overs stay, tasks answer by them."""
    draining = [d.shifted(by_ms) for d in route.draining]
    handovers = [msgspec.structs.replace(h, since_ms=h.since_ms + by_ms) for h in route.handovers]
    return msgspec.structs.replace(route, draining=draining, handovers=handovers)


def handed_on(route: ComponentRoute, tasks: Mapping[int, KeyedTask], now_ms: int) -> tuple[ComponentRoute, list[str]]:
    """The route with its hand-overs one step on, where their tasks did what they were told; what went wrong, as text.

    To be called after `settled`, with what the component's tasks wrote.
    """
    draining = [d.task for d in route.draining]
    found = advanced(
        route.component, route.handovers, route.partitions, draining, tasks, route.silent, route.owed, now_ms
    )
    after = msgspec.structs.replace(route, handovers=found.handovers, silent=found.silent, owed=found.owed)
    return after, found.said


def _moved(
    route: ComponentRoute, active: list[int], partitions: list[int], draining: list[DrainingTask], now_ms: int
) -> ComponentRoute:
    handovers = (
        begun(route.component, route.handovers, route.partitions, partitions, now_ms)
        if route.hands_over
        else route.handovers
    )
    return msgspec.structs.replace(route, active=active, partitions=partitions, draining=draining, handovers=handovers)


def _dealt(partitions: Sequence[int], left: Sequence[int]) -> list[int]:
    owned = Counter(p for p in partitions if p in left)
    dealt = []
    for owner in partitions:
        if owner in left:
            dealt.append(owner)
        else:
            dealt.append(min(left, key=lambda t: (owned[t], t)))
            owned[dealt[-1]] += 1
    return dealt


def _listed(tasks: Collection[int]) -> str:
    return ", ".join(map(str, tasks)) or "none"
