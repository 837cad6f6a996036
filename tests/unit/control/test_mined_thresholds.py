"""A running controller takes up what was mined, without a restart, and says so where it decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from doubles.snapshots import T0_MS
from doubles.world import NEAR, SETTINGS, SPREAD, World
from stormpilot.control.planner_client import Params
from stormpilot.messages.core import encode
from stormpilot.messages.settings import ThresholdSetting
from stormpilot.messages.thresholds import (
    EdgeProfile,
    Profile,
    Recommendation,
    ThresholdEntry,
    Thresholds,
    hour_of_week,
)
from stormpilot.model.values import Infeasible, Model

R = "decide.gain_threshold_ratio"
WIDE = "history: {ranges: {decide.gain_threshold_ratio: [0, 0.95]}}\n"


def mine(w: World, topology_id: str, **values: float) -> None:
    entries = [
        ThresholdEntry(name=name.replace("__", "."), value=v, rows=5000, from_ms=T0_MS - 86_400_000, to_ms=T0_MS)
        for name, v in values.items()
    ]
    message = Thresholds(
        topology_id=topology_id, topology_name="flights", mined_at_ms=T0_MS, from_ms=0, to_ms=T0_MS, entries=entries
    )
    w.zookeeper.put(w.paths.thresholds(topology_id), encode(message))


def measured_world(settings: str = WIDE, base: str = SETTINGS) -> tuple[World, str]:
    w = World("a", "b", settings=settings, base=base)
    t = w.submit(SPREAD)
    w.tell(40)
    return w, t


def recommend(w: World, topology_id: str, **params: object) -> None:
    best = Recommendation(
        planner="online",
        params={"alpha": 0.5, **params},
        score=0.5,
        default_score=1.0,
        held_out_score=0.6,
        default_held_out_score=0.9,
        replayed_at_ms=T0_MS,
        held_out_days=7,
        gain_low_ratio=0.2,
        gain_high_ratio=0.4,
    )
    head = {"topology_id": topology_id, "topology_name": "flights", "mined_at_ms": T0_MS, "from_ms": 0, "to_ms": T0_MS}
    w.zookeeper.put(w.paths.thresholds(topology_id), encode(Thresholds(**head, recommendation=best)))


def asked_planners(w: World) -> list[tuple[str, Mapping[str, object]]]:
    """The planner and parameters of every plan that is made from now on."""
    asked: list[tuple[str, Mapping[str, object]]] = []

    def compute(model: Model, planner: str, params: Params) -> Any:
        asked.append((planner, params))
        return w.planner(model) if planner != "online" or w.wanted else Infeasible(constraint="cpu", text="no room")

    w.compute = compute
    return asked


def test_topology_is_planned_as_replay_recommends_where_the_operator_says_so() -> None:
    w, t = measured_world("history: {use_recommendation: true}\n")
    other = w.submit({("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}, name="plain")
    w.tell(60)
    recommend(w, t, **{"decide.gain_threshold_ratio": 0.5})
    asked, w.wanted = asked_planners(w), {t: NEAR}
    w.tell(10)
    assert {(planner, params.get("alpha")) for planner, params in asked} == {("online", 0.5), ("story", None)}
    decision = w.decision(t)
    assert (decision.threshold, decision.threshold_from) == (
        0.5,
        "replay: online alpha=0.5, decide.gain_threshold_ratio=0.5",
    )
    views = {v.id: v.recommendation for v in w.state().topologies}
    assert views[t].startswith("planned as replay recommends, online alpha=0.5")
    assert views[other] == ""


def test_recommendation_is_told_and_not_used_by_default() -> None:
    w, t = measured_world()
    recommend(w, t)
    asked, w.wanted = asked_planners(w), {t: NEAR}
    w.tell(10)
    assert [planner for planner, _ in asked] == ["story"]
    (view,) = w.state().topologies
    assert view.recommendation.endswith("not used: history.use_recommendation is false")


def test_recommended_planner_that_finds_no_plan_gives_way_to_the_configured_one() -> None:
    w, t = measured_world("history: {use_recommendation: true}\n")
    recommend(w, t)
    asked = asked_planners(w)
    w.tell(10)
    assert [planner for planner, _ in asked][:1] == ["online"] and asked[-1][0] == "story"
    assert w.decision(t).reason != "INFEASIBLE"


def test_gain_below_the_mined_threshold_is_held_and_the_source_is_told() -> None:
    w, t = measured_world()
    mine(w, t, decide__gain_threshold_ratio=0.94)
    w.wanted = {t: NEAR}
    assert w.tell(10) == ["GAIN_BELOW_THRESHOLD"]
    decision = w.decision(t)
    assert decision.threshold == 0.94
    assert decision.threshold_from == "mined: 5,000 rows of 1.0 days"
    (view,) = w.state().topologies
    assert [(c.name, c.value, c.source) for c in view.thresholds] == [(R, 0.94, "mined")]
    assert view.threshold_from == decision.threshold_from


def test_operator_overrides_what_was_mined_while_it_runs() -> None:
    w, t = measured_world()
    mine(w, t, decide__gain_threshold_ratio=0.94)
    w.wanted = {t: NEAR}
    w.tell(10)
    setting = ThresholdSetting(topology="flights", name=R, value=0.05, by="ops")
    w.zookeeper.put(w.paths.threshold_setting(setting.key), encode(setting))
    assert w.tell(10) == ["GAIN"]
    assert w.decision(t).threshold_from == "operator: set by ops"


def test_without_mined_thresholds_nothing_is_told() -> None:
    w, t = measured_world()
    w.wanted = {t: NEAR}
    assert w.tell(10) == ["GAIN"]
    assert w.decision(t).threshold_from == ""
    assert w.state().topologies[0].thresholds == []


def test_thresholds_that_cannot_be_read_change_nothing_and_are_named() -> None:
    w, t = measured_world()
    w.zookeeper.put(w.paths.thresholds(t), b"{broken")
    w.wanted = {t: NEAR}
    assert w.tell(10) == ["GAIN"]
    assert any("thresholds" in p for p in w.state().problems)


def test_mined_limit_of_a_node_is_what_planners_see() -> None:
    w, t = measured_world("")
    seen: list[float] = []
    plan = w.planner

    def look(model):  # type: ignore[no-untyped-def]
        seen.extend(s.limit_mhz / s.cpu_mhz for s in model.supervisors if s.id == "a")
        return plan(model)

    w.planner = look
    entry = ThresholdEntry(name="decide.cpu_limit_ratio", scope="supervisor", of=["a"], value=0.5, rows=9)
    message = Thresholds(
        topology_id=t, topology_name="flights", mined_at_ms=T0_MS, from_ms=0, to_ms=T0_MS, entries=[entry]
    )
    w.zookeeper.put(w.paths.thresholds(t), encode(message))
    w.tell(10)
    assert seen
    assert {round(s, 6) for s in seen} == {round(0.5 * w.config.decide.fill_ratio, 6)}
    changed = msgspec.structs.replace(message, entries=[])
    w.zookeeper.put(w.paths.thresholds(t), encode(changed))
    seen.clear()
    w.tell(10)
    assert {round(s, 6) for s in seen} == {round(0.8 * w.config.decide.fill_ratio, 6)}


def profile_of(topology_id: str, error: float) -> Profile:
    """The hour that comes has three times the tuples of any other."""
    now = hour_of_week(T0_MS)
    rates: list[float | None] = [300.0 if h in ((now + 2) % 168, (now + 3) % 168) else 100.0 for h in range(168)]
    edges = [
        EdgeProfile(from_=a, stream="default", to=b, rate_tps=rates)
        for a, b in (("source", "parse"), ("parse", "sink"))
    ]
    return Profile(
        topology_id=topology_id,
        topology_name="flights",
        mined_at_ms=T0_MS,
        from_ms=0,
        to_ms=T0_MS,
        forecast_error_ratio=error,
        edges=edges,
    )


def planned_for(settings: str, error: float, age_days: float = 0.0, base: str = SETTINGS) -> tuple[Model, str]:
    """The model that the planner got, and the decision's text."""
    w, t = measured_world(settings, base)
    mine(w, t)
    mined_ms = T0_MS - int(age_days * 86_400_000)
    profile = msgspec.structs.replace(profile_of(t, error), mined_at_ms=mined_ms)
    w.zookeeper.put(w.paths.profile(t), encode(profile))
    seen: list[Model] = []
    w.wanted = {t: NEAR}
    plan = w.planner

    def look(model):  # type: ignore[no-untyped-def]
        seen.append(model)
        return plan(model)

    w.planner = look
    w.tell(10)
    return seen[-1], w.decision(t).text


