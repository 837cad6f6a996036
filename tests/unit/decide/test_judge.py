"""When a plan is worth its restarts, and what holding one topology does to the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.models import HALF, NOW_MS, PAIRED, SPREAD, Slots, model, plan_message, status, subject, topology
from doubles.verdicts import CROSSED, ONE_HIT, judged, one, shuffled
from stormpilot.config import DecideSection, NewSupervisorsSection, VerifySection
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.criteria import TopologyCriteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.memory import Memory
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.reasons import Reason
from stormpilot.messages.controller_state import Restart
from stormpilot.model.values import Model


def test_publishes_plan_whose_gain_reaches_the_threshold() -> None:
    verdict = judged([subject()], PAIRED)
    assert one(verdict).action == "publish"
    assert one(verdict).reason is Reason.GAIN
    assert one(verdict).value == pytest.approx(1.0)
    assert one(verdict).inter_node_tps == (1000.0, 0.0)
    assert one(verdict).moved_executors == 2
    assert list(verdict.plans) == ["flights-1"]


def test_keeps_placement_when_gain_is_below_threshold() -> None:
    verdict = judged([subject()], HALF, config=DecideSection(gain_threshold_ratio=0.81, consecutive_hits=1))
    assert one(verdict).action == "skip"
    assert one(verdict).reason is Reason.GAIN_BELOW_THRESHOLD
    assert (one(verdict).value, one(verdict).threshold) == (pytest.approx(0.8), 0.81)
    assert verdict.plans == {}


def test_judges_a_plan_by_what_shuffles_will_send() -> None:
    by_flows = one(judged([shuffled()], CROSSED, traffic="flow"))
    assert (by_flows.action, by_flows.reason) == ("publish", Reason.GAIN)
    assert by_flows.inter_node_tps == (1000.0, 0.0)
    by_pairs = one(judged([shuffled()], CROSSED, traffic="measured"))
    assert by_pairs.reason is Reason.NO_BETTER_PLAN


def test_gain_that_only_measured_pairs_promise_is_none() -> None:
    by_flows = one(judged([shuffled(CROSSED)], PAIRED, traffic="flow"))
    assert (by_flows.action, by_flows.reason) == ("skip", Reason.NO_BETTER_PLAN)
    by_pairs = one(judged([shuffled(CROSSED)], PAIRED, traffic="measured"))
    assert by_pairs.reason is Reason.GAIN


def test_worse_plan_is_never_published_whatever_the_threshold() -> None:
    config = DecideSection(gain_threshold_ratio=0.0, consecutive_hits=1)
    assert one(judged([subject(topology(PAIRED))], SPREAD, config=config)).reason is Reason.NO_BETTER_PLAN


def test_plan_that_moves_nothing_is_no_better_plan() -> None:
    assert one(judged([subject()], SPREAD)).reason is Reason.NO_BETTER_PLAN


def test_gain_that_does_not_pay_for_the_restarts_is_left_alone() -> None:
    """1000 tuples/s arrive at executors that would restart; 10 s of that are won back in 10 s, not in 9."""
    for payback_s, reason in ((10.0, Reason.GAIN), (9.9, Reason.GAIN_BELOW_COST)):
        config = DecideSection(consecutive_hits=1, restart_s=10, payback_s=payback_s)
        assert one(judged([subject()], PAIRED, config=config)).reason is reason


def test_an_operator_who_asked_gets_a_gain_that_does_not_pay_for_the_restarts() -> None:
    config = DecideSection(consecutive_hits=1, restart_s=10, payback_s=9.9)
    found = one(judged([subject(asked=True)], PAIRED, config=config))
    assert (found.action, found.reason) == ("publish", Reason.GAIN)


def test_only_workers_that_change_count_as_restarts() -> None:
    """Executors 1 and 3 trade places with nobody: worker a:1 goes on, only 2 and 4 (200 tuples/s) start anew."""
    running: Slots = {("a", 1): (1, 3), ("b", 1): (2,), ("c", 1): (4,)}
    config = DecideSection(consecutive_hits=1, restart_s=10, payback_s=10)
    verdict = judged([subject(topology(running))], {("a", 1): (1, 3), ("b", 1): (2, 4)}, config=config)
    assert one(verdict).reason is Reason.GAIN
    config = DecideSection(consecutive_hits=1, restart_s=10, payback_s=9)
    held = one(judged([subject(topology(running))], {("a", 1): (1, 3), ("b", 1): (2, 4)}, config=config))
    assert (held.reason, held.value, held.threshold) == (Reason.GAIN_BELOW_COST, 1800.0, 2000.0)


def test_spouts_that_restart_hold_up_what_they_would_send() -> None:
    """Nothing arrives at spout 1, which joins 3 on its node; 800 tuples/s are late all the same."""
    running = topology({("a", 1): (3,), ("b", 1): (1,), ("c", 1): (2, 4)})
    joined: Slots = {("a", 1): (3,), ("a", 2): (1,), ("c", 1): (2, 4)}
    for payback_s, reason in ((10.0, Reason.GAIN), (9.0, Reason.GAIN_BELOW_COST)):
        config = DecideSection(consecutive_hits=1, restart_s=10, payback_s=payback_s)
        found = one(judged([subject(running)], joined, config=config))
        assert (found.reason, found.held_up) == (reason, (8000.0, 0.0))


def test_advises_where_the_mode_is_advise() -> None:
    verdict = judged([subject(mode="advise")], PAIRED)
    assert (one(verdict).action, one(verdict).reason) == ("advise", Reason.GAIN)


def test_first_plan_needs_no_gain() -> None:
    verdict = judged([subject(placed=False)], SPREAD)
    assert (one(verdict).action, one(verdict).reason) == ("publish", Reason.FIRST_PLAN)
    assert one(verdict).inter_node_tps == (None, 1000.0)


def test_a_first_plan_promises_nothing_of_traffic_that_nobody_has_measured() -> None:
    """Rates of a new topology are not known; they are not zero, nor is what it carries."""
    new = subject(placed=False)
    unmeasured = msgspec.structs.replace(model(new.topology), traffic=[])
    decision = one(judged([new], SPREAD, on=unmeasured))
    assert (decision.reason, decision.inter_node_tps, decision.expectation) == (Reason.FIRST_PLAN, (None, None), None)


# --- consecutive hits: a story with a clock ---------------------------------------------------------------------------


def test_gain_must_last_for_n_cycles_in_a_row() -> None:
    config = DecideSection(gain_threshold_ratio=0.1, consecutive_hits=3)
    memory, seen = Memory(), []
    for i, slots in enumerate([PAIRED, PAIRED, SPREAD, PAIRED, PAIRED, PAIRED]):
        verdict = judged([subject()], slots, config=config, memory=memory, now_ms=NOW_MS + i * 30_000)
        memory = verdict.memory
        seen.append(one(verdict).reason.value)
    lasting = Reason.GAIN_NOT_SUSTAINED.value
    assert seen == [lasting, lasting, Reason.NO_BETTER_PLAN.value, lasting, lasting, Reason.GAIN.value]
    assert memory.hits == {}  # counted anew after publishing


def test_a_gain_that_nobody_looked_at_for_long_does_not_count_on() -> None:
    """A pause, a blackout, missing metrics: what was seen before is not in a row with what is seen after."""
    config = DecideSection(gain_threshold_ratio=0.1, consecutive_hits=2)
    first = judged([subject()], PAIRED, config=config, now_ms=NOW_MS)
    for pause_ms, reason in ((30_000, Reason.GAIN), (3_600_000, Reason.GAIN_NOT_SUSTAINED)):
        again = judged([subject()], PAIRED, config=config, memory=first.memory, now_ms=NOW_MS + pause_ms)
        assert one(again).reason is reason


def test_cycles_in_quick_succession_count_once() -> None:
    """Changes in the cluster wake the controller; that is no second measurement."""
    config = DecideSection(consecutive_hits=2)
    memory = Memory()
    for ms in (0, 100, 9_999):
        verdict = judged([subject()], PAIRED, config=config, memory=memory, now_ms=NOW_MS + ms)
        memory = verdict.memory
        assert one(verdict).reason is Reason.GAIN_NOT_SUSTAINED
    assert one(judged([subject()], PAIRED, config=config, memory=memory, now_ms=NOW_MS + 10_000)).reason is Reason.GAIN


# --- headroom ---------------------------------------------------------------------------------------------------------


def test_voluntary_plan_that_takes_the_headroom_of_a_node_is_held_with_both_numbers() -> None:
    """HALF puts 600 MHz on a; what voluntary plans may fill of it is 500 or 600 of its 1000."""
    held = one(judged([subject()], HALF, room_mhz={"a": 500.0, "b": 500.0}))
    assert (held.action, held.reason, held.value, held.threshold) == ("skip", Reason.HEADROOM, 600.0, 500.0)
    assert one(judged([subject()], HALF, room_mhz={"a": 600.0, "b": 500.0})).reason is Reason.GAIN


def test_node_that_is_past_its_headroom_already_may_stay_so() -> None:
    """Node a has 600 MHz before and after; one executor leaves b."""
    running = topology({("a", 1): (1, 3, 2), ("b", 1): (4,)})
    config = DecideSection(consecutive_hits=1, gain_threshold_ratio=0.01)
    verdict = judged([subject(running)], {("a", 1): (1, 3, 2), ("a", 2): (4,)}, config=config, room_mhz={"a": 800.0})
    assert one(verdict).reason is Reason.GAIN
    grown = judged([subject(running)], {("a", 1): (1, 3, 2), ("a", 2): (4,)}, config=config, room_mhz={"a": 700.0})
    assert one(grown).reason is Reason.HEADROOM
    same = judged([subject(running)], {("a", 1): (2, 3, 4), ("b", 1): (1,)}, config=config, room_mhz={"a": 100.0})
    assert one(same).reason is Reason.NO_BETTER_PLAN
    swapped = judged(
        [subject(topology({("a", 1): (1, 2, 4), ("b", 1): (3,)}))],
        {("a", 1): (1, 3, 2), ("b", 1): (4,)},
        config=config,
        room_mhz={"a": 100.0, "b": 100.0},
    )
    assert one(swapped).reason is Reason.GAIN


# --- repair -----------------------------------------------------------------------------------------------------------


def test_repair_by_the_plug_in_is_kept_as_the_plan_when_nothing_better_is_found() -> None:
    who = subject(plan=plan_message(), status=status("degraded"))
    verdict = judged([who], HALF, config=DecideSection(gain_threshold_ratio=0.9))
    assert (one(verdict).action, one(verdict).reason, one(verdict).moved_executors) == ("publish", Reason.REPAIR, 0)
    workers = verdict.plans["flights-1"].workers
    assert [(w.supervisor, w.port, w.executors) for w in workers] == [
        ("a", 1, [(1, 1), (2, 2)]),
        ("b", 1, [(3, 3), (4, 4)]),
    ]


def test_what_is_kept_holds_up_nothing_and_weighs_nothing() -> None:
    """`explain` told what the planner's other plan would cost, as that of what was published."""
    restarts = {"flights-1": MoveStrategy("restart", "no tuples of it are routed")}
    for said in (status("degraded"), status("fallback", "SET_ASIDE")):
        who = subject(plan=plan_message(), status=said)
        kept = one(judged([who], HALF, config=DecideSection(gain_threshold_ratio=0.9), strategies=restarts))
        assert (kept.action, kept.moved_executors, kept.restarted_workers) == ("publish", 0, 0)
        assert (kept.strategy, kept.held_up, kept.trade_off) == (None, (0.0, 0.0), "")


