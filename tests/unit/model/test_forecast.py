"""The model of the hour that comes: rates along the profile, CPU along the mined law, and no guess without a test."""

from __future__ import annotations

import msgspec
import pytest

from stormpilot.messages.thresholds import EdgeProfile, Profile, ThresholdEntry, Thresholds, hour_of_week
from stormpilot.model.forecast import demand_by_profile, forecast_of, rate_at
from stormpilot.model.values import (
    Assigned,
    Component,
    Edge,
    Executor,
    Input,
    Model,
    Supervisor,
    Topology,
)

NOON_MS = 1_735_560_000_000 + 30 * 60_000  # Monday 2024-12-30 12:30 UTC, the middle of an hour
HOUR_S = 3600.0


def model() -> Model:
    return Model(
        supervisors=[Supervisor(id="a", host="a", slots=[1], cores=4.0, mhz=1000.0, memory_mb=0.0)],
        topologies=[
            Topology(
                id="t",
                name="t",
                workers=1,
                components=[Component(id="s", kind="spout"), Component(id="b", inputs=[Input(component="s")])],
                executors=[
                    Executor(start=1, end=1, component="s", cpu_mhz=100.0),
                    Executor(start=2, end=2, component="b", cpu_mhz=230.0),
                    Executor(start=3, end=3, component="__acker", cpu_mhz=10.0),
                ],
            )
        ],
        traffic=[
            Edge(topology="t", from_=1, to=2, rate=100.0, stream="default"),
            Edge(topology="t", from_=2, to=3, rate=100.0, stream="__ack_ack"),
        ],
    )


def profile(error: float | None = 0.05, then: float = 150.0) -> Profile:
    rates: list[float | None] = [100.0] * 168
    rates[13] = then
    edge = EdgeProfile(from_="s", stream="default", to="b", rate_tps=rates, weeks=4)
    return Profile(
        topology_id="t", topology_name="t", mined_at_ms=0, from_ms=0, to_ms=1, forecast_error_ratio=error, edges=[edge]
    )


def law(source: str = "mined") -> Thresholds:
    entry = ThresholdEntry(name="cpu_mhz_per_tps", scope="component", of=["b"], value=2.0, source=source)  # type: ignore[arg-type]
    return Thresholds(topology_id="t", topology_name="t", mined_at_ms=0, from_ms=0, to_ms=1, entries=[entry])


def cpu(m: Model) -> list[float]:
    return [e.cpu_mhz for e in m.topologies[0].executors]


def test_hours_of_the_week_begin_on_monday_in_utc() -> None:
    assert hour_of_week(1_735_516_800_000) == 0
    assert hour_of_week(NOON_MS) == 12
    assert hour_of_week(0) == 72  # 1970-01-01 was a Thursday


def test_edges_grow_as_the_profile_says_and_those_of_ackers_as_all_tuples() -> None:
    found = forecast_of(model(), {"t": profile()}, {"t": law()}, NOON_MS, HOUR_S, 0.15)
    assert [e.rate for e in found.model.traffic] == pytest.approx([150.0, 150.0])
    assert found.moved == {"t"}
    assert found.texts["t"] == "planned for the most of the next 60 min: +50% tuples/s by the profile (tested error 5%)"


def test_cpu_follows_the_mined_law_and_without_one_the_rate() -> None:
    found = forecast_of(model(), {"t": profile()}, {"t": law()}, NOON_MS, HOUR_S, 0.15)
    assert cpu(found.model) == pytest.approx([150.0, 230.0 + 2.0 * 50, 10.0])
    guessed = forecast_of(model(), {"t": profile()}, {"t": law("default")}, NOON_MS, HOUR_S, 0.15)
    assert cpu(guessed.model) == pytest.approx([150.0, 345.0, 10.0])


def test_declared_cpu_follows_no_rate() -> None:
    found = forecast_of(model(), {"t": profile()}, {"t": law()}, NOON_MS, HOUR_S, 0.15, declared_cpu=True)
    assert cpu(found.model) == cpu(model())
    assert [e.rate for e in found.model.traffic] == pytest.approx([150.0, 150.0])


