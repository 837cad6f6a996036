"""Planners run in a process of their own, which may go wrong in every way without harm."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from builders import two_chains
from doubles.planners import misbehave
from stormpilot import planner_process
from stormpilot.errors import UsageError
from stormpilot.model.values import Infeasible, Plan
from stormpilot.planner import compute
from stormpilot.planner_process import PlannerLostError, PlannerProcess
from support.waiting import until


@pytest.fixture
def sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending takes no time, however busy the machine is: a planner has all of its time to answer."""
    monkeypatch.setattr(PlannerProcess, "_sent", lambda _, connection, data, __: connection.send_bytes(data) is None)
    monkeypatch.setattr(planner_process, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture(scope="module")
def planner() -> Iterator[PlannerProcess]:
    process = PlannerProcess(misbehave, grace_s=1.0, cold_s=0.0)
    yield process
    process.close()


def ask(planner: PlannerProcess, name: str, left_s: float = 300.0, **params: float) -> Plan | Infeasible:
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


def test_kernel_that_lacks_memory_ends_the_planner_rather_than_the_controller(planner: PlannerProcess) -> None:
    own, its = (int(Path(f"/proc/{p}/oom_score_adj").read_text()) for p in (os.getpid(), pid(planner)))
    assert its == max(own, planner_process.OOM_SCORE)


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


@pytest.mark.usefixtures("sent_at_once")
def test_a_planner_that_waited_for_a_cpu_gets_that_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes half a second and has a tenth of one; how long it waited for a CPU is what the test says."""
    waited_s = itertools.count(0, 0.1)
    monkeypatch.setattr(planner_process, "MOST_SPANS", 3000)
    monkeypatch.setattr(planner_process, "run_delay_s", lambda pid: next(waited_s))
    process = PlannerProcess(misbehave, grace_s=0.1, cold_s=0.0)
    try:
        answer = ask(process, "is slow", left_s=0.0)
    finally:
        process.close()
    assert isinstance(answer, Infeasible)
    assert answer.text == "at last"


@pytest.mark.usefixtures("sent_at_once")
def test_a_planner_that_sleeps_gets_no_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[int] = []
    monkeypatch.setattr(planner_process, "run_delay_s", lambda pid: spans.append(pid) or 7.0)
    process = PlannerProcess(misbehave, grace_s=0.1, cold_s=0.0)
    with pytest.raises(PlannerLostError, match="no answer"):
        ask(process, "hangs", left_s=0.0)
    assert len(spans) == 2  # before and after the only one


def test_waiting_for_a_cpu_is_read_from_the_system() -> None:
    """Two processes on one CPU wait for each other, and one that sleeps does not."""
    spins = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    sleeps = "import time; print('ready', flush=True); time.sleep(1000)"
    cpu = str(min(os.sched_getaffinity(0)))
    programs = [[spins, cpu], [spins, cpu], [sleeps]]
    children = [subprocess.Popen([sys.executable, "-c", *p], stdout=subprocess.PIPE) for p in programs]
    try:
        spinning, _, sleeping = (c.pid for c in children)
        assert children[-1].stdout is not None
        children[-1].stdout.readline()
        until(lambda: Path(f"/proc/{sleeping}/stat").read_text().rpartition(") ")[2][0] == "S", "it to sleep")
        before_s = {p: planner_process.run_delay_s(p) for p in (spinning, sleeping)}
        until(lambda: planner_process.run_delay_s(spinning) > before_s[spinning] + 1.0, "a second of waiting")
        assert planner_process.run_delay_s(sleeping) < before_s[sleeping] + 0.5
    finally:
        for c in children:
            c.kill()
            c.communicate()
    assert planner_process.run_delay_s(spinning) == 0.0


def test_a_crash_in_native_code_is_named_and_the_next_plan_is_made(planner: PlannerProcess) -> None:
    with pytest.raises(PlannerLostError, match="SIGSEGV"):
        ask(planner, "crashes")
    assert isinstance(ask(planner, "online"), Plan)


def test_a_planner_leaves_its_end_to_the_controller(planner: PlannerProcess) -> None:
    """A service that is stopped sends SIGTERM to all of its processes: each stop was told as a crash."""
    before = pid(planner)
    os.kill(before, signal.SIGTERM)
    assert pid(planner) == before


def test_a_program_ends_though_it_closed_no_planner() -> None:
    program = (
        "from builders import two_chains\nfrom doubles.planners import misbehave\n"
        "from stormpilot.planner_process import PlannerProcess\n"
        "process = PlannerProcess(misbehave)\n"
        "print(process(two_chains(), 'tells its process', {}, seed=0, left_s=lambda: 300.0).text)"
    )
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=own, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_a_planner_that_was_closed_is_not_started_again() -> None:
    """By a thread of the controller that goes on for a moment."""
    process = PlannerProcess(misbehave, grace_s=1.0, cold_s=0.0)
    process.close()
    with pytest.raises(PlannerLostError, match="the controller ends"):
        ask(process, "default")
    assert process._process is None


@pytest.mark.usefixtures("sent_at_once")
def test_each_planner_may_take_its_time_once() -> None:
    """The first plan compiles: a planner that was not asked yet is cold though another one answered."""
    process = PlannerProcess(misbehave, grace_s=0.0, cold_s=300.0)
    try:
        assert isinstance(ask(process, "default", left_s=0.0), Plan)
        assert isinstance(ask(process, "is slow", left_s=0.0), Infeasible)
        with pytest.raises(PlannerLostError, match=r"no answer \d+ s after it began"):
            ask(process, "is slow", left_s=0.0)
    finally:
        process.close()


def test_a_process_that_reads_nothing_is_ended_in_time_however_much_it_is_sent() -> None:
    """It was sent without a deadline: a model that fills the pipe held the controller for as long as it hung."""
    process = PlannerProcess(misbehave, grace_s=0.5, cold_s=0.0)
    large = two_chains()
    one = large.supervisors[0]
    many = [msgspec.structs.replace(one, id=f"n{i}", host=f"host-{i}" * 20) for i in range(5000)]
    large = msgspec.structs.replace(large, supervisors=many)
    try:
        os.kill(pid(process), signal.SIGSTOP)
        with pytest.raises(PlannerLostError, match="its process was ended"):
            process(large, "default", {}, seed=0, left_s=lambda: 0.1)
        assert isinstance(ask(process, "default"), Plan)
    finally:
        process.close()


@pytest.mark.usefixtures("sent_at_once")
def test_a_planner_that_has_answered_once_gets_the_time_to_compile_no_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each hang cost it again: two in a cycle were longer than a controller may seem to hang."""
    monkeypatch.setattr(planner_process, "ANEW_S", 0.0)
    process = PlannerProcess(misbehave, grace_s=0.0, cold_s=300.0)
    try:
        assert isinstance(ask(process, "is slow", left_s=0.0), Infeasible)
        for _ in range(planner_process.COLD_EVERY):
            with pytest.raises(PlannerLostError, match=r"no answer 0 s after it began"):
                ask(process, "is slow", left_s=0.0)
        assert isinstance(ask(process, "is slow", left_s=0.0), Infeasible), "the code may be another"
    finally:
        process.close()