def test_degraded_topology_takes_a_better_plan_at_once_where_that_is_wanted() -> None:
    who = subject(plan=plan_message(), status=status("degraded"))
    verdict = judged([who], PAIRED, config=DecideSection(consecutive_hits=5, repair_cool_down_s=0))
    assert (one(verdict).action, one(verdict).reason) == ("publish", Reason.GAIN)


@pytest.mark.parametrize(("own_s", "said_s"), [(None, 3600), (900.0, 900)])
def test_repair_opens_no_gate_for_a_better_plan(own_s: float | None, said_s: int) -> None:
    who = subject(plan=plan_message(), status=status("degraded"))
    config = DecideSection(consecutive_hits=1, cool_down_s=3600, repair_cool_down_s=own_s)
    kept = one(judged([who], PAIRED, config=config))
    assert (kept.action, kept.reason, kept.moved_executors) == ("publish", Reason.REPAIR, 0)
    assert f"falls by 100% under another plan: not within {said_s} s" in kept.text


def test_operator_who_asks_gets_a_better_plan_after_a_repair_at_once() -> None:
    who = subject(plan=plan_message(), status=status("degraded"), asked=True)
    assert one(judged([who], PAIRED)).reason is Reason.GAIN


def test_executors_without_a_slot_get_one_whatever_the_gain() -> None:
    who = subject(missing_slots=1, plan=plan_message())
    verdict = judged([who], SPREAD)
    assert (one(verdict).action, one(verdict).reason) == ("publish", Reason.REPAIR)
    assert "1 executor has no slot" in one(verdict).text


