"""The next leader: what it knows of the one before, and what it finds half done."""

from __future__ import annotations

import pytest

from doubles.rolling_jobs import begun, two
from doubles.world import NEAR, SPREAD, World
from fuzzing import BETTER, GOOD
from stormpilot.decide.reasons import Reason


@pytest.mark.parametrize("next_one", [False, True])
def test_the_guard_against_mass_failures_outlives_a_leadership(next_one: bool) -> None:
    """Who loses a rack may well lose the leader too: the next one knew three supervisors, and missed none."""
    w = World("a", "b", "c", "d", "e")
    t = w.submit(SPREAD)
    w.tell(20)
    w.supervisors("a", "b", "c")
    w.tell(10)
    assert w.decision(t).reason is Reason.MASS_FAILURE
    w.wanted = {t: NEAR}
    if next_one:
        w.new_leader()
    assert w.tell(100) == ["MASS_FAILURE"]
    assert w.slots(t) == SPREAD


def test_the_guard_knows_the_supervisors_that_went_with_the_leader() -> None:
    """They were there in its last cycle, and missing in none: the next leader never knew of them."""
    w = World("a", "b", "c", "d")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    w.supervisors("a", "b")
    w.new_leader()
    assert w.tell(20) == ["MASS_FAILURE"]
    assert w.slots(t) == SPREAD


def test_a_first_cycle_that_fails_forgets_nothing_that_the_leader_before_had_learned() -> None:
    w = World("a", "b", "c")
    t = w.submit(GOOD)
    w.wanted = {t: BETTER}
    w.tell(110)
    before = w.state()
    assert before.restarts
    w.new_leader()
    w.fail("no luck")
    failed = w.state()
    assert (failed.restarts, failed.capacities) == (before.restarts, before.capacities)
    assert (failed.sentence, failed.epoch) == ("cycle failed: no luck", before.epoch + 1)
    w.tell(10)
    assert w.state().restarts == before.restarts


def test_a_topology_that_the_next_leader_cannot_read_stops_no_rollout_of_others() -> None:
    """In the middle of a step it counted as busy, and was never looked at."""
    w, first, second = two()
    begun(w, first, "draining")
    w.zookeeper.put(w.paths.topology(first), b"{nonsense")
    w.new_leader()
    w.tell(300)
    m = w.rollout(second)
    assert m is not None
    assert m.outcome == "DONE"
