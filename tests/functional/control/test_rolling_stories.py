"""Whole stories of plans that are carried out without restarts, on their own clock: decided, begun, interrupted."""

from __future__ import annotations

import msgspec
import pytest

from doubles import snapshots
from doubles.rolling_jobs import APART, HALF, SOURCE_TOO, TOGETHER, all_active, begun, nodes, operator, world
from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot import operate
from stormpilot.config.rollout import MoveStrategyName
from stormpilot.decide.events import EventKind
from stormpilot.errors import RefusedError
from stormpilot.messages.core import encode
from stormpilot.messages.moves import MoveState, Spent
from stormpilot.messages.settings import PauseSetting
from stormpilot.model.values import Model, Plan


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
    why = "4 executors of 4 components cannot be routed around, `stormpilot explain` says why"
    assert entry.move_strategy == f"restart: its workers restart, since they cannot all be emptied: {why}"
    assert w.slots(t) == SOURCE_TOO


def test_a_plan_that_moves_a_spout_is_held_where_restarts_are_not_wanted() -> None:
    w, t = world("rolling", wanted=SOURCE_TOO)
    w.tell(100)
    assert w.decision(t).reason == "RESTART_NOT_ALLOWED"
    assert "4 executors of 4 components cannot be routed around" in w.decision(t).text
    (view,) = w.state().topologies
    assert "source (1 executor): it is a spout: nothing is sent to it that could go elsewhere" in view.not_emptied
    assert len(view.not_emptied) == 4
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
    assert "1 worker stays as it is" in w.history(t)[-1].move_strategy
    assert "since it cannot be emptied, `stormpilot explain` says why" in w.history(t)[-1].move_strategy
    fixed = [x for r in w.reports for d in r.decisions.values() if d.strategy is not None for x in d.strategy.fixed]
    assert any(x.startswith("a:6700: source [1, 1]: it is a spout") for x in fixed)


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


@pytest.mark.parametrize(("plans", "nodes_then"), [(0, SOURCE_TOO), (29, HALF)])
def test_plans_are_compared_over_the_time_for_which_a_gain_is_taken_to_last(plans: int, nodes_then: Slots) -> None:
    """Half of the traffic is more than 100 s of restarts hold up within two minutes, and less within five."""
    w, t = world()
    w.config = msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, restart_s=100.0))
    w.use(w.config)
    closing(w, t, SOURCE_TOO, HALF)
    spent = [Spent(at_ms=w.now_ms - 121_000 * i, executors=1, workers=1) for i in range(1, plans + 1)]
    w.zookeeper.put(w.paths.moves(t), encode(MoveState(topology_id=t, spent=spent)))
    operate.replan(operator(w), t)
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(nodes_then)


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
    with pytest.raises(RefusedError, match="no plan 2 back"):
        operate.rollback(operator(w), t, 2)  # one plan was ever published; its steps are none
    w.wanted = {}
    operate.rollback(operator(w), t, 1)
    w.tell(200)
    rolled_back(w, t, APART)


@pytest.mark.parametrize("phase", ["ready", "draining", "moving"])
def test_a_rollback_in_the_middle_of_the_first_rollout_goes_back_to_what_storm_had_made(phase: str) -> None:
    w, t = world()
    begun(w, t, phase)
    w.wanted = {}
    operate.rollback(operator(w), t, 1)
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(APART)
    assert all_active(w, t)
    assert w.zookeeper.read([w.paths.request(t)]) == [None]


def test_a_rollback_before_anything_has_moved_ends_the_rollout() -> None:
    """What ran before runs still; without the request the rollout would go on once it is resumed."""
    w, t = world()
    begun(w, t, "ready")
    operate.pause_rollout(operator(w), t)
    w.wanted = {}
    w.tell(20)
    operate.rollback(operator(w), t, 1)
    w.tell(20)
    m = w.rollout(t)
    assert m is not None
    assert (m.step, m.outcome) == (0, "OVERTAKEN")
    assert nodes(w.slots(t)) == nodes(APART)
    assert w.decision(t).reason in ("ROLLBACK", "PLAN_MOVING", "OPERATOR_HOLD")
    assert w.zookeeper.read([w.paths.request(t)]) == [None]