def test_plan_that_cannot_be_read_is_replaced_by_what_runs() -> None:
    who = subject(plan_problem="checksum", plan_since_ms=NOW_MS - 10**9)
    verdict = judged([who], SPREAD)
    assert (one(verdict).action, one(verdict).reason, one(verdict).moved_executors) == ("publish", Reason.REPAIR, 0)


# --- several topologies -----------------------------------------------------------------------------------------------

THERE: Slots = {("a", 2): (1, 3), ("c", 1): (2, 4)}
THERE_PAIRED: Slots = {("c", 1): (1, 3), ("c", 2): (2, 4)}


def two(second: Slots, **fields: Any) -> list[TopologyState]:
    return [subject(topology(SPREAD)), subject(topology(second, name="wordcount"), **fields)]


def test_topology_with_nothing_to_win_does_not_restart_because_another_one_has() -> None:
    verdict = judged(two(THERE), PAIRED, THERE_PAIRED)
    assert verdict.decisions["flights-1"].action == "publish"
    assert verdict.decisions["wordcount-1"].action == "skip"
    assert list(verdict.plans) == ["flights-1"]


def test_plan_that_wants_a_slot_which_another_topology_keeps_is_held() -> None:
    wants: Slots = {("a", 2): (1, 3), ("b", 1): (2, 4)}
    verdict = judged(two(THERE), wants, {("a", 1): (1, 3), ("c", 1): (2, 4)})
    held = verdict.decisions["flights-1"]
    assert (held.action, held.reason) == ("skip", Reason.SLOT_OCCUPIED)
    assert held.text == "the plan wants slot a:2, which wordcount keeps"


