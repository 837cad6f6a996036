"""Who paces a search: tries, or the clock; what a round is made of; compiled code is loaded before a clock counts."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from builders import two_sites
from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.values import Model
from stormpilot.planner import compute
from stormpilot.planner.budget import Budget, Pace
from stormpilot.planner.heuristics import otd_kernel
from stormpilot.planner.methods.online import NodeKinds, worker_classes
from stormpilot.planner.placement.layout import empty_layout, frame_of
from stormpilot.planner.search import rounds, warm
from stormpilot.planner.search.parallel import at_once, cores


class Clock:
    """A clock that stands until it is told to go on."""

    def __init__(self, left_s: float) -> None:
        self.left = left_s

    def __call__(self) -> float:
        return self.left


def test_tries_are_made_to_the_last_one_in_levels_of_equal_length():
    pace = Pace(1000, lambda: math.inf, timed=False, executors=10, levels=50)
    made = []
    while pace.progress() < 1:
        made.append(pace.next())
        pace.ran(made[-1])
    assert sum(made) == 1000 == pace.done
    assert set(made) == {20}
    assert not pace.cut


def test_a_clock_that_is_over_before_the_tries_cuts_them():
    clock = Clock(1.0)
    pace = Pace(1000, clock, timed=False, executors=10, levels=50)
    pace.ran(pace.next())
    clock.left = 0.0
    assert pace.progress() == 1.0
    assert pace.cut


@pytest.mark.parametrize("timed", [False, True])
def test_the_first_level_is_made_however_late_it_is(timed):
    pace = Pace(1000, Clock(-1.0), timed=timed, executors=10, levels=50)
    assert pace.progress() == 0.0
    assert pace.next() > 0
    pace.ran(pace.next())
    assert pace.progress() == 1.0


def test_by_the_clock_a_level_takes_its_part_of_the_time_however_fast_the_machine_is():
    """10,000 tries a second, 20 levels in 10 s: half a second each, 5,000 tries."""
    clock = Clock(10.0)
    pace = Pace(0, clock, timed=True, executors=100, levels=20)
    made = []
    while pace.progress() < 1:
        made.append(pace.next())
        clock.left -= made[-1] / 10_000
        pace.ran(made[-1])
    assert made[0] < 1000
    assert all(4500 < n < 5500 for n in made[6:])
    assert sum(made) == pytest.approx(100_000, rel=0.06)


def test_where_tries_are_slow_no_level_takes_more_than_its_part_of_the_time():
    """500 tries a second, as with loops of streams: a level is 250 of them, and none before it is more."""
    clock = Clock(10.0)
    pace = Pace(0, clock, timed=True, executors=20_000, levels=20, first=32)
    made = []
    while pace.progress() < 1:
        made.append(pace.next())
        clock.left -= made[-1] / 500
        pace.ran(made[-1])
    assert max(made) <= 251
    assert clock.left > -0.6


def test_no_level_is_longer_than_a_clock_that_stands_can_make_it():
    pace = Pace(0, Clock(10.0), timed=True, executors=10, levels=20)
    for _ in range(200):
        pace.ran(pace.next())
    assert pace.next() <= 2_000_000


def test_a_budget_is_timed_only_by_the_clock_alone():
    assert Budget(lambda: 10.0, None).timed
    assert not Budget(lambda: 10.0, 1000).timed
    assert not Budget(lambda: math.inf, None).timed


def test_a_budget_knows_what_is_left_of_it():
    by_tries = Budget(lambda: math.inf, 1000)
    by_tries.ran(600, 0.1)
    assert by_tries.tries_left() == 400
    assert not by_tries.spent
    by_tries.ran(600, 0.1)
    assert by_tries.spent
    by_clock = Budget(lambda: 3.0, None, kept_s=1.0, runs_at_once=2)
    by_clock.ran(1_000_000, 0.5)
    assert by_clock.left_s() == 2.0
    assert by_clock.tries_left() == pytest.approx(4_000_000)
    assert by_clock.until(0.5)() == 1.5


def test_phases_use_all_of_a_round_and_do_not_depend_on_cores_where_tries_pace_them():
    for tries in (1_000, 100_000, 10_000_000, 1_000_000_000):
        for threads in (None, 1, 2, 3, 8):
            phases = rounds.phases(tries, 1000, threads)
            assert sum(p.part for p in phases) == pytest.approx(1.0)
            assert phases[0].heads == 0
            assert all(p.runs % threads == 0 for p in phases if threads)
    assert rounds.phases(10_000_000, 1000, None) == rounds.phases(10_000_000, 1000, None)


def test_fewer_tries_begin_colder_so_that_a_good_start_does_not_melt():
    first = [rounds.phases(n * 1000, 1000, None)[0].temperature for n in (100, 1000, 1400, 5000)]
    assert first == sorted(first)
    assert first[0] < 0.01
    assert first[-1] == 1.0


def test_jobs_run_at_the_same_time_and_are_answered_in_their_order():
    both = threading.Barrier(2, timeout=30)

    def job(i: int) -> int:
        both.wait()  # returns only if the other one runs too
        return i

    assert at_once([lambda: job(1), lambda: job(2)], 2) == [1, 2]
    assert at_once([lambda: 1, lambda: 2], 1) == [1, 2]
    assert cores() >= 1


def test_loading_compiled_code_takes_at_most_a_tenth_of_a_budget(monkeypatch):
    """A budget of 3 s once ended with nothing tried: loading took longer. One of 10 s was 11 s of the clock."""
    monkeypatch.setattr(warm, "_warm", set())
    clock = Clock(3.0)

    def load(model):
        clock.left -= 8.0

    left_s = warm.warmed("best", load, clock)
    assert left_s() == pytest.approx(2.7)
    clock.left -= 1.0
    assert left_s() == pytest.approx(1.7)
    assert warm.warmed("best", load, clock) is clock, "only the first plan loads"


def test_what_is_compiled_beforehand_is_the_loop_of_otd_too(monkeypatch):
    """No worker of TINY has little enough to do that a transfer to it would be looked for."""
    looked = []
    monkeypatch.setattr(otd_kernel, "best_transfer", lambda *_: looked.append(1) or (NOWHERE, NOWHERE, 0.0))
    compute(warm.TINY, "otd", {})
    assert not looked
    compute(warm.ROOMY, "otd", {})
    assert looked


def test_a_model_with_nothing_in_it_needs_no_machine_code_of_its_own():
    """An array made of no rows is one of floats, which is another type to compile for: it took seconds."""
    c = compile_model(Model(supervisors=[], topologies=[]))
    _, allowed = worker_classes(c, empty_layout(frame_of(c)), np.zeros(0, dtype=np.bool_), 0)
    assert allowed.dtype == np.bool_


def test_a_model_with_sites_needs_none_either():
    """`allowed` by column instead of by row is another type too."""
    c = compile_model(two_sites())
    assert len(c.allowed) > 1 and not c.allowed.all()
    _, _, allowed = NodeKinds(c).of(c.allowed)
    assert allowed.flags.c_contiguous
