"""Replay of tiny pasts whose answers are known by hand."""

from __future__ import annotations

import msgspec
import pytest

import builders
from stormpilot.errors import UsageError
from stormpilot.history.replay.past import past, yardstick
from stormpilot.history.replay.play import Coming, Rules, play
from stormpilot.history.replay.score import Weights, score, totals
from stormpilot.history.replay.values import Played, Run, Setting, Step
from stormpilot.model.forecast import Forecast
from stormpilot.model.values import Assigned, Input, Model, Topology

HOUR_MS = 3_600_000
ONLINE = Setting(planner="online", decide={"consecutive_hits": 1})
PATIENT = Rules(budget_s=60.0)
"""For planners that stop at their own count, however slow the machine is."""


def crossed() -> Model:
    """Two chains of 100 tuples/s that both cross between the nodes twice; the optimum crosses with 2 tuples/s."""
    return placed(builders.two_chains(), {1: "n1", 3: "n2", 5: "n1", 2: "n2", 4: "n1", 6: "n2"})


def placed(model: Model, where: dict[int, str]) -> Model:
    (t,) = model.topologies
    assignment = [Assigned(start=s, supervisor=n, port=6700) for s, n in sorted(where.items())]
    keyed = [msgspec.structs.replace(c, inputs=[keyed_by(i) for i in c.inputs]) for c in t.components]
    return msgspec.structs.replace(
        model, topologies=[msgspec.structs.replace(t, assignment=assignment, components=keyed)]
    )


def keyed_by(i: Input) -> Input:
    return msgspec.structs.replace(i, grouping="FIELDS")


def hours(*models: Model, unmeasured: dict[int, list[str]] | None = None) -> list[Step]:
    return [
        Step(from_ms=i * HOUR_MS, to_ms=(i + 1) * HOUR_MS, model=m, unmeasured=(unmeasured or {}).get(i, []))
        for i, m in enumerate(models)
    ]


def played(run: Run) -> list[Played]:
    return [p for p in run.played if p.topology_id == "chains"]


def test_plan_of_one_step_is_paid_for_in_the_next() -> None:
    first, second, third = played(play(hours(crossed(), crossed(), crossed()), ["chains"], ONLINE, Rules()))
    assert first.inter_node_tps == pytest.approx(400)
    assert first.reason == "GAIN"
    assert first.move is not None and first.move.executors > 0
    assert second.inter_node_tps == pytest.approx(2)
    assert third.reason == "" and third.move is None


def test_held_up_tuples_are_those_that_arrive_in_restarted_workers() -> None:
    config = msgspec.structs.replace(Rules().config, decide=msgspec.structs.replace(Rules().config.decide, restart_s=7))
    first = played(play(hours(crossed(), crossed()), ["chains"], ONLINE, Rules(config)))[0]
    assert first.move is not None and first.move.workers == 2
    assert first.move.held_up_tuples == pytest.approx(402 * 7)  # every tuple arrives in one of the two workers


def test_restart_time_of_a_topology_wins_over_the_configured_one() -> None:
    first = played(play(hours(crossed(), crossed()), ["chains"], ONLINE, Rules(restart_s={"chains": 3.0})))[0]
    assert first.move is not None and first.move.held_up_tuples == pytest.approx(402 * 3)


def test_keeps_what_runs_when_the_gain_must_show_more_often() -> None:
    rows = played(play(hours(crossed(), crossed()), ["chains"], Setting(planner="online"), Rules()))
    assert [p.reason for p in rows] == ["GAIN_NOT_SUSTAINED", ""]
    assert rows[1].inter_node_tps == pytest.approx(400)


def test_cool_down_holds_the_next_move() -> None:
    swapped = placed(builders.two_chains(), {1: "n1", 3: "n1", 5: "n1", 2: "n2", 4: "n2", 6: "n2"})
    other = msgspec.structs.replace(
        swapped, traffic=builders.traffic("chains", {(1, 4): 100.0, (4, 5): 100.0, (2, 3): 100.0, (3, 6): 100.0})
    )
    steps = hours(crossed(), other, other, other)
    waits = msgspec.structs.replace(ONLINE, decide={"consecutive_hits": 1, "cool_down_s": 7201})
    reasons = [p.reason for p in played(play(steps, ["chains"], waits, Rules()))]
    assert reasons == ["GAIN", "COOL_DOWN", "COOL_DOWN", ""]
    soon = [p.reason for p in played(play(steps, ["chains"], ONLINE, Rules()))]
    assert soon[:2] == ["GAIN", "GAIN"]


