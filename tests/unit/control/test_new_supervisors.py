"""A supervisor that came, stays or goes: it is used once it has stayed, and only where somebody needs it."""

from __future__ import annotations

import msgspec
import pytest

from doubles import snapshots
from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot.decide.events import EventKind
from stormpilot.messages.core import encode
from stormpilot.messages.settings import ModeSetting
from stormpilot.model.values import Model, Plan

BUSY = {("a", 6700): (1, 2, 3, 4, 5, 6)}


EASED = {("a", 6700): (1, 2, 4, 5), ("b", 6700): (3, 6)}


def with_a_new_supervisor(
    settings: str = "stable_cycles: 3, busy_ratio: 0.3", eased: Slots = EASED
) -> tuple[World, str]:
    """Everything runs on a; b comes later. The planner leaves all of it on a for as long as it fits there."""
    w = World("a", settings=f"new_supervisors: {{{settings}}}\n")
    w.traffic = {(1, 2): 100.0, (2, 4): 100.0, (1, 3): 5.0, (3, 4): 5.0}
    t = w.submit(BUSY)

    def planner(model: Model) -> Plan:
        needed_mhz = sum(e.cpu_mhz for e in model.topologies[0].executors)
        fits = model.supervisors[0].limit_mhz >= needed_mhz
        return plan_in(model, {t: BUSY if fits else eased})

    w.planner = planner
    w.tell(60)
    return w, t


def test_supervisor_that_came_is_used_once_it_has_stayed() -> None:
    w, t = with_a_new_supervisor()
    w.supervisors("a", "b")
    assert w.tell(30) == ["NO_BETTER_PLAN"], "it may be gone again in a moment"
    assert w.tell(10) == ["NEW_SUPERVISOR"]
    assert "b came and is used; the busiest node falls from" in w.decision(t).text
    w.tell(60)
    assert w.slots(t) == EASED
    assert [e.kind for e in w.events] == [EventKind.MOVE_HELPED]
    assert w.moves(t).metric == "load_ratio"


def test_what_runs_beside_a_topology_fills_its_node_too() -> None:
    """Its own part, 33% of B(n), was held against what the other left of that."""
    eased = {("a", 6700): (3, 6), ("b", 6700): (1, 2, 4, 5)}
    w, t = with_a_new_supervisor("stable_cycles: 3, busy_ratio: 0.55, relief_ratio: 0.2", eased)
    w.submit({("a", 6701): (1, 2, 3, 4, 5, 6)}, name="wordcount")
    w.zookeeper.put(w.paths.mode("wordcount"), encode(ModeSetting(mode="off")))
    w.tell(40)
    w.supervisors("a", "b")
    w.tell(40)
    assert w.decision(t).reason == "NEW_SUPERVISOR"
    assert "the busiest node falls from 66% to 46% of B(n)" in w.decision(t).text


def test_supervisor_that_comes_and_goes_is_not_used() -> None:
    w, t = with_a_new_supervisor()
    for _ in range(5):
        w.supervisors("a", "b")
        w.tell(20)
        w.supervisors("a")
        w.tell(10)
    assert w.slots(t) == BUSY


@pytest.mark.parametrize(
    "settings",
    [
        "stable_cycles: 3, busy_ratio: 0.5",
        "stable_cycles: 3, busy_ratio: 0.3, relief_ratio: 0.6",
        "stable_cycles: 3, busy_ratio: 0.3, traffic_rise_ratio: 0.01",
        "stable_cycles: 3, busy_ratio: 0.3, enabled: false",
    ],
)
def test_supervisor_that_came_stays_empty_when_nobody_needs_it(settings: str) -> None:
    w, t = with_a_new_supervisor(settings)
    w.supervisors("a", "b")
    w.tell(120)
    assert w.slots(t) == BUSY


# --- back under a new id ----------------------------------------------------------------------------------------------


def show(w: World, *supervisors: str, blacklisted: tuple[str, ...] = ()) -> None:
    """The cluster has these, named after their host: `a2` is another one of host a."""
    cluster = snapshots.cluster(*supervisors)
    parts = [
        msgspec.structs.replace(s, host=f"host-{s.id[0]}", blacklisted=s.id in blacklisted) for s in cluster.supervisors
    ]
    w.zookeeper.put(w.paths.cluster, encode(msgspec.structs.replace(cluster, supervisors=parts)))


def five_hosts(*supervisors: str) -> tuple[World, str]:
    w = World(*"abcde")
    show(w, *(supervisors or "abcde"))
    t = w.submit({("a", 6700): (1, 2, 3, 4, 5, 6)})
    w.tell(20)
    return w, t


@pytest.mark.parametrize("beside", [False, True])
def test_supervisors_that_come_back_under_a_new_id_are_not_lost(beside: bool) -> None:
    """`beside`: Storm still names the old one when the new one comes."""
    w, t = five_hosts()
    left = list("abcde")
    for host in "bcde":
        if beside:
            show(w, *left, f"{host}2")
            w.tell(20)
        left[left.index(host)] = f"{host}2"
        show(w, *left)
        w.tell(20)
    assert w.decision(t).reason == "NO_BETTER_PLAN"
    assert w.situation().lost == ([], 5)
    show(w, "a", "b2", "c2", "d3", "e2")
    w.tell(20)
    assert w.situation().lost == ([], 5), "and again"
    show(w, "a", "b2", "c2")
    assert w.tell(20) == ["MASS_FAILURE"]
    assert w.situation().lost == (["d3", "e2"], 5)


def test_the_next_leader_knows_the_hosts_of_supervisors_that_came_back_under_a_new_id() -> None:
    w, t = five_hosts()
    show(w, "a", "b", "c")
    assert w.tell(10) == ["MASS_FAILURE"]
    w.new_leader()
    show(w, "a", "b2", "c", "d2", "e2")
    w.tell(10)
    assert w.decision(t).reason != "MASS_FAILURE"
    assert w.situation().lost == ([], 5)


def test_a_new_supervisor_stands_for_one_of_its_host_and_no_more() -> None:
    """Both of b's and both of c's are gone; one new one came to each. One of d came long before the other one went."""
    w, _ = five_hosts("a", "b", "b1", "c", "c1")
    show(w, "a", "b2", "c2")
    assert w.tell(20) == ["MASS_FAILURE"]
    assert len(w.situation().lost.gone) == 2
    show(w, "a", "b2", "c2", "d")
    w.tell(20)
    show(w, "a", "b2", "c2", "d", "d1")
    w.tell(200)
    show(w, "a", "b2", "c2", "d1")
    w.tell(10)
    assert "d" in w.situation().lost.gone


def test_a_new_supervisor_stands_for_a_blacklisted_one_but_not_where_it_is_blacklisted_itself() -> None:
    w, t = five_hosts()
    show(w, *"abcde", "d2", "e2", blacklisted=("d", "e", "d2", "e2"))
    assert w.tell(10) == ["MASS_FAILURE"]
    show(w, *"abcde", "d2", "e2", blacklisted=("d", "e", "e2"))
    w.tell(10)
    assert w.situation().lost == (["e"], 5)
    assert w.decision(t).reason != "MASS_FAILURE"
