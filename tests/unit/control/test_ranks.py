"""Users and priorities in the loop: who gets room first where not all that run nowhere have it."""

from __future__ import annotations

import msgspec
import pytest

from doubles import snapshots
from doubles.wanted import plan_in
from doubles.world import World
from storm_schedulers import DEFAULT, RAS
from stormpilot.control.ranks import first_in_order
from stormpilot.messages.core import encode
from stormpilot.model.values import Infeasible, Model, Plan

POOLS = "resource.aware.scheduler.user.pools"
AT_A, AT_B = {("a", 6700): (1, 2, 3, 4, 5, 6)}, {("b", 6700): (1, 2, 3, 4, 5, 6)}
SIZE = ("A-1", "A-2", "B-1", "B-2")


def world(fallback: str, *, pools: dict[str, dict[str, float]] | None = None) -> World:
    w = World("a", "b")
    cluster = snapshots.cluster("a", "b")
    config = {} if pools is None else {POOLS: pools}
    shim = msgspec.structs.replace(cluster.shim, fallback=fallback, config=config)
    w.zookeeper.put(w.paths.cluster, encode(msgspec.structs.replace(cluster, shim=shim)))
    return w


def submit(w: World, name: str, *, owner: str = "ops", priority: int = 29) -> str:
    t = w.submit({}, name=name)
    snapshot = msgspec.structs.replace(w._topologies[t], owner=owner, priority=priority)
    w._topologies[t] = snapshot
    w.zookeeper.put(w.paths.topology(t), encode(snapshot))
    return t


def room_for(w: World, *names: str) -> None:
    """The planner finds room for one of these at a time, and for no other."""

    def plan(model: Model) -> Plan | Infeasible:
        new = [t for t in model.topologies if not t.assignment]
        if len(new) > 1 or not {t.name for t in new} <= set(names):
            return Infeasible(constraint="node-cpu", text="it does not fit")
        return plan_in(model, {t.id: AT_A if t.name == names[0] else AT_B for t in new})

    w.planner = plan


def reasons(w: World) -> dict[str, str]:
    w.tell(10)
    return {t.partition("-1-176")[0]: d.reason.value for t, d in w.reports[-1].decisions.items()}


@pytest.mark.parametrize("fallback", [RAS, DEFAULT])
def test_topologies_without_room_together_are_planned_one_after_the_other_by_priority(fallback: str) -> None:
    w = world(fallback)
    submit(w, "humble", priority=20)
    submit(w, "proud", priority=1)
    room_for(w, "proud", "humble")
    assert reasons(w) == {"proud": "FIRST_PLAN", "humble": "FIRST_PLAN"}


def test_under_the_resource_aware_scheduler_nobody_gets_room_while_one_before_it_waits() -> None:
    """A plan cannot be evicted: the one that does not fit would wait behind it for ever."""
    w = world(RAS)
    humble = submit(w, "humble", priority=20)
    proud = submit(w, "proud", priority=1)
    room_for(w, "humble")
    assert reasons(w) == {"proud": "INFEASIBLE", "humble": "HIGHER_PRIORITY_WAITS"}
    assert "proud comes before it" in w.decision(humble).text
    assert "1 of 2" in w.decision(proud).text


def test_other_schedulers_know_no_order_so_what_fits_is_planned() -> None:
    w = world(DEFAULT)
    submit(w, "humble", priority=20)
    submit(w, "proud", priority=1)
    room_for(w, "humble")
    assert reasons(w) == {"proud": "INFEASIBLE", "humble": "FIRST_PLAN"}


def test_one_that_lost_its_executors_waits_before_a_new_one_of_lower_rank() -> None:
    w = world(RAS)
    ran = submit(w, "ran", priority=1)
    w.place(ran, AT_A)
    w.tell(10)
    w.place(ran, {})
    submit(w, "humble", priority=20)
    room_for(w, "humble")
    w.tell(100)
    assert reasons(w)["humble"] == "HIGHER_PRIORITY_WAITS"


@pytest.mark.parametrize(("with_plan", "first"), [(False, "A"), (True, "B")])
def test_what_a_user_runs_counts_before_it_gets_more(with_plan: bool, first: str) -> None:
    """Points of 6 executors are 50 (the collector declares 10): A is guaranteed 60, B 20."""
    w = world(RAS, pools={"A": {"cpu": 60, "memory": 8000}, "B": {"cpu": 20, "memory": 8000}})
    if with_plan:
        ran = submit(w, "ran", owner="A", priority=0)
        w.place(ran, AT_A)
    more, other = submit(w, "more", owner="A", priority=1), submit(w, "other", owner="B", priority=29)
    assert first_in_order(w.situation().model, {more, other}) == (more if first == "A" else other)


def test_the_example_of_storms_page_in_its_order() -> None:
    """300 points and 4,000 MB; all four fit one by one, and are served as Storm's class serves them."""
    w = world(RAS, pools={"A": {"cpu": 100, "memory": 1000}, "B": {"cpu": 200, "memory": 1500}})
    cluster = snapshots.cluster("a", "b", cpu_pcore_percent=150.0, memory_mb=2000.0)
    (node,) = w.zookeeper.read([w.paths.cluster])
    assert node is not None
    shim = w.situation().snapshot.cluster.shim  # type: ignore[union-attr]
    w.zookeeper.put(w.paths.cluster, encode(msgspec.structs.replace(cluster, shim=shim)))
    for name in SIZE:
        t = submit(w, name, owner=name[0], priority=1 if name.endswith("1") else 10)
        parts = [
            msgspec.structs.replace(c, cpu_pcore_percent=100 / 6, memory_mb=1000 / 6)
            for c in w._topologies[t].components
        ]
        w.zookeeper.put(w.paths.topology(t), encode(msgspec.structs.replace(w._topologies[t], components=parts)))
    left = dict.fromkeys(f"{name}-1-1763690000" for name in SIZE)
    order = []
    model = w.situation().model
    while left:
        order.append(first_in_order(model, left)[:3])
        del left[f"{order[-1]}-1-1763690000"]
    assert order == ["B-1", "A-1", "B-2", "A-2"]