def test_lost_supervisor_is_repaired_and_the_restart_counts() -> None:
    nodes = [builders.supervisor(n, mhz=900.0) for n in ("n1", "n2", "n3")]
    start = msgspec.structs.replace(crossed(), supervisors=nodes)
    without = msgspec.structs.replace(
        placed(start, {1: "n1", 3: "n3", 5: "n1", 2: "n3", 4: "n1", 6: "n3"}), supervisors=[nodes[0], nodes[2]]
    )
    still = Setting(planner="online", decide={"gain_threshold_ratio": 1.0})
    first, second = played(play(hours(start, without), ["chains"], still, Rules()))
    assert first.move is None
    assert second.move is not None and second.move.reason == "REPAIR"
    assert second.move.executors == 3


def test_topology_that_a_user_rebalanced_goes_on_from_what_ran_then() -> None:
    (t,) = crossed().topologies
    fewer = msgspec.structs.replace(t, executors=t.executors[:4], assignment=t.assignment[:4])
    after = msgspec.structs.replace(
        crossed(), topologies=[fewer], traffic=[e for e in crossed().traffic if max(e.from_, e.to) <= 4]
    )
    rows = played(play(hours(crossed(), after, after), ["chains"], ONLINE, Rules()))
    assert rows[0].move is not None
    assert rows[1].inter_node_tps == pytest.approx(200)  # 1 -> 3 and 2 -> 4, as they ran


def test_step_that_was_not_measured_decides_nothing_and_does_not_count() -> None:
    steps = hours(crossed(), crossed(), unmeasured={0: ["chains"]})
    rows = played(play(steps, ["chains"], ONLINE, Rules()))
    assert [p.from_ms for p in rows] == [HOUR_MS]
    assert rows[0].inter_node_tps == pytest.approx(400)


def test_other_topologies_stand_as_they_really_did() -> None:
    (t,) = crossed().topologies
    other = Topology(
        id="other", name="other", workers=1, components=t.components, executors=t.executors,
        assignment=[Assigned(start=a.start, supervisor="n2", port=6701) for a in t.assignment],
    )  # fmt: skip
    nodes = [builders.supervisor(n, mhz=900.0) for n in ("n1", "n2")]
    model = msgspec.structs.replace(crossed(), supervisors=nodes, topologies=[t, other])
    run = play(hours(model, model), ["chains"], ONLINE, Rules())
    assert {p.topology_id for p in run.played} == {"chains"}
    assert run.played[0].busiest_load_ratio == pytest.approx(1.0)  # 3 of ours and 6 of its on n2
    assert run.played[1].busiest_load_ratio >= 2 / 3


def test_plans_for_a_smaller_limit_but_is_judged_by_the_one_of_the_log() -> None:
    nodes = [builders.supervisor(n, mhz=700.0) for n in ("n1", "n2")]
    model = msgspec.structs.replace(crossed(), supervisors=nodes)
    roomy = Setting(planner="best", params={"iterations": 2000}, decide={"consecutive_hits": 1})
    tight = msgspec.structs.replace(roomy, decide={"consecutive_hits": 1, "cpu_limit_ratio": 0.5})
    assert played(play(hours(model, model), ["chains"], roomy, PATIENT))[1].busiest_load_ratio == pytest.approx(6 / 7)
    second = played(play(hours(model, model), ["chains"], tight, PATIENT))[1]
    assert second.busiest_load_ratio == pytest.approx(3 / 7)
    assert second.inter_node_tps == pytest.approx(2)


