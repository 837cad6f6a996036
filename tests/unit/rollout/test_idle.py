"""Which tasks do nothing, told from reports of which some are seen late."""

from __future__ import annotations

from stormpilot.messages.load import TaskLoad
from stormpilot.rollout.idle import IdleTracker


def load(seq: int, tuples: int = 10) -> TaskLoad:
    return TaskLoad(
        task=5,
        component="count",
        host="a",
        pid=1,
        start_ms=0,
        seq=seq,
        at_ms=seq,
        cpu_s=0.0,
        received={"": ([1], [tuples])},
    )


def test_a_task_that_measures_itself_is_idle_by_two_reports_that_came_since() -> None:
    """The first may be from before the phase: what came in between is in its hands, and it reports nothing of it."""
    mine = (5, False)
    tracker = IdleTracker("draining", {mine: load(1)})
    for seq, idle in ((1, set()), (2, set()), (2, set()), (3, {5})):
        tracker.take({mine: load(seq)})
        assert tracker.idle_tasks() == idle, seq
    tracker.take({mine: load(4, tuples=11)})
    assert tracker.idle_tasks() == set()


def test_what_the_worker_measures_is_seen_at_once() -> None:
    tracker = IdleTracker("draining", {(5, True): load(1)})
    tracker.take({(5, True): load(1)})
    tracker.take({(5, True): load(2)})
    assert tracker.idle_tasks() == {5}


def test_a_task_is_idle_by_all_that_measure_it() -> None:
    both = {(5, True): load(1), (5, False): load(1)}
    tracker = IdleTracker("draining", both)
    for seq, idle in ((1, set()), (2, set()), (3, {5})):
        tracker.take({reading: load(seq) for reading in both})
        assert tracker.idle_tasks() == idle
