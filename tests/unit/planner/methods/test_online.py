"""The rules of A13's online scheduler, on instances small enough to work out by hand."""

from __future__ import annotations

import msgspec
import pytest

from builders import supervisor, topology
from stormpilot.errors import UsageError
from stormpilot.model.values import (
    Assigned,
    Component,
    Edge,
    Executor,
    Infeasible,
    Model,
    Plan,
    Supervisor,
    Topology,
)
from stormpilot.planner import compute
from stormpilot.planner.methods.online import Params, executor_cap


@pytest.mark.parametrize(
    ("executors", "workers", "alpha", "cap"),
    [
        (10, 4, 0.0, 3),  # ceil(10 / 4)
        (10, 4, 1.0, 7),  # all but W - 1
        (10, 4, 0.5, 5),  # 3 + ceil(0.5 * (10 - 4 + 1 - 3))
        (4, 4, 1.0, 1),  # one executor per worker whatever alpha
        (5, 1, 0.0, 5),
    ],
)
def test_the_cap_of_executors_per_worker(executors: int, workers: int, alpha: float, cap: int) -> None:
    assert executor_cap(executors, workers, alpha) == cap


@pytest.mark.parametrize("alpha", [-0.1, 1.1])
def test_alpha_outside_zero_to_one_is_refused(alpha: float) -> None:
    with pytest.raises(UsageError, match="alpha"):
        Params(alpha=alpha)


def chain(*rates: tuple[int, int, float], executors: int, workers: int, nodes: int = 2, slots: int = 2) -> Model:
    """Executors 1..n of 100 MHz with these rates, on nodes of 1000 MHz."""
    return Model(
        supervisors=[
            Supervisor(
                id=f"n{i}", host=f"h{i}", slots=list(range(6700, 6700 + slots)), cores=1.0, mhz=1000.0, memory_mb=0.0
            )
            for i in range(nodes)
        ],
        topologies=[
            Topology(
                id="t",
                name="t",
                workers=workers,
                components=[Component(id="c", kind="spout")],
                executors=[Executor(start=i, end=i, component="c", cpu_mhz=100.0) for i in range(1, executors + 1)],
            )
        ],
        traffic=[Edge(topology="t", from_=a, to=b, rate=r) for a, b, r in rates],
    )


def groups(plan: Plan) -> set[frozenset[int]]:
    return {frozenset(s for s, _ in w.executors) for t in plan.topologies for w in t.workers}


def test_the_heaviest_pairs_meet_first() -> None:
    """Pairs by falling traffic: 1-2 (100) to one worker, 3-4 (90) to the other; 2-3 (10) is cut."""
    answer = compute(chain((1, 2, 100.0), (3, 4, 90.0), (2, 3, 10.0), executors=4, workers=2), "online")
    assert isinstance(answer, Plan)
    assert groups(answer) == {frozenset({1, 2}), frozenset({3, 4})}


def test_traffic_in_both_directions_counts_together() -> None:
    """1-2 exchange 60 + 60, which is more than 1-3's 100."""
    answer = compute(chain((1, 2, 60.0), (2, 1, 60.0), (1, 3, 100.0), executors=4, workers=2), "online")
    assert isinstance(answer, Plan)
    assert frozenset({1, 2}) in groups(answer)


def test_executors_without_traffic_fill_the_least_loaded_worker() -> None:
    answer = compute(chain((1, 2, 100.0), executors=4, workers=2), "online")
    assert isinstance(answer, Plan)
    assert groups(answer) == {frozenset({1, 2}), frozenset({3, 4})}


def test_every_wanted_worker_is_used() -> None:
    """With alpha 1 one worker could hold all but one: the other still gets the cheapest executor."""
    rates = ((1, 2, 100.0), (2, 3, 100.0), (3, 4, 1.0))
    answer = compute(chain(*rates, executors=4, workers=2), "online", {"alpha": 1.0})
    assert isinstance(answer, Plan)
    assert groups(answer) == {frozenset({1, 2, 3}), frozenset({4})}


def test_workers_that_talk_share_a_node() -> None:
    """Four workers on two nodes: {1,2}-{3,4} talk and {5,6}-{7,8} talk; nothing crosses nodes."""
    rates = ((1, 2, 100.0), (3, 4, 100.0), (5, 6, 100.0), (7, 8, 100.0), (2, 3, 50.0), (6, 7, 50.0))
    answer = compute(chain(*rates, executors=8, workers=4), "online")
    assert isinstance(answer, Plan)
    assert answer.metrics["inter_node_tps"] == 0
    assert answer.metrics["inter_worker_tps"] == 100