def test_topologies_that_trade_slots_are_published_together() -> None:
    trading = [
        subject(topology({("a", 1): (1, 2), ("b", 1): (3, 4)})),
        subject(topology({("c", 1): (1, 2), ("b", 2): (3, 4)}, "wordcount")),
    ]
    verdict = judged(trading, {("a", 1): (1, 3), ("c", 1): (2, 4)}, {("b", 1): (1, 3), ("b", 2): (2, 4)})
    assert {d.action for d in verdict.decisions.values()} == {"publish"}


def test_plan_that_would_overload_a_node_with_what_another_topology_keeps_there_is_held() -> None:
    """Together they fit: wordcount would leave a. It has nothing to win and stays, so flights may not come."""
    staying = topology({("a", 1): (1, 3), ("a", 2): (2, 4)}, "wordcount")
    coming = topology({("b", 1): (1, 2), ("c", 1): (3, 4)})
    on = model(coming, staying)
    states = [subject(coming), subject(staying)]
    together: tuple[Slots, Slots] = ({("b", 1): (1, 3), ("a", 2): (2, 4)}, {("a", 1): (1, 3), ("c", 1): (2, 4)})
    verdict = judged(states, *together, on=on)
    assert verdict.decisions["wordcount-1"].reason is Reason.NO_BETTER_PLAN
    assert verdict.decisions["flights-1"].reason in (Reason.INSUFFICIENT_CPU, Reason.SLOT_OCCUPIED)
    full = judged(states, {("b", 1): (1, 3), ("a", 3): (2, 4)}, together[1], on=_with_third_slot(on))
    assert full.decisions["flights-1"].reason is Reason.INSUFFICIENT_CPU


