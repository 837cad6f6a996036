"""Plans on flows: what they find on small clusters, what is kept, and what the clock leaves."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from builders import assigned, supervisor, topology, traffic
from stormpilot.generate.models.loaded import Loaded, loaded
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model, predicted
from stormpilot.model.subset import with_plans
from stormpilot.model.values import Assigned, Edge, Exclusion, Infeasible, Input, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import PLANNERS, compute
from stormpilot.planner.flow.annealing import FlowSearch
from stormpilot.planner.flow.annealing_kernel import TRAFFIC, anneal
from stormpilot.planner.flow.planning import PER_PLACEMENT, on_flows
from stormpilot.planner.methods import best
from stormpilot.planner.placement.count import placements
from stormpilot.planner.placement.layout import Layout, empty_layout, frame_of
from stormpilot.planner.placement.problem import (
    LeftS,
    no_limits,
)
from stormpilot.planner.placement.slots import to_slots
from stormpilot.planner.repair import completed

QUICK = {"iterations": 40_000}


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """The first plan of a process gives the clock back what loading took: one that stands still then never ends."""
    compute(fan(), "best", QUICK, traffic="flow", left_s=lambda: 60.0)


def judged(model: Model, plan: Plan) -> float:
    """Inter-node tuples/s as shuffles will send them."""
    flow = flow_model(model)
    return flow.predict(flow.compiled.slots_of(plan)).inter_node_tps


def fan() -> Model:
    """Two spouts shuffle 60 tuples/s each to four bolts; two nodes have room for half of all.

    Measured pairs: everyone sends 15 to everyone, so any split costs at least 60. In truth a spout with a bolt on its
    node sends nothing further: 0 is possible.
    """
    t = topology("t", {"spout": 2, "bolt": 4}, streams=[("spout", "bolt")], workers=2)
    rates = {(s, b): 15.0 for s in (1, 2) for b in (3, 4, 5, 6)}
    nodes = [supervisor("n1", mhz=400.0), supervisor("n2", mhz=400.0)]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("t", rates))


@pytest.mark.parametrize("planner", ["best", "partition"])
def test_finds_the_placement_that_needs_no_network(planner: str) -> None:
    model = fan()
    plan = compute(model, planner, QUICK, traffic="flow")
    assert isinstance(plan, Plan)
    assert plan.metrics["flow_inter_node_tps"] == pytest.approx(0)
    assert plan.metrics["inter_node_tps"] >= 30  # what the pairs, taken as they are, would say
    assert violations(model, plan) == []
    assert violations(predicted(model, plan), plan) == []


def test_a_model_of_few_placements_is_not_searched_as_long_as_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four executors took a second of CPU, 1.6 million tries, for some dozens of placements."""
    usual, tries = FlowSearch.search, []

    def counted(self: FlowSearch, *given: Any, **more: Any) -> Any:
        found = usual(self, *given, **more)
        tries.append(found.tries)
        return found

    monkeypatch.setattr(FlowSearch, "search", counted)
    plan = compute(fan(), "best", traffic="flow")
    assert isinstance(plan, Plan)
    assert plan.metrics["flow_inter_node_tps"] == pytest.approx(0)
    assert 0 < sum(tries) <= 2 * PER_PLACEMENT * placements(compile_model(fan()))


def test_planner_of_a_paper_plans_as_published_and_is_judged_by_both() -> None:
    model = fan()
    plain = compute(model, "online", {})
    both = compute(model, "online", {}, traffic="flow")
    assert isinstance(plain, Plan)
    assert isinstance(both, Plan)
    assert both.topologies == plain.topologies
    assert both.metrics["inter_node_tps"] == plain.metrics["inter_node_tps"]
    assert both.metrics["flow_inter_node_tps"] == pytest.approx(judged(model, plain))


def test_executors_that_stand_by_keep_what_is_said_of_their_component() -> None:
    """3 stands by for 2: without it n2 had room for all that talk, but n1 is closed to it as to 2."""
    t = topology("t", {"spout": 1, "bolt": 2, "sink": 1}, streams=[("spout", "bolt"), ("spout", "sink")])
    model = Model(
        supervisors=[supervisor("n1", mhz=300.0), supervisor("n2", mhz=300.0)],
        topologies=[msgspec.structs.replace(t, standby=[3])],
        traffic=traffic("t", {(1, 2): 100.0, (1, 4): 100.0}),
        exclusions=[Exclusion(supervisor="n1", topology="t", component="bolt")],
    )
    plan = compute(model, "best", QUICK, traffic="flow")
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    assert plan.metrics["flow_inter_node_tps"] == pytest.approx(100.0)