def test_a_limit_above_the_one_of_the_log_is_not_played_for_a_recommendation() -> None:
    """The controller takes the lower one; all on one node won here, and could not be planned there."""
    nodes = [msgspec.structs.replace(builders.supervisor(n, mhz=1000.0), cpu_limit_mhz=350.0) for n in ("n1", "n2")]
    past_of = hours(*[msgspec.structs.replace(crossed(), supervisors=nodes)] * 2)
    wide = msgspec.structs.replace(ONLINE, decide={"consecutive_hits": 1, "cpu_limit_ratio": 0.95})
    assert played(play(past_of, ["chains"], wide, Rules(lower_limits=True)))[1].busiest_load_ratio <= 1
    assert played(play(past_of, ["chains"], wide, Rules()))[1].busiest_load_ratio > 1, "as --rule says"


def test_headroom_spreads_what_is_moved_by_choice() -> None:
    """Six executors of 100 MHz fit on one of two nodes of 700; voluntary plans may fill 90%, or half of that."""
    nodes = [builders.supervisor(n, mhz=700.0) for n in ("n1", "n2")]
    model = msgspec.structs.replace(crossed(), supervisors=nodes)
    for fill_ratio, busiest in ((0.9, 6 / 7), (0.5, 3 / 7)):
        rules = {"consecutive_hits": 1, "fill_ratio": fill_ratio}
        setting = Setting(planner="best", params={"iterations": 2000}, decide=rules)
        assert played(play(hours(model, model), ["chains"], setting, PATIENT))[1].busiest_load_ratio == pytest.approx(
            busiest
        )


def test_forecast_plans_for_the_step_that_comes() -> None:
    later = builders.traffic("chains", {(1, 4): 100.0, (4, 5): 100.0, (2, 3): 100.0, (3, 6): 100.0})
    then = msgspec.structs.replace(crossed(), traffic=later)

    def coming(model: Model, from_ms: int, to_ms: int) -> Forecast:
        known = (from_ms, to_ms) == (HOUR_MS, 2 * HOUR_MS)
        return Forecast(msgspec.structs.replace(model, traffic=later)) if known else Forecast(model)

    steps = hours(crossed(), then)
    blind = played(play(steps, ["chains"], ONLINE, Rules(), coming))[1]
    ahead = played(play(steps, ["chains"], msgspec.structs.replace(ONLINE, forecast=True), Rules(), coming))[1]
    assert ahead.inter_node_tps == 0
    assert blind.inter_node_tps > 100


def rising() -> tuple[list[Step], Coming]:
    """One node has all six executors, 600 of 1000 MHz; in the third hour they take twice the tuples and CPU."""
    nodes = [builders.supervisor(n, mhz=1000.0) for n in ("n1", "n2")]
    now = msgspec.structs.replace(placed(builders.two_chains(), dict.fromkeys(range(1, 7), "n1")), supervisors=nodes)
    (t,) = now.topologies
    executors = [msgspec.structs.replace(e, cpu_mhz=2 * e.cpu_mhz) for e in t.executors]
    traffic = [msgspec.structs.replace(e, rate=2 * e.rate) for e in now.traffic]
    peak = msgspec.structs.replace(now, topologies=[msgspec.structs.replace(t, executors=executors)], traffic=traffic)

    def coming(model: Model, from_ms: int, to_ms: int) -> Forecast:
        if from_ms < 2 * HOUR_MS:
            return Forecast(model)
        (held,) = model.topologies
        then = msgspec.structs.replace(held, executors=executors)
        return Forecast(msgspec.structs.replace(peak, topologies=[then]), moved=frozenset({"chains"}))

    return hours(now, now, peak, peak), coming


def test_forecast_relieves_a_node_before_its_peak_and_not_after_an_hour_of_it() -> None:
    steps, coming = rising()
    blind = played(play(steps, ["chains"], ONLINE, Rules(), coming))
    assert [p.overloaded_node_s for p in blind] == [0, 0, 3600, 0]
    assert [p.reason for p in blind][2] == "OVERLOAD"
    ahead = played(play(steps, ["chains"], msgspec.structs.replace(ONLINE, forecast=True), Rules(), coming))
    assert [p.overloaded_node_s for p in ahead] == [0, 0, 0, 0]
    assert [p.reason for p in ahead][:3] == ["NO_BETTER_PLAN", "OVERLOAD", "NO_BETTER_PLAN"]


