"""A cluster of real processes: what it says of itself, what it survives, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from integration.local.words import components, status, stormpilot, submit_words, wait_until
from stormpilot.local import processes
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.local.state import Layout, read_description, read_processes
from stormpilot.local.zookeeper import answers
from stormpilot.nimbus import Nimbus

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
LONG = pytest.mark.long


def counted(cluster: LocalCluster) -> tuple[int, int]:
    """Workers of `words` and used slots of all supervisors, as Nimbus has them in one answer."""
    said = status(cluster.name)
    return sum(t["workers"] for t in said["topologies"] if t["name"] == "words"), sum(
        s["usedSlots"] or 0 for s in said["supervisors"]
    )


def test_status_shows_daemons_slots_topologies_and_workers(small: LocalCluster) -> None:
    if not small.workers():
        submit_words(small)
    wait_until(lambda: counted(small) == (2, 2), "Nimbus to count 2 workers")
    said = status(small.name)
    assert said["state"] == "up"
    assert said["nimbusError"] is None
    assert [d["state"] for d in said["daemons"]] == ["running"] * 4
    assert said["zookeeper"] == small.zookeeper_hosts
    assert {w["pid"] for w in said["workers"]} == {w.pid for w in small.workers()}
    table = stormpilot("local", "status", "--name", small.name)
    assert table.returncode == 0
    assert small.supervisor_ids[1] in table.stdout


def test_workers_survive_the_loss_of_every_daemon_in_turn(small: LocalCluster) -> None:
    """What fault tests of everything else stand on: that losing a daemon alone restarts no worker."""
    workers = small.workers() or submit_words(small)
    assert {w.supervisor for w in workers} == set(small.supervisor_ids), "Storm spreads workers"
    small.stop_zookeeper()
    small.start_zookeeper()
    small.kill_nimbus()
    small.start_nimbus()
    small.kill_supervisor(1)
    small.start_supervisor(1)
    with Nimbus.connect(small.nimbus_address) as nimbus:
        assert {s.id for s in nimbus.supervisors()} == set(small.supervisor_ids)
    assert small.workers() == workers


def test_a_supervisor_that_ends_by_itself_comes_back_and_its_workers_stay(small: LocalCluster) -> None:
    """Storm's daemons end themselves, here as they are asked to, with the exit code of their other ends."""
    workers = small.workers() or submit_words(small)
    supervisor = small.supervisor_ids[0]
    before = small.pid(supervisor)
    assert before is not None
    os.kill(before, signal.SIGTERM)
    wait_until(lambda: small.pid(supervisor) not in (None, before), "the supervisor to be started again")
    assert f"{supervisor} ended with exit code" in (small.layout.logs / "keeper.log").read_text()
    assert small.workers() == workers


def test_status_says_what_is_missing(small: LocalCluster) -> None:
    small.kill_nimbus()
    try:
        said = status(small.name)
        assert said["state"] == "degraded"
        assert "not reachable" in said["nimbusError"]
        nimbus = next(d for d in said["daemons"] if d["id"] == "nimbus")
        assert (nimbus["state"], nimbus["exitCode"]) == ("stopped", -signal.SIGKILL)
    finally:
        small.start_nimbus()


def test_logs_show_daemons_and_workers(small: LocalCluster) -> None:
    if not small.workers():
        submit_words(small)
    daemon = stormpilot("local", "logs", "--name", small.name, "--daemon", "nimbus", "-n", "5")
    assert daemon.returncode == 0
    assert "nimbus.log" in daemon.stdout
    workers = stormpilot("local", "logs", "--name", small.name, "--daemon", "worker")
    assert all(f"{w.port}/worker.log" in workers.stdout for w in small.workers())
    unknown = stormpilot("local", "logs", "--name", small.name, "--daemon", "supervisor-99")
    assert unknown.returncode == 2
    assert "supervisor-02" in unknown.stderr


def test_submit_goes_to_the_nimbus_of_the_cluster(small: LocalCluster) -> None:
    project = Path(__file__).parents[3] / "topologies"
    dry_run = stormpilot(
        *("local", "submit", "--name", small.name, "--project", str(project)),
        *("wordcount_comm", "-e", "local", "--dry-run", "-f", "json"),
    )
    assert dry_run.returncode == 0, dry_run.stderr
    assert json.loads(dry_run.stdout)["nimbus"] == str(small.nimbus_address)


