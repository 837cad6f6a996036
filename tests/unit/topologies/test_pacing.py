"""The rate of a source, and rates that take turns."""

import pytest

from pacing import Pacer, RateSchedule


def emit_all(pacer: Pacer, times: list[float]) -> int:
    """Ask at each time, emit all that is due, return how much that was."""
    emitted = 0
    for now in times:
        due = pacer.due(now)
        pacer.spend(due)
        emitted += due
    return emitted


@pytest.mark.parametrize("step_s", [0.0007, 0.003, 0.05, 0.9])
def test_holds_the_rate_whatever_the_time_between_calls(step_s):
    pacer = Pacer(rate_tps=200.0)
    steps = int(20 / step_s)
    emitted = emit_all(pacer, [i * step_s for i in range(steps + 1)])
    assert emitted == pytest.approx(200.0 * steps * step_s, abs=1)


def test_emits_nothing_before_time_has_passed():
    pacer = Pacer(rate_tps=1000.0)
    assert pacer.due(17.0) == 0


def test_a_long_pause_is_caught_up_for_one_burst_only():
    pacer = Pacer(rate_tps=100.0, burst_s=0.5)
    assert emit_all(pacer, [0.0, 60.0]) == 50
    assert emit_all(pacer, [60.1]) == 10


def test_what_is_not_spent_stays_due():
    pacer = Pacer(rate_tps=10.0)
    pacer.due(0.0)
    assert pacer.due(0.5) == 5
    pacer.spend(2)
    assert pacer.due(0.5) == 3


def test_tells_how_long_until_the_next_tuple():
    pacer = Pacer(rate_tps=10.0)
    pacer.due(0.0)
    assert pacer.wait_s() == pytest.approx(0.1)
    pacer.due(0.04)
    assert pacer.wait_s() == pytest.approx(0.06)
    pacer.due(0.2)
    assert pacer.wait_s() == 0.0


def test_rates_below_one_tuple_per_second_work():
    assert emit_all(Pacer(rate_tps=0.5), [float(i) for i in range(11)]) == 5


@pytest.mark.parametrize("rate", [0, -1.0])
def test_refuses_a_rate_that_is_none(rate):
    with pytest.raises(ValueError, match="rate_tps: expected a number above 0"):
        Pacer(rate_tps=rate)


def test_goes_on_at_another_rate_with_what_was_due():
    pacer = Pacer(rate_tps=10.0)
    pacer.due(0.0)
    assert pacer.due(0.5) == 5
    pacer.change(100.0)
    assert pacer.due(0.75) == 30  # 5, and 25 more in a quarter of a second


def test_rates_take_turns_by_the_clock():
    schedule = RateSchedule("60x120,20.5x30")
    assert [schedule.at(1500.0 + t) for t in (0.0, 119.9, 120.0, 149.9, 150.0)] == [60.0, 60.0, 20.5, 20.5, 60.0]


@pytest.mark.parametrize("text", ["", "60", "60x", "60x120x3", "0x120", "60x-1", "60x120,"])
def test_a_schedule_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        RateSchedule(text)