def test_what_will_fall_stays_as_measured_since_the_plan_has_to_hold_now_too() -> None:
    for given in (law(), law("default")):
        found = forecast_of(model(), {"t": profile(then=50.0)}, {"t": given}, NOON_MS, HOUR_S, 0.15)
        assert found.model == model()
        assert found.texts["t"].startswith("planned for the most of the next 60 min: +0% tuples/s")


def test_peak_on_the_way_counts_though_the_end_is_calm() -> None:
    found = forecast_of(model(), {"t": profile()}, {"t": law()}, NOON_MS, 4 * HOUR_S, 0.15)
    assert [e.rate for e in found.model.traffic] == pytest.approx([150.0, 150.0])
    before = forecast_of(model(), {"t": profile()}, {"t": law()}, NOON_MS - 4 * 3_600_000, 2 * HOUR_S, 0.15)
    assert [e.rate for e in before.model.traffic] == pytest.approx([100.0, 100.0])


def test_nodes_that_will_be_overloaded_are_told_with_their_load() -> None:
    (t,) = model().topologies
    assigned = [Assigned(start=e.start, supervisor="a", port=1) for e in t.executors]
    busy = msgspec.structs.replace(
        model(),
        supervisors=[msgspec.structs.replace(model().supervisors[0], cpu_limit_mhz=400.0)],
        topologies=[msgspec.structs.replace(t, assignment=assigned)],
    )
    assert sum(cpu(busy)) == 340.0
    found = forecast_of(busy, {"t": profile()}, {"t": law()}, NOON_MS, HOUR_S, 0.15)
    assert found.overloaded == {"a": pytest.approx((150.0 + 330.0 + 10.0) / 400.0)}
    calm = forecast_of(busy, {"t": profile(then=90.0)}, {"t": law()}, NOON_MS, HOUR_S, 0.15)
    assert calm.overloaded == {}
    assert forecast_of(busy, {}, {}, NOON_MS, HOUR_S, 0.15).overloaded == {}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "no profile was mined"),
        (profile(None), "the profile was never tested"),
        (profile(0.3), "the profile's error is 30%, over 15%"),
    ],
)
def test_without_a_good_profile_the_model_stays_as_measured(given: Profile | None, why: str) -> None:
    profiles = {} if given is None else {"t": given}
    found = forecast_of(model(), profiles, {}, NOON_MS, HOUR_S, 0.15)
    assert (found.model, found.texts, found.moved) == (model(), {"t": why}, frozenset())


def test_rate_between_two_hours_is_on_the_line_between_their_middles() -> None:
    (edge,) = profile().edges
    assert rate_at(edge, NOON_MS + 1_800_000) == pytest.approx(125.0)
    assert rate_at(edge, NOON_MS) == pytest.approx(100.0)
    rates = list(edge.rate_tps)
    rates[13] = None
    assert rate_at(msgspec.structs.replace(edge, rate_tps=rates), NOON_MS + 1_000) == 100.0
    assert rate_at(msgspec.structs.replace(edge, rate_tps=rates), NOON_MS + 3_600_000) is None


def test_week_goes_round() -> None:
    rates: list[float | None] = [10.0] * 167 + [30.0]
    edge = EdgeProfile(from_="s", stream="default", to="b", rate_tps=rates)
    monday_ms = 1_735_516_800_000
    assert rate_at(edge, monday_ms) == pytest.approx(20.0)


def test_no_edge_changes_by_more_than_ten_times() -> None:
    found = forecast_of(model(), {"t": profile(then=1e9)}, {}, NOON_MS, HOUR_S, 0.15)
    assert max(e.rate for e in found.model.traffic) == 1000.0


def test_demand_counts_no_component_that_is_gone() -> None:
    """A topology was submitted again under its name, without one: what that got is no demand on the others."""
    rates = [400.0] * 168
    pairs = (("s", "b"), ("s", "old"), ("old", "b"))
    edges = [EdgeProfile(from_=a, stream="default", to=b, rate_tps=rates) for a, b in pairs]
    profile = Profile(topology_id="t", topology_name="t", mined_at_ms=0, from_ms=0, to_ms=0, edges=edges)
    m = model()
    found = demand_by_profile(profile, m.traffic, m, NOON_MS)
    assert found is not None
    assert found.ratio == pytest.approx(4.0)
    usual = [msgspec.structs.replace(m.traffic[0], rate=400.0)]
    assert demand_by_profile(profile, usual, m, NOON_MS) is None
