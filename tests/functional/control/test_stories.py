"""Whole stories of the control loop on a clock of their own: what moved, what came of it, what next."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from doubles.models import plan_message, subject
from doubles.moving_jobs import world
from doubles.snapshots import T0_MS
from doubles.wanted import Slots, plan_in
from doubles.world import HALF, NEAR, SETTINGS, SPREAD, World
from stormpilot.config import parse
from stormpilot.decide.events import EventKind
from stormpilot.errors import UnreachableError
from stormpilot.messages.core import Worker, encode
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.operate.placing import Origin, publish_ahead
from stormpilot.planner import compute
from stormpilot.zookeeper.transaction import Step


def world_that_turns(settings: str = "", *, wanted: object = NEAR) -> tuple[World, str]:
    """A job that runs half spread out; once the plan is applied traffic goes another way than it was measured."""
    w = World("a", "b", settings=settings)
    w.traffic = {(1, 2): 100.0, (1, 3): 50.0, (2, 4): 100.0, (3, 4): 50.0}
    t = w.submit(HALF)
    w.tell(40)
    w.wanted = {t: wanted}  # type: ignore[dict-item]
    w.tell(10)
    w.traffic_when_applied = {(1, 2): 0.0, (1, 3): 150.0, (2, 4): 0.0, (3, 4): 150.0}
    return w, t


def kinds(w: World) -> list[EventKind]:
    return [e.kind for e in w.events]


def test_move_that_helps_is_measured_and_told_with_prediction_and_measurement() -> None:
    w, t = world()
    assert w.tell(10) == ["GAIN"]
    assert w.tell(100)[0] == "COOL_DOWN"
    assert kinds(w) == [EventKind.MOVE_HELPED]
    (entry,) = w.history(t)
    effect = entry.effect
    assert effect is not None
    assert (effect.verdict, effect.metric) == ("HELPED", "inter_node_share")
    assert effect.measured == pytest.approx(effect.predicted, rel=0.01)
    assert effect.predicted < effect.before * 0.8
    assert "HELPED" in w.state().topologies[0].effect


def test_gain_counts_per_tuple_processed_when_the_rate_changes_meanwhile() -> None:
    """Twice the traffic after the move: more tuples/s between nodes than before, and still half per tuple."""
    w, _ = world()
    w.traffic_when_applied = {pair: 2 * tps for pair, tps in w.traffic.items()}
    w.tell(110)
    assert kinds(w) == [EventKind.MOVE_HELPED]


def test_move_that_made_it_worse_is_undone_once_and_followed_by_a_pause() -> None:
    """Traffic followed the placement: what was to become local goes the other way."""
    w, t = world_that_turns("verify: {back_off_s: 300}\n")
    said = w.tell(110)
    assert "ROLLBACK_EFFECT" in said
    assert w.slots(t) == HALF
    assert kinds(w) == [EventKind.MOVE_WORSE]
    assert [e.reason for e in w.history(t)] == ["GAIN", "ROLLBACK_EFFECT"]
    assert w.history(t)[-1].text.startswith("back to the former placement: ")
    first = w.history(t)[0].effect
    assert first is not None
    assert (first.verdict, first.measured) == ("WORSE", pytest.approx(1.0, abs=0.2))
    assert w.tell(120)[-1] == "BACK_OFF"
    assert len(w.applied) == 2
    decision = w.decision(t)
    assert decision.until_ms == w.moves(t).back_off_until_ms
    assert "worse than before" in decision.text


def test_pause_after_a_failed_move_outlives_the_controller_and_doubles() -> None:
    w, t = world("verify: {back_off_s: 300, rollback: false}\n")
    w.tell(10)
    w.traffic_when_applied = {(1, 2): 0.0, (1, 3): 150.0, (2, 4): 0.0, (3, 4): 150.0}
    w.tell(60)
    assert w.moves(t).failures == 1
    first_end = w.moves(t).back_off_until_ms
    assert first_end is not None
    w.new_leader()
    w.wanted = {t: {("a", 6700): (1, 3, 4), ("b", 6700): (2, 5, 6)}}
    assert w.tell(200)[-1] == "BACK_OFF"
    w.traffic_when_applied = {(1, 2): 150.0, (1, 3): 0.0, (2, 4): 150.0, (3, 4): 0.0}
    while w.moves(t).failures == 1 and w.now_ms < first_end + 300_000:
        w.tell(10)
    assert w.moves(t).failures == 2
    judged_ms, until_ms = w.moves(t).judged_at_ms, w.moves(t).back_off_until_ms
    assert judged_ms is not None
    assert until_ms is not None
    assert until_ms - judged_ms == 600_000


def test_effect_check_goes_on_where_a_controller_ended() -> None:
    w, _ = world()
    w.tell(30)
    w.new_leader()
    w.tell(90)
    assert kinds(w) == [EventKind.MOVE_HELPED]


def test_effect_of_a_move_is_awaited_before_the_next_one() -> None:
    w, t = world("verify: {timeout_s: 500}\n")
    w.tell(30)
    w.wanted = {t: {("a", 6700): (1, 2, 3, 4), ("b", 6700): (5, 6)}}
    w.traffic.clear()  # nothing can be measured any more
    assert "MOVE_BEING_EVALUATED" in w.tell(100)


def test_rollback_that_is_blocked_is_said_and_given_up() -> None:
    """Another topology took a slot of the former placement meanwhile."""
    w, t = world_that_turns(wanted={("a", 6701): (1, 2, 4), ("b", 6701): (3, 5, 6)})
    w.tell(20)
    w.submit({("a", 6700): (1, 2, 3), ("b", 6702): (4, 5, 6)}, name="wordcount")
    w.wanted = {}
    w.tell(100)
    assert kinds(w) == [EventKind.MOVE_WORSE, EventKind.ROLLBACK_IMPOSSIBLE]
    assert "back to the former placement" not in w.events[0].text, "nothing went back"
    assert "slot a:6700 is held by wordcount" in w.events[-1].text
    assert w.slots(t) == {("a", 6701): (1, 2, 4), ("b", 6701): (3, 5, 6)}


def test_rollback_waits_for_what_operators_close() -> None:
    w, t = world_that_turns()
    w.tell(10)
    w.zookeeper.put(w.paths.pause("flights"), b'{"schema": 1}')
    assert w.tell(90)[-1] == "PAUSED"
    assert (w.moves(t).phase, w.slots(t)) == ("rollback", NEAR)
    w.zookeeper.delete(w.paths.pause("flights"))
    assert "ROLLBACK_EFFECT" in w.tell(20)
    assert w.slots(t) == HALF


def test_restart_time_is_learnt_from_our_moves_and_outlives_the_controller() -> None:
    w, _ = world()
    w.restart_s = 16.0
    view = w.state().topologies[0]
    assert (view.restart_s, view.restart_moves) == (15.0, 0)
    w.tell(110)
    (restart,) = w.state().restarts
    assert restart.applied_s == pytest.approx(8, abs=8)
    assert restart.downtime_s == pytest.approx(16, abs=4)
    assert restart.recovery_s > restart.downtime_s
    w.new_leader()
    w.tell(10)
    view = w.state().topologies[0]
    assert view.restart_moves == 1
    assert view.restart_s == pytest.approx((15 + restart.downtime_s) / 2, abs=0.1)


# --- triggers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["WORKERS_CHANGED", "SET_ASIDE"])
def test_rebalanced_topology_is_planned_anew_at_once_not_after_the_cool_down(code: str) -> None:
    w, t = world()
    w.tell(20)
    assert len(w.applied) == 1
    w.place(t, SPREAD, "fallback", code)
    said = w.tell(60)
    assert said[0] == "INSUFFICIENT_METRICS", "without measurements a plan would be blind"
    assert "REBALANCED" in said
    assert (len(w.applied), w.slots(t)) == (2, NEAR)
    assert w.history(t)[-1].reason == "REBALANCED"


def test_what_storm_made_of_a_rebalance_becomes_the_plan_when_nothing_is_better() -> None:
    w, t = world()
    w.tell(20)
    w.wanted = {}
    w.place(t, NEAR, "fallback", "WORKERS_CHANGED")
    w.tell(50)
    assert [(e.reason, e.moved_executors) for e in w.history(t)] == [("GAIN", 2), ("REBALANCED", 0)]


@pytest.mark.parametrize("mode", ["act", "advise"])
def test_a_plan_for_a_rebalance_on_its_way_is_left_alone_and_gone_on_from(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`apply-size` publishes it: what Storm would make is never measured, and nothing restarts a second time."""
    w, t = world()
    w.zookeeper.put(f"{w.paths.leader}/contender-0000000001", b"ctl-1:77")
    w.tell(20)
    w.use(parse(SETTINGS.replace("mode: act", f"mode: {mode}"), "story.yaml"))
    alone = {("b", 6701): (1, 2, 3, 4, 5, 6)}
    workers = [Worker(supervisor=s, port=p, executors=[(e, e) for e in held]) for (s, p), held in alone.items()]
    monkeypatch.setattr("stormpilot.operate.placing.time.time_ns", lambda: w.now_ms * 1_000_000)
    ahead = publish_ahead(w.zookeeper, w.paths, t, workers, Origin("apply-size", "sam", "sized", "ann"), rebalance_s=30)
    assert ahead is not None
    assert w.tell(30) == ["PLAN_MOVING"]
    assert w.slots(t) == NEAR
    w.rebalance(t, 1, NEAR)
    w.wanted = {}
    said = w.tell(120)
    assert w.slots(t) == alone
    assert "REBALANCED" not in said
    assert [e.plan.plan_id for e in w.history(t)][1:] == [ahead.plan_id]
    assert w.cycle.publisher.epoch.number == w.history(t)[-1].plan.epoch


