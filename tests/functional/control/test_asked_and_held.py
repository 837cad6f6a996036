"""What an operator asked for beside a discard, a blackout window, a pause, a budget, or the plan of a partner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from doubles.rolling_jobs import APART, TOGETHER, begun, nodes, operator, world
from doubles.wanted import Slots
from doubles.world import NEAR, SPREAD, World
from stormpilot import operate
from stormpilot.config import parse
from stormpilot.config.rollout import MoveStrategyName
from stormpilot.decide.events import EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.errors import RefusedError
from stormpilot.messages.core import HistoryEntry, PlanMessage, Worker, encode, plan_checksum
from stormpilot.messages.moves import MoveState
from stormpilot.messages.settings import ModeSetting, PauseSetting


@pytest.mark.parametrize("how", ["advise", "act by now", "approval"])
def test_a_discarded_plan_does_not_come_back_in_the_cycle_that_discards_it(how: str) -> None:
    """The hold was written, and held from the next cycle on: the same plan was proposed, or published, at once."""
    w = World("a", "b")
    t = w.submit(SPREAD)
    if how == "approval":
        w.configure(t, {"stormpilot.approval": True})
    else:
        w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="advise")))
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(20)
    assert w.proposal(t) is not None
    if how == "act by now":
        w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="act")))
    operate.discard(operator(w), t)
    w.tell(10)
    assert w.decision(t).reason is Reason.OPERATOR_HOLD
    assert w.proposal(t) is None
    w.tell(100)
    assert w.slots(t) == SPREAD


def test_the_budget_of_the_cluster_counts_what_a_rollout_has_still_to_move() -> None:
    """Each of its steps counted when it came, so others began meanwhile, and all were over the budget together."""
    w, first = world()
    w.wanted = {}
    second = w.submit({("b", 6701): (1, 4, 5, 6), ("c", 6701): (2,), ("c", 6702): (3,)}, name="words", routed=True)
    budget = msgspec.structs.replace(w.config.budget, cluster_executors_per_hour=3)
    w.use(msgspec.structs.replace(w.config, budget=budget))
    w.tell(40)
    w.wanted = {first: TOGETHER}
    begun(w, first)
    w.wanted[second] = {("b", 6701): (1, 4, 5, 6), ("b", 6702): (2,), ("b", 6703): (3,)}
    w.tell(20)
    assert w.decision(second).reason is Reason.MOVE_BUDGET
    w.tell(300)
    assert nodes(w.slots(first)) == nodes(TOGETHER)
    assert w.rollout(second) is None


def with_blackout(w: World) -> None:
    """From two minutes ago on, for an hour."""
    begin = datetime.fromtimestamp(w.now_ms / 1000, UTC) - timedelta(minutes=2)
    window = f'{{from: "{begin:%H:%M}", to: "{begin + timedelta(hours=1):%H:%M}"}}'
    blackouts = parse(f"decide: {{blackouts: [{window}]}}", "x").decide.blackouts
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, blackouts=blackouts)))


@pytest.mark.parametrize("moves", ["restart", "auto"])
def test_approve_works_in_a_blackout_window(moves: MoveStrategyName) -> None:
    """A plan that restarts nothing was told as published, and waited for the end of the window."""
    w, t = world(moves)
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="advise")))
    w.tell(20)
    with_blackout(w)
    operate.approve(operator(w), t)
    w.tell(400)
    assert nodes(w.slots(t)) == nodes(TOGETHER)


@pytest.mark.parametrize("moves", ["restart", "auto"])
def test_rollback_works_in_a_blackout_window(moves: MoveStrategyName) -> None:
    w, t = world(moves)
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(TOGETHER)
    with_blackout(w)
    w.wanted = {}
    operate.rollback(operator(w), t, 1)
    w.tell(400)
    assert nodes(w.slots(t)) == nodes(APART)


def test_a_topology_that_is_paused_in_the_middle_of_its_drain_keeps_no_other_from_leaving() -> None:
    """Nobody knows how long a pause lasts; all others waited until it had moved."""
    w, t = world("auto")
    other = w.submit({("b", 6701): (1, 2, 3), ("c", 6701): (4, 5, 6)}, name="words")
    w.wanted = {}
    w.tell(40)
    w.wanted = {
        t: {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("a", 6701): (3,)},
        other: {("b", 6701): (1, 2, 3), ("a", 6703): (4, 5, 6)},
    }
    operate.drain(operator(w), "host-c")
    begun(w, t)
    m = w.rollout(t)
    assert m is not None
    assert m.entry.reason == Reason.DRAIN
    w.zookeeper.put(w.paths.pause("flights"), encode(PauseSetting()))
    w.tell(300)
    assert not [slot for slot in w.slots(other) if slot[0] == "c"]


def test_a_rollback_by_a_rollout_that_a_pause_holds_is_not_called_impossible() -> None:
    """It was told that what runs is kept, and went back after the pause all the same."""
    w, t = world()
    w.tell(300)
    plan = w.plan(t)
    assert plan is not None
    worse = MoveState(
        topology_id=t,
        phase="rollback",
        plan_id=plan.plan_id,
        reason="GAIN",
        published_at_ms=w.now_ms - 60_000,
        applied_at_ms=w.now_ms - 50_000,
        judged_at_ms=w.now_ms,
        window_s=30,
        metric="inter_node_share",
        before=0.1,
        predicted=0.0,
        measured=0.5,
        verdict="WORSE",
        text="worse",
        former=[Worker(supervisor=s, port=p, executors=[(x, x) for x in xs]) for (s, p), xs in APART.items()],
        failures=1,
        back_off_until_ms=w.now_ms + 3_600_000,
        back_off_why="worse",
    )
    w.zookeeper.put(w.paths.moves(t), encode(worse))
    w.wanted = {}
    begun(w, t)
    w.zookeeper.put(w.paths.pause("flights"), encode(PauseSetting()))
    w.tell(1000)
    w.zookeeper.delete(w.paths.pause("flights"))
    w.tell(300)
    assert nodes(w.slots(t)) == nodes(APART)
    assert EventKind.ROLLBACK_IMPOSSIBLE not in [e.kind for e in w.events]


HERE: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
BESIDE: Slots = {("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}
OF_FIRST: Slots = {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}
OF_SECOND: Slots = {("a", 6701): (1, 2, 4), ("b", 6701): (3, 5, 6)}
BEFORE: Slots = {("a", 6702): (1, 4, 6), ("b", 6702): (2, 3, 5)}


def entry(w: World, t: str, slots: Slots, plan_id: str, age_s: int) -> HistoryEntry:
    workers = [Worker(supervisor=s, port=p, executors=[(x, x) for x in xs]) for (s, p), xs in slots.items()]
    plan = PlanMessage(
        plan_id=plan_id,
        plan_set=plan_id,
        topology_id=t,
        epoch=1,
        created_at_ms=w.now_ms - age_s * 1000,
        planner="story",
        workers=workers,
        checksum=plan_checksum(t, plan_id, plan_id, 1, workers),
    )
    return HistoryEntry(plan=plan, reason="GAIN", text="")


def test_the_rollback_of_a_topology_is_not_lost_to_the_approval_of_its_partner() -> None:
    """The two trade places by a proposal; the rollback was told as done by the plan of the trade."""
    w = World("a", "b")
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, approve=["flights"])))
    first, second = w.submit(HERE), w.submit(BESIDE, name="wordcount")
    w.tell(40)
    w.wanted = {first: OF_SECOND, second: OF_FIRST}
    w.tell(10)
    for n, (slots, plan_id, age_s) in enumerate([(BEFORE, "p-old", 9000), (BESIDE, "p-now", 8000)], 1):
        history = w.paths.plan_history(second, f"{n:010d}")
        w.zookeeper.put(history, encode(entry(w, second, slots, plan_id, age_s)))
    operate.approve(operator(w), "flights")
    operate.rollback(operator(w), "wordcount", 1)
    w.tell(10)
    plan = w.plan(second)
    assert plan is not None
    assert {(x.supervisor, x.port): tuple(start for start, _ in x.executors) for x in plan.workers} == BEFORE


def test_a_rollout_that_is_being_ended_is_neither_paused_nor_resumed() -> None:
    w, t = world()
    begun(w, t, "moving")
    operate.abort_rollout(operator(w), t)
    for verb in (operate.pause_rollout, operate.resume_rollout):
        with pytest.raises(RefusedError, match="its rollout is being ended, as ops asked"):
            verb(operator(w), t)


def test_a_pause_in_the_last_step_says_that_it_comes_too_late() -> None:
    w, t = world()
    for _ in range(200):
        m = w.rollout(t)
        if m is not None and (m.step + 1, m.phase) == (len(m.steps), "moving"):
            break
        w.tell(2)
    assert operate.pause_rollout(operator(w), t).text.endswith("moving executors in its last step, and done after that")
