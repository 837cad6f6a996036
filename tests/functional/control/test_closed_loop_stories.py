"""Stories of closed loops: sources held by `topology.max.spout.pending` run faster when they are placed better."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.wanted import plan_in
from doubles.world import HALF, SPREAD, STEADY, World
from stormpilot import operate
from stormpilot.decide.events import EventKind
from stormpilot.model.load import planned_load_mhz
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.operate import Operator

GATHERED = {("a", 6700): (1, 2, 3, 4), ("b", 6700): (5, 6)}
"""No tuples between components cross nodes."""
PENDING = 10
OVERLOADED_S = 300
"""Long enough for an overload to be answered: X(n) and the cool-down are over."""


def world(
    cores: float, *, in_flight: float | None = PENDING, settings: str = "", wanted: Any = None
) -> tuple[World, str]:
    """A job that runs spread out on nodes of two cores, of which plans may fill 1.6; the planner wants it gathered."""
    w = World("a", "b", settings=settings)
    w.cores, w.in_flight = cores, in_flight
    t = w.submit(SPREAD)
    w.configure(t, {"topology.max.spout.pending": PENDING})
    w.tell(40)
    w.wanted = {t: wanted or GATHERED}
    return w, t


def runs_at(w: World, times: float, cores: float) -> None:
    """From now on so many times the tuples, at this CPU of every task."""
    w.traffic = {pair: times * tps for pair, tps in STEADY.items()}
    w.cores = cores


def gains_and_fills_its_node(w: World, t: str) -> None:
    """The plan is applied, the topology runs six times as fast and overloads the node; the planner wants it back."""
    w.when_applied = lambda: runs_at(w, 6, 0.5)
    assert "GAIN" in w.tell(20)
    w.wanted = {t: SPREAD}


def test_plan_for_a_closed_loop_fits_at_the_rate_that_it_may_reach() -> None:
    """Gathered it would fit as measured; at the rate that two nodes allow it fits only on both."""
    w, t = world(0.3)

    def planner(model: Model) -> Plan | Infeasible:
        gathered = plan_in(model, {t: GATHERED})
        load_mhz = planned_load_mhz(model, {tp.id: tp for tp in gathered.topologies})
        fits = all(load_mhz[s.id] <= s.limit_mhz for s in model.supervisors)
        return gathered if fits else plan_in(model, {t: HALF})

    w.planner = planner
    w.when_applied = lambda: runs_at(w, 2, 0.6)
    assert "GAIN" in w.tell(20)
    assert w.slots(t) == HALF
    w.tell(OVERLOADED_S)
    assert w.slots(t) == HALF
    assert [e.kind for e in w.events] == [EventKind.MOVE_HELPED]


def test_plan_that_fills_a_node_at_the_risen_rate_is_not_believed() -> None:
    w, t = world(0.3)
    assert w.tell(40) == ["RATE_WOULD_RISE"]
    assert w.slots(t) == SPREAD
    decision = w.decision(t)
    assert "held by topology.max.spout.pending" in decision.text
    assert decision.value is not None
    assert decision.threshold is not None
    assert decision.value > decision.threshold == 3200
    assert "held by" in w.state().topologies[0].sources


def test_held_topology_is_planned_for_the_rate_that_it_had_while_nothing_held_it() -> None:
    """Gathered it fits at twice the rate of now, which is what wants through, and not at all that two nodes allow."""
    w, t = world(0.3, in_flight=1, wanted=SPREAD)
    w.tell(60)
    runs_at(w, 0.5, 0.15)
    w.in_flight = PENDING
    w.tell(60)
    w.wanted = {t: GATHERED}
    assert "GAIN" in w.tell(40)
    assert w.slots(t) == GATHERED


def test_plan_that_moves_tells_the_latency_and_the_rate_that_it_carries() -> None:
    """Gathered on one node it carries half of what two nodes do; its history keeps that, as `plan show` tells it."""
    w, t = world(0.3, in_flight=1)
    w.tell(20)
    (entry,) = [e for e in w.history(t) if e.reason == "GAIN"]
    before, after = entry.plan.expected.before, entry.plan.expected.after
    assert before.keys() == after.keys() == {"inter_node_tps", "latency_ms", "carried_tps"}
    assert after["carried_tps"] < before["carried_tps"]
    assert before["latency_ms"] != after["latency_ms"]


def test_decision_weighs_what_it_saves_against_what_it_holds_up() -> None:
    w, t = world(0.3, in_flight=1)
    w.tell(10)
    assert "taken to last" in w.decision(t).trade_off
    assert "held up by restarts" in w.decision(t).trade_off


def test_open_loop_is_gathered_as_it_was_measured() -> None:
    """The same job with few tuples in flight: its rate comes from outside and does not follow the placement."""
    w, t = world(0.3, in_flight=1)
    assert "GAIN" in w.tell(20)
    assert w.slots(t) == GATHERED


def test_overload_by_our_own_gain_is_not_answered_with_a_restart() -> None:
    """For an hour the node is overloaded, and the only relief is the slow placement from before."""
    w, t = world(0.08)
    gains_and_fills_its_node(w, t)
    said = w.tell(3600)
    assert said[-1] == "THROUGHPUT_WOULD_FALL"
    assert "OVERLOAD" not in said
    assert (w.slots(t), len(w.applied)) == (GATHERED, 1)
    assert "made the topology faster (400 -> 2,400 tuples/s)" in w.decision(t).text
    state = w.situation().topologies[t]
    assert state.move is not None
    assert (state.move.metric, state.move.verdict) == ("us_per_tuple", "HELPED")


@pytest.mark.parametrize("how", [{"mode": "advise"}, {"approve": ["flights"]}])
def test_gain_of_a_plan_that_an_operator_approved_is_not_answered_with_a_restart_either(how: dict[str, Any]) -> None:
    """Ten minutes after such a plan for GAIN was carried out, its relief was proposed."""
    w, t = world(0.08)
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, **how)))
    w.when_applied = lambda: runs_at(w, 6, 0.5)
    w.tell(60)
    operate.approve(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "flights")  # type: ignore[arg-type]
    w.tell(60)
    assert w.slots(t) == GATHERED
    w.wanted = {t: SPREAD}
    w.tell(3600)
    assert w.decision(t).reason == "THROUGHPUT_WOULD_FALL"
    assert "OVERLOAD" not in {d.reason for r in w.reports for d in r.decisions.values()}


def test_next_leader_knows_that_the_overload_is_our_own_gain() -> None:
    w, t = world(0.08)
    gains_and_fills_its_node(w, t)
    w.tell(100)
    w.new_leader()
    assert w.tell(OVERLOADED_S)[-1] == "THROUGHPUT_WOULD_FALL"
    assert w.slots(t) == GATHERED


def test_rate_that_rose_with_the_move_counts_as_gain_where_nobody_measures_what_is_in_flight() -> None:
    w, t = world(0.08, in_flight=None)
    gains_and_fills_its_node(w, t)
    assert w.tell(OVERLOADED_S)[-1] == "THROUGHPUT_WOULD_FALL"
    assert w.slots(t) == GATHERED


def test_overload_by_more_input_is_relieved_though_the_last_move_was_a_gain() -> None:
    """The sources are free: the rate rose because more arrives."""
    w, t = world(0.08, in_flight=1)
    gains_and_fills_its_node(w, t)
    assert "OVERLOAD" in w.tell(OVERLOADED_S)
    assert w.slots(t) == SPREAD


def test_overload_by_input_that_grew_after_the_gain_is_relieved() -> None:
    """The move doubled the rate and overloaded nothing; much later three times as much arrives."""
    w, t = world(0.08, in_flight=None)
    w.when_applied = lambda: runs_at(w, 2, 0.16)
    assert "GAIN" in w.tell(20)
    w.tell(200)
    w.wanted = {t: SPREAD}
    runs_at(w, 6, 0.5)
    assert "OVERLOAD" in w.tell(OVERLOADED_S)


def test_operator_may_replan_what_our_gain_overloaded() -> None:
    w, t = world(0.08)
    gains_and_fills_its_node(w, t)
    w.tell(OVERLOADED_S)
    operate.replan(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "flights")  # type: ignore[arg-type]
    w.tell(20)
    assert w.slots(t) == SPREAD


def test_relief_that_makes_a_closed_loop_no_faster_counts_as_no_gain() -> None:
    """A source that takes what CPU there is overloads any node: relief must not go round and round."""
    w = World("a", "b")
    w.cores, w.in_flight = 0.45, PENDING
    t = w.submit(GATHERED)
    w.configure(t, {"topology.max.spout.pending": PENDING})
    w.wanted = {t: HALF}
    assert "OVERLOAD" in w.tell(150)
    w.tell(100)
    assert w.slots(t) == HALF
    assert [e.kind for e in w.events] == [EventKind.MOVE_WITHOUT_GAIN]
    assert w.moves(t).back_off_until_ms is not None


def test_move_that_lowers_the_throughput_of_a_closed_loop_is_undone() -> None:
    """Fewer tuples between nodes, as predicted, and half as many tuples altogether."""
    w, t = world(0.08)
    w.when_applied = lambda: runs_at(w, 0.5, 0.08)
    said = w.tell(110)
    assert "ROLLBACK_EFFECT" in said
    assert w.slots(t) == SPREAD
    effect = w.history(t)[0].effect
    assert effect is not None
    assert (effect.metric, effect.verdict) == ("us_per_tuple", "WORSE")


def test_throughput_that_varies_by_itself_is_no_reason_to_go_back() -> None:
    """A fifth more or less from time to time: a fifth less after the move is within that."""
    w, t = world(0.08)
    w.wanted = {}
    for i in range(20):
        runs_at(w, 1.0 + 0.2 * (i // 4 % 2), 0.08)
        w.tell(10)
    w.wanted = {t: GATHERED}
    w.when_applied = lambda: runs_at(w, 0.9, 0.08)
    w.tell(110)
    assert w.slots(t) == GATHERED
    assert w.moves(t).noise_ratio > 0.2


@pytest.mark.parametrize(("in_flight", "told"), [(1.0, EventKind.MOVE_HELPED), (0.45 * PENDING, None)])
def test_fewer_tuples_are_not_held_against_a_move_where_nothing_shows_what_holds_the_sources(
    in_flight: float, told: EventKind | None
) -> None:
    """What arrives falls at the same time; the sources are free then, or neither full nor free."""
    w, _ = world(0.08)

    def freed() -> None:
        runs_at(w, 0.8, 0.08)
        w.in_flight = in_flight

    w.when_applied = freed
    w.tell(110)
    kinds = [e.kind for e in w.events]
    assert kinds == [told] if told else EventKind.MOVE_WORSE not in kinds