def test_plan_whose_executors_are_not_those_of_the_topology_any_more_counts_as_rebalanced() -> None:
    """StoreSnapshot in the snapshot, before the plug-in has said anything of it."""
    same = [Worker(supervisor="a", port=1, executors=[(1, 1), (2, 2), (3, 3), (4, 4)])]
    merged = [Worker(supervisor="a", port=1, executors=[(1, 2), (3, 4)])]
    assert not subject(plan=plan_message(workers=same)).rebalanced
    assert subject(plan=plan_message(workers=merged)).rebalanced


# --- repairs ----------------------------------------------------------------------------------------------------------


def test_repair_opens_the_gate_for_no_gain_while_the_topology_cools_down() -> None:
    """A host is lost within the cool-down; the plug-in places what ran there, and a better plan is known at once."""
    w, t = world()
    w.supervisors("a", "b", "c")
    w.tell(20)
    w.wanted = {t: {("a", 6700): (1, 2, 3, 4, 5, 6)}}
    w.supervisors("a", "c")
    w.place(t, {("a", 6700): (1, 2, 4), ("c", 6701): (3, 5, 6)}, "degraded", "SUPERVISOR_LOST")
    assert w.tell(80)[-2:] == ["REPAIR", "COOL_DOWN"]
    kept = w.history(t)[-1]
    assert (kept.reason, kept.moved_executors) == ("REPAIR", 0)
    assert "under another plan: not within 120 s" in kept.text
    assert "what was repaired" in w.decision(t).text
    assert w.tell(120)[:2] == ["COOL_DOWN", "GAIN"]


