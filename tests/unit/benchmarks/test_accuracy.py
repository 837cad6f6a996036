"""The benchmark of accuracy: predictions of one window are held against what the kernel counted in the next."""

from __future__ import annotations

import time

import msgspec
import pytest

from benchmarks.accuracy import table, windows
from benchmarks.accuracy.constants import constants
from benchmarks.accuracy.contention import Clocks, Contention, Filler
from benchmarks.accuracy.processes import WorkerCpu
from benchmarks.accuracy.windows import Measured
from doubles.snapshots import COMPONENT_OF, cluster, everywhere, topology
from stormpilot.observe.series import NOTHING
from stormpilot.observe.task_rates import TaskRates

WORKER, EXECUTOR = 0.05, 0.03
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


def test_a_slower_machine_is_no_cost_of_a_placement() -> None:
    """In the second window every second of CPU is half the work, by the loops beside it."""
    apart, together = window("apart", APART), window("together", TOGETHER)
    apart, slow = (
        msgspec.structs.replace(w, contention=Contention(loops_per_s=loops))
        for w, loops in ((apart, 1000.0), (together.at_speed(2.0), 500.0))
    )
    rows = table.rows(windows.at_one_speed([apart, slow, apart]))
    assert rows[0].measured == pytest.approx(0.23)
    assert windows.at_one_speed([together]) == [together]


def test_the_filler_counts_while_it_runs_and_ends() -> None:
    with Filler() as filler:
        deadline = time.monotonic() + 60
        while filler.done()[0] < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        loops, seconds = filler.done()
    assert loops >= 2
    assert seconds > 0
    assert all(p.poll() is not None for p in filler._processes)
