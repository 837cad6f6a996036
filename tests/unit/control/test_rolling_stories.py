"""Whole stories of plans that are carried out without restarts, on their own clock: decided, begun, interrupted."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doubles.world import Slots, World, plan_in
from stormpilot import operate
from stormpilot.config.rollout import MoveStrategyName
from stormpilot.control.topology_state import topology_states
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.events import EventKind
from stormpilot.errors import RefusedError
from stormpilot.messages.core import PauseSetting, encode
from stormpilot.model.values import Model, Plan
from stormpilot.operate import Operator

APART: Slots = {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("c", 6700): (3,)}
"""All that `source` sends to `parse` (2, 3), and what that sends to `sink`, crosses nodes."""
TOGETHER: Slots = {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("a", 6702): (3,)}
HALF: Slots = {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("c", 6700): (3,)}
SOURCE_TOO: Slots = {("b", 6701): (1, 4, 5, 6), ("b", 6700): (2,), ("b", 6702): (3,)}
"""As good as TOGETHER, but the spout's worker restarts."""


OTD = "otd: {enabled: true, period_s: 10, cool_down_s: 30, threshold_asc_tps: 20, cpu_high: 0.5, cpu_low: 0.4}\n"


def world(moves: MoveStrategyName = "auto", wanted: Slots = TOGETHER) -> tuple[World, str]:
    """A job that runs on three nodes and is measured; the planner wants it elsewhere."""
    w = World("a", "b", "c", settings="rollout: {task_refresh_s: 4, step_interval_s: 2, start_timeout_s: 60}\n")
    w.config = msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, move_strategy=moves))
    w.new_leader()
    t = w.submit(APART, routed=True)
    w.tell(40)
    w.wanted = {t: wanted}
    return w, t


def nodes(slots: Slots) -> set[tuple[str, tuple[int, ...]]]:
    return {(node, tasks) for (node, _), tasks in slots.items()}


def all_active(w: World, t: str) -> bool:
    table = w.routes(t)
    return table is None or all(
        c.active == {"parse": [2, 3], "sink": [4]}[c.component] and not c.draining for c in table.components
    )


def begun(w: World, t: str, phase: str = "") -> None:
    """Until a rollout runs (in this phase)."""
    for _ in range(60):
        m = w.rollout(t)
        if m is not None and m.running and phase in ("", m.phase):
            return
        w.tell(2)
    raise AssertionError("no rollout began")


