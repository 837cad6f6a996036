"""How much may move in an hour."""

from __future__ import annotations

from typing import Any

import pytest

from doubles.models import NOW_MS, PAIRED, SPREAD, Slots, model, plan, plan_message, subject, topology
from stormpilot.config import BudgetSection, DecideSection
from stormpilot.decide.budget import hold_what_is_over_budget, plans_within_the_hour
from stormpilot.decide.criteria import Criteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import Promise, published
from stormpilot.decide.judge import Verdict, judge
from stormpilot.decide.memory import Hits, Memory, Shares
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.reasons import Reason
from stormpilot.messages.moves import MoveState, Spent

CONFIG = DecideSection(consecutive_hits=1)
THERE: Slots = {("c", 1): (1, 2), ("b", 2): (3, 4)}
THERE_PAIRED: Slots = {("c", 1): (1, 3), ("b", 2): (2, 4)}


def moved(minutes_ago: float, executors: int = 1, workers: int = 1) -> Spent:
    return Spent(at_ms=NOW_MS - int(minutes_ago * 60_000), executors=executors, workers=workers)


LASTED = Memory(hits={t: Hits(9, NOW_MS - 60_000) for t in ("flights-1", "wordcount-1")})


def judged(
    budget: BudgetSection,
    spent: dict[str, list[Spent]],
    memory: Memory = LASTED,
    move: MoveState | None = None,
    strategy: MoveStrategy | None = None,
) -> Verdict:
    """Both topologies would move two executors in two workers; `move` is the last one of the first."""
    states = [subject(topology(SPREAD), move=move), subject(topology(THERE, "wordcount"))]
    strategies = {} if strategy is None else {"flights-1": strategy}
    terms = Criteria(CONFIG, NOW_MS, 10, budget=budget, spent=spent, strategies=strategies)
    on = model(*(s.topology for s in states))
    return judge(on, {s.topology.id: s for s in states}, plan(PAIRED, THERE_PAIRED), memory, terms)


def held(verdict: Verdict) -> list[str]:
    return [t for t, d in verdict.decisions.items() if d.reason is Reason.MOVE_BUDGET]


def test_without_a_budget_any_number_may_move() -> None:
    assert held(judged(BudgetSection(), {"flights-1": [moved(1, 10_000, 1000)]})) == []


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (BudgetSection(topology_executors_per_hour=3), ["flights-1"]),
        (BudgetSection(topology_executors_per_hour=4), []),
        (BudgetSection(topology_workers_per_hour=2), ["flights-1"]),
        (BudgetSection(topology_workers_per_hour=3), []),
        (BudgetSection(cluster_executors_per_hour=4), ["wordcount-1"]),
        (BudgetSection(cluster_workers_per_hour=3), ["wordcount-1"]),
        (BudgetSection(cluster_executors_per_hour=0), ["flights-1", "wordcount-1"]),
    ],
)
def test_what_was_moved_within_the_hour_counts(budget: BudgetSection, expected: list[str]) -> None:
    assert held(judged(budget, {"flights-1": [moved(59, 2, 1)]})) == expected


def test_what_was_moved_before_that_does_not() -> None:
    assert held(judged(BudgetSection(topology_executors_per_hour=2), {"flights-1": [moved(60, 9, 9)]})) == []


def test_held_topology_says_the_numbers_and_when_it_may() -> None:
    d = judged(BudgetSection(topology_executors_per_hour=3), {"flights-1": [moved(20, 2), moved(50, 1)]}).decisions[
        "flights-1"
    ]
    assert (d.action, d.value, d.threshold, d.until_ms) == ("skip", 5, 3, NOW_MS + 2_400_000)
    assert d.text == "3 executors of this topology moved within the hour, 2 more would be over 3"


def test_repairs_and_first_plans_are_never_held() -> None:
    budget = BudgetSection(topology_executors_per_hour=0, cluster_workers_per_hour=0)
    for who in (subject(missing_slots=1, plan=plan_message()), subject(placed=False)):
        terms = Criteria(CONFIG, NOW_MS, 10, budget=budget)
        verdict = judge(model(who.topology), {"flights-1": who}, plan(SPREAD), Memory(), terms)
        assert verdict.decisions["flights-1"].action == "publish"


