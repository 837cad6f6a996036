"""How much may move in an hour."""

from __future__ import annotations

import pytest

from doubles.models import NOW_MS, PAIRED, SPREAD, Slots, model, plan, plan_message, subject, topology
from stormpilot.config import BudgetSection, DecideSection
from stormpilot.decide.judge import Verdict, judge
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Reason
from stormpilot.decide.worth import Terms
from stormpilot.model.moves import Spent

CONFIG = DecideSection(consecutive_hits=1)
THERE: Slots = {("c", 1): (1, 2), ("b", 2): (3, 4)}
THERE_PAIRED: Slots = {("c", 1): (1, 3), ("b", 2): (2, 4)}


def moved(minutes_ago: float, executors: int = 1, workers: int = 1) -> Spent:
    return Spent(at_ms=NOW_MS - int(minutes_ago * 60_000), executors=executors, workers=workers)


def judged(budget: BudgetSection, spent: dict[str, list[Spent]]) -> Verdict:
    """Both topologies would move two executors in two workers."""
    subjects = [subject(topology(SPREAD)), subject(topology(THERE, "wordcount"))]
    terms = Terms(CONFIG, NOW_MS, 10, budget=budget, spent=spent)
    on = model(*(s.topology for s in subjects))
    return judge(on, {s.topology.id: s for s in subjects}, plan(PAIRED, THERE_PAIRED), Memory(), terms)


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
    assert (d.action, d.value, d.threshold, d.until_ms) == ("hold", 5, 3, NOW_MS + 600_000)
    assert d.text == "3 executors of this topology moved within the hour, 2 more would be over 3"


def test_repairs_and_first_plans_are_never_held() -> None:
    budget = BudgetSection(topology_executors_per_hour=0, cluster_workers_per_hour=0)
    for who in (subject(missing_slots=1, plan=plan_message()), subject(placed=False)):
        terms = Terms(CONFIG, NOW_MS, 10, budget=budget)
        verdict = judge(model(who.topology), {"flights-1": who}, plan(SPREAD), Memory(), terms)
        assert verdict.decisions["flights-1"].action == "publish"
