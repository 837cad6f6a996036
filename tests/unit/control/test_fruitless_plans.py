"""Plans that won nothing are not made again while nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from doubles.models import HALF, SPREAD, model, topology
from stormpilot.control.fruitless_plans import FruitlessPlans, unchanged
from stormpilot.decide.reasons import Decision, Reason, skip
from stormpilot.model.values import Model

T = "flights-1"


def noted(reason: Reason = Reason.NO_BETTER_PLAN, max_skips: int = 2) -> FruitlessPlans:
    plans = FruitlessPlans(max_skips)
    plans.note(model(), "settings", {T: skip(T, reason, "why")})
    return plans


def test_the_decision_is_repeated_a_bounded_number_of_times() -> None:
    plans = noted()
    texts = [d and d[T].text for d in (plans.repeated(model(), "settings") for _ in range(3))]
    assert texts == ["why; nothing has changed since"] * 2 + [None]


def test_other_settings_ask_the_planner() -> None:
    assert noted().repeated(model(), "others") is None


@pytest.mark.parametrize("reason", [Reason.GAIN_NOT_SUSTAINED, Reason.INFEASIBLE, Reason.PLANNER_FAILED])
def test_only_a_plan_that_won_nothing_is_remembered(reason: Reason) -> None:
    assert noted(reason).repeated(model(), "settings") is None


def test_a_plan_that_wins_is_not_remembered_and_forgets_the_one_before() -> None:
    plans = noted()
    plans.note(model(), "settings", {T: Decision(T, "publish", Reason.GAIN)})
    assert plans.repeated(model(), "settings") is None


def test_another_group_of_the_same_topologies_takes_the_place_of_the_one_before() -> None:
    plans = noted()
    both = model(topology(), topology({("a", 2): (1, 2), ("b", 2): (3, 4)}, "wordcount"))
    plans.note(both, "settings", {t: skip(t, Reason.NO_BETTER_PLAN, "") for t in (T, "wordcount-1")})
    assert plans.repeated(model(), "settings") is None
    assert plans.repeated(both, "settings") is not None


def test_no_cycle_is_skipped_where_that_is_switched_off() -> None:
    assert noted(max_skips=0).repeated(model(), "settings") is None


def rates(factor: float) -> Callable[[Model], Model]:
    return lambda m: msgspec.structs.replace(
        m, traffic=[msgspec.structs.replace(e, rate=e.rate * factor) for e in m.traffic]
    )


def first_supervisor(**fields: object) -> Callable[[Model], Model]:
    return lambda m: msgspec.structs.replace(
        m, supervisors=[msgspec.structs.replace(m.supervisors[0], **fields), *m.supervisors[1:]]
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda m: m, True),
        (rates(1.05), True),
        (rates(0.95), True),
        (rates(1.2), False),
        (rates(0.0), False),
        (lambda m: msgspec.structs.replace(m, traffic=[]), False),
        (lambda m: model(topology(cpu_mhz=205.0)), True),
        (lambda m: model(topology(cpu_mhz=300.0)), False),
        (lambda m: model(topology(HALF)), False),
        (lambda m: model(topology(SPREAD), limit_mhz=800.0), False),
        (first_supervisor(cpu_limit_mhz=950.0), True),
        (first_supervisor(slots=[1]), False),
        (lambda m: msgspec.structs.replace(m, supervisors=m.supervisors[:2]), False),
    ],
)
def test_small_changes_of_what_is_measured_are_none(change: Callable[[Model], Model], expected: bool) -> None:
    assert unchanged(model(), change(model())) == expected