def _with_third_slot(on: Model) -> Model:

    return msgspec.structs.replace(
        on, supervisors=[msgspec.structs.replace(s, slots=[1, 2, 3]) for s in on.supervisors]
    )


def test_supervisors_that_vanish_are_remembered_for_the_grace_time() -> None:
    memory = Memory().observe(model(), NOW_MS)
    assert memory.lost(["a"], NOW_MS + 1000, grace_s=600) == (["b", "c"], 3)
    assert memory.lost(["a"], NOW_MS + 601_000, grace_s=600) == ([], 1)
    assert memory.lost(["a", "b", "c", "d"], NOW_MS, grace_s=600) == ([], 4)


# --- what a move promises ---------------------------------------------------------------------------------------------


def test_move_for_traffic_promises_less_traffic_per_tuple() -> None:
    promise = one(judged([subject()], HALF)).promise
    assert promise is not None
    assert (promise.metric, promise.before, promise.predicted) == ("inter_node_share", 1.0, pytest.approx(0.2))
    assert (promise.throughput_tps, promise.noise_ratio) == (1000.0, 0.05)


def test_first_plans_and_repairs_promise_nothing() -> None:
    assert one(judged([subject(placed=False)], SPREAD)).promise is None
    assert one(judged([subject(missing_slots=1, plan=plan_message())], SPREAD)).promise is None
    kept = judged([subject(plan=plan_message(), status=status("degraded"))], HALF, config=HIGH_BAR)
    assert one(kept).promise is None


HIGH_BAR = DecideSection(gain_threshold_ratio=0.9)


def test_noise_that_was_seen_widens_what_counts_as_no_change() -> None:
    memory = Memory()
    for i, share in enumerate((0.7, 0.8, 0.9, 1.0, 1.0, 1.1)):
        memory = memory.measured(topology(SPREAD), share, 100.0, NOW_MS + i * 30_000, 15)
    promise = one(judged([subject()], HALF, memory=memory)).promise
    assert promise is not None
    assert promise.noise_ratio > 0.3
    moved = memory.measured(topology(PAIRED), 0.1, 100.0, NOW_MS + 10**6, 15)
    assert moved.shares["flights-1"].values == (0.1,), "another placement, another noise"


def test_costly_restart_says_where_its_number_is_from() -> None:
    config = DecideSection(consecutive_hits=1, restart_s=1, payback_s=10)
    assert one(judged([subject()], PAIRED, config=config)).reason is Reason.GAIN
    slow = [
        Restart(plan_id="p", topology="flights", at_ms=0, applied_s=2, recovery_s=30, downtime_s=s, tasks=2)
        for s in (29, 30, 31)
    ]
    held = one(judged([subject()], PAIRED, config=config, restarts=slow))
    assert (held.reason, held.threshold) == (Reason.GAIN_BELOW_COST, 30_000.0)
    assert "30 s, measured in 3 moves of this topology" in held.text


# --- slower cores -----------------------------------------------------------------------------------------------------

