"""When jobs are due: by their period, at once when asked, later when they take long, never when nobody wants them."""

from __future__ import annotations

from stormpilot.control.schedule import LEAST_WAIT_S, Job, Schedule


def run_due(schedule: Schedule, now_s: float, took_s: float = 0.0) -> list[str]:
    """Do what is due, each job taking so long."""
    due = schedule.due(now_s)
    for name in due:
        schedule.began(name, now_s)
        schedule.ended(name, now_s, now_s + took_s)
    return due


def test_new_jobs_are_due_at_once_and_in_their_order() -> None:
    schedule = Schedule([Job("cycle", 10), Job("otd", 5)])
    assert run_due(schedule, 100) == ["cycle", "otd"]
    assert run_due(schedule, 100) == []


def test_a_job_is_due_a_period_after_its_begin() -> None:
    schedule = Schedule([Job("cycle", 10), Job("otd", 4)])
    run_due(schedule, 0, took_s=3)
    assert schedule.wait_s(3) == 1
    assert run_due(schedule, 4) == ["otd"]
    assert run_due(schedule, 9.9) == ["otd"]
    assert run_due(schedule, 10) == ["cycle"]


def test_a_job_that_takes_long_rests_a_multiple_of_that() -> None:
    schedule = Schedule([Job("rollout", 1, rest=3)])
    run_due(schedule, 0, took_s=0.1)
    assert schedule.wait_s(0.1) == 0.9
    run_due(schedule, 1, took_s=2)
    assert schedule.due(6.9) == []
    assert schedule.due(7) == ["rollout"]


def test_a_job_that_nobody_wants_is_neither_due_nor_waited_for() -> None:
    wanted = False
    schedule = Schedule([Job("cycle", 10), Job("rollout", 1, wanted=lambda: wanted)])
    assert run_due(schedule, 0) == ["cycle"]
    assert schedule.wait_s(0) == 10
    wanted = True
    assert schedule.wait_s(0) == LEAST_WAIT_S
    assert run_due(schedule, 0) == ["rollout"]


def test_a_job_that_is_asked_for_is_due_now() -> None:
    schedule = Schedule([Job("cycle", 10)])
    run_due(schedule, 0)
    schedule.now("cycle")
    assert run_due(schedule, 1) == ["cycle"]
    assert schedule.wait_s(1) == 10


def test_another_configuration_keeps_what_is_due_and_begins_new_jobs() -> None:
    schedule = Schedule([Job("cycle", 10), Job("otd", 5)])
    run_due(schedule, 0)
    schedule.use([Job("cycle", 2), Job("loads", 1)])
    assert run_due(schedule, 5) == ["loads"]
    assert run_due(schedule, 10) == ["cycle", "loads"]
    assert schedule.due(12) == ["cycle", "loads"]
