"""Steps of otd between two cycles: one executor at a time, by the gates of every move, told once."""

from __future__ import annotations

import itertools

import msgspec

from doubles.world import SPREAD, World
from stormpilot.decide.events import EventKind

OTD = "otd: {enabled: true, period_s: 10, cool_down_s: 30, threshold_asc_tps: 20, cpu_high: 0.5, cpu_low: 0.4}\n"


def test_otd_moves_one_executor_at_a_time_and_rests_in_between() -> None:
    w = World("a", "b", settings=OTD)
    t = w.submit(SPREAD)
    w.step_otd(40)
    assert len(w.history(t)) == 1
    w.step_otd(20)
    assert len(w.history(t)) == 1, "it rests"
    w.step_otd(400)
    history = w.history(t)
    assert {(e.reason, e.moved_executors, e.plan.planner) for e in history} == {("OTD", 1, "otd")}
    times = [e.plan.created_at_ms for e in history]
    assert all(b - a >= 30_000 for a, b in itertools.pairwise(times))
    assert history[0].text.startswith("case 3: executor")
    assert w.decision(t).reason == "OTD", "the main loop leaves it alone"
    tps = [e.plan.expected.after["inter_node_tps"] for e in history]
    assert tps == sorted(tps, reverse=True)


def test_otd_heeds_the_gates_of_every_move() -> None:
    w = World("a", "b", settings=OTD + "budget: {cluster_executors_per_hour: 1}\n")
    t = w.submit(SPREAD)
    w.zookeeper.put(w.paths.pause("flights"), b'{"schema": 1}')
    w.step_otd(60)
    assert w.history(t) == []
    w.zookeeper.delete(w.paths.pause("flights"))
    w.step_otd(300)
    assert len(w.history(t)) == 1, "the budget"


def test_otd_says_once_that_resources_lack_and_once_that_they_suffice() -> None:
    w = World("a", "b", settings=OTD.replace("cpu_high: 0.5, cpu_low: 0.4", "cpu_high: 0.05, cpu_low: 0.04"))
    t = w.submit(SPREAD)
    w.step_otd(200)
    assert [e.kind for e in w.events] == [EventKind.RESOURCES_INSUFFICIENT]
    assert w.history(t) == []
    w.use(msgspec.structs.replace(w.config, otd=msgspec.structs.replace(w.config.otd, cpu_high=0.9, cpu_low=0.8)))
    w.step_otd(20)
    assert EventKind.RESOURCES_SUFFICIENT in [e.kind for e in w.events]


def test_otd_relieves_a_node_step_by_step_though_one_step_is_not_enough() -> None:
    """B(n) is 0.3 cores, a has more than 0.4 of them: after the first step it is overloaded still."""
    w = World("a", "b", settings=OTD)
    w.config = msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, cpu_limit_ratio=0.15))
    w.new_leader()
    t = w.submit({("a", 6700): (1, 2, 3, 4, 5), ("b", 6700): (6,)})
    w.step_otd(60)
    assert [e.text[:6] for e in w.history(t)] == ["case 1"]
    assert len(w.slots(t)["a", 6700]) == 4