APART: Slots = {("b", 1): (1, 2), ("c", 1): (3, 4)}


def on_slow_cores(now: Slots, cpu_mhz: float, config: DecideSection = ONE_HIT, **fields: Any) -> Decision:
    """Inter-node traffic falls by 100%, and 1 and 3 come to node a, whose 8 cores have 500 MHz, not 1000."""
    of = topology(now, cpu_mhz=cpu_mhz)
    on = model(of, limit_mhz=2000.0)
    slow = [msgspec.structs.replace(s, cores=8.0, mhz=500.0) if s.id == "a" else s for s in on.supervisors]
    on = msgspec.structs.replace(on, supervisors=slow)
    return one(judged([subject(of, **fields)], PAIRED, on=on, config=config))


def test_plan_that_carries_less_than_comes_now_is_held() -> None:
    held = on_slow_cores(APART, 600.0)
    assert (held.action, held.reason, held.promise) == ("skip", Reason.THROUGHPUT_WOULD_FALL, None)
    assert (held.value, held.threshold) == (pytest.approx(833.3, abs=0.1), 1000.0)
    assert "would carry 833 of 1,000 tuples/s from its sources (then flights: x [1,1] fills a core)" in held.text
    assert on_slow_cores(APART, 600.0, asked=True).reason is Reason.THROUGHPUT_WOULD_FALL
    assert on_slow_cores(APART, 600.0, config=DecideSection(consecutive_hits=9)).reason is held.reason
    changed = {"plan": plan_message(), "status": status("fallback", "WORKERS_CHANGED")}
    kept = on_slow_cores(APART, 600.0, **changed)
    assert (kept.action, kept.reason, kept.moved_executors) == ("publish", Reason.REBALANCED, 0)


def test_plan_on_slow_cores_that_carries_what_comes_or_no_less_than_what_runs_is_published() -> None:
    assert on_slow_cores(APART, 400.0).action == "publish"
    assert on_slow_cores(SPREAD, 600.0).action == "publish"


@pytest.mark.parametrize(("common", "own", "reason"), [(3, 1, Reason.GAIN), (1, 3, Reason.GAIN_NOT_SUSTAINED)])
def test_a_topologys_own_number_of_hits_holds_for_it(common: int, own: int, reason: Reason) -> None:
    """Replay recommended it, `status` said so, and the common number decided."""
    config = DecideSection(gain_threshold_ratio=0.1, consecutive_hits=common)
    criteria = TopologyCriteria(msgspec.structs.replace(config, consecutive_hits=own), VerifySection())
    assert one(judged([subject()], PAIRED, config=config, own={"flights-1": criteria})).reason is reason


def test_replan_with_a_small_gain_is_not_told_as_a_new_supervisor() -> None:
    half: Slots = {("a", 1): (1, 3, 2), ("b", 1): (4,)}
    config = DecideSection(gain_threshold_ratio=0.9, consecutive_hits=1)
    found = one(judged([subject(asked=True)], half, config=config))
    assert (found.action, found.reason) == ("publish", Reason.GAIN)


def test_relief_by_a_new_supervisor_is_the_gain_of_those_alone_who_relieve() -> None:
    """The other one came to the busiest node; what it was promised got worse, as predicted, and was rolled back."""
    flights = topology({("a", 1): (1, 2, 3, 4)}, cpu_mhz=200.0)
    words = topology({("b", 1): (1, 2, 3, 4)}, name="wordcount", cpu_mhz=100.0)
    found = judged(
        [subject(flights), subject(words)],
        {("a", 1): (1, 3), ("c", 1): (2, 4)},
        {("c", 2): (1, 3), ("a", 2): (2, 4)},
        arrived=frozenset({"c"}),
        new_supervisors=NewSupervisorsSection(busy_ratio=0.3, relief_ratio=0.05),
    ).decisions
    assert found["flights-1"].reason is Reason.NEW_SUPERVISOR
    assert found["wordcount-1"].promise is None