def rolled_back(w: World, t: str, before: Slots = HALF) -> None:
    """It runs where all ran before, by a rollout, and every task gets tuples."""
    m = w.rollout(t)
    assert m is not None
    assert (m.entry.reason, m.outcome) == ("ROLLBACK", "DONE")
    assert nodes(w.slots(t)) == nodes(before)
    assert all_active(w, t)


def test_a_rollback_in_the_middle_ends_it_and_its_tasks_get_tuples() -> None:
    """It begins a rollout of its own, back to where all ran."""
    w, t = world(wanted=HALF)
    w.tell(200)
    w.wanted = {t: TOGETHER}
    begun(w, t, "draining")
    w.wanted = {}
    operate.rollback(operator(w), t, 1)
    w.tell(200)
    rolled_back(w, t)


def test_a_rollback_waits_until_tasks_whose_keyed_state_is_on_its_way_are_back() -> None:
    """Task 2 is back with state on its way from 3, when 3 gives its keys away as well: it cannot take any back yet."""
    w, t = world(wanted=HALF, hands_over=True)
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(HALF)
    w.traffic = {(1, 2): 10.0, (2, 4): 10.0, (1, 3): 90.0, (3, 4): 90.0}
    w.tell(100)
    w.wanted = {t: {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("a", 6701): (3,)}}
    begun(w, t, "ready")
    while (m := w.rollout(t)) is None or (m.step, m.phase) != (1, "draining"):
        w.tell(2)
    w.wanted = {}
    operate.rollback(operator(w), t, 1)
    w.tell(20)
    decision, waiting = w.decision(t), w.rollout(t)
    assert waiting is not None
    assert (waiting.entry, waiting.phase, waiting.outcome) == (m.entry, "returning", "OVERTAKEN")
    assert waiting.back == [3]
    assert waiting.text.startswith(
        "by another plan; its tasks get no tuples yet: parse: the state of its keys is still"
    )
    assert decision.reason == "NOT_PUBLISHED"
    assert decision.text == f"tasks 3 of the rollout to {m.entry.plan.plan_id} have to get their tuples back first"
    assert w.zookeeper.read([w.paths.request(t)]) != [None], "it is still to be done"
    since_ms = waiting.since_ms
    w.tell(20)
    waiting = w.rollout(t)
    assert waiting is not None
    assert waiting.since_ms == since_ms, "nothing begins anew with every cycle"
    w.tell(400)
    rolled_back(w, t)
    assert w.zookeeper.read([w.paths.request(t)]) == [None]


@pytest.mark.parametrize("silent", [False, True])
def test_a_drain_moves_a_task_that_reports_nothing_by_a_restart(silent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step would give it its tuples before anybody sees it work; so none begins that could only give up."""
    if silent:
        monkeypatch.setattr(snapshots, "REPORTING", (1, 2, 4))
    w, t = world()
    away = {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("b", 6701): (3,)}
    w.wanted = {t: away}
    operate.drain(operator(w), "host-c")
    w.tell(200)
    assert nodes(w.slots(t)) == nodes(away)
    assert (w.rollout(t) is None) == silent


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


def test_a_task_drains_for_as_long_as_its_command_said_beside_a_controller() -> None:
    """It never says that it is idle; `rollout.drain_timeout_s` is 15."""
    w, t = world("restart", wanted=APART)
    w._start(t, 2, w.now_ms + 600_000)
    operate.deactivate_task(operator(w), t, "parse", 2, drain_timeout_s=60)
    w.tell(62)
    table = w.routes(t)
    assert table is not None
    assert [d.task for d in table.components[0].draining] == [2], "its command may take note of it"
    w.tell(2)
    table = w.routes(t)
    assert table is not None
    assert not table.components[0].draining


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