@pytest.mark.parametrize(("limit", "reason"), [(4, Reason.MOVE_BUDGET), (5, Reason.GAIN)])
def test_a_repair_counts_before_a_gain_of_a_topology_whose_id_comes_first(limit: int, reason: Reason) -> None:
    """The repair of wordcount moves three executors, the plan of flights two."""
    repaired = subject(topology(THERE, "wordcount"), missing_slots=1, plan=plan_message())
    states = {s.topology.id: s for s in (subject(topology(SPREAD)), repaired)}
    terms = Criteria(CONFIG, NOW_MS, 10, budget=BudgetSection(cluster_executors_per_hour=limit))
    on = model(*(s.topology for s in states.values()))
    d = judge(on, states, plan(PAIRED, THERE_PAIRED), LASTED, terms).decisions
    assert (d["flights-1"].reason, d["wordcount-1"].reason) == (reason, Reason.REPAIR)


@pytest.mark.parametrize(
    ("flights", "wordcount", "first"),
    [
        ((Reason.GAIN, 400.0), (Reason.GAIN, 300.0), "flights-1"),
        ((Reason.GAIN, 300.0), (Reason.GAIN, 400.0), "wordcount-1"),
        ((Reason.GAIN, 400.0), (Reason.OVERLOAD, -20.0), "wordcount-1"),
        ((Reason.REBALANCED, 400.0), (Reason.OVERLOAD, -20.0), "wordcount-1"),
        ((Reason.GAIN, 400.0), (Reason.REBALANCED, 300.0), "flights-1"),
        ((Reason.GAIN, 400.0), (Reason.GAIN, 400.0), "flights-1"),
    ],
)
def test_the_budget_of_the_cluster_goes_to_relief_and_then_to_the_largest_saving(
    flights: tuple[Reason, float], wordcount: tuple[Reason, float], first: str
) -> None:
    """It is enough for one of the two; by the order of ids the last ones got nothing, hour by hour."""
    on = model(topology(SPREAD), topology(THERE, "wordcount"))
    decisions = {
        t.id: Decision(t.id, "publish", reason, moved_executors=2, inter_node_tps=(1000.0, 1000.0 - saved))
        for t, (reason, saved) in zip(on.topologies, (flights, wordcount), strict=True)
    }
    plans = {p.id: p for p in plan(PAIRED, THERE_PAIRED).topologies}
    budget = BudgetSection(cluster_executors_per_hour=3)
    after = hold_what_is_over_budget(on, decisions, plans, {}, budget, NOW_MS)
    assert [t for t, d in after.items() if d.action == "publish"] == [first]


@pytest.mark.parametrize("how", [{"mode": "advise"}, {"approval": True}])
def test_a_proposal_takes_no_budget_from_plans_that_move(how: dict[str, Any]) -> None:
    """It was counted in every cycle for as long as nobody approved it, and the other topology never moved."""
    states = {s.topology.id: s for s in (subject(topology(SPREAD), **how), subject(topology(THERE, "wordcount")))}
    terms = Criteria(CONFIG, NOW_MS, 10, budget=BudgetSection(cluster_executors_per_hour=3))
    on = model(*(s.topology for s in states.values()))
    assert held(judge(on, states, plan(PAIRED, THERE_PAIRED), LASTED, terms)) == []


@pytest.mark.parametrize(
    ("minutes_ago", "wanted"), [((), 1), ((50,), 1), ((50, 30), 2), ((50, 30, 10), 3), ((90, 80), 1)]
)
def test_topology_that_was_moved_often_is_moved_for_what_lasts_longer(
    minutes_ago: tuple[int, ...], wanted: int
) -> None:
    spent = {"flights-1": [moved(m) for m in minutes_ago]}
    d = judged(BudgetSection(), spent, memory=Memory()).decisions["flights-1"]
    if wanted == 1:
        assert d.reason is Reason.GAIN
    else:
        assert (d.reason, d.value, d.threshold) == (Reason.GAIN_NOT_SUSTAINED, 1, wanted)
        assert d.text.endswith(f"seen 1 of {wanted} times in a row ({wanted} plans moved it within the hour)")


def test_plan_without_restarts_need_not_last_longer() -> None:
    spent = {"flights-1": [moved(m) for m in (50, 30, 10)]}
    d = judged(BudgetSection(), spent, Memory(), strategy=MoveStrategy("rolling", "", steps=2)).decisions["flights-1"]
    assert d.reason is Reason.GAIN