def operator(w: World) -> Operator:
    return Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("moves", "noise", "said"),
    [
        ("auto", 0.0, ["GAIN", "ROLLOUT_IN_PROGRESS"]),
        ("restart", 0.0, ["GAIN_NOT_SUSTAINED"]),
        ("auto", 1.0, ["GAIN_NOT_SUSTAINED"]),
    ],
)
def test_a_gain_beyond_the_noise_begins_a_rollout_at_once(
    moves: MoveStrategyName, noise: float, said: list[str]
) -> None:
    """A plan that restarts workers, and a gain within the noise, have to last for all of the cycles."""
    w, t = world(moves, APART)
    w.config = msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, consecutive_hits=4))
    w.use(w.config)
    for i in range(12):  # more or less traffic inside a node: the share of the rest varies
        w.traffic[1, 4] = noise * 400.0 * (i // 3 % 2)
        w.tell(10)
    w.wanted = {t: HALF}
    assert w.tell(20) == said


def test_a_plan_whose_workers_can_be_emptied_is_carried_out_without_restarts_and_judged_once() -> None:
    w, t = world()
    said = w.tell(300)
    assert said[:2] == ["GAIN", "ROLLOUT_IN_PROGRESS"]
    assert nodes(w.slots(t)) == nodes(TOGETHER)
    assert all_active(w, t)
    m = w.rollout(t)
    assert m is not None
    assert (m.outcome, len(m.steps), m.phase) == ("DONE", 2, "ended")
    first, last = w.history(t)
    assert (first.rollout_of, last.rollout_of) == (last.plan.plan_id, "")
    assert last.plan.plan_id == m.entry.plan.plan_id
    assert "without restarts, in 2 steps" in last.move_strategy
    assert first.effect is None
    assert last.effect is not None
    assert last.effect.verdict == "HELPED"
    assert [e.kind for e in w.events] == [EventKind.ROLLOUT_DONE, EventKind.MOVE_HELPED]
    assert [s.executors for s in w.moves(t).spent] == [1, 1]


def test_what_the_decision_says_of_it() -> None:
    w, t = world()
    begun(w, t)
    published = next(a for a in w.reports if a.decisions[t].action == "publish")
    view = published.views(w.cycle.observer.observe(w.now_ms).belief.readiness, {})[0]
    assert view.move_strategy == "rolling: without restarts, in 2 steps"
    assert (view.held_up_by_restarts, view.held_up_by_steps) == (0, 100 * 0.2)
    w.tell(10)
    assert "step 1 of 2" in w.decision(t).text


def test_restarts_are_what_is_done_where_they_are_wanted() -> None:
    w, t = world("restart")
    w.tell(30)
    assert w.rollout(t) is None
    (entry,) = w.history(t)
    assert entry.move_strategy == "restart: decide.move_strategy is restart"
    assert w.slots(t) == TOGETHER


def test_a_plan_that_moves_a_spout_restarts_and_says_why() -> None:
    w, t = world(wanted=SOURCE_TOO)
    w.tell(30)
    assert w.rollout(t) is None
    (entry,) = w.history(t)
    assert "its workers restart, since they cannot all be emptied: source [1, 1]: it is a spout" in entry.move_strategy
    assert w.slots(t) == SOURCE_TOO


def test_a_plan_that_moves_a_spout_is_held_where_restarts_are_not_wanted() -> None:
    w, t = world("rolling", wanted=SOURCE_TOO)
    w.tell(100)
    assert w.decision(t).reason == "RESTART_NOT_ALLOWED"
    assert "it is a spout" in w.decision(t).text
    assert w.slots(t) == APART


def closing(w: World, t: str, best: Slots, closed: Slots) -> None:
    """A planner that finds `best`, and `closed` where workers stay as they are."""
    asked: list[Model] = []

    def planner(model: Model) -> Plan:
        fixed = [x for x in model.topologies if x.id == t and x.fixed_workers]
        asked.extend([model] if fixed else [])
        return plan_in(model, {t: closed if fixed else best})

    w.planner = planner


def test_a_plan_that_leaves_what_cannot_be_emptied_wins_where_restarts_cost_more() -> None:
    """Both save 200 tuples/s; the first restarts the spout's worker, which holds up what arrives at `sink`."""
    w, t = world()
    closing(w, t, SOURCE_TOO, TOGETHER)
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(TOGETHER)
    assert "1 workers stay as they are" in w.history(t)[-1].move_strategy
    assert "a:6700: source [1, 1]: it is a spout" in w.history(t)[-1].move_strategy


def test_a_plan_that_leaves_what_cannot_be_emptied_loses_where_it_saves_too_little() -> None:
    """Half of the traffic for good is more than what one restart holds up."""
    w, t = world()
    closing(w, t, SOURCE_TOO, HALF)
    w.tell(30)
    assert w.slots(t) == SOURCE_TOO
    w, t = world("rolling")
    closing(w, t, SOURCE_TOO, HALF)
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(HALF)


@pytest.mark.parametrize("phase", ["ready", "draining", "moving"])
def test_another_controller_goes_on(phase: str) -> None:
    w, t = world()
    begun(w, t, phase)
    w.new_leader()
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(TOGETHER)
    assert all_active(w, t)


def test_what_an_operator_ended_is_not_begun_again_until_he_asks() -> None:
    w, t = world()
    begun(w, t, "draining")
    operate.abort_rollout(operator(w), t)
    w.tell(600)
    m = w.rollout(t)
    assert m is not None
    assert m.outcome == "ABORTED"
    assert (w.decision(t).reason, w.decision(t).until_ms) == ("OPERATOR_HOLD", m.since_ms + 3_600_000)
    assert w.slots(t) == APART
    operate.replan(operator(w), t)
    w.tell(200)
    assert nodes(w.slots(t)) == nodes(TOGETHER)


@pytest.mark.parametrize("phase", ["ready", "draining", "moving"])
def test_operators_pause_resume_and_abort(phase: str) -> None:
    w, t = world()
    begun(w, t, phase)
    operate.pause_rollout(operator(w), t)
    w.tell(100)
    assert all_active(w, t)
    m = w.rollout(t)
    assert m is not None
    assert m.running
    assert m.text == "paused: by ops"
    operate.resume_rollout(operator(w), t)
    w.tell(4)
    operate.abort_rollout(operator(w), t)
    w.wanted = {}
    w.tell(100)
    m = w.rollout(t)
    assert m is not None
    assert m.outcome == "ABORTED"
    assert all_active(w, t)
    plan = w.plan(t)
    if plan is not None:
        assert {(p.supervisor, tuple(s for s, _ in p.executors)) for p in plan.workers} == nodes(w.slots(t))
    with pytest.raises(RefusedError):
        operate.abort_rollout(operator(w), t)


def test_a_rollback_goes_back_before_the_whole_not_to_a_step_of_it() -> None:
    w, t = world()
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(TOGETHER)
    with pytest.raises(RefusedError, match="no plan 1 back"):
        operate.rollback(operator(w), t, 1)  # one plan was ever published; its steps are none


def test_a_rollback_in_the_middle_ends_it_and_its_tasks_get_tuples() -> None:
    """It begins a rollout of its own, back to where all ran."""
    w, t = world(wanted=HALF)
    w.tell(200)
    w.wanted = {t: TOGETHER}
    begun(w, t, "draining")
    w.wanted = {}
    operate.rollback(operator(w), t, 1)
    w.tell(200)
    m = w.rollout(t)
    assert m is not None
    assert (m.entry.reason, m.outcome) == ("ROLLBACK", "DONE")
    assert nodes(w.slots(t)) == nodes(HALF)
    assert all_active(w, t)


def test_a_supervisor_that_is_lost_ends_it_and_the_repair_goes_before() -> None:
    w, t = world()
    begun(w, t, "moving")
    w.supervisors("a", "b")
    w.place(t, {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("b", 6701): (3,)}, state="degraded", code="LOST")
    w.wanted = {}
    w.tell(120)
    m = w.rollout(t)
    assert m is not None
    assert m.outcome in ("DISTURBED", "OVERTAKEN")
    assert all_active(w, t)
    ended = [e for e in w.events if e.kind is EventKind.ROLLOUT_ENDED]
    assert [e.alert for e in ended] == [True] * (m.outcome == "DISTURBED")


def test_a_pause_of_the_topology_gives_tuples_back_and_goes_on_after_it() -> None:
    w, t = world()
    begun(w, t, "draining")
    w.zookeeper.put(w.paths.pause("flights"), encode(PauseSetting()))
    w.tell(60)
    assert all_active(w, t)
    m = w.rollout(t)
    assert m is not None
    assert (m.running, m.phase) == (True, "ready")
    w.zookeeper.delete(w.paths.pause("flights"))
    w.tell(200)
    assert nodes(w.slots(t)) == nodes(TOGETHER)


def test_a_rollout_that_cannot_be_read_is_taken_away_and_its_tasks_get_tuples() -> None:
    w, t = world()
    begun(w, t, "draining")
    w.wanted = {}
    w.zookeeper.put(w.paths.rollout(t), b"{nonsense")
    assert not all_active(w, t)
    w.cycle.advance_rollouts(w.cycle.observer.observe(w.now_ms))
    assert w.rollout(t) is None
    table = w.routes(t)
    assert table is not None
    assert {c.component: c.active for c in table.components} == {"parse": [2, 3]}


def test_tables_that_a_command_left_in_the_middle_are_settled() -> None:
    w, t = world("restart", wanted=APART)
    act = operator(w)
    operate.deactivate_task(act, t, "parse", 2)
    w.tell(30)
    table = w.routes(t)
    assert table is not None
    assert [(c.active, c.draining) for c in table.components] == [([3], [])]


def test_a_write_that_another_leader_made_first_is_not_made_again() -> None:
    """Two looks at the same state, one after the other: the second finds another version and does nothing."""
    w, t = world()
    begun(w, t, "ready")
    observation = w.cycle.observer.observe(w.now_ms)
    w.cycle.advance_rollouts(observation)
    after = w.rollout(t)
    w.cycle.advance_rollouts(observation)
    assert w.rollout(t) == after
    assert after is not None
    assert msgspec.structs.asdict(after)["phase"] == "draining"


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
