"""Plans that won nothing, or are proposed, are not made again while nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from doubles.models import HALF, SPREAD, model, topology
from stormpilot.control.last_plans import LastPlans, unchanged
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.reasons import Reason
from stormpilot.model.values import CpuLaw, Model, Topology, TopologyPlan

T = "flights-1"
ALIKE = {T: "settings"}


def noted(reason: Reason = Reason.NO_BETTER_PLAN, max_skips: int = 2) -> LastPlans:
    plans = LastPlans(max_skips)
    plans.note(model(), ALIKE, {T: skip(T, reason, "why")})
    return plans


def test_the_decision_is_repeated_a_bounded_number_of_times() -> None:
    plans = noted()
    texts = [d[T].text if d else None for d in (plans.repeated(model(), ALIKE) for _ in range(3))]
    assert texts == ["why; nothing has changed since"] * 2 + [None]


def test_other_settings_ask_the_planner() -> None:
    assert noted().repeated(model(), {T: "others"}) == {}


@pytest.mark.parametrize("reason", [Reason.NO_BETTER_PLAN, Reason.GAIN_BELOW_THRESHOLD, Reason.GAIN_BELOW_COST])
def test_plan_that_won_nothing_is_remembered(reason: Reason) -> None:
    assert noted(reason).repeated(model(), ALIKE).keys() == {T}


@pytest.mark.parametrize("reason", [Reason.GAIN_NOT_SUSTAINED, Reason.INFEASIBLE, Reason.PLANNER_FAILED])
def test_only_a_plan_that_won_nothing_is_remembered(reason: Reason) -> None:
    assert noted(reason).repeated(model(), ALIKE) == {}


def test_a_plan_that_wins_is_not_remembered_and_forgets_the_one_before() -> None:
    plans = noted()
    plans.note(model(), ALIKE, {T: Decision(T, "publish", Reason.GAIN)})
    assert plans.repeated(model(), ALIKE) == {}


def test_another_group_of_the_same_topologies_takes_the_place_of_the_one_before() -> None:
    plans = noted()
    both = model(topology(), topology({("a", 2): (1, 2), ("b", 2): (3, 4)}, "wordcount"))
    plans.note(
        both, {**ALIKE, "wordcount-1": "settings"}, {t: skip(t, Reason.NO_BETTER_PLAN, "") for t in (T, "wordcount-1")}
    )
    assert plans.repeated(model(), ALIKE) == {}
    assert plans.repeated(both, {**ALIKE, "wordcount-1": "settings"}).keys() == {T, "wordcount-1"}


def test_no_cycle_is_skipped_where_that_is_switched_off() -> None:
    assert noted(max_skips=0).repeated(model(), ALIKE) == {}


def rates(factor: float) -> Callable[[Model], Model]:
    return lambda m: msgspec.structs.replace(
        m, traffic=[msgspec.structs.replace(e, rate=e.rate * factor) for e in m.traffic]
    )


def first_supervisor(**fields: object) -> Callable[[Model], Model]:
    return lambda m: msgspec.structs.replace(
        m, supervisors=[msgspec.structs.replace(m.supervisors[0], **fields), *m.supervisors[1:]]
    )


def first_topology(**fields: object) -> Callable[[Model], Model]:
    return lambda m: msgspec.structs.replace(
        m, topologies=[msgspec.structs.replace(m.topologies[0], **fields), *m.topologies[1:]]
    )


def heap(mb: float) -> Callable[[Model], Model]:
    """Each component holds so much of its worker's heap, which has a limit."""

    def limited(m: Model) -> Model:
        components = [msgspec.structs.replace(c, heap_mb=mb) for c in m.topologies[0].components]
        return first_topology(components=components, worker_heap_mb=1.5 * mb)(m)

    return limited


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
        (first_topology(latency_ms=12.4), True),
        (first_topology(cpu_law=CpuLaw(worker_mhz=100.0, rows=61)), True),
        (heap(0.1), False),
        (first_supervisor(cpu_limit_mhz=950.0), True),
        (first_supervisor(slots=[1]), False),
        (lambda m: msgspec.structs.replace(m, supervisors=m.supervisors[:2]), False),
    ],
)
def test_small_changes_of_what_is_measured_are_none(change: Callable[[Model], Model], expected: bool) -> None:
    assert unchanged(model(), change(model())) == expected


def test_heaps_vary_a_little_in_every_window() -> None:
    m = model()
    assert unchanged(heap(100.0)(m), heap(103.0)(m))
    assert not unchanged(heap(100.0)(m), heap(150.0)(m))
    limited = heap(100.0)(m)
    assert not unchanged(limited, first_topology(worker_heap_mb=300.0)(limited)), "its owner raised it"


