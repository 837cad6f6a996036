"""Steps of otd between two cycles: one executor at a time, by the gates of every move, told once."""

from __future__ import annotations

import dataclasses
import itertools

import msgspec
import numpy as np
import pytest

from doubles import snapshots
from doubles.rolling_jobs import operator
from doubles.wanted import Slots, plan_in
from doubles.world import SPREAD, World
from stormpilot import operate
from stormpilot.control import otd_loop
from stormpilot.decide.events import EventKind
from stormpilot.messages.core import encode
from stormpilot.messages.settings import ModeSetting
from stormpilot.model.compiled import NOWHERE, Compiled
from stormpilot.model.values import Model

OTD = "otd: {enabled: true, period_s: 10, cool_down_s: 30, threshold_asc_tps: 20, cpu_high: 0.5, cpu_low: 0.4}\n"


def test_otd_moves_one_executor_at_a_time_and_rests_in_between() -> None:
    w = World("a", "b", settings=OTD)
    t = w.submit(SPREAD)
    w.step_otd(40)
    assert len(w.history(t)) == 1
    w.step_otd(20)
    assert len(w.history(t)) == 1, "it rests"
    w.step_otd(400)
    history = w.history(t)
    assert {(e.reason, e.moved_executors, e.plan.planner) for e in history} == {("OTD", 1, "otd")}
    times = [e.plan.created_at_ms for e in history]
    assert all(b - a >= 30_000 for a, b in itertools.pairwise(times))
    assert history[0].text.startswith("case 3: executor")
    assert w.decision(t).reason == "OTD", "the main loop leaves it alone"
    tps = [e.plan.expected.after["inter_node_tps"] for e in history]
    assert tps == sorted(tps, reverse=True)


def test_otd_heeds_the_gates_of_every_move() -> None:
    w = World("a", "b", settings=OTD + "budget: {cluster_executors_per_hour: 1}\n")
    t = w.submit(SPREAD)
    w.zookeeper.put(w.paths.pause("flights"), b'{"schema": 1}')
    w.step_otd(60)
    assert w.history(t) == []
    w.zookeeper.delete(w.paths.pause("flights"))
    w.step_otd(300)
    assert len(w.history(t)) == 1, "the budget"


def test_otd_says_once_that_resources_lack_and_once_that_they_suffice() -> None:
    w = World("a", "b", settings=OTD.replace("cpu_high: 0.5, cpu_low: 0.4", "cpu_high: 0.05, cpu_low: 0.04"))
    t = w.submit(SPREAD)
    w.step_otd(200)
    assert [e.kind for e in w.events] == [EventKind.RESOURCES_INSUFFICIENT]
    assert w.history(t) == []
    w.use(msgspec.structs.replace(w.config, otd=msgspec.structs.replace(w.config.otd, cpu_high=0.9, cpu_low=0.8)))
    w.step_otd(20)
    assert EventKind.RESOURCES_SUFFICIENT in [e.kind for e in w.events]


def test_job_that_nothing_can_relieve_keeps_nobody_else_from_a_step_and_alone_is_told() -> None:
    """`aaa` is in one worker, which is too loaded, and no worker of it is anywhere else."""
    w = World("a", "b", "c", settings=OTD.replace("cpu_high: 0.5, cpu_low: 0.4", "cpu_high: 0.32, cpu_low: 0.3"))
    first = w.submit({("a", 6700): (1, 2, 3, 4, 5, 6)}, name="aaa")
    second = w.submit({("b", 6700): (1, 4, 6), ("c", 6700): (2, 3, 5)}, name="zzz")
    w.step_otd(200)
    assert w.history(first) == []
    assert {e.text[:6] for e in w.history(second)} == {"case 3"}
    assert [(e.kind, e.topology_id) for e in w.events] == [(EventKind.RESOURCES_INSUFFICIENT, first)]


