"""Which size is proposed for a running topology: when, how much, and what cannot be done without a new submission."""

from __future__ import annotations

import math

import msgspec
import pytest

from builders import supervisor, topology, traffic
from sizing_problems import model, problem
from stormpilot.errors import UsageError
from stormpilot.model.values import Assigned, Component, Exclusion, Executor, Model, Topology
from stormpilot.sizing.advice import Advice, Bounds, advise, source_rate_tps
from stormpilot.sizing.allocation import allocate
from stormpilot.sizing.performance import Base
from stormpilot.sizing.placement import Placed, place
from stormpilot.sizing.problem import Problem

PI = model("pi", (1, 100.0, 0.8, 0.2), (2, 150.0, 0.9, 0.2))
PROBLEM = problem([PI], [("source", "pi", 1.0)])
"""A slot does 150/s with two threads of `pi`."""
BASED = msgspec.structs.replace(PI, base=Base(cpu_share=0.5, memory_share=0.1))
PI_WITH_BASE = problem([BASED], [("source", "pi", 1.0)])
"""The same, and each worker takes half a core of it by itself."""


def running(
    pi: int, rate_tps: float, *, tasks_each: int = 2, slots: int | None = None, spare: int = 4
) -> tuple[Model, Topology]:
    """`pi` threads, two in a slot, that share the rate; the source has the first slot too. `spare` slots are free."""
    t = topology("t", {"source": 1, "pi": pi}, streams=[("source", "pi")])
    first = 2
    executors = [t.executors[0]]
    for e in t.executors[1:]:
        executors.append(msgspec.structs.replace(e, start=first, end=first + tasks_each - 1))
        first += tasks_each
    nodes = slots or (pi + 1) // 2
    where = [Assigned(start=1, supervisor="n0", port=6700)]
    where += [Assigned(start=e.start, supervisor=f"n{i % nodes}", port=6700) for i, e in enumerate(executors[1:])]
    t = msgspec.structs.replace(t, executors=executors, assignment=where)
    edges = traffic("t", {(1, e.start): rate_tps / pi for e in executors[1:]})
    supervisors = [supervisor(f"n{i}", 1, mhz=PROBLEM.slot.cpu_mhz) for i in range(nodes)]
    supervisors += [supervisor("spare", spare, mhz=spare * PROBLEM.slot.cpu_mhz)] if spare else []
    return Model(supervisors=supervisors, topologies=[t], traffic=edges), t


def advised(
    pi: int, rate_tps: float, *, held: bool = False, bounds: Bounds | None = None, **more: int
) -> Advice | None:
    model_, t = running(pi, rate_tps, **more)
    return advise(PROBLEM, model_, t, held=held, bounds=bounds or Bounds())


def test_size_that_fits_is_left_alone() -> None:
    assert advised(4, 200.0) is None


def test_more_threads_and_slots_are_proposed_when_the_rate_nears_what_is_supported() -> None:
    advice = advised(4, 280.0)  # two slots with two threads support 300/s
    assert advice is not None
    assert (advice.change, advice.supported_tps, advice.target_tps) == ("up", 300.0, 350.0)
    assert (advice.threads["pi"], advice.slots) == ((4, 5), (2, 3))
    assert "pi 4 to 5 threads, slots 2 to 3; stormpilot apply-size with --rate 350 carries it out" in advice.text


def test_fewer_slots_are_proposed_when_the_rate_has_fallen_far() -> None:
    advice = advised(6, 100.0)  # of 450/s
    assert advice is not None
    assert (advice.change, advice.target_tps, advice.slots) == ("down", 125.0, (3, 2))


def test_fewer_threads_without_a_slot_less_are_not_worth_a_restart() -> None:
    assert advised(2, 40.0) is None
    assert advised(4, 100.0) is None  # needs add up to one slot: a bundle has it alone, and the source another one


@pytest.mark.parametrize(("pi", "rate_tps"), [(4, 280.0), (6, 100.0), (8, 200.0)])
def test_slots_are_those_that_a_size_will_have(pi: int, rate_tps: float) -> None:
    advice = advised(pi, rate_tps)
    assert advice is not None
    placed = place(PROBLEM, allocate(PROBLEM, advice.target_tps, "mba"), "sam")
    assert isinstance(placed, Placed)
    assert advice.slots[1] == len(placed.plan.topologies[0].workers)


@pytest.mark.parametrize("rate_tps", [280.0, 290.0, 330.0])
def test_size_that_was_carried_out_is_not_proposed_away_again(rate_tps: float) -> None:
    advice = advised(4, rate_tps)
    assert advice is not None
    even = advice.threads["pi"][1] + advice.threads["pi"][1] % 2
    assert advised(even, rate_tps) is None