def two_sources() -> Model:
    """Two spouts shuffle to two bolts, each of which needs 0.6 of a core for the tuples of one."""
    t = topology(
        "t", {"spout": 2, "bolt": 2}, streams=[("spout", "bolt")], workers=2, cpu_mhz={"spout": 1.0, "bolt": 600.0}
    )
    rates = {(s, b): 15.0 for s in (1, 2) for b in (3, 4)}
    nodes = [msgspec.structs.replace(supervisor(n, mhz=1000.0), cores=1.0) for n in ("n1", "n2")]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("t", rates))


def test_two_sources_do_not_share_a_target_that_can_serve_one() -> None:
    """Each spout's tuples need 0.6 of a core: one bolt beside both of them would be full."""
    model = two_sources()
    plan = compute(model, "best", QUICK, traffic="flow")
    assert isinstance(plan, Plan)
    flow = flow_model(model)
    p = flow.predict(flow.compiled.slots_of(plan))
    assert (p.full_mhz, p.overload_mhz) == (0, 0)
    assert p.inter_node_tps == pytest.approx(0)
    assert p.received_tps.tolist()[2:] == pytest.approx([30, 30])


def test_plan_that_overloads_a_node_by_its_flows_says_so() -> None:
    """`rsm` puts both spouts beside one bolt, which then gets the tuples of both; as measured nothing is overloaded."""
    plan, sound = (compute(two_sources(), name, {}, traffic="flow") for name in ("rsm", "online"))
    assert isinstance(plan, Plan)
    assert isinstance(sound, Plan)
    assert plan.metrics["max_load_ratio"] <= 1 < plan.metrics["flow_max_load_ratio"]
    assert plan.notes[-1] == "by its flows a node needs 100.2% of the CPU that may be filled"
    assert not any("by its flows" in note for note in sound.notes)


def test_present_placement_stays_when_it_is_as_good() -> None:
    model = fan()
    first = compute(model, "best", QUICK, traffic="flow")
    assert isinstance(first, Plan)
    again = compute(assigned(first, model), "best", QUICK, traffic="flow", seed=5)
    assert isinstance(again, Plan)
    assert again.topologies == first.topologies
    assert again.metrics["moved_executors"] == 0


def test_present_placement_on_an_excluded_node_is_left() -> None:
    model = fan()
    there = compute(model, "best", QUICK, traffic="flow")
    assert isinstance(there, Plan)
    free = supervisor("n3", mhz=800.0)
    model = msgspec.structs.replace(
        assigned(there, model),
        supervisors=[*model.supervisors, free],
        exclusions=[Exclusion(supervisor=s.id) for s in model.supervisors],
    )
    plan = compute(model, "best", QUICK, traffic="flow")
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []


def test_clock_that_ran_out_still_gives_the_plan_on_pairs_and_says_so() -> None:
    left = iter([1.0, *([0.0] * 100_000)])
    plan = compute(fan(), "best", {}, traffic="flow", left_s=lambda: next(left))
    assert isinstance(plan, Plan | Infeasible)
    if isinstance(plan, Plan):
        assert any("clock cut" in note for note in plan.notes)


def drawn(groupings: dict[tuple[str, str], list[str]], seed: int) -> Model:
    """Five components on six nodes in three racks; streams by (from, to) with their groupings, rates at random.

    Of several streams between the same two, the first carries most.
    """
    rng = np.random.default_rng(seed)
    t = topology("t", {"spout": 4, "a": 6, "b": 6, "c": 5, "d": 3}, workers=6)
    streams = [(x, y, f"s{i}", g) for (x, y), several in groupings.items() for i, g in enumerate(several)]
    components = [
        msgspec.structs.replace(
            c,
            kind="spout" if c.id == "spout" else "bolt",
            inputs=[Input(component=x, stream=s, grouping=g) for x, y, s, g in streams if y == c.id],
        )
        for c in t.components
    ]
    starts = {c.id: [e.start for e in t.executors if e.component == c.id] for c in components}
    edges = [
        Edge(topology="t", from_=x, to=y, rate=float(rng.uniform(0, 20 if s == "s0" else 3)), stream=s)
        for a, b, s, _ in streams
        for x in starts[a]
        for y in starts[b]
    ]
    nodes = [supervisor(f"n{i}", mhz=700.0, rack=f"r{i // 2}") for i in range(6)]
    return Model(supervisors=nodes, topologies=[msgspec.structs.replace(t, components=components)], traffic=edges)