def test_otd_relieves_a_node_step_by_step_though_one_step_is_not_enough() -> None:
    """B(n) is 0.3 cores, a has more than 0.4 of them: after the first step it is overloaded still."""
    w = World("a", "b", settings=OTD)
    w.config = msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, cpu_limit_ratio=0.15))
    w.new_leader()
    t = w.submit({("a", 6700): (1, 2, 3, 4, 5), ("b", 6700): (6,)})
    w.step_otd(60)
    assert [e.text[:6] for e in w.history(t)] == ["case 1"]
    assert len(w.slots(t)["a", 6700]) == 4


def two_jobs(settings: str = "") -> tuple[World, str, str]:
    """Two jobs that are alike, on the same nodes: of steps that are as good, otd takes that of `aaa`."""
    w = World("a", "b", settings=OTD + settings)
    first = w.submit(SPREAD, name="aaa")
    second = w.submit({("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}, name="zzz")
    return w, first, second


def only_propose(w: World, how: str, *names: str) -> None:
    """Topologies of these names move no executor of themselves: by their mode, or because moves need approval."""
    if how == "advise":
        for name in names:
            w.zookeeper.put(w.paths.mode(name), encode(ModeSetting(mode="advise")))
    else:
        w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, approve=names)))


@pytest.mark.parametrize("how", ["advise", "approve"])
def test_step_that_is_only_proposed_keeps_nobody_else_from_a_step(how: str) -> None:
    w, first, second = two_jobs()
    only_propose(w, how, "aaa")
    w.step_otd(120)
    assert w.history(first) == []
    assert len(w.history(second)) >= 2


@pytest.mark.parametrize("how", ["advise", "approve"])
def test_proposal_of_a_step_stands_while_the_step_is_the_same_until_it_is_too_old(how: str) -> None:
    w, first, second = two_jobs()
    only_propose(w, how, "aaa", "zzz")
    w.step_otd(60)
    before = w.proposal(first), w.proposal(second)
    w.step_otd(120)
    assert (w.proposal(first), w.proposal(second)) == before
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, approval_max_age_s=60.0)))
    w.step_otd(60)
    after = w.proposal(first)
    assert after.plan.plan_id != before[0].plan.plan_id
    assert after.plan.workers == before[0].plan.workers


def test_otd_proposes_nothing_in_place_of_a_drain_that_is_proposed() -> None:
    w, first, _ = two_jobs()
    w.supervisors("a", "b", "c")
    only_propose(w, "advise", "aaa")
    operate.drain(operator(w), "host-b")
    away: Slots = {("a", 6700): (1, 4, 6), ("c", 6700): (2, 3, 5)}
    w.planner = lambda model: plan_in(model, {first: away})
    w.step_otd(60)
    drain = w.proposal(first)
    assert drain.reason == "DRAIN"
    w.step_otd(60)
    assert w.proposal(first) == drain


def test_topology_over_its_own_budget_keeps_nobody_else_from_a_step() -> None:
    w, first, second = two_jobs("budget: {topology_executors_per_hour: 1}\n")
    w.step_otd(200)
    assert [len(w.history(t)) for t in (first, second)] == [1, 1]
    assert "MOVE_BUDGET" in {d.reason for step in w.steps for d in step.decisions.values()}


def test_step_that_would_break_a_constraint_keeps_nobody_else_from_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    w, first, second = two_jobs()
    monkeypatch.setattr(otd_loop, "_breaks_more", lambda model, plan, running, moved: moved[0] == first)
    w.step_otd(60)
    assert w.history(first) == []
    assert w.history(second) != []


def test_topology_whose_slots_are_now_of_another_is_given_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    w, first, second = two_jobs()
    whole = otd_loop.compile_model

    def without_first(model: Model) -> Compiled:
        c = whole(model)
        ids = [t.id for t in model.topologies]
        lost = c.topology == (ids.index(first) if first in ids else NOWHERE)
        return dataclasses.replace(c, current=np.where(lost, NOWHERE, c.current))

    monkeypatch.setattr(otd_loop, "compile_model", without_first)
    w.step_otd(60)
    assert w.history(first) == []
    assert w.history(second) != []