def test_forecast_that_fits_nowhere_leaves_the_plan_for_what_was_measured() -> None:
    first = crossed()

    def flood(model: Model, from_ms: int, to_ms: int) -> Forecast:
        (t,) = model.topologies
        then = [msgspec.structs.replace(e, cpu_mhz=1e6) for e in t.executors]
        more = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, executors=then)])
        return Forecast(more, moved=frozenset({"chains"}))

    rows = played(play(hours(first, first), ["chains"], msgspec.structs.replace(ONLINE, forecast=True), Rules(), flood))
    assert rows[0].reason == "GAIN"
    assert rows[1].inter_node_tps == pytest.approx(2)


def test_planner_without_a_plan_keeps_what_runs_and_says_why() -> None:
    sited = crossed()
    (t,) = sited.topologies
    components = [msgspec.structs.replace(t.components[0], site="nowhere"), *t.components[1:]]
    sited = msgspec.structs.replace(sited, topologies=[msgspec.structs.replace(t, components=components)])
    rows = played(play(hours(sited, sited), ["chains"], ONLINE, Rules()))
    assert rows[0].reason == "INFEASIBLE" and "nowhere" in rows[0].refused
    assert totals(rows, 15).refused == 1


def test_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="gain_threshold"):
        play(hours(crossed()), ["chains"], Setting(planner="online", decide={"gain_threshold": 0.1}), Rules())
    with pytest.raises(UsageError, match="consecutive_hits"):
        play(hours(crossed()), ["chains"], Setting(planner="online", decide={"consecutive_hits": 0}), Rules())


def test_past_is_what_was_measured_with_moves_between_steps() -> None:
    better = placed(builders.two_chains(), {1: "n1", 3: "n1", 5: "n1", 2: "n2", 4: "n2", 6: "n2"})
    first, second = past(hours(crossed(), better), {"chains"}, Rules())
    assert (first.inter_node_tps, second.inter_node_tps) == (400, 2)
    assert first.move is not None and (first.move.executors, first.move.workers) == (2, 2)
    assert first.overloaded_node_s == 2 * 3600  # both nodes, 300 of 300 MHz
    assert second.move is None


def test_short_overload_counts_though_the_mean_of_the_step_is_low() -> None:
    nodes = [builders.supervisor(n, mhz=600.0) for n in ("n1", "n2")]
    pace = [0.9] * 54 + [1.9] * 6
    step = Step(
        from_ms=0, to_ms=HOUR_MS, pace={"chains": pace}, model=msgspec.structs.replace(crossed(), supervisors=nodes)
    )
    (really,) = past([step], {"chains"}, Rules())
    assert really.busiest_load_ratio == pytest.approx(0.5)
    assert really.overloaded_node_s == 0
    tight = msgspec.structs.replace(
        step, model=msgspec.structs.replace(step.model, supervisors=[builders.supervisor("n1", mhz=500.0), nodes[1]])
    )
    (really,) = past([tight], {"chains"}, Rules())
    assert really.overloaded_node_s == pytest.approx(360)  # 6 minutes at 570 of 500 MHz
    (seen,) = played(play([tight], ["chains"], ONLINE, Rules()))
    assert seen.overloaded_node_s == pytest.approx(360)
    assert seen.overloaded_tps == pytest.approx(really.overloaded_tps)


def test_flow_model_tells_what_was_measured_where_nothing_follows_the_placement() -> None:
    found = yardstick(hours(crossed()), "chains")
    assert found.error_ratio == pytest.approx(0)
    assert found.cost == pytest.approx(0)


def test_score_is_the_mean_distance_with_penalties() -> None:
    row = Played(
        topology_id="t", from_ms=0, length_s=10, inter_node_tps=50, network_cost_tps=100, total_tps=200,
        busiest_load_ratio=1.2, overloaded_node_s=10, overloaded_tps=20,
    )  # fmt: skip
    t = totals([row], restart_s=15)
    assert score(t, Weights(overload=0, restart=0)) == pytest.approx(0.5)
    assert score(t, Weights(overload=10, restart=0)) == pytest.approx(0.5 + 10 * 20 / 200)
    assert t.overload_minutes == pytest.approx(10 / 60)
    assert t.inter_node_share == pytest.approx(0.25)