def test_killed_topology_leaves_no_worker(small: LocalCluster) -> None:
    with Nimbus.connect(small.nimbus_address) as nimbus:
        alive = nimbus.find("words") is not None
    if not alive:
        wait_until(lambda: not small.workers(), "workers of an earlier topology to end")
        submit_words(small)
    assert stormpilot("local", "kill", "words", "--name", small.name).returncode == 0
    wait_until(lambda: not small.workers() and not components(small), "the workers to end")
    again = stormpilot("local", "kill", "words", "--name", small.name)
    assert again.returncode == 1
    assert "words" in again.stderr


@LONG
def test_second_cluster_lives_beside_the_first_and_ends_alone(small: LocalCluster) -> None:
    name = f"tests-second-{os.getpid()}"
    arguments = ("local", "up", "--name", name, "--supervisors", "1", "--slots", "1", "--scheduler", "default")
    up = stormpilot(*arguments)
    assert up.returncode == 0, up.stderr
    second = LocalCluster.load(name)
    try:
        again = stormpilot(*arguments)
        assert again.returncode == 1
        assert "is running already" in again.stderr
        with Nimbus.connect(second.nimbus_address) as nimbus:
            assert [s.id for s in nimbus.supervisors()] == second.supervisor_ids
    finally:
        down = stormpilot("local", "down", "--name", name, "--purge")
    assert down.returncode == 0, down.stderr
    assert second.processes() == []
    assert not second.layout.directory.exists()
    assert status(small.name)["state"] == "up"


def test_down_ends_workers_whose_supervisor_and_keeper_were_killed() -> None:
    cluster = LocalCluster.up(
        ClusterSpec(name=f"tests-orphans-{os.getpid()}", supervisors=1, slots=2, scheduler="default")
    )
    try:
        submit_words(cluster)
        recorded = read_processes(cluster.layout)
        assert recorded is not None
        os.kill(recorded.keeper_pid, signal.SIGKILL)
        wait_until(lambda: all(cluster.pid(d.id) is None for d in cluster.description.daemons), "the daemons to follow")
        assert cluster.workers(), "workers outlive their supervisor"
    finally:
        cluster.down()
    assert cluster.processes() == []
    assert cluster.log_file("nimbus").is_file()
    assert len(cluster.worker_logs()) == 2
    cluster.down(purge=True)


@pytest.mark.parametrize(
    "ended_by", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=LONG), pytest.param(signal.SIGTERM, marks=LONG)]
)
def test_ended_start_leaves_nothing(ended_by: signal.Signals) -> None:
    name = f"tests-ended-{os.getpid()}"
    command = Path(sys.executable).with_name("stormpilot")
    up = subprocess.Popen(
        [command, "local", "up", "--name", name, "--supervisors", "2", "--scheduler", "default"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # as in a terminal: what a shell starts in the background ignores Ctrl-C, and so does all that it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (no other threads here)
    )
    layout = Layout.of(name)
    try:
        wait_until(lambda: layout.processes_file.is_file() or up.poll() is not None, "the daemons to be started")
        cluster = LocalCluster(layout, read_description(layout))
        wait_until(lambda: cluster.pid("nimbus") is not None or up.poll() is not None, "Nimbus to be started")
        assert up.poll() is None, "the start was over too soon to be ended"
        up.send_signal(ended_by)
        assert up.wait(120) != 0
        wait_until(lambda: not cluster.processes(), "every process to end")
    finally:
        up.kill()
        up.communicate()
    cluster.down(purge=True)


def test_start_fails_with_the_words_of_a_daemon_that_cannot_start() -> None:
    name = f"tests-failing-{os.getpid()}"
    failed = stormpilot(
        *("local", "up", "--name", name, "--supervisors", "1", "--scheduler", "default"),
        *("--conf", "storm.scheduler=no.such.Scheduler"),
    )
    assert failed.returncode == 3
    assert "nimbus ended early" in failed.stderr
    assert "no.such.Scheduler" in failed.stderr
    left = LocalCluster.load(name)
    assert left.processes() == []
    left.down(purge=True)


def test_three_zookeepers_survive_the_loss_of_one() -> None:
    cluster = LocalCluster.up(
        ClusterSpec(name=f"tests-ensemble-{os.getpid()}", supervisors=1, slots=1, zookeepers=3, scheduler="default")
    )
    try:
        cluster.kill_daemon("zookeeper-1")
        others = [d for d in cluster.description.of_kind("zookeeper") if d.id != "zookeeper-1"]
        wait_until(lambda: all(answers(d.host, d.port) for d in others), "the others to elect a leader")
        cluster.start_daemon("zookeeper-1")
        with Nimbus.connect(cluster.nimbus_address) as nimbus:
            assert [s.id for s in nimbus.supervisors()] == cluster.supervisor_ids
    finally:
        cluster.down(purge=True)
    assert processes.of_cluster(cluster.description.id) == []
