"""The benchmark of accuracy: predictions of one window are held against what the kernel counted in the next."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy import latency, table, windows
from benchmarks.accuracy.constants import constants
from benchmarks.accuracy.contention import Clocks, Contention, Filler, Probe
from benchmarks.accuracy.processes import WorkerCpu
from benchmarks.accuracy.windows import Measured
from doubles.snapshots import COMPONENT_OF, cluster, everywhere, topology
from stormpilot.observe.series import NOTHING
from stormpilot.observe.task_rates import TaskRates
from support.waiting import until

WORKER, EXECUTOR, CHILD = 0.05, 0.03, 0.02
APART = {("a", 6700): (1, 2, 5, 6), ("b", 6700): (3, 4)}
TOGETHER = {("a", 6701): (1, 2, 3, 4, 5, 6)}


def rates(task: int, cores: float, shared: float) -> TaskRates:
    return TaskRates(
        task=task,
        component=COMPONENT_OF[task],
        host="",
        mhz=1000.0,
        covered_s=60.0,
        age_s=1.0,
        cpu_cores=cores,
        in_jvm=True,
        shared_cores=shared,
        received_tps={(1, "default"): 50.0} if task in (2, 3) else {},
        sent_tps=NOTHING,
    )


def window(name: str, slots: dict[tuple[str, int], tuple[int, ...]]) -> Measured:
    """What would be measured if a worker took 0.05 of a core and each executor 0.03, whatever flows."""
    workers = [WorkerCpu(s, "t", p, 1, WORKER + EXECUTOR * len(tasks), 0.0, 0.0) for (s, p), tasks in slots.items()]
    seen = {t: rates(t, EXECUTOR, WORKER / len(tasks)) for tasks in slots.values() for t in tasks}
    return Measured("t", name, 60.0, cluster("a", "b"), topology(everywhere(slots)), seen, workers)


def with_children(w: Measured) -> Measured:
    """The same with a Python process for each executor."""
    rates_ = {
        t: msgspec.structs.replace(r, cpu_cores=r.cpu_cores + CHILD, child_cores=CHILD) for t, r in w.rates.items()
    }
    at = Counter((e.supervisor, e.port) for e in w.snapshot.executors)
    workers = [replace(x, children_s=CHILD * at[x.supervisor, x.port]) for x in w.workers]
    return msgspec.structs.replace(w, rates=rates_, workers=workers)


def test_merged_workers_are_predicted_without_what_vanished() -> None:
    apart, together = window("apart", APART), window("together", TOGETHER)
    (row,) = table.rows([apart, together])
    assert (row.node, row.workers, row.executors) == ("a", 1, 6)
    assert row.measured == pytest.approx(0.23)
    assert row.before == pytest.approx(0.28)  # the sum before
    assert abs(row.after - row.measured) < abs(row.before - row.measured) / 2


def test_windows_of_another_run_are_compared_by_the_order_of_ports() -> None:
    apart, together = window("apart", APART), window("together", TOGETHER)
    other = msgspec.structs.replace(
        together,
        cluster=cluster("a", "b", ports=[7700, 7701, 7702, 7703]),
        snapshot=topology(everywhere({("a", 7701): (1, 2, 3, 4, 5, 6)})),
    )
    assert table.rows([apart, other]) == table.rows([apart, together])


def test_nothing_is_learned_from_another_run() -> None:
    apart, together = window("apart", APART), window("together", TOGETHER)
    other = [msgspec.structs.replace(w, seed=1) for w in (apart, together)]
    found = table.rows([apart, other[0], together, other[1]])
    assert [r.seed for r in found] == [0, 1]
    assert {replace(r, seed=0) for r in found} == set(table.rows([apart, together]))
    assert table.summary(found)["placements"] == 2


def test_each_run_has_a_speed_of_its_own() -> None:
    apart = window("apart", APART)
    runs = [
        msgspec.structs.replace(apart, seed=seed, contention=Contention(probe_tps=tps))
        for seed, tps in ((0, 100.0), (0, 100.0), (0, 50.0), (1, 10.0))
    ]
    assert windows.speed_ratios([*runs, apart]) == [1.0, 1.0, 0.5, 1.0, None]


def test_kept_windows_are_read_as_they_were(tmp_path) -> None:  # type: ignore[no-untyped-def]
    kept = [window("apart", APART), window("together", TOGETHER)]
    windows.write(tmp_path / "kept.msgpack", kept)
    assert table.rows(windows.read(tmp_path / "kept.msgpack")) == table.rows(kept)
    assert constants(kept)["workers_windows"] == 3
    assert table.summary(table.rows(kept))["nodes"] == 1


def test_disturbed_windows_are_neither_predicted_nor_learned_from() -> None:
    apart, together = window("apart", APART), window("together", TOGETHER)
    held = msgspec.structs.replace(
        window("held", {("b", 6700): (1, 2, 3, 4, 5, 6)}), contention=Contention(throttled_ratio={"b": 0.2})
    )
    assert held.contention.text() == "b was held by its quota in 20% of the time"
    assert table.rows([apart, held, together]) == table.rows([apart, together])


def test_contention_is_told_apart_from_work_at_low_priority() -> None:
    before = Clocks((0, 0, 0, 0, 0, 0, 0, 0), {"a": (10, 1)})
    after = Clocks((50, 30, 5, 10, 0, 1, 1, 3), {"a": (20, 3)})
    found = before.until(after)
    assert (found.busy_ratio, found.nice_ratio, found.steal_ratio) == pytest.approx((0.6, 0.3, 0.03))
    assert found.throttled_ratio == {"a": pytest.approx(0.2)}
    assert found.text() == "3% of the CPU was taken by the hypervisor"


def acked(w: Measured, bound_ms: float, tuples: int) -> Measured:
    """The window in which the spout's tuples were acked within that time."""
    spout = msgspec.structs.replace(w.rates[1], emitted_tps=50.0, latency_ms=((bound_ms, tuples),))
    return msgspec.structs.replace(w, rates={**w.rates, 1: spout})


