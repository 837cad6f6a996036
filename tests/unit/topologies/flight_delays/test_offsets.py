"""Offsets of a source: acknowledged, failed, replayed."""

from random import Random

import pytest

from flight_delays.offsets import OffsetTracker


def emit(tracker: OffsetTracker[str], count: int) -> list[int]:
    return [tracker.emit(f"line {tracker.next_offset}") for _ in range(count)]


def test_nothing_is_committed_before_the_lowest_offset_is_acknowledged():
    tracker = OffsetTracker[str]()
    assert emit(tracker, 4) == [0, 1, 2, 3]
    tracker.ack(1)
    tracker.ack(3)
    assert (tracker.committed, tracker.emitted, tracker.pending) == (0, 4, 2)
    tracker.ack(0)
    assert tracker.committed == 2
    tracker.ack(2)
    assert (tracker.committed, tracker.pending, tracker.acked) == (4, 0, 4)


def test_a_failed_offset_is_replayed_with_its_payload_and_holds_the_commit():
    tracker = OffsetTracker[str]()
    emit(tracker, 3)
    tracker.ack(0)
    tracker.ack(2)
    tracker.fail(1)
    assert tracker.replay() == (1, "line 1")
    assert tracker.replay() is None
    assert (tracker.committed, tracker.failed, tracker.replayed, tracker.emitted) == (1, 1, 1, 3)
    tracker.ack(1)
    assert tracker.committed == 3


def test_an_offset_fails_as_often_as_it_must():
    tracker = OffsetTracker[str]()
    emit(tracker, 1)
    for _ in range(50):
        tracker.fail(0)
        assert tracker.replay() == (0, "line 0")
    tracker.ack(0)
    assert (tracker.committed, tracker.failed, tracker.replayed) == (1, 50, 50)


def test_failures_are_replayed_in_the_order_in_which_they_came():
    tracker = OffsetTracker[str]()
    emit(tracker, 3)
    for offset in (2, 0, 1):
        tracker.fail(offset)
    assert [tracker.replay()[0] for _ in range(3)] == [2, 0, 1]


def test_an_acknowledgement_after_the_failure_makes_the_replay_needless():
    tracker = OffsetTracker[str]()
    emit(tracker, 1)
    tracker.fail(0)
    tracker.ack(0)
    assert tracker.replay() is None
    assert tracker.replayed == 0


def test_unknown_offsets_and_second_acknowledgements_change_nothing():
    tracker = OffsetTracker[str]()
    emit(tracker, 2)
    tracker.ack(0)
    tracker.ack(0)
    tracker.ack(77)
    tracker.fail(77)
    tracker.fail(0)
    assert (tracker.committed, tracker.acked, tracker.failed, tracker.pending) == (1, 1, 0, 1)
    assert tracker.replay() is None


def test_a_restarted_task_goes_on_at_the_committed_offset_and_counts_what_it_emits_again():
    tracker = OffsetTracker[str](committed=100, emitted=103)
    assert (tracker.committed, tracker.emitted) == (100, 103)
    assert emit(tracker, 5) == [100, 101, 102, 103, 104]
    assert (tracker.replayed, tracker.emitted) == (3, 105)


@pytest.mark.parametrize("seed", range(20))
def test_every_offset_below_the_commit_has_been_acknowledged(seed):
    """A random story of emissions, acknowledgements in any order, failures and replays."""
    rng = Random(seed)
    tracker = OffsetTracker[str]()
    in_flight: list[int] = []
    acknowledged: set[int] = set()
    for _ in range(500):
        what = rng.random()
        if what < 0.4:
            in_flight += emit(tracker, 1)
        elif what < 0.5 and (replayed := tracker.replay()):
            in_flight.append(replayed[0])
        elif in_flight:
            offset = in_flight.pop(rng.randrange(len(in_flight)))
            if what < 0.85:
                tracker.ack(offset)
                acknowledged.add(offset)
            else:
                tracker.fail(offset)
        assert tracker.committed == min(set(range(tracker.emitted)) - acknowledged, default=tracker.emitted)
