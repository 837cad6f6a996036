"""Runs of headlines: the chain is what it says it is, plans have the same room, windows are whole."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from benchmarks.demo.measure import Completed
from benchmarks.headlines import changing, phases
from benchmarks.headlines.cases import CASES, FLAT_OUT_TPS, Case
from benchmarks.headlines.chain import Chain
from benchmarks.headlines.contenders import ROOM, roomy
from benchmarks.headlines.phases import mean_ms
from benchmarks.headlines.runs import Clock, Prepared, elsewhere, missing
from builders import supervisor, topology, traffic
from stormpilot.errors import UnreachableError
from stormpilot.instrument.latency import LatencyHistogram
from stormpilot.model.values import Assigned, Model, Plan, TopologyPlan, Worker


def test_what_is_left_is_counted_by_what_was_measured(tmp_path: Path) -> None:
    case = Case("chain", 100.0, 50, chain=Chain())
    assert missing(case, 2, tmp_path) == 12
    plans = {who: Plan(topologies=[]) for who in ("default", "online", "best")}
    prepared = Prepared(parameters={}, slots={}, plans=plans, placements={})
    (tmp_path / "chain-plans.json").write_bytes(msgspec.json.encode(prepared))
    (tmp_path / "chain-1.json").write_text(json.dumps({"measured": [{"who": "default"}, {"who": "best"}]}))
    assert missing(case, 2, tmp_path) == 4


def test_no_placement_is_begun_that_would_not_end_in_time() -> None:
    clock = Clock(time.monotonic() + 100.0, left=3, took_s=60.0)
    assert clock.allows(clock.took_s)
    assert clock.done(160.0) == "2 placements left, about 4 min"
    assert not clock.allows(clock.took_s)


def test_mean_of_a_histogram_is_within_five_percent() -> None:
    histogram = LatencyHistogram()
    latencies = [3.0, 7.5, 20.0, 20.0, 180.0]
    for latency in latencies:
        histogram.add(latency)
    counts = Counter({bound: int(n) for bound, n in histogram.buckets()})
    assert mean_ms(counts) == pytest.approx(sum(latencies) / len(latencies), rel=0.05)


def test_nobody_may_put_everything_on_one_node() -> None:
    t = topology("t", {"spout": 2, "bolt": 6}, streams=[("spout", "bolt")], workers=4)
    model = roomy(Model(supervisors=[supervisor(f"n{n}", 2) for n in range(4)], topologies=[t], traffic=[]))
    total = sum(e.cpu_mhz for e in t.executors)
    assert [s.limit_mhz for s in model.supervisors] == pytest.approx([ROOM * total / 4] * 4)


def test_room_is_the_same_part_of_nodes_that_differ() -> None:
    t = topology("t", {"spout": 2, "bolt": 6}, streams=[("spout", "bolt")], workers=4)
    nodes = [msgspec.structs.replace(supervisor(f"n{n}", 2), cores=cores) for n, cores in enumerate((1.0, 2.0, 5.0))]
    model = roomy(Model(supervisors=nodes, topologies=[t], traffic=[]))
    total = sum(e.cpu_mhz for e in t.executors)
    assert [s.limit_mhz for s in model.supervisors] == pytest.approx([ROOM * total * part / 8 for part in (1, 2, 5)])


def test_stages_of_the_chain_take_tuples_by_shuffle_and_by_key_in_turn() -> None:
    made = Chain(stages=4, replication=3).topology()
    groupings = {name: next(iter(bolt.common.inputs.values())).fields is not None for name, bolt in made.bolts.items()}
    assert groupings == {"stage_1": False, "stage_2": True, "stage_3": False, "stage_4": True, "last": False}
    assert {b.common.parallelism_hint for b in made.bolts.values()} == {3}


def test_source_sends_at_the_rate_and_as_fast_as_it_goes_by_turns() -> None:
    case = Case("chain", 250.0, 50, phase_s=15.0, chain=Chain())
    assert case.conf()["chain.rate.schedule"] == f"250x15,{FLAT_OUT_TPS}x15"


def test_plan_of_another_cluster_keeps_its_supervisors_and_the_order_of_their_slots() -> None:
    workers = [
        Worker(supervisor="n1", port=6701, executors=[(1, 1)]),
        Worker(supervisor="n2", port=6710, executors=[(2, 2)]),
    ]
    plan = Plan(topologies=[TopologyPlan(id="t", workers=workers)])
    moved = elsewhere(plan, "t-2", {"n1": [6700, 6701], "n2": [6710, 6711]}, {"n1": [40, 41], "n2": [50, 51]})
    assert moved.topologies[0].id == "t-2"
    assert [(w.supervisor, w.port, w.executors) for w in moved.topologies[0].workers] == [
        ("n1", 41, [(1, 1)]),
        ("n2", 50, [(2, 2)]),
    ]


def test_stages_take_turns_in_sending_more_tuples_than_come() -> None:
    turning = changing.case(Case("chain", 100.0, 50, chain=Chain()))
    assert turning.chain is not None
    bolts = turning.chain.topology().bolts
    schedules = {
        name: conf["chain.selectivity.schedule"]
        for name, bolt in bolts.items()
        if "chain.selectivity.schedule" in (conf := json.loads(bolt.common.json_conf))
    }
    assert schedules == {
        "stage_1": "3x360,1x360",
        "stage_3": "0.333333x360,3x360",
        "stage_5": "1x360,0.333333x360",
    }
    assert turning.schedule == "3000x10", "nothing but the rate"


def test_steps_of_a_tuples_way_weigh_alike_and_acks_are_none() -> None:
    t = topology("t", {"a": 1, "b": 2, "c": 1, "__acker": 1}, streams=[("a", "b"), ("b", "c")])
    rates = {(1, 2): 30.0, (1, 3): 10.0, (2, 4): 90.0, (3, 4): 30.0, (1, 5): 40.0, (4, 5): 120.0}
    placed = {1: "n1", 2: "n1", 3: "n2", 4: "n2", 5: "n2"}
    model = Model(
        supervisors=[supervisor("n1"), supervisor("n2")],
        topologies=[
            msgspec.structs.replace(
                t, assignment=[Assigned(start=e, supervisor=s, port=6700) for e, s in placed.items()], latency_ms=1e6
            )
        ],
        traffic=traffic("t", rates),
    )
    assert changing.steps(model) == {"a>b": 0.25, "b>c": 0.75}
    assert changing.modelled_ms(model) < 1e3, "not what was measured"


def test_a_window_in_which_a_source_told_too_little_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reported less than twice in a window had no rate, and "most tuples/s" was without it."""
    told = Completed(1000.0, 0, Counter({1.0: 5}), frozenset({1}))
    parts = [SimpleNamespace(id=c, kind=kind) for c, kind in (("source", "spout"), ("x", "bolt"))]
    places = [SimpleNamespace(start=n, end=n, component=c) for n, c in ((1, "source"), (2, "source"), (3, "x"))]
    watcher = SimpleNamespace(
        window=lambda *_: SimpleNamespace(from_ms=0, to_ms=1, figures={}, model=None),
        completed=lambda *_: told,
        seen=SimpleNamespace(topologies={"t-1": SimpleNamespace(components=parts, executors=places)}),
    )
    monkeypatch.setattr(phases.time, "sleep", lambda _: None)
    job = SimpleNamespace(name="t", topology_id="t-1", watcher=watcher)
    with pytest.raises(UnreachableError, match="source task 2 told of nothing"):
        phases.phase(job, CASES["chain"], saturated=True)  # type: ignore[arg-type]