PROPOSED = TopologyPlan(id=T, workers=[])


def proposed() -> LastPlans:
    plans = LastPlans(2)
    plans.note(model(), ALIKE, {T: Decision(T, "advise", Reason.GAIN, "why")}, {T: PROPOSED})
    return plans


def test_proposal_is_remembered_with_its_placement() -> None:
    plans = proposed()
    assert plans.proposed([T]) == {T: PROPOSED}
    assert plans.proposed(["wordcount-1"]) == {}
    assert plans.repeated(model(), ALIKE)[T].action == "advise"


def test_proposal_that_does_not_stand_any_more_asks_the_planner() -> None:
    asked: list[TopologyPlan] = []
    assert proposed().repeated(model(), ALIKE, lambda plan: bool(asked.append(plan))) == {}
    assert asked == [PROPOSED]


def test_plan_of_mode_act_is_not_remembered_as_a_proposal() -> None:
    plans = proposed()
    plans.note(model(), ALIKE, {T: Decision(T, "publish", Reason.GAIN, "why")}, {T: PROPOSED})
    assert plans.proposed([T]) == {}


MANY = tuple(f"job{i:02}" for i in range(20))
SETTINGS = {f"{name}-1": "settings" for name in MANY}


def many(*others: Topology, drop: int = 0) -> Model:
    """Twenty topologies, without the last `drop`; `others` stand in for those of their name."""
    instead = {t.name: t for t in others}
    return model(*(instead.get(name, topology(name=name)) for name in MANY[: len(MANY) - drop]))


def noted_many() -> LastPlans:
    plans = LastPlans(3)
    plans.note(many(), SETTINGS, {t: skip(t, Reason.NO_BETTER_PLAN, "why") for t in SETTINGS})
    return plans


def test_where_one_of_twenty_changed_the_others_stay_as_they_were_decided() -> None:
    plans, now = noted_many(), many(topology(HALF, MANY[3]))
    assert SETTINGS.keys() - plans.repeated(now, SETTINGS).keys() == {"job03-1"}
    plans.note(now, SETTINGS, {"job03-1": skip("job03-1", Reason.NO_BETTER_PLAN, "now")})
    texts = plans.repeated(now, SETTINGS)
    assert texts.keys() == SETTINGS.keys()
    assert texts["job03-1"].text == "now; nothing has changed since"


def test_all_are_planned_where_one_of_twenty_changed_and_another_has_a_proposal() -> None:
    plans = noted_many()
    decisions = {t: skip(t, Reason.NO_BETTER_PLAN, "why") for t in SETTINGS}
    plans.note(
        many(),
        SETTINGS,
        {**decisions, "job07-1": Decision("job07-1", "advise", Reason.GAIN)},
        {"job07-1": TopologyPlan(id="job07-1", workers=[])},
    )
    assert plans.repeated(many(), SETTINGS).keys() == SETTINGS.keys()
    assert plans.repeated(many(topology(HALF, MANY[3])), SETTINGS) == {}


def test_one_that_wins_is_planned_again_by_itself() -> None:
    plans, now = noted_many(), many(topology(HALF, MANY[3]))
    for _ in range(2):
        assert SETTINGS.keys() - plans.repeated(now, SETTINGS).keys() == {"job03-1"}
        plans.note(now, SETTINGS, {"job03-1": skip("job03-1", Reason.GAIN_NOT_SUSTAINED, "seen once")})


def test_one_that_leaves_the_group_leaves_the_others_as_they_were_decided() -> None:
    plans = noted_many()
    rest = {t: s for t, s in SETTINGS.items() if t != "job03-1"}
    assert plans.repeated(many(topology(HALF, MANY[3])), rest).keys() == rest.keys()


def test_all_are_planned_where_many_changed_or_went() -> None:
    assert noted_many().repeated(many(*(topology(HALF, name) for name in MANY[:3])), SETTINGS) == {}
    left = {t: s for t, s in SETTINGS.items() if t[:5] in MANY[:16]}
    assert noted_many().repeated(many(drop=4), left) == {}


def test_small_topology_is_no_reason_to_plan_when_its_few_tuples_vary() -> None:
    little = many()
    quiet = [msgspec.structs.replace(e, rate=0.01) if e.topology == "job03-1" else e for e in little.traffic]
    noisy = [msgspec.structs.replace(e, rate=0.02) if e.topology == "job03-1" else e for e in little.traffic]
    assert unchanged(msgspec.structs.replace(little, traffic=quiet), msgspec.structs.replace(little, traffic=noisy))
