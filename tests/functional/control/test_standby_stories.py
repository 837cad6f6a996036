"""Tasks that stand by get the tuples of others: by a plan, and by otd, without a restart."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doubles.rolling_jobs import begun, operator
from doubles.world import Slots, World
from stormpilot import operate
from stormpilot.config.rollout import MoveStrategyName
from stormpilot.control.topology_state import topology_states
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.events import EventKind

OTD = "otd: {enabled: true, period_s: 10, cool_down_s: 30, threshold_asc_tps: 20, cpu_high: 0.5, cpu_low: 0.4}\n"


STANDS_BY: Slots = {("a", 6700): (1, 3, 4, 5, 6), ("b", 6700): (2,)}
"""`parse` 2 works far from its source, 3 stands by beside it."""


def standing_by(wanted: Slots) -> tuple[World, str]:
    w = World("a", "b")
    w.traffic = {(1, 2): 100.0, (2, 4): 100.0}
    t = w.submit(STANDS_BY, routed=True, standby=1)
    w.tell(40)
    w.wanted = {t: wanted}
    return w, t


def test_a_plan_for_which_a_task_stands_by_moves_tuples_and_no_worker() -> None:
    """The planner wants 2 where 3 is: 3 gets what 2 got, 2 stands by, everything stays where it is."""
    w, t = standing_by({("a", 6700): (1, 2, 3, 4, 5, 6)})
    w.tell(200)
    assert w.slots(t) == STANDS_BY
    table = w.routes(t)
    assert table is not None
    assert [(c.component, c.active, c.draining) for c in table.components] == [("parse", [3], [])]
    m = w.rollout(t)
    assert m is not None
    assert (m.outcome, m.steps[0].switches) == ("DONE", [(2, 3)])
    (entry,) = w.history(t)
    assert entry.move_strategy == "rolling: without restarts, by giving the tuples of 1 task to tasks that stand by"
    assert entry.effect is not None
    assert entry.effect.verdict == "HELPED"


def test_a_switch_that_made_it_worse_gives_the_tuples_back() -> None:
    """It moved no executor, so the placement before it, which it was to go back to, was what ran."""
    w = World("a", "b")
    w.traffic = {(1, 2): 100.0, (2, 4): 60.0}
    t = w.submit({("a", 6700): (1, 3, 5, 6), ("b", 6700): (2, 4)}, routed=True, standby=1)
    w.tell(40)
    w.wanted = {t: {("a", 6700): (1, 2, 3, 5, 6), ("b", 6700): (4,)}}
    begun(w, t)
    w.wanted = {}
    w.traffic = {(1, 2): 20.0, (2, 4): 140.0}
    w.tell(200)
    assert EventKind.MOVE_WORSE in [e.kind for e in w.events]
    table = w.routes(t)
    assert table is not None
    assert [(c.active, c.draining) for c in table.components] == [([2], [])]
    assert w.history(t)[-1].reason == "ROLLBACK_EFFECT"


@pytest.mark.parametrize("phase", ["ready", "draining"])
def test_a_switch_that_is_aborted_gives_the_tuples_back(phase: str) -> None:
    w, t = standing_by({("a", 6700): (1, 2, 3, 4, 5, 6)})
    begun(w, t, phase)
    w.wanted = {}
    operate.abort_rollout(operator(w), t)
    w.tell(20)
    m = w.rollout(t)
    assert m is not None
    assert m.outcome == "ABORTED"
    table = w.routes(t)
    assert table is None or [c.active for c in table.components] == [[2]]


def test_a_drained_host_is_left_by_the_executor_not_only_by_its_tuples() -> None:
    w, t = standing_by({("a", 6700): (1, 2, 3, 4, 5, 6)})
    operate.drain(operator(w), "host-b")
    w.tell(60)
    assert w.slots(t) == {("a", 6700): (1, 2, 3, 4, 5, 6)}


def test_otd_restarts_nothing_where_restarts_are_not_wanted() -> None:
    """Every worker holds something that cannot be routed: with restarts an executor moves, without none does."""
    for moves, plans in (("auto", 1), ("rolling", 0)):
        w = World("a", "b", settings=OTD)
        decide = msgspec.structs.replace(w.config.decide, move_strategy=moves)
        w.config = msgspec.structs.replace(w.config, decide=decide)
        w.new_leader()
        t = w.submit({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}, routed=True)
        w.step_otd(100)
        assert min(1, len(w.history(t))) == plans
        held = {d.reason for x in [*w.reports, *w.steps] for d in x.decisions.values() if d.action == "skip"}
        assert ("RESTART_NOT_ALLOWED" in held) == (moves == "rolling")


def otd_with_standby(settings: str = "", moves: MoveStrategyName = "auto") -> tuple[World, str]:
    """`parse` 2 gets all that the source beside 3 sends; only otd may change that."""
    w = World("a", "b", settings=OTD + settings)
    w.config = msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, move_strategy=moves))
    w.new_leader()
    w.traffic = {(1, 2): 100.0, (2, 4): 100.0}
    return w, w.submit(STANDS_BY, routed=True, standby=1)


def test_otd_gives_tuples_to_a_task_that_stands_by_before_it_moves_one() -> None:
    w, t = otd_with_standby()
    w.step_otd(120)
    assert w.slots(t) == STANDS_BY, "no worker changed"
    table = w.routes(t)
    assert table is not None
    assert [(c.component, c.active, c.draining) for c in table.components] == [("parse", [3], [])]
    (entry,) = w.history(t)
    assert (entry.reason, entry.plan.planner, entry.moved_executors) == ("OTD", "otd", 1)
    assert entry.text == "case 3: executor 2 gives its tuples to 3, which stands by; 200 tuples/s less between nodes"
    assert entry.move_strategy == "rolling: without restarts, by giving the tuples of 1 task to tasks that stand by"
    m = w.rollout(t)
    assert m is not None
    assert m.outcome == "DONE"
    assert [(s.executors, s.workers) for s in w.moves(t).spent] == [(1, 0)], "no worker restarted"


def state_of(w: World, t: str) -> TopologyState:
    observation = w.cycle.observer.observe(w.now_ms)
    moves, paths = observation.seen.moves, w.paths
    return topology_states(observation, w.config.decide, w.cycle.memory, moves, paths, epoch=1)[t]


def test_otd_rests_a_short_time_after_a_switch_and_a_long_one_after_a_move() -> None:
    w, t = otd_with_standby()
    w.step_otd(60)
    (entry,) = w.history(t)
    subject = state_of(w, t)
    assert subject.plan is not None
    assert subject.move is not None
    assert subject.plan.plan_id == entry.plan.plan_id
    section = w.config.otd
    assert w.cycle.otd._gates(subject).cool_down_s == section.switch_cool_down_s == 10
    (spent,) = subject.move.spent
    restarted = msgspec.structs.replace(subject.move, spent=[msgspec.structs.replace(spent, workers=2)])
    assert w.cycle.otd._gates(replace(subject, move=restarted)).cool_down_s == section.cool_down_s == 30


def test_otd_restarts_workers_where_all_that_moves_is_to_restart() -> None:
    """No tuples are switched then: 2 itself comes."""
    w, t = otd_with_standby(moves="restart")
    w.submit({("b", 6701): (1, 2, 3, 4, 5, 6)}, name="other")
    w.step_otd(60)
    assert w.routes(t) is None


def test_a_switch_is_not_held_by_a_budget_of_restarts() -> None:
    w, t = otd_with_standby("budget: {topology_workers_per_hour: 0}\n")
    w.step_otd(60)
    assert len(w.history(t)) == 1
    w, t = otd_with_standby("budget: {topology_executors_per_hour: 0}\n")
    w.step_otd(60)
    assert w.history(t) == []


def test_after_a_switch_nothing_counts_that_was_measured_before() -> None:
    w, t = otd_with_standby()
    w.step_otd(60)
    since_ms = w.cycle.observer.observe(w.now_ms).since_ms[t]
    table = w.routes(t)
    assert table is not None
    (entry,) = w.history(t)
    settled_ms = int(w.config.load.settle_s * 1000)
    assert since_ms >= entry.plan.created_at_ms - 10_000 + settled_ms
    assert since_ms <= entry.plan.created_at_ms + settled_ms