CHAIN = {("spout", "a"): ["FIELDS", "SHUFFLE"], ("a", "b"): ["FIELDS"], ("b", "c"): ["SHUFFLE"], ("c", "d"): ["FIELDS"]}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="keys fed by shuffles"),
        pytest.param({("d", "b"): ["SHUFFLE"]}, id="a circle"),
        pytest.param({("a", "d"): ["LOCAL_OR_SHUFFLE", "NONE"], ("a", "c"): ["FIELDS"]}, id="every grouping"),
    ],
)
def test_what_moves_change_adds_up_to_what_the_flow_model_says_of_the_result(
    more: dict[tuple[str, str], list[str]], seed: int
) -> None:
    """The search follows only what a move reaches; after many moves, kept and undone, all is as if worked out anew."""
    flow = flow_model(drawn(CHAIN | more, seed))
    frame = frame_of(flow.compiled)
    start = completed(frame, empty_layout(frame), no_limits(flow.compiled))
    assert not isinstance(start, Infeasible)
    search = FlowSearch(frame, flow, (0.0, 1.0, 1.0), 5.0, exact_workers=False)
    state = search._state(start, seed)
    best_seen = np.array([np.inf, np.inf])
    for temperature in (100.0, 10.0, 1.0, 0.0):
        anneal(
            search.flows, search.rules, state, search.scratch, 1000, temperature, 0.1,
            best_seen, start.worker.copy(), start.node.copy(),
        )  # fmt: skip
        layout = Layout(state.worker.copy(), state.node.copy())
        fresh = search._state(layout, 1)
        predicted = flow.predict(to_slots(frame, layout))
        assert state.sums[TRAFFIC] == pytest.approx(predicted.inter_node_tps, rel=1e-6)
        assert state.cpu == pytest.approx(predicted.cpu_mhz, rel=1e-6)
        assert state.predicted_mhz == pytest.approx(predicted.node_load_mhz, rel=1e-6, abs=1e-6)
        for name in ("sums", "measured_mhz", "memory_mb", "size", "used", "changes"):
            assert getattr(state, name) == pytest.approx(getattr(fresh, name), rel=1e-6, abs=1e-6), name


def test_topologies_that_are_left_out_stay_so() -> None:
    model = fan()
    other = msgspec.structs.replace(
        topology("big", {"x": 3}, cpu_mhz=5000.0), executors=topology("big", {"x": 3}, cpu_mhz=5000.0).executors
    )
    crowded = msgspec.structs.replace(model, topologies=[*model.topologies, other])
    plan = compute(crowded, "best", QUICK, traffic="flow", partial=True)
    assert isinstance(plan, Plan)
    assert [t.id for t in plan.topologies] == ["t"]
    assert plan.metrics["flow_inter_node_tps"] == pytest.approx(0)


def test_fixed_worker_stays() -> None:
    model = fan()
    t = model.topologies[0]
    placed = [
        Assigned(start=e.start, supervisor="n1" if e.start in (1, 2, 3) else "n2", port=6700) for e in t.executors
    ]
    fixed = msgspec.structs.replace(t, assignment=placed, fixed_workers=[("n1", 6700)])
    model = msgspec.structs.replace(model, topologies=[fixed])
    plan = compute(model, "best", QUICK, traffic="flow")
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    assert np.isclose(judged(model, plan), 0)  # both spouts have task 3 beside them


@pytest.mark.parametrize("seed", [1, 5])
def test_what_the_clock_leaves_overloaded_is_no_plan(seed: int) -> None:
    """All CPU grew by 30% since Storm placed it: what runs breaks limits, and no time is left to find better."""
    rng = np.random.default_rng(seed)
    model = loaded(Loaded(executors=120, topologies=2, nodes=6, load=0.6, slots=8, ackers=0.0), rng)
    placed = compute(model, "default")
    assert isinstance(placed, Plan)
    grown = [
        msgspec.structs.replace(t, executors=[msgspec.structs.replace(e, cpu_mhz=1.3 * e.cpu_mhz) for e in t.executors])
        for t in with_plans(model, {t.id: t for t in placed.topologies}).topologies
    ]
    model = msgspec.structs.replace(model, topologies=grown)
    seconds = iter([0.05])
    found = compute(model, "best", seed=0, traffic="flow", left_s=lambda: next(seconds, 0.0))
    if isinstance(found, Plan):
        assert violations(model, found) == []
    else:
        assert not found.proved and "the time was spent" in found.text
    assert isinstance(compute(model, "best", QUICK, traffic="flow"), Plan), "there is one, with time"


def test_a_part_of_the_time_is_no_reason_to_give_up() -> None:
    """What finds nothing on measured pairs in its part of the time is asked again with all of it."""
    asked: list[float] = []

    def on_pairs(model: Model, left_s: LeftS) -> Plan | Infeasible:
        asked.append(left_s())
        if left_s() < 8:
            return Infeasible(constraint="cpu", text="the time was over")
        return compute(model, "default")

    plan = on_flows(fan(), PLANNERS["best"], best.Params(iterations=0), 0, lambda: 10.0, on_pairs)
    assert isinstance(plan, Plan)
    assert asked[0] < 8 and asked[1] == 10.0
