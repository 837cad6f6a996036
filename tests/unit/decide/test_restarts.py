"""The downtime of a worker: measured in our own moves, configured until then."""

from __future__ import annotations

from stormpilot.decide.restarts import restart_time
from stormpilot.messages.controller_state import Restart


def restart(downtime_s: float, topology: str = "flights") -> Restart:
    return Restart(
        plan_id="p",
        topology=topology,
        at_ms=0,
        applied_s=3.0,
        recovery_s=downtime_s + 3,
        downtime_s=downtime_s,
        tasks=4,
    )


def test_configured_number_holds_until_something_was_measured() -> None:
    assert restart_time([], "flights", 9.0, "mined: 40 rows").text == "9 s, mined: 40 rows"
    found = restart_time([], "flights", 15.0)
    assert (found.seconds, found.moves, found.text) == (15.0, 0, "15 s, configured")


def test_first_measurements_are_weighed_with_the_configured_number() -> None:
    assert restart_time([restart(9.0)], "flights", 15.0).seconds == 12.0
    assert restart_time([restart(9.0), restart(10.0)], "flights", 15.0).seconds == 10.0
    third = restart_time([restart(9.0, "x"), restart(10.0, "x"), restart(11.0, "x")], "flights", 100.0)
    assert (third.seconds, third.text) == (10.0, "10 s, measured in 3 moves")


def test_one_odd_move_changes_little() -> None:
    odd = [restart(10.0), restart(11.0), restart(9.0), restart(600.0), restart(10.5)]
    assert restart_time(odd, "flights", 15.0).seconds == 10.5


def test_own_moves_of_a_topology_tell_more_than_those_of_others() -> None:
    known = [restart(40.0), restart(42.0), restart(41.0), *[restart(8.0, "small")] * 10]
    own = restart_time(known, "flights", 15.0)
    assert (own.seconds, own.text) == (41.0, "41 s, measured in 3 moves of this topology")
    assert restart_time(known, "another", 15.0).seconds == 8.0