def test_sources_that_are_held_need_more_than_what_comes() -> None:
    advice = advised(4, 240.0, held=True)
    assert advice is not None
    assert (advice.change, advice.target_tps) == ("up", 375.0)
    assert "more is held back" in advice.text


def test_sources_that_something_else_holds_far_below_what_is_supported_ask_for_nothing() -> None:
    assert advised(4, 180.0, held=True) is None


def test_sources_that_something_else_holds_keep_their_threads() -> None:
    """A service is down: few tuples come through, and all that waits comes when it is back."""
    assert advised(6, 100.0) is not None
    assert advised(6, 100.0, held=True) is None


def test_sources_that_are_held_need_more_no_later_than_those_that_are_not() -> None:
    bounds = Bounds(up_ratio=0.65, headroom_ratio=0.6)
    for held in (False, True):
        advice = advised(4, 210.0, held=held, bounds=bounds)
        assert advice is not None
        assert advice.change == "up"


def test_more_threads_than_tasks_need_a_new_submission() -> None:
    advice = advised(4, 280.0, tasks_each=1)
    assert advice is not None
    assert advice.more_tasks == {"pi": 5}
    assert "submit it anew with topology.tasks for pi of 5: Storm never adds tasks" in advice.text


def on_standby(pi: int, rate_tps: float, *standby: int) -> Advice | None:
    """`pi` threads of which the executors that begin with these tasks are on standby; two slots with two each."""
    model_, t = running(pi, rate_tps, tasks_each=1)
    return advise(PROBLEM, model_, msgspec.structs.replace(t, standby=list(standby)), held=False, bounds=Bounds())


def test_executors_on_standby_support_nothing_and_are_proposed_first() -> None:
    advice = on_standby(4, 190.0, 4, 5)  # a thread in each slot: 200/s
    assert advice is not None
    assert (advice.change, advice.supported_tps, advice.target_tps) == ("up", 200.0, 238.0)
    assert advice.threads == {"source": (1, 1), "pi": (2, 4)} and advice.more_tasks == {}
    assert (
        "pi 2 to 4 threads; stormpilot apply-size with --rate 238 carries it out, by executors on standby"
        in advice.text
    )


def test_executors_that_a_low_rate_does_not_need_go_on_standby_though_no_slot_is_saved() -> None:
    advice = on_standby(4, 60.0, 5)  # 225/s by three
    assert advice is not None
    assert (advice.change, advice.threads["pi"], advice.slots) == ("down", (3, 1), (2, 2))
    assert on_standby(4, 60.0, 3, 4, 5) is None  # carried out


def test_executors_that_may_stand_by_are_proposed_also_where_all_get_tuples() -> None:
    """After the evening all of them are active: at night some go on standby again, and no rebalance is promised."""
    model_, t = running(4, 60.0, slots=2)
    rebalance = advise(PROBLEM, model_, t, held=False, bounds=Bounds())
    assert rebalance is not None and not rebalance.by_standby
    declared = msgspec.structs.replace(t, standby_components=["pi"])
    advice = advise(PROBLEM, model_, declared, held=False, bounds=Bounds())
    assert advice is not None and advice.by_standby
    assert (advice.change, advice.threads["pi"], advice.slots) == ("down", (4, 1), (2, 2))
    assert advice.text.endswith("carries it out, by executors on standby: nothing restarts")


def test_executors_on_standby_that_do_not_help_are_told() -> None:
    advice = on_standby(2, 190.0, 3)  # of one slot: both do 150/s
    assert advice is not None
    assert advice.threads["pi"] == (1, 2)
    one = model("pi", (1, 100.0, 0.8, 0.2), (2, 100.0, 0.9, 0.2))
    of = problem([one], [("source", "pi", 1.0)])
    model_, t = running(2, 190.0, tasks_each=1)
    advice = advise(of, model_, msgspec.structs.replace(t, standby=[3]), held=False, bounds=Bounds())
    assert advice is not None
    assert "other places; no executor on standby helps: submit it anew with more tasks on standby" in advice.text


def test_day_of_changing_rates_takes_few_changes_and_is_supported_all_the_time() -> None:
    """Between 60/s at night and 540/s in the evening, looked at every five minutes, each advice carried out at once."""
    pi, slots = 2, []
    for minute in range(0, 24 * 60, 5):
        rate_tps = 300.0 - 240.0 * math.cos(2 * math.pi * minute / (24 * 60))
        advice = advised(pi, rate_tps)
        if advice is not None:
            assert rate_tps < advice.supported_tps
            pi = advice.threads["pi"][1]
            slots.append(advice.slots)
    assert len(slots) <= 10
    assert max(after for _, after in slots) == 5  # four full bundles, and one for the source
    assert slots[-1][1] == 1


