"""Finding and ending the processes of one cluster, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stormpilot.local import processes

SLEEP = "import time; print(flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python program with the given marker and waits until it prints a line."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, cluster_id: str | None = None) -> subprocess.Popen[bytes]:
        env = dict(os.environ) | ({processes.MARKER: cluster_id} if cluster_id else {})
        child = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
        started.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_frozen_child_has_stopped_with_all_its_threads(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal takes a while until it is delivered, as on a busy machine."""
    child, kill = start(SLEEP), os.kill
    monkeypatch.setattr(os, "kill", lambda *signal: threading.Timer(0.3, kill, signal).start())
    processes.freeze(child)
    assert Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_child_that_has_ended_holds_up_nobody_who_freezes_it(start: Start) -> None:
    child = start(SLEEP)
    child.kill()
    processes.freeze(child)
    assert child.wait() == -signal.SIGKILL


def test_finds_only_the_processes_of_its_cluster(start: Start) -> None:
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    first, second = start(SLEEP, mine), start(SLEEP, mine)
    start(SLEEP, other)
    start(SLEEP)
    assert {p.pid for p in processes.of_cluster(mine)} == {first.pid, second.pid}


def test_id_that_is_the_beginning_of_another_is_not_the_same(start: Start) -> None:
    mine = str(uuid.uuid4())
    start(SLEEP, mine + "0")
    assert processes.of_cluster(mine) == []


def test_finds_a_descendant_that_cleaned_its_environment(start: Start) -> None:
    mine = str(uuid.uuid4())
    parent = start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}], env={{}})", mine)
    found = processes.of_cluster(mine)
    assert [p.parent for p in found if p.pid != parent.pid] == [parent.pid]
    assert processes.end_cluster(mine) == []
    assert all(processes.process(p.pid) is None for p in found)


def test_ends_what_cleaned_its_environment_ignores_sigterm_and_outlives_its_parent(start: Start) -> None:
    mine = str(uuid.uuid4())
    start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {DEAF!r}], env={{}})", mine)
    found = processes.of_cluster(mine)
    assert len(found) == 2
    assert processes.end_cluster(mine, grace_s=0.5) == []
    assert [processes.process(p.pid) for p in found] == [None, None]


def test_finds_what_is_just_becoming_another_program(start: Start) -> None:
    mine = str(uuid.uuid4())
    again = "import os, sys; os.execve(sys.executable, [sys.executable, '-SEc', sys.argv[1], sys.argv[1]], os.environ)"
    child = start(
        f"import os, sys; print(flush=True); os.execv(sys.executable, [sys.executable, '-c', *[{again!r}] * 2])", mine
    )
    assert all(processes.belongs(child.pid, mine) for _ in range(1000))


def test_tells_when_a_process_started_and_how(start: Start) -> None:
    before = time.time()
    child = start(SLEEP, str(uuid.uuid4()))
    found = processes.process(child.pid)
    assert found is not None
    assert found.argv == (sys.executable, "-c", SLEEP)
    assert before - 2 <= found.started_at <= time.time() + 2  # the kernel counts in ticks since its boot second


def test_ends_what_ignores_sigterm(start: Start) -> None:
    mine = str(uuid.uuid4())
    deaf = start(DEAF, mine)
    assert processes.end_cluster(mine, grace_s=0.2) == []
    assert deaf.wait() == -signal.SIGKILL


def test_spares_whom_it_is_told_to(start: Start) -> None:
    mine = str(uuid.uuid4())
    spared, other = start(SLEEP, mine), start(SLEEP, mine)
    assert processes.end_cluster(mine, grace_s=60.0, spare={spared.pid}) == []
    assert spared.poll() is None
    assert other.wait() == -signal.SIGTERM


def test_process_id_taken_by_a_stranger_does_not_belong(start: Start) -> None:
    mine = str(uuid.uuid4())
    child, stranger = start(SLEEP, mine), start(SLEEP)
    assert processes.belongs(child.pid, mine)
    assert not processes.belongs(stranger.pid, mine)
    child.kill()
    child.wait()
    assert not processes.belongs(child.pid, mine)


def test_zombie_is_not_alive(start: Start) -> None:
    mine = str(uuid.uuid4())
    child = start(SLEEP, mine)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.process(child.pid) is None
    assert processes.of_cluster(mine) == []