def test_traffic_alone_brings_no_executor_back_within_the_hour() -> None:
    """Nearly as much with one node as with the other: each step wins a little, and restarts two workers."""
    w = World("a", "b", settings=OTD.replace("threshold_asc_tps: 20", "threshold_asc_tps: 5"))

    def leaning(part: float) -> None:
        w.traffic = {(1, 2): 1000.0, (2, 4): 1000.0 * part, (1, 3): 1.0, (3, 4): 1.0}

    leaning(1.05)
    t = w.submit({("a", 6700): (1,), ("a", 6701): (2, 5), ("b", 6700): (4,), ("b", 6701): (3, 6)})
    w._topologies[t] = msgspec.structs.replace(w._topologies[t], workers=4)
    w.zookeeper.put(w.paths.topology(t), encode(w._topologies[t]))
    w.step_otd(120)
    assert [e.moved_executors for e in w.history(t)] == [1], "to the side with which it has more"
    for part in (0.95, 1.05, 0.95):
        leaning(part)
        w.step_otd(240)
    assert len(w.history(t)) == 1
    w.step_otd(3600)
    assert len(w.history(t)) == 2, "after the hour"


def test_topology_in_more_workers_than_it_asks_for_keeps_nobody_else_from_a_step() -> None:
    """As the plug-in leaves it where a lost worker fits nowhere as a whole."""
    w = World("a", "b", settings=OTD)
    first = w.submit({("a", 6700): (1, 4, 6), ("b", 6700): (2, 5), ("b", 6701): (3,)}, name="aaa")
    second = w.submit({("a", 6702): (1, 4, 6), ("b", 6702): (2, 3, 5)}, name="zzz")
    w.step_otd(60)
    assert len(w.history(second)) == 1
    assert w.history(first) == []
    assert "it runs in more workers than it asks for" in w.decision(first).text


def test_where_the_budget_of_the_cluster_is_spent_otd_asks_about_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    w, _, _ = two_jobs("budget: {cluster_executors_per_hour: 1}\n")
    w.step_otd(100)
    asked: list[int] = []
    compiled = otd_loop.compile_model
    monkeypatch.setattr(otd_loop, "compile_model", lambda model: asked.append(len(model.topologies)) or compiled(model))
    w.step_otd(10)
    assert {d.reason for d in w.steps[-1].decisions.values()} == {"MOVE_BUDGET"}
    assert set(asked) == {2}


# --- slower cores -----------------------------------------------------------------------------------------------------


def fast_and_slow(marks: str) -> tuple[World, str]:
    """Tasks use 0.8 of a core; those of `b` are half as fast, so that one of `a` does not fit on one of them."""
    w = World("a", "b", settings=OTD.replace("cpu_high: 0.5, cpu_low: 0.4", marks))
    nodes = [
        snapshots.supervisor("a", cpu_pcore_percent=450.0, meta={"cpu.mhz": "2000"}),
        snapshots.supervisor("b", cpu_pcore_percent=1600.0, meta={"cpu.mhz": "1000"}),
    ]
    w.zookeeper.put(w.paths.cluster, encode(msgspec.structs.replace(snapshots.cluster(), supervisors=nodes)))
    w.cores = 0.8
    return w, w.submit({("a", 6700): (1, 4), ("b", 6700): (2, 3, 5, 6)})


def test_step_to_slower_cores_that_would_carry_less_is_not_made_and_another_one_is() -> None:
    """Most traffic would be saved by executor 1 on `b`; executor 2 comes to `a`."""
    w, t = fast_and_slow("cpu_high: 0.9, cpu_low: 0.6")
    w.step_otd(60)
    assert [e.text.split(";")[0] for e in w.history(t)] == ["case 3: executor 2 moves"]
    assert set(w.slots(t)["a", 6700]) == {1, 2, 4}