def test_skew_counts_as_less_support() -> None:
    """Three threads of which two share a slot: that slot gets two thirds of the tuples, and is full at 225/s."""
    model_, t = running(3, 210.0)
    advice = advise(PROBLEM, model_, t, held=False, bounds=Bounds())
    assert advice is not None
    assert advice.supported_tps == pytest.approx(225.0)


def test_rate_of_a_source_with_two_receivers_counts_once() -> None:
    both = problem([PI, model("xml", (1, 100.0, 0.5, 0.1))], [("source", "pi", 1.0), ("source", "xml", 1.0)])
    t = topology("t", {"source": 1, "pi": 1, "xml": 1}, streams=[("source", "pi"), ("source", "xml")])
    assert source_rate_tps(both, t, traffic("t", {(1, 2): 70.0, (1, 3): 70.0})) == 70.0


def test_topology_with_other_components_than_its_file_is_not_judged_and_told() -> None:
    model_, t = running(2, 140.0)
    other = problem([PI, model("other", (1, 1.0, 0.5, 0.1))], [("source", "pi", 1.0), ("pi", "other", 1.0)])
    with pytest.raises(UsageError, match="the running topology has no component other, which its file has"):
        advise(other, model_, t, held=False, bounds=Bounds())
    grown = msgspec.structs.replace(t, components=[*t.components, Component(id="db"), Component(id="a", kind="system")])
    with pytest.raises(UsageError, match="the file has no component db, which the running topology has"):
        advise(PROBLEM, model_, grown, held=False, bounds=Bounds())


def test_topology_that_runs_in_part_is_not_judged() -> None:
    model_, t = running(2, 140.0)
    lost = msgspec.structs.replace(t, assignment=t.assignment[:1])
    assert advise(PROBLEM, model_, lost, held=False, bounds=Bounds()) is None


