"""The parent of the daemons, with real processes in the daemons' place."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from stormpilot.cli.local import down
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.local import processes, state
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.local.start_lock import one_start_at_a_time
from stormpilot.local.state import Daemon, Description, Layout
from stormpilot.local.status import daemons_of

SLEEP = "import time; time.sleep(600)"
# A supervisor that starts a worker in a session of its own, as Storm's do. Without it, it fails.
WITH_WORKER = f"""import subprocess, sys
sys.exit(subprocess.run([sys.executable, '-c', {SLEEP!r}], start_new_session=True).returncode != 0)"""
# It waits less than the 5 s between two starts of a daemon.
KEEPER = "from stormpilot.local import keeper; keeper.RESTART_S = 0.2; keeper.main()"


class Kept:
    """A keeper with two daemons: `plain`, and `parent`, which has a child of its own."""

    def __init__(self, directory: Path) -> None:
        self.layout = Layout(directory)
        self.layout.logs.mkdir(parents=True)
        daemons = [self.daemon("plain", "zookeeper", SLEEP), self.daemon("parent", "supervisor", WITH_WORKER)]
        self.id = str(uuid.uuid4())
        description = Description(1, "kept", self.id, time.time(), "2.8.3", directory, ClusterSpec(), daemons, [])
        state.write(self.layout.description_file, description)
        self.cluster = LocalCluster(self.layout, description)
        self.lifeline, theirs = socket.socketpair()
        with theirs, (self.layout.logs / "keeper.log").open("wb") as log:
            self.keeper = subprocess.Popen(
                [sys.executable, "-c", KEEPER, str(directory), str(theirs.fileno())],
                env=os.environ | {processes.MARKER: self.id},
                stdout=log,
                pass_fds=[theirs.fileno()],
            )

    def daemon(self, name: str, kind: Literal["zookeeper", "supervisor"], code: str) -> Daemon:
        log = self.layout.logs / f"{name}.log"
        argv = [sys.executable, "-c", code]
        return Daemon(name, kind, "127.0.0.1", 1, argv, {}, log, log.with_suffix(".out"))

    def keep(self) -> None:
        self.lifeline.sendall(b"keep\n")
        assert self.lifeline.recv(16) == b"kept\n"

    def others(self) -> list[processes.Process]:
        return [p for p in processes.of_cluster(self.id) if p.pid != self.keeper.pid]

    def wait_started(self) -> None:
        wait_until(lambda: len(self.others()) == 3)


def wait_until(condition: Callable[[], bool], timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    # Longer than the 108 bytes that a Unix socket's address may have.
    kept = Kept(tmp_path / ("long-" * 20))
    yield kept
    kept.lifeline.close()
    kept.keeper.kill()
    kept.keeper.wait()
    processes.end_cluster(kept.id, grace_s=0.0)


def test_ends_everything_when_the_starting_command_is_gone(kept: Kept) -> None:
    kept.wait_started()
    kept.lifeline.close()
    assert kept.keeper.wait(300) == 0
    assert kept.others() == []


def test_outlives_the_starting_command_once_told_to_keep(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    kept.lifeline.close()
    recorded = state.read_processes(kept.layout)
    assert recorded is not None
    assert recorded.state == "up"
    # It answers orders, so it is still there after it saw the lifeline close.
    kept.cluster.kill_daemon("plain")
    with pytest.raises(UnreachableError, match="waited"):  # nothing here answers as ZooKeeper does
        kept.cluster.start_daemon("plain", timeout_s=0.1)
    assert kept.cluster.pid("plain") is not None


def test_ends_everything_on_sigterm(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    kept.keeper.send_signal(signal.SIGTERM)
    assert kept.keeper.wait(300) == 0
    assert kept.others() == []
    recorded = state.read_processes(kept.layout)
    assert recorded is not None
    assert recorded.state == "down"
    assert [d.pid for d in recorded.daemons.values()] == [None, None]


def test_purge_leaves_no_file(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    kept.cluster.down(purge=True)
    assert list(kept.layout.directory.parent.iterdir()) == []


def test_what_another_command_starts_meanwhile_is_not_purged(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.wait_started()
    kept.keep()
    monkeypatch.setattr(Layout, "known", lambda _: kept.layout)
    with one_start_at_a_time(kept.layout):
        down("kept", everything=False, purge=True)
    folder = kept.layout.directory
    said = capsys.readouterr().out.removesuffix("\n")
    assert said == f"cluster {folder.name} is down; {folder} stays, another command uses it just now"


def test_daemons_end_with_a_killed_keeper_and_down_finds_the_rest(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    worker = next(p for p in kept.others() if p.parent == kept.cluster.pid("parent"))
    kept.keeper.kill()
    kept.keeper.wait()
    wait_until(lambda: [p.pid for p in kept.others()] == [worker.pid])
    kept.cluster.down()
    assert kept.others() == []


def test_notes_how_a_daemon_ended(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    kept.cluster.kill_daemon("plain")
    assert kept.cluster.pid("plain") is None
    assert kept.cluster.daemon_processes()["plain"].exit_code == -signal.SIGKILL


def test_worker_outlives_its_supervisor_and_leaves_no_zombie(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    worker = next(p for p in kept.others() if p.parent == kept.cluster.pid("parent"))
    kept.cluster.kill_daemon("parent")
    wait_until(lambda: [p.parent for p in kept.others() if p.pid == worker.pid] == [kept.keeper.pid])
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{worker.pid}").exists())


def test_starts_a_daemon_again_that_ended_by_itself(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    supervisor = kept.cluster.pid("parent")
    worker = next(p for p in kept.others() if p.parent == supervisor)
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: kept.cluster.pid("parent") not in (None, supervisor))
    kept.wait_started()


def test_starts_a_daemon_again_that_crashed(kept: Kept) -> None:
    """A JVM ends by a signal where it meets a fault of its own, or of a library."""
    kept.wait_started()
    kept.keep()
    supervisor = kept.cluster.pid("parent")
    assert supervisor is not None
    os.kill(supervisor, signal.SIGABRT)
    wait_until(lambda: kept.cluster.pid("parent") not in (None, supervisor))


@pytest.mark.parametrize("daemon", ["plain", "parent"])
def test_starts_a_daemon_again_that_the_kernel_ended_for_want_of_memory(kept: Kept, daemon: str) -> None:
    """Its OOM killer ends by SIGKILL, and so does somebody's `kill -9`: only an order keeps a daemon down."""
    kept.wait_started()
    kept.keep()
    first = kept.cluster.pid(daemon)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: kept.cluster.pid(daemon) not in (None, first))
    again = daemons_of(kept.cluster, {p.pid for p in kept.cluster.processes()}, time.time())
    told = {d.id: (d.state, d.exit_code, d.restarts, (d.ended or "").partition(" (")[0]) for d in again}
    other = "parent" if daemon == "plain" else "plain"
    assert told == {daemon: ("running", None, 1, "by SIGKILL"), other: ("running", None, 0, "")}
    assert f"{daemon} ended by SIGKILL" in (kept.layout.logs / "keeper.log").read_text()


