"""Planners run in a process of their own, which may go wrong in every way without harm."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import two_chains
from doubles.planners import misbehave
from stormpilot import planner_process
from stormpilot.errors import UsageError
from stormpilot.model.values import Infeasible, Plan
from stormpilot.planner import compute
from stormpilot.planner_process import PlannerLostError, PlannerProcess


@pytest.fixture(scope="module")
def planner() -> Iterator[PlannerProcess]:
    process = PlannerProcess(misbehave, grace_s=1.0, cold_s=0.0)
    yield process
    process.close()


def ask(planner: PlannerProcess, name: str, left_s: float = 60.0, **params: float) -> Plan | Infeasible:
    return planner(two_chains(), name, params, seed=3, left_s=lambda: left_s)


def pid(planner: PlannerProcess) -> int:
    answer = ask(planner, "tells its process")
    assert isinstance(answer, Infeasible)
    return int(answer.text)


def test_a_plan_made_elsewhere_is_the_plan_made_here(planner: PlannerProcess) -> None:
    assert ask(planner, "online", alpha=0.5) == compute(two_chains(), "online", {"alpha": 0.5}, seed=3)
    assert ask(planner, "default") == compute(two_chains(), "default", {}, seed=3)


def test_one_process_serves_plan_after_plan(planner: PlannerProcess) -> None:
    assert pid(planner) == pid(planner) != os.getpid()


def test_nimbus_goes_first(planner: PlannerProcess) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid(planner)) == min(own + planner_process.NICENESS, 19)


def test_an_exception_is_told_and_the_process_goes_on(planner: PlannerProcess) -> None:
    before = pid(planner)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: no traffic at all"):
        ask(planner, "raises")
    assert pid(planner) == before


def test_wrong_parameters_are_a_usage_error_as_they_are_without_a_process(planner: PlannerProcess) -> None:
    with pytest.raises(UsageError, match="no parameter 'speed'"):
        ask(planner, "online", speed=1)


def test_a_planner_that_hangs_is_ended_and_the_next_plan_is_made(planner: PlannerProcess) -> None:
    before = pid(planner)
    with pytest.raises(PlannerLostError, match="no answer"):
        ask(planner, "hangs", left_s=0.1)
    assert not Path(f"/proc/{before}").exists()
    assert isinstance(ask(planner, "online"), Plan)


def test_a_planner_that_got_too_little_cpu_is_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes half a second and has a tenth of one; what it used of that in CPU is what the test says."""
    used_s = itertools.count(0, 0.05)
    monkeypatch.setattr(planner_process, "STARVED_TIMES", 1000)
    monkeypatch.setattr(planner_process, "cpu_s", lambda pid: next(used_s))
    process = PlannerProcess(misbehave, grace_s=0.1, cold_s=0.0)
    try:
        answer = ask(process, "is slow", left_s=0.0)
    finally:
        process.close()
    assert isinstance(answer, Infeasible)
    assert answer.text == "at last"


def test_the_cpu_of_a_process_is_read_from_the_system() -> None:
    assert 0 < planner_process.cpu_s(os.getpid()) < 1e6
    assert planner_process.cpu_s(2**31 - 1) == math.inf


def test_a_crash_in_native_code_is_named_and_the_next_plan_is_made(planner: PlannerProcess) -> None:
    with pytest.raises(PlannerLostError, match="SIGSEGV"):
        ask(planner, "crashes")
    assert isinstance(ask(planner, "online"), Plan)


def test_each_planner_may_take_its_time_once() -> None:
    """The first plan compiles: a planner that was not asked yet is cold though another one answered."""
    process = PlannerProcess(misbehave, grace_s=0.0, cold_s=60.0)
    try:
        assert isinstance(ask(process, "default", left_s=0.0), Plan)
        assert isinstance(ask(process, "is slow", left_s=0.0), Infeasible)
        with pytest.raises(PlannerLostError, match=r"no answer \d+ s after it began"):
            ask(process, "is slow", left_s=0.0)
    finally:
        process.close()