def on_one_node(
    rate_tps: float, other: Executor, *, of: Problem = PROBLEM, own: bool = False, cores: float = 4.0
) -> Advice | None:
    """Six threads of `pi`, two in each of three slots of a node with four; `other` has the fourth.

    `own`: it is an acker of the same topology.
    """
    parallelism = {"source": 1, "pi": 6} | ({"__acker": 1} if own else {})
    t = topology("t", parallelism, streams=[("source", "pi")])
    ports = [6700, *(6700 + i // 2 for i in range(6)), 6703]
    where = [Assigned(start=e.start, supervisor="n0", port=port) for e, port in zip(t.executors, ports, strict=False)]
    another = topology("o", {"a": 1})
    if own:
        executors = [*t.executors[:-1], msgspec.structs.replace(other, start=8, end=8, component="__acker")]
        components = [*t.components[:-1], Component(id="__acker", kind="system")]
        t = msgspec.structs.replace(t, executors=executors, components=components)
    else:
        there = [Assigned(start=1, supervisor="n0", port=6703)]
        another = msgspec.structs.replace(another, executors=[other], assignment=there)
    t = msgspec.structs.replace(t, assignment=where)
    node = msgspec.structs.replace(supervisor("n0", 4, mhz=PROBLEM.slot.cpu_mhz), cores=cores)
    edges = traffic("t", {(1, e): rate_tps / 6 for e in range(2, 8)})
    model_ = Model(supervisors=[node], topologies=[t, another], traffic=edges)
    return advise(of, model_, t, held=False, bounds=Bounds())


def busy(cores: float, *, polling: float = 0.0, measured: bool = True) -> Executor:
    """An executor that uses so many cores of a slot."""
    mhz = PROBLEM.slot.cpu_mhz
    return Executor(start=1, end=1, component="a", cpu_mhz=cores * mhz, polling_mhz=polling * mhz, measured=measured)


@pytest.mark.parametrize("own", [False, True])
def test_cpu_that_others_use_of_the_nodes_supports_nothing(own: bool) -> None:
    """3.2 of 4 cores are used by another topology, or an acker: six threads get 0.8, which is enough for 133/s."""
    advice = on_one_node(140.0, busy(3.2), own=own)
    assert advice is not None
    assert (advice.change, advice.threads["pi"]) == ("up", (6, 6)), "fewer are not enough either"
    assert advice.text == (
        "its threads support 133.3/s of each source (CPU of n0 is used up then), 140/s come, 105% of that: other "
        "places; threads and slots are enough for that rate, so that no more of them change it: what limits is where "
        "they are, what else runs there, or how shuffles split (stormpilot predict)"
    )
    assert on_one_node(100.0, busy(3.2), own=own) is None, "75% of what is supported: no fewer either"
    advice = on_one_node(140.0, busy(0.2), own=own)
    assert advice is not None and advice.supported_tps == 450.0


def test_cpu_that_gives_way_on_a_full_node_and_cpu_that_nobody_measured_do_not_count() -> None:
    advice = on_one_node(140.0, busy(3.2, polling=0.4))  # half of the latter gives way: a whole core is left
    assert advice is None
    advice = on_one_node(160.0, busy(3.2, polling=0.4))
    assert advice is not None and advice.supported_tps == pytest.approx(133.333 / 0.8, rel=1e-4)
    advice = on_one_node(140.0, busy(3.2, measured=False))
    assert advice is not None and advice.supported_tps == 450.0


def test_a_node_that_workers_alone_use_up_supports_nothing() -> None:
    """It counted as no limit: 450/s were told of a node on which no tuple has a core."""
    advice = on_one_node(140.0, busy(0.0), of=PI_WITH_BASE, cores=1.4)
    assert advice is not None
    assert (advice.change, advice.supported_tps) == ("up", 0.0)
    assert advice.text.startswith(
        "its threads support 0/s of each source (CPU of n0 is used up by its workers alone), 140/s come: "
    )
    advice = on_one_node(140.0, busy(3.0), of=PI_WITH_BASE)
    assert advice is not None
    assert "(CPU of n0 is used up by its workers and what else runs there), 140/s come" in advice.text


def test_executors_on_standby_are_proposed_by_the_same_limit() -> None:
    """No executor that begins helps where the node is used up by workers: none is proposed."""
    t = topology("t", {"source": 1, "pi": 2}, streams=[("source", "pi")])
    where = [Assigned(start=e, supervisor="n0", port=6700 + e // 3) for e in (1, 2, 3)]
    t = msgspec.structs.replace(t, assignment=where, standby=[3])
    model_ = Model(
        supervisors=[supervisor("n0", 2, mhz=0.4 * PROBLEM.slot.cpu_mhz)],
        topologies=[t],
        traffic=traffic("t", {(1, 2): 90.0}),
    )
    advice = advise(PI_WITH_BASE, model_, t, held=False, bounds=Bounds())
    assert advice is not None
    assert (advice.supported_tps, advice.threads["pi"]) == (0.0, (1, 1))
    assert "no executor on standby helps" in advice.text


def test_a_size_that_apply_size_refuses_is_not_promised() -> None:
    advice = advised(4, 280.0, spare=0)
    assert advice is not None
    assert (advice.threads["pi"], advice.slots) == ((4, 5), (2, 3))
    assert advice.text.endswith("slots 2 to 3; cannot be carried out: 3 slots are needed, 2 are free or its own")
    model_, t = running(4, 280.0, spare=1)
    another = topology("o", {"a": 1})
    another = msgspec.structs.replace(another, assignment=[Assigned(start=1, supervisor="spare", port=6700)])
    taken = msgspec.structs.replace(model_, topologies=[t, another])
    drained = msgspec.structs.replace(model_, exclusions=[Exclusion(supervisor="spare", drained=True)])
    for without in (taken, drained):
        advice = advise(PROBLEM, without, t, held=False, bounds=Bounds())
        assert advice is not None
        assert advice.refused == "3 slots are needed, 2 are free or its own"
    advice = advise(PROBLEM, model_, t, held=False, bounds=Bounds())
    assert advice is not None and advice.refused == ""


def test_a_size_for_other_slots_than_those_of_the_nodes_is_not_promised() -> None:
    model_, t = running(4, 280.0, spare=0)
    small = msgspec.structs.replace(model_, supervisors=[*model_.supervisors, supervisor("s", 4, mhz=2000.0)])
    advice = advise(PROBLEM, small, t, held=False, bounds=Bounds())
    assert advice is not None
    assert "cannot be carried out: a slot of s has 500 MHz CPU, and models were measured on one of 1,000" in advice.text


def test_more_is_never_proposed_as_fewer_threads() -> None:
    """Four threads in a slot hinder each other: no size has more of them, and fewer are no growth."""
    crowded = problem([model("pi", (1, 100.0, 0.8, 0.2), (4, 40.0, 0.9, 0.2))], [("source", "pi", 1.0)])
    model_, t = running(8, 75.0, slots=2)
    advice = advise(crowded, model_, t, held=False, bounds=Bounds())
    assert advice is not None
    assert (advice.change, advice.threads["pi"], advice.slots) == ("up", (8, 8), (2, 2))
    assert "other places; threads and slots are enough" in advice.text