@pytest.mark.parametrize(
    ("changed", "minutes_ago", "reason"),
    [
        (True, (), Reason.GAIN),
        (True, (50,), Reason.GAIN),
        (True, (50, 30), Reason.GAIN_NOT_SUSTAINED),
        (False, (), Reason.GAIN_NOT_SUSTAINED),
    ],
)
def test_step_is_answered_at_once_by_the_first_plans_of_an_hour(
    changed: bool, minutes_ago: tuple[int, ...], reason: Reason
) -> None:
    """Each cycle has the same share, so that the gain is far beyond the noise."""
    placement = frozenset((a.start, a.supervisor, a.port) for a in topology(SPREAD).assignment)
    memory = Memory(shares={"flights-1": Shares(placement, (0.5,) * 10, (100.0,) * 10, NOW_MS - 30_000)})
    terms = Criteria(
        DecideSection(consecutive_hits=2), NOW_MS, 10, spent={"flights-1": [moved(m) for m in minutes_ago]}
    )
    who = subject(topology(SPREAD), changed=changed)
    verdict = judge(model(who.topology), {"flights-1": who}, plan(PAIRED), memory, terms)
    assert verdict.decisions["flights-1"].reason is reason


def published_move(left: dict[str, Any], at_ms: int, state: MoveState | None = None) -> MoveState:
    """A move for relief of the nodes, or for what else `left` says."""
    return published(
        state or MoveState(topology_id="flights-1"),
        plan_id=f"p-{at_ms}",
        reason=left["reason"],
        now_ms=at_ms,
        window_s=60.0,
        moved=left["moved"],
        workers=1,
        former=[],
        promise=Promise("load_ratio", 1.0, 0.5, 0.1, 100.0, left["nodes"]) if left["nodes"] else None,
    )


@pytest.mark.parametrize(
    ("left", "minutes_ago", "reason"),
    [
        ({"nodes": ["a"], "moved": [3]}, 20, Reason.HEADROOM),
        ({"nodes": ["a"], "moved": [3]}, 61, Reason.GAIN),
        ({"nodes": ["a", "b"], "moved": [1, 3]}, 20, Reason.HEADROOM),
        ({"nodes": ["a"], "moved": [2]}, 20, Reason.GAIN),
        ({"nodes": ["a"], "moved": [1]}, 20, Reason.GAIN),
        ({"nodes": ["c"], "moved": [3]}, 20, Reason.GAIN),
        ({"nodes": ["a"], "moved": [3], "reason": "GAIN"}, 20, Reason.GAIN),
        ({"nodes": ["a"], "moved": [3], "reason": "APPROVED"}, 20, Reason.HEADROOM),
        ({"nodes": [], "moved": [3], "reason": "APPROVED"}, 20, Reason.GAIN),
    ],
)
def test_what_left_an_overloaded_node_does_not_come_back_within_the_hour(
    left: dict[str, Any], minutes_ago: int, reason: Reason
) -> None:
    """The plan brings executor 3 to a, where 1 runs: that one does not come back, also if the last move brought it."""
    at_ms = NOW_MS - minutes_ago * 60_000
    move = published_move({"reason": "OVERLOAD", **left}, at_ms)
    d = judged(BudgetSection(), {}, move=move).decisions["flights-1"]
    assert d.reason is reason
    if reason is Reason.HEADROOM:
        assert "1 executor would come back to a, which was left 20 min ago" in d.text
        assert d.until_ms == at_ms + 3_600_000


def test_a_plan_that_is_larger_than_the_budget_is_not_told_to_fit_later() -> None:
    """The end of the hour of the oldest move was told, and then that of the next one."""
    d = judged(BudgetSection(topology_executors_per_hour=1), {"flights-1": [moved(50, 1)]}).decisions["flights-1"]
    assert (d.reason, d.until_ms) == (Reason.MOVE_BUDGET, None)


def test_what_left_a_node_is_known_after_other_plans_and_of_every_step() -> None:
    """Two steps of a rollout, and a repair that moves nothing after them."""
    at_ms = NOW_MS - 20 * 60_000
    move = None
    for step, moved_ in enumerate(([3], [2]), 1):
        move = published(
            move or MoveState(topology_id="flights-1"),
            plan_id=f"p-1-{step}-ab12",
            reason="OVERLOAD",
            now_ms=at_ms + step,
            window_s=60.0,
            moved=moved_,
            workers=1,
            former=[],
            promise=None,
            step_of="p-1",
            relieved=["a"],
        )
    move = published_move({"reason": "REPAIR", "nodes": [], "moved": []}, at_ms + 60_000, move)
    d = judged(BudgetSection(), {}, move=move).decisions["flights-1"]
    assert d.reason is Reason.HEADROOM
    assert "1 executor would come back to a, which was left 20 min ago" in d.text


def test_steps_of_a_plan_are_one_plan_however_far_apart() -> None:
    steps = [Spent(at_ms=NOW_MS - 60_000 * i, executors=1, workers=1, plan="p-1") for i in range(30)]
    other = Spent(at_ms=NOW_MS - 1000, executors=1, workers=1, plan="p-2")
    assert plans_within_the_hour([*steps, other], NOW_MS, 0.0) == 2
