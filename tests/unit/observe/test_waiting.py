"""What the model knows of waiting, out of what tasks report."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stormpilot.instrument.latency import ABOVE_MS, BOUNDS_MS
from stormpilot.observe.task_rates import TaskRates
from stormpilot.observe.waiting import busy_ratio, lanes, mean_ms, polling_cores, queue_tuples, service_ms


def task(number: int, **fields: Any) -> TaskRates:
    return TaskRates(number, "sink", "h", None, 30.0, 1.0, 0.1, **fields)


def test_tasks_of_an_executor_share_its_queue() -> None:
    assert queue_tuples([task(1, queue=40), task(2)]) == 40.0
    assert queue_tuples([task(1), task(2)]) is None
    assert queue_tuples([task(1, queue=10**12), task(2, queue=1)]) == 1e12, "more than a model may have"


def test_service_is_the_mean_over_tuples() -> None:
    """30 tuples/s of 1 ms and 10 of 5 ms."""
    both = [
        task(1, received_tps={(9, "default"): 30.0}, execute_ms=1.0),
        task(2, received_tps={(9, "default"): 10.0}, execute_ms=5.0),
    ]
    assert service_ms(both) == pytest.approx(2.0)
    assert busy_ratio(both) == pytest.approx(0.08)
    assert service_ms([task(1, execute_ms=1.0)]) is None


def test_thread_that_hands_over_to_a_child_process_says_nothing_of_its_service() -> None:
    child = task(1, received_tps={(9, "default"): 30.0}, execute_ms=0.01, in_jvm=True, child_cores=0.4)
    assert service_ms([child]) is None


def test_mean_latency_is_over_all_tuples_of_all_sources() -> None:
    one, two = task(1, latency_ms=((BOUNDS_MS[3], 30),)), task(2, latency_ms=((ABOVE_MS, 10),))
    assert mean_ms([one]) == pytest.approx((BOUNDS_MS[2] * BOUNDS_MS[3]) ** 0.5, rel=0.01)
    assert mean_ms([one, two]) == pytest.approx(0.75 * (mean_ms([one]) or 0) + 0.25 * BOUNDS_MS[-1])
    assert mean_ms([task(3)]) is None


def test_a_thread_polls_where_it_executes_nothing() -> None:
    """200 tuples/s of 2 ms: two fifths of the time it may have waited for something else."""
    busy = {"received_tps": {(9, "default"): 200.0}, "execute_ms": 2.0}
    assert polling_cores([task(1, polling_cores=0.05, **busy)], spout=False) == pytest.approx(0.03)
    full = {"received_tps": {(9, "default"): 200.0}, "execute_ms": 7.0}
    assert polling_cores([task(1, polling_cores=0.05, **full)], spout=False) == 0.0
    assert polling_cores([task(1, **busy)], spout=False) == 0.0, "an older hook does not tell"


def test_what_a_spout_waits_for_nobody_tells() -> None:
    assert polling_cores([task(1, polling_cores=0.05)], spout=True) == 0.0


def test_a_bolt_to_which_nothing_comes_only_polls() -> None:
    assert polling_cores([task(1, polling_cores=0.05)], spout=False) == 0.05
    few = task(1, polling_cores=0.05, received_tps={(9, "default"): 0.1})
    assert polling_cores([few], spout=False) == 0.0, "none of them was timed: each may have waited long"


def test_each_task_with_a_process_of_its_own_is_a_lane() -> None:
    assert lanes([task(1), task(2)]) == 2, "they measure themselves"
    in_jvm = {"in_jvm": True, "child_cores": 0.4}
    assert lanes([task(1, **in_jvm), task(2, **in_jvm), task(3, **in_jvm)]) == 3
    assert lanes([task(1, in_jvm=True), task(2, in_jvm=True)]) == 1, "tasks of one thread"
    assert lanes([]) == 1


def test_an_executor_that_uses_more_than_a_core_has_more_than_a_thread() -> None:
    """A bolt whose windows a timer evaluates, or with the threads of an asynchronous client."""
    busy = msgspec.structs.replace(task(1, in_jvm=True), cpu_cores=1.1)
    assert lanes([busy]) == 1, "one thread is full, another helps it"
    assert lanes([msgspec.structs.replace(busy, cpu_cores=1.4)]) == 2
    assert lanes([msgspec.structs.replace(busy, cpu_cores=1.4, child_cores=1.0)]) == 1, "a process, and who feeds it"
    assert lanes([msgspec.structs.replace(busy, cpu_cores=2.8, child_cores=2.6)]) == 3, "a process with threads"
