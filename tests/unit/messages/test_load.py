"""Reports of tasks: which workers may be down by them."""

from __future__ import annotations

from typing import Any

import pytest

from stormpilot.messages.core import ExecutorPart, TopologySnapshot
from stormpilot.messages.load import silent_tasks


def snapshot(**config: Any) -> TopologySnapshot:
    """Tasks 1 and 2 in one worker, 3 in another."""
    slots = {1: 6700, 2: 6700, 3: 6701}
    return TopologySnapshot(
        written_at_ms=1,
        id="t-1-1",
        name="t",
        workers=2,
        config={key.replace("_", "."): value for key, value in config.items()},
        components=[],
        executors=[ExecutorPart(start=t, end=t, component="c", supervisor="a", port=p) for t, p in slots.items()],
    )


def test_a_task_is_silent_when_no_task_of_its_worker_reports() -> None:
    assert silent_tasks(snapshot(), {1: 60.0, 2: 2.0, 3: 60.0}) == {3: 60.0}
    assert silent_tasks(snapshot(), {1: 60.0, 2: 20.0, 3: 2.0}) == {1: 20.0, 2: 20.0}
    assert silent_tasks(snapshot(), {1: 60.0}) == {1: 60.0}, "nothing measures the others"


@pytest.mark.parametrize(("period", "longest_s"), [(None, 15), (20, 60), (0.5, 10), ("often", 15)])
def test_three_periods_without_a_report_are_long_and_ten_seconds_at_least(period: object, longest_s: float) -> None:
    seen = snapshot() if period is None else snapshot(stormpilot_report_secs=period)
    assert silent_tasks(seen, {3: longest_s}) == {}
    assert silent_tasks(seen, {3: longest_s + 0.1}) == {3: longest_s + 0.1}
