"""CPU of workers' JVMs: who tells it, what each worker is made of, and what every executor has of it."""

from __future__ import annotations

import pytest

from stormpilot.model.values import Assigned, Component, CpuLaw, Edge, Executor, Topology
from stormpilot.observe.task_rates import TaskRates
from stormpilot.observe.worker_cpu import MOST_BY_PLACE, jvm_cores, rows_of, shared_by_law, within_measured

A, B = ("a", 6700), ("b", 6700)
COMPONENTS = {1: "source", 2: "bolt", 3: "bolt", 4: "__acker"}


def placed(places: dict[int, tuple[str, int]]) -> Topology:
    return Topology(
        id="t",
        name="t",
        workers=2,
        components=[Component(id=c, kind="spout" if c == "source" else "bolt") for c in ("source", "bolt", "__acker")],
        executors=[Executor(start=t, end=t, component=COMPONENTS[t]) for t in places],
        assignment=[Assigned(start=t, supervisor=s, port=p) for t, (s, p) in places.items()],
    )


def rates(task: int, **fields: object) -> TaskRates:
    known = {"host": "", "mhz": None, "covered_s": 60.0, "age_s": 1.0, "cpu_cores": 0.02}
    return TaskRates(task=task, component=COMPONENTS[task], **(known | fields))  # type: ignore[arg-type]


def python(task: int, jvm: float | None) -> TaskRates:
    return rates(task, jvm_cores=jvm)


def java(task: int, shared: float | None = 0.01) -> TaskRates:
    return rates(task, in_jvm=True, child_cores=0.005, shared_cores=shared)


def test_components_tell_what_the_jvm_around_them_used_all_of_them_the_same() -> None:
    topology = placed({1: A, 2: A, 3: B, 4: A})
    told = {1: python(1, 0.09), 2: python(2, 0.11), 3: python(3, 0.04)}
    assert jvm_cores(topology, told) == pytest.approx({A: 0.10, B: 0.04})


def test_a_worker_in_which_something_works_that_nobody_measured_is_not_known() -> None:
    topology = placed({1: A, 2: A, 3: B, 4: B})
    assert jvm_cores(topology, {2: python(2, 0.1), 3: python(3, 0.04)}) == {B: 0.04}  # task 1 may be of Java
    assert jvm_cores(topology, {1: python(1, 0.1), 2: python(2, None), 3: python(3, 0.04)}) == {B: 0.04}


def test_a_task_that_only_began_tells_nothing_yet() -> None:
    topology = placed({1: A, 2: A, 3: B})
    told = {1: python(1, 0.1), 2: rates(2, jvm_cores=0.0, covered_s=0.0), 3: python(3, 0.04)}
    assert jvm_cores(topology, told) == {B: 0.04}


def test_a_worker_of_ackers_alone_is_not_known() -> None:
    assert jvm_cores(placed({1: A, 4: B}), {1: python(1, 0.1)}) == {A: 0.1}


def test_the_hook_tells_what_its_tasks_used_without_their_children() -> None:
    topology = placed({1: A, 2: A, 3: B, 4: A})
    told = {1: java(1), 2: java(2), 3: java(3, None), 4: java(4)}
    assert jvm_cores(topology, told) == pytest.approx({A: 3 * (0.02 - 0.005 + 0.01)})


def test_a_worker_is_made_of_its_executors_and_of_tuples_by_their_way() -> None:
    topology = placed({1: A, 2: A, 3: B})
    told = {1: python(1, 0.1), 2: python(2, 0.1), 3: python(3, 0.05)}
    edges = [
        Edge(topology="t", from_=1, to=2, stream="default", rate=40.0),
        Edge(topology="t", from_=1, to=3, stream="default", rate=60.0),
    ]
    first, second = rows_of(topology, edges, told, {"a": "host-a", "b": "host-b"}, 0.0)
    assert (first.cores, second.cores) == (0.1, 0.05)
    of = {name: x for name, x in first.of.items() if x}
    assert of == pytest.approx(
        {
            "worker": 1,
            "asleep": 2,
            "in_worker": 40,
            "far": 30,
            "own:source": 100,
            "own:bolt": 40,
            "transfer": first.of["transfer"],
        }
    )
    assert (first.of["transfer"], second.of["receive"]) == pytest.approx((1, 1), abs=0.06)  # 60 tuples/s
    assert (first.of["receive"], second.of["transfer"]) == (0, 0)


def test_shared_cpu_goes_by_places_and_only_the_rest_by_tuples() -> None:
    told = {1: 0.09, 2: 0.01}  # the hook: by tuples
    found = shared_by_law(told, {1: 0.02, 2: 0.02}, {1: 90.0, 2: 10.0}, [1, 2])
    assert found == pytest.approx({1: 0.02 + 0.06 * 0.9, 2: 0.02 + 0.06 * 0.1})


def test_shared_cpu_of_a_worker_keeps_its_sum_where_the_law_expects_more() -> None:
    found = shared_by_law({1: 0.03, 2: 0.01}, {1: 0.06, 2: 0.02}, {1: 1.0, 2: 1.0}, [1, 2])
    assert found == pytest.approx({1: 0.03, 2: 0.01})


def test_shared_cpu_without_tuples_goes_to_all_alike() -> None:
    assert shared_by_law({1: 0.06, 2: 0.0}, {1: 0.0, 2: 0.0}, {1: 0.0, 2: 0.0}, [1, 2]) == pytest.approx(
        {1: 0.03, 2: 0.03}
    )


def test_a_law_of_which_nothing_was_learned_explains_no_more_than_workers_use() -> None:
    law, topology = CpuLaw(worker_mhz=100.0, far_mhz=0.2, awake_s=0.01), placed({1: A, 2: A, 3: B})
    by_law = {1: 0.5, 2: 0.3, 3: 7.0}
    scaled = within_measured(law, by_law, {A: 0.4}, topology)
    ratio = MOST_BY_PLACE * 0.4 / 0.8
    assert (scaled.worker_mhz, scaled.far_mhz, scaled.awake_s) == pytest.approx((100 * ratio, 0.2 * ratio, 0.01))
    assert within_measured(law, by_law, {A: 2.0}, topology) is law