# --- headroom ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fill_ratio", "lost", "seen"),
    [(0.9, False, [0.9]), (0.9, True, [0.9, 1.0]), (0.75, False, [0.75]), (1.0, False, [1.0])],
)
def test_plans_are_made_with_headroom_and_with_all_of_the_limit_only_in_need(
    fill_ratio: float, lost: bool, seen: list[float]
) -> None:
    """A planner that finds no room unless it gets all of B(n): what it is given of that, in order."""
    w, t = world()
    decide = msgspec.structs.replace(w.config.decide, fill_ratio=fill_ratio)
    w.use(msgspec.structs.replace(w.config, decide=decide))
    given: list[float] = []

    def planner(model: Model) -> Plan | Infeasible:
        given.append(round(model.supervisors[0].limit_mhz / (0.8 * model.supervisors[0].cpu_mhz), 2))
        return plan_in(model, {t: NEAR}) if given[-1] == 1 else Infeasible(constraint="cpu", text="", executors=[])

    w.planner = planner
    if lost:
        w.place(t, SPREAD, "degraded", "SUPERVISOR_LOST")
        w.tell(40)
    else:
        assert w.tell(10) == ["INFEASIBLE" if fill_ratio < 1 else "GAIN"]
    assert list(dict.fromkeys(given)) == seen


# --- gates ------------------------------------------------------------------------------------------------------------


def test_round_of_which_a_leader_wrote_only_a_part_is_replaced_by_the_next_one() -> None:
    w, t = world()
    w.wanted = {}
    w.tell(10)
    torn = plan_message(
        plan_id="p-torn",
        plan_set="r-torn",
        topology_id=t,
        epoch=1,
        created_at_ms=w.now_ms,
        plan_set_topologies=[t, "wordcount-1-1763690000"],
    )
    torn = msgspec.structs.replace(torn, checksum=torn.expected_checksum())
    w.zookeeper.put(w.paths.plan(t), encode(torn))
    w.answer(t, "waiting", "PLAN_SET_INCOMPLETE")
    w.submit({("a", 6703): (1, 2, 3), ("b", 6703): (4, 5, 6)}, name="wordcount")
    w.new_leader()
    assert "REPAIR" in w.tell(50)
    plan = w.plan(t)
    assert plan is not None
    assert (plan.epoch, w.slots(t), w.history(t)[-1].moved_executors) == (2, SPREAD, 0)
    assert "only a part of the last plan set was written" in w.history(t)[-1].text