def test_executor_that_no_slower_core_may_take_is_told_and_not_asked_for_again_at_once() -> None:
    w, t = fast_and_slow("cpu_high: 0.4, cpu_low: 0.3")
    w.step_otd(400)
    assert w.history(t) == []
    held = [d for step in w.steps for d in step.decisions.values()]
    assert [(d.action, d.reason) for d in held] == [("skip", "THROUGHPUT_WOULD_FALL")]
    assert "case 1: executor 4 moves; it relieves an overloaded worker, but the plan would carry" in held[0].text
    assert [e.kind for e in w.events] == [EventKind.RESOURCES_INSUFFICIENT]
    w.step_otd(600)
    assert len([d for step in w.steps for d in step.decisions.values()]) == 2, "asked once more, ten minutes later"


# --- what `status` and `explain` say --------------------------------------------------------------------------------


def test_main_loop_tells_the_move_that_was_not_worth_it_with_its_number_and_threshold() -> None:
    """An operator read that otd has the topology, and not why no executor moves."""
    w = World("a", "b", settings=OTD.replace("threshold_asc_tps: 20", "threshold_asc_tps: 5000"))
    t = w.submit(SPREAD)
    w.step_otd(60)
    d = w.decision(t)
    assert (d.reason, d.threshold) == ("OTD", 5000)
    assert d.value is not None and 0 < d.value < 5000
    assert f"no move; the best would save {d.value:.0f} tuples/s between nodes, more than 5000 are wanted" in d.text


def test_main_loop_tells_the_gate_that_holds_otd_with_the_cool_down_of_otd() -> None:
    w = World("a", "b", settings=OTD.replace("cool_down_s: 30", "cool_down_s: 120"))
    w.submit(SPREAD)
    w.step_otd(150)
    held = {d.reason: d for r in w.reports for d in r.decisions.values()}
    assert held["COOL_DOWN"].threshold == 120


def test_main_loop_tells_that_no_worker_may_take_an_executor_with_the_loads() -> None:
    w = World("a", "b", settings=OTD.replace("cpu_high: 0.5, cpu_low: 0.4", "cpu_high: 0.05, cpu_low: 0.04"))
    t = w.submit(SPREAD)
    w.step_otd(60)
    d = w.decision(t)
    assert "too loaded and no worker is low: nodes are filled to " in d.text
    assert "too loaded is above 5% or 10,000 tuples that wait, low up to 4% and 1,000" in d.text
    assert d.value is not None and d.value > d.threshold == 0.05
    w.use(msgspec.structs.replace(w.config, otd=msgspec.structs.replace(w.config.otd, cpu_high=0.9, cpu_low=0.04)))
    w.step_otd(20)
    d = w.decision(t)
    assert "no worker is too loaded, and none is low: nodes" in d.text
    assert d.value is not None and d.value > d.threshold == 0.04


@pytest.mark.parametrize("how", ["advise", "approve"])
def test_main_loop_tells_the_step_that_waits_and_how_it_is_made(how: str) -> None:
    w, first, second = two_jobs()
    only_propose(w, how, "aaa")
    w.step_otd(60)
    d = w.decision(first)
    assert d.action == "skip"
    assert "case 3: executor 1 moves; 200 tuples/s less between nodes" in d.text
    assert "`stormpilot approve aaa`" in d.text
    assert "approve" not in w.decision(second).text


def test_main_loop_tells_whose_turn_it_was_and_the_budget_that_ended_it() -> None:
    w, first, second = two_jobs("budget: {cluster_executors_per_hour: 1}\n")
    w.step_otd(60)
    assert any("its last step: it was for aaa: case 3" in r.decisions[second].text for r in w.reports)
    w.step_otd(120)
    assert {w.decision(t).reason.value for t in (first, second)} <= {"MOVE_BUDGET", "OTD"}
    assert "MOVE_BUDGET" in {w.decision(t).reason for t in (first, second)}