def test_traffic_with_a_fixed_worker_counts_once() -> None:
    """1 is fixed on n0, where one more has room: 2 stays with 3 (150) rather than to go to 1 (100)."""
    model = chain((2, 3, 150.0), (1, 2, 100.0), executors=3, workers=3)
    fixed = msgspec.structs.replace(
        model.topologies[0],
        assignment=[Assigned(start=1, supervisor="n0", port=6700)],
        fixed_workers=[("n0", 6700)],
    )
    supervisors = [msgspec.structs.replace(s, cpu_limit_mhz=200.0) for s in model.supervisors]
    answer = compute(msgspec.structs.replace(model, supervisors=supervisors, topologies=[fixed]), "online")
    assert isinstance(answer, Plan)
    assert answer.metrics["inter_node_tps"] == 100.0


@pytest.mark.parametrize("planner", ["online", "offline"])
def test_what_only_its_own_cap_forbids_is_planned_beyond_it(planner):
    """500 MHz on n1, the rest on n2: three executors in one worker, where alpha 0 allows two."""
    t = topology("t", {"big": 1, "x": 3}, workers=2, cpu_mhz={"big": 500.0, "x": 100.0})
    model = Model(supervisors=[supervisor("n1", 1, mhz=500.0), supervisor("n2", 1, mhz=500.0)], topologies=[t])
    answer = compute(model, planner)
    assert isinstance(answer, Plan)
    assert groups(answer) == {frozenset({1}), frozenset({2, 3, 4})}
    assert answer.notes == [
        "workers hold more executors than alpha 0 allows, with which no plan was found: t (2)",
    ]
    wide = compute(model, planner, {"alpha": 1.0})
    assert isinstance(wide, Plan)
    assert not wide.notes


def test_what_fits_on_unlike_nodes_only_with_unlike_workers_is_planned():
    """A node of 16 cores and 7 of half a core: 8 workers of 20 executors each do not fit, most of them in one do."""
    t = topology("t", {"x": 160}, workers=8, cpu_mhz={"x": 100.0})
    nodes = [supervisor("large", 1, mhz=16_000.0), *(supervisor(f"s{i}", 1, mhz=500.0) for i in range(7))]
    answer = compute(Model(supervisors=nodes, topologies=[t]), "online")
    assert isinstance(answer, Plan)
    assert answer.metrics["overload_mhz"] == 0
    (note,) = answer.notes
    assert note.endswith(": t (20)")


def test_where_not_even_the_widest_cap_helps_the_proof_says_so():
    """Of three executors no two fit on a node: another cap of executors per worker would not help."""
    t = topology("t", {"x": 2, "y": 1}, workers=2, cpu_mhz={"x": 300.0, "y": 400.0})
    model = Model(supervisors=[supervisor("n1", 1, mhz=500.0), supervisor("n2", 1, mhz=500.0)], topologies=[t])
    answer = compute(model, "online")
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert "alpha" not in answer.text


@pytest.mark.parametrize("planner", ["online", "offline"])
def test_workers_beside_small_fixed_ones_hold_the_rest(planner):
    """Of 12 executors in three workers (4 each), two fixed workers hold one each: the third one takes ten."""
    model = chain((3, 4, 5.0), executors=12, workers=3, nodes=3)
    fixed = [("n0", 6700), ("n1", 6700)]
    t = msgspec.structs.replace(
        model.topologies[0],
        assignment=[Assigned(start=i, supervisor=s, port=p) for i, (s, p) in enumerate(fixed, start=1)],
        fixed_workers=fixed,
    )
    answer = compute(msgspec.structs.replace(model, topologies=[t]), planner)
    assert isinstance(answer, Plan)
    assert groups(answer) == {frozenset({1}), frozenset({2}), frozenset(range(3, 13))}


@pytest.mark.parametrize("planner", ["online", "offline", "partition", "default", "best"])
def test_more_fixed_workers_than_are_wanted_are_a_proof_and_nothing_is_written_beyond_arrays(planner: str) -> None:
    """Their executors have no number among the workers of the topology."""
    t = topology("t", {"a": 5}, workers=1)
    three = [Assigned(start=i, supervisor="n0", port=6700 + i) for i in (1, 2, 3)]
    t = msgspec.structs.replace(t, assignment=three, fixed_workers=[("n0", 6700 + i) for i in (1, 2, 3)])
    model = Model(supervisors=[supervisor("n0")], topologies=[topology("s", {"a": 3}), t], traffic=[])
    answer = compute(model, planner, {})
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert answer.text == "t: 3 fixed workers and 1 workers wanted"