def test_move_budget_holds_what_is_over_it_and_says_the_numbers() -> None:
    w, t = world("budget: {topology_executors_per_hour: 3}\n")
    w.tell(10)
    w.wanted = {t: SPREAD}
    w.traffic = {(1, 2): 0.0, (1, 3): 0.0, (2, 4): 0.0, (3, 4): 0.0, (4, 1): 10.0, (2, 3): 100.0}
    assert w.tell(200)[-1] == "MOVE_BUDGET"
    d = w.decision(t)
    assert (d.value, d.threshold) == (4, 3)
    assert d.until_ms == w.moves(t).spent[0].at_ms + 3_600_000
    w.new_leader()
    assert w.tell(60)[-1] == "MOVE_BUDGET", "what was spent outlives the controller"


def test_nothing_that_runs_is_moved_in_a_blackout_window() -> None:
    begin = datetime.fromtimestamp(T0_MS / 1000, UTC)
    end = begin + timedelta(minutes=5)
    window = f'{{from: "{begin:%H:%M}", to: "{end:%H:%M}"}}'
    w = World("a", "b")
    w.config = msgspec.structs.replace(
        w.config, decide=parse(f"decide: {{mode: act, consecutive_hits: 1, blackouts: [{window}]}}", "x").decide
    )
    w.new_leader()
    t = w.submit(SPREAD)
    w.wanted = {t: NEAR}
    assert w.tell(60) == ["BLACKOUT"]
    assert "every day" in w.decision(t).text
    assert w.decision(t).until_ms == int(end.replace(second=0, microsecond=0).timestamp() * 1000)
    assert "GAIN" in w.tell(300)


def test_a_topology_with_a_setting_that_plans_do_not_honour_is_left_alone() -> None:
    w, t = world()
    w.configure(t, {"topology.spread.components": ["parse"]})
    assert w.tell(60) == ["UNSUPPORTED_SETTING"]
    assert w.decision(t).text.startswith("topology.spread.components is ['parse']: plans do not honour that")
    w.supervisors("b")
    assert w.tell(100) == ["UNSUPPORTED_SETTING"], "what it lost is placed by Storm's own scheduler"
    assert w.plan(t) is None


def test_an_ignored_key_holds_nothing() -> None:
    w, t = world()
    w.use(
        msgspec.structs.replace(
            w.config, decide=msgspec.structs.replace(w.config.decide, ignored_storm_keys=["topology.spread.components"])
        )
    )
    w.configure(t, {"topology.spread.components": ["parse"]})
    assert w.tell(100)[0] != "UNSUPPORTED_SETTING"
    assert w.plan(t) is not None


def test_a_verdict_is_told_though_zookeeper_went_away_when_it_had_been_written() -> None:
    """The next observation found the move judged, so there was no event, and no effect in the history."""
    w, t = world()
    w.tell(10)
    commit, lost = w.zookeeper.commit, []

    def unheard(steps: Sequence[Step]) -> None:
        commit(steps)
        if not lost and any(getattr(s, "path", "") == w.paths.moves(t) for s in steps) and w.moves(t).judged_at_ms:
            lost.append(True)
            raise UnreachableError("away")

    w.zookeeper.commit = unheard  # type: ignore[method-assign]
    for _ in range(10):
        with contextlib.suppress(UnreachableError):
            w.tell(10)
    assert lost
    assert kinds(w) == [EventKind.MOVE_HELPED]
    (entry,) = w.history(t)
    assert entry.effect is not None
    assert entry.effect.verdict == "HELPED"
    assert [m.verdict for r in w.reports for m in r.ended] == ["HELPED"]


def test_load_of_a_cluster_that_is_short_of_cpu_is_shared_evenly() -> None:
    """All need 84% of the cluster and may fill 80%: no plan keeps that, and a node is full beside one that is not."""
    w = World("a", "b", "c")
    w.compute = lambda model, *_: compute(model, "best", {}, seed=0, left_s=lambda: 2.0)
    w.cores = 0.41
    placed: list[Slots] = [
        {("a", 6700): (1, 2, 3, 5), ("b", 6700): (4, 6)},
        {("a", 6701): (1, 2, 5), ("c", 6700): (3, 4, 6)},
        {("b", 6701): (1, 2, 3, 5), ("c", 6701): (4, 6)},
    ]
    topologies = [w.submit(slots, name) for slots, name in zip(placed, ("clicks", "flights", "words"), strict=True)]
    w.tell(10)
    assert w.state().short_of_cpu == "", "measured for too short a time"
    w.tell(30)
    assert w.state().short_of_cpu.startswith("what runs needs 10,0")
    for _ in range(20):
        w.tell(10)
        assert w.state().short_of_cpu, "what has just moved needs as much as before"
    assert Counter(s for t in topologies for (s, _), own in w.slots(t).items() for task in own if task < 5) == {
        "a": 4,
        "b": 4,
        "c": 4,
    }
    w.cores = 0.2
    w.tell(60)
    assert w.state().short_of_cpu == ""