def planned_rates(settings: str, error: float, age_days: float = 0.0) -> tuple[float, str]:
    """All tuples/s of that model, and the decision's text."""
    model, text = planned_for(settings, error, age_days)
    return sum(e.rate for e in model.traffic), text


def test_plan_is_made_for_the_hour_that_comes_only_when_asked_and_forecast_well() -> None:
    ahead = "history: {proactive: true, lead_s: 9000}\n"
    measured, text = planned_rates("", 0.05)
    assert "profile" not in text
    assert planned_rates(ahead, 0.5)[0] == measured
    forecast, text = planned_rates(ahead, 0.05)
    assert forecast > measured * 2
    assert "planned for the most of the next 150 min" in text
    assert planned_rates(ahead, 0.05, age_days=44)[0] == forecast
    assert planned_rates(ahead, 0.05, age_days=46)[0] == measured, "a profile grows old as thresholds do"


def test_what_owners_declared_does_not_grow_with_the_forecast() -> None:
    declared = SETTINGS.replace("load: {", "load: {cpu: declared, ")
    now, _ = planned_for("", 0.05, base=declared)
    then, _ = planned_for("history: {proactive: true, lead_s: 9000}\n", 0.05, base=declared)
    assert sum(e.rate for e in then.traffic) > sum(e.rate for e in now.traffic)
    assert then.topologies[0].executors == now.topologies[0].executors


def test_plan_is_made_for_what_was_measured_where_the_peak_does_not_fit() -> None:
    """A forecast that no placement can carry must not keep the controller from what it can do now."""
    measured_tps, _ = planned_rates("", 0.05)
    w, t = measured_world("history: {proactive: true, lead_s: 9000}\n")
    mine(w, t)
    w.zookeeper.put(w.paths.profile(t), encode(profile_of(t, 0.05)))
    asked: list[float] = []
    w.wanted = {t: NEAR}
    plan = w.planner

    def fits_only_now(model):  # type: ignore[no-untyped-def]
        asked.append(sum(e.rate for e in model.traffic))
        return plan(model) if asked[-1] < measured_tps * 1.5 else Infeasible(constraint="cpu", text="too much")

    w.planner = fits_only_now
    w.tell(10)
    assert max(asked) > measured_tps * 2
    assert asked[-1] == measured_tps
    assert w.decision(t).reason != "INFEASIBLE"
    assert w.decision(t).text.endswith("the profile forecasts more than fits: planned for what was measured")