def test_an_order_kills_a_daemon_once_and_a_start_forgets_it(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    kept.cluster.kill_daemon("plain")
    with pytest.raises(UnreachableError, match="waited"):
        kept.cluster.start_daemon("plain", timeout_s=0.1)
    started = kept.cluster.pid("plain")
    assert started is not None
    assert kept.cluster.daemon_processes()["plain"].restarts == 0
    os.kill(started, signal.SIGKILL)
    wait_until(lambda: kept.cluster.pid("plain") not in (None, started))


def test_a_daemon_is_killed_although_the_keeper_takes_no_orders(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    kept.layout.keeper_socket.unlink()
    pid = kept.cluster.pid("plain")
    assert pid is not None
    kept.cluster.kill_daemon("plain")
    assert kept.cluster.pid("plain") != pid


def test_a_disk_that_takes_nothing_ends_no_cluster(kept: Kept) -> None:
    """A folder stands where a file is to be written, and that of the logs is gone; both for a while."""
    kept.wait_started()
    kept.keep()
    kept.layout.processes_file.unlink()
    kept.layout.processes_file.mkdir()
    away = kept.layout.logs.rename(kept.layout.logs.with_name("away"))
    for daemon in [p for p in kept.others() if p.parent == kept.keeper.pid]:
        os.kill(daemon.pid, signal.SIGABRT)
    wait_until(lambda: "parent cannot be started" in (away / "keeper.log").read_text())
    away.rename(kept.layout.logs)
    kept.layout.processes_file.rmdir()
    wait_until(lambda: kept.cluster.pid("parent") is not None)
    assert kept.cluster.daemon_processes()["plain"].exit_code == -signal.SIGABRT
    assert kept.keeper.poll() is None


def test_refuses_to_start_or_stop_twice(kept: Kept) -> None:
    kept.wait_started()
    kept.keep()
    with pytest.raises(RefusedError, match="plain is running"):
        kept.cluster.start_daemon("plain")
    kept.cluster.kill_daemon("plain")
    with pytest.raises(RefusedError, match="plain is not running"):
        kept.cluster.kill_daemon("plain")