def test_latency_is_predicted_from_the_window_before() -> None:
    """Two hops fewer between nodes: 20 ms were measured before, so that less is predicted, and not a part of it."""
    apart, together = acked(window("apart", APART), 20.8, 200), acked(window("together", TOGETHER), 17.2, 100)
    (row,) = latency.rows([apart, together])
    assert (row.placement, row.tuples) == ("together", 100)
    assert row.before_ms == pytest.approx(20.8 / 1.1**0.5)
    assert row.before_ms - 5.0 < row.predicted_ms < row.before_ms
    told = latency.as_json([row])
    assert told["summary"]["predicted_median"] == pytest.approx(abs(row.error))
    assert abs(row.error) < abs(row.error_as_before)
    assert any(f"{row.predicted_ms:.1f}" in line for line in latency.markdown(told))


def test_latency_of_few_tuples_or_of_none_is_not_judged() -> None:
    apart, together = window("apart", APART), window("together", TOGETHER)
    assert latency.rows([apart, together]) == []
    assert latency.rows([acked(apart, 20.8, 200), acked(together, 17.2, latency.LEAST_TUPLES - 1)]) == []
    assert latency.as_json([]) == {}


def test_a_slower_machine_is_no_cost_of_a_placement() -> None:
    """In the second window every second of CPU is half the work of Python processes, by the probe beside it."""
    apart, together = (with_children(window(*w)) for w in (("apart", APART), ("together", TOGETHER)))
    apart, slow = (
        msgspec.structs.replace(w, contention=Contention(probe_tps=tps))
        for w, tps in ((apart, 1000.0), (together.at_speed(2.0), 500.0))
    )
    assert slow.node_cores() == {"a": pytest.approx(0.23 + 6 * CHILD * 2)}
    rows = table.rows(windows.at_one_speed([apart, slow, apart]))
    assert rows[0].measured == pytest.approx(0.23 + 6 * CHILD)
    assert windows.at_one_speed([together]) == [together]


def test_speed_changes_what_tasks_report_of_python_processes_alone() -> None:
    by_jvm = rates(2, EXECUTOR, 0.01)
    seen = {
        2: by_jvm,
        3: msgspec.structs.replace(by_jvm, child_cores=0.02),
        4: msgspec.structs.replace(by_jvm, in_jvm=False),
    }
    found = msgspec.structs.replace(window("apart", APART), rates=seen).at_speed(2.0).rates
    assert found[2] == by_jvm
    assert (found[3].cpu_cores, found[3].child_cores) == pytest.approx((EXECUTOR + 0.02, 0.04))
    assert found[4].cpu_cores == pytest.approx(2 * EXECUTOR)


def test_the_probe_counts_while_it_runs_and_ends() -> None:
    with Filler() as filler, Probe() as probe:
        until(lambda: probe.done()[0] >= 2, "two tuples are through")
        tuples, seconds = probe.done()
    assert tuples >= 2
    assert seconds > 0
    assert all(p.poll() is not None for p in [*filler._processes, *probe._children])


def test_runs_of_the_page_that_are_on_another_machine_stay_told() -> None:
    own = {"window_s": 60.0, "seeds": [8], "summary": {"nodes": 52}, "latency": {"predicted_median": 0.07}}
    long_ago = {"window_s": 32.0, "seeds": [5, 6], "summary": {"nodes": 100}, "latency": {}}
    page = {
        "parameters": own,
        "machine": {"cpu": "a CPU"},
        "summary": own["summary"],
        "latency": {"summary": own["latency"]},
        "other_runs": [long_ago],
    }
    assert accuracy.earlier(page, {9}) == [{"cpu": "a CPU", **own}, {"cpu": "a CPU", **long_ago}]
    assert accuracy.earlier(page, {8}) == [{"cpu": "a CPU", **long_ago}]
    assert accuracy.earlier({**page, "other_runs": [{**long_ago, "cpu": "another"}]}, {5, 8}) == []
