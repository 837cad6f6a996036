"""One controller leads, and only it can publish: elections, epochs, lost sessions, kills, an absent ZooKeeper."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kazoo.client import KazooClient

from doubles.models import plan_message
from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, topology
from stormpilot.config import Config, ZooKeeperSection
from stormpilot.control.daemon import Daemon
from stormpilot.errors import RefusedError
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import ClusterSnapshot, HistoryEntry, PlanMessage, decode
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.planner import compute
from stormpilot.publish.epoch import Epoch, raise_epoch
from stormpilot.publish.publisher import KEPT_PLANS, DeposedError, Publisher
from stormpilot.zookeeper.client import ConflictError, ZooKeeper
from stormpilot.zookeeper.paths import Paths

from .conftest import BRIEF_S, SETTINGS, Controller

pytestmark = pytest.mark.zookeeper

ID = "flights-1-1763690000"
TESTS = Path(__file__).resolve().parents[2]
STORMPILOT = Path(sys.executable).with_name("stormpilot")
Start = Callable[[Config], Controller]
Play = Callable[[str, ClusterSnapshot], ShimDouble]
Settings = Callable[..., Config]
Spawn = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def spawn(tmp_path: Path, paths: Paths) -> Iterator[Spawn]:
    """`spawn(hosts, *command)`: a controller process with the test settings; its log is `log` in the test's folder."""
    started: list[subprocess.Popen[bytes]] = []

    def start_process(hosts: str, *command: str) -> subprocess.Popen[bytes]:
        config = tmp_path / "controller.yaml"
        config.write_text(SETTINGS.format(hosts=hosts, root=paths.root, session_s=BRIEF_S))
        line = [part.replace("CONFIG", str(config)) for part in command]
        with (tmp_path / "log").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS}/support"}
            started.append(subprocess.Popen(line, stdout=log, stderr=log, env=environment))
        return started[-1]

    yield start_process
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(300)


@pytest.fixture
def session(shared_zookeeper: LocalZooKeeper) -> Iterator[ZooKeeper]:
    zookeeper = ZooKeeper(shared_zookeeper.hosts)
    zookeeper.start()
    assert zookeeper.wait_connected(300)
    yield zookeeper
    zookeeper.stop()


def epoch(client: KazooClient, paths: Paths) -> int:
    return int(client.get(paths.epoch)[0])


def entry(plan_id: str, topology_id: str = ID, number: int = 1) -> HistoryEntry:
    return HistoryEntry(plan=plan_message(plan_id=plan_id, topology_id=topology_id, epoch=number), reason="GAIN")


# --- fencing ----------------------------------------------------------------------------------------------------------


def test_old_epoch_cannot_publish(session: ZooKeeper, paths: Paths) -> None:
    old = Publisher(session, paths, raise_epoch(session, paths))
    new = Publisher(session, paths, raise_epoch(session, paths))
    assert (old.epoch.number, new.epoch.number) == (1, 2)
    with pytest.raises(DeposedError, match="epoch 1 is over"):
        old.publish([entry("p-old")], {})
    assert session.children([paths.plan(), paths.plan_history(ID)]) == [[], []]
    new.publish([entry("p-new", number=2)], {})
    with pytest.raises(DeposedError):
        old.put(paths.controller, b"{}")
    assert session.read([paths.controller]) == [None]


def test_whoever_lost_his_place_in_the_election_cannot_publish(session: ZooKeeper, paths: Paths) -> None:
    session.ensure([paths.leader])
    place = session.client.create(f"{paths.leader}/me", ephemeral=True, sequence=True)
    publisher = Publisher(session, paths, raise_epoch(session, paths).bound_to(place))
    publisher.publish([entry("p-1")], {})
    session.client.delete(place)
    with pytest.raises(DeposedError):
        publisher.publish([entry("p-2")], {ID: 0})


def test_round_is_written_as_a_whole_or_not_at_all(session: ZooKeeper, paths: Paths) -> None:
    """The second plan was changed by somebody else meanwhile: the first is not written either."""
    publisher = Publisher(session, paths, raise_epoch(session, paths))
    publisher.publish([entry("p-1"), entry("p-2", "other")], {})
    session.put(paths.plan("other"), b"by hand")
    with pytest.raises(ConflictError, match="plans/other was changed"):
        publisher.publish([entry("p-3"), entry("p-4", "other")], {ID: 0, "other": 0})
    (mine, history) = session.read([paths.plan(ID)])[0], session.children([paths.plan_history(ID)])[0]
    assert mine is not None
    assert b"p-1" in mine.data
    assert history == ["0000000001"]


def test_history_keeps_the_newest_plans(session: ZooKeeper, paths: Paths) -> None:
    publisher = Publisher(session, paths, raise_epoch(session, paths))
    for i in range(KEPT_PLANS + 5):
        publisher.publish([entry(f"p-{i}")], {ID: i - 1} if i else {})
    kept = session.children([paths.plan_history(ID)])[0]
    assert len(kept) == KEPT_PLANS
    assert kept[-1] == f"{KEPT_PLANS + 5:010d}"


@pytest.mark.parametrize("data", [b"garbage", b"", b"-5", b"\xff"])
def test_epoch_that_was_written_over_goes_on_above_the_newest_plan(
    session: ZooKeeper, paths: Paths, data: bytes
) -> None:
    raise_epoch(session, paths)
    session.put(paths.epoch, data)
    assert raise_epoch(session, paths, least=41).number == 42


# --- several controllers ----------------------------------------------------------------------------------------------


def test_a_leader_whose_connection_breaks_right_after_its_election_leads_when_it_is_back(
    tmp_path: Path, settings: Settings, start: Start, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session goes on, and with it its place in the election, behind which it must not wait for ever."""
    server = LocalZooKeeper(tmp_path / "zookeeper")
    (tmp_path / "zookeeper").mkdir()
    calls: list[int] = []

    def breaks_once(*given: Any) -> Epoch:
        calls.append(1)
        if len(calls) == 1:
            server.stop()
            try:
                return raise_epoch(*given)
            finally:
                server.start()
        return raise_epoch(*given)

    monkeypatch.setattr("stormpilot.control.daemon.raise_epoch", breaks_once)
    try:
        server.start()
        controller = start(settings(server.hosts))
        until(lambda: controller.logged("leading"), "it to lead")
        assert len(calls) >= 2
        controller.stop()
    finally:
        server.close()


def test_of_two_controllers_one_leads_and_the_other_takes_over_with_a_higher_epoch(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, paths: Paths
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    config = settings(shared_zookeeper.hosts)
    first = start(config)
    until(lambda: first.logged("leading"), "the first to lead")
    second = start(config)
    until(lambda: second.logged("standby"), "the second to stand by")
    assert len(first.logged("leading")) == 1
    first.stop()
    until(lambda: len(second.logged("leading")) >= 2, "the second to lead")
    assert epoch(shim.client, paths) == 2
    shim.submit(topology())
    until(lambda: shim.applied, "a plan of the second")


def test_of_two_controllers_that_start_together_the_one_that_does_not_lead_stands_by(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read that nobody leads before either is a candidate."""
    both = threading.Barrier(2)

    class Together(Reader):
        first = True

        def read(self) -> StoreSnapshot:
            found = super().read()
            if self.first:
                self.first = False
                both.wait(300)
            return found

    monkeypatch.setattr("stormpilot.control.daemon.Reader", Together)
    config = settings(shared_zookeeper.hosts)
    boards = [start(config).daemon.service.board for _ in range(2)]
    until(lambda: sorted(b.part for b in boards) == ["leading", "standby"], "one to lead and the other to stand by")
    assert [b.leader for b in boards if b.part == "standby"] == [boards[0].name]


def test_a_single_cycle_is_refused_while_another_controller_leads(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, session: ZooKeeper, paths: Paths
) -> None:
    config = settings(shared_zookeeper.hosts)
    first = start(config)
    until(lambda: first.logged("leading"), "the first to lead")
    with pytest.raises(RefusedError, match=f"another controller leads: {first.daemon.name}"):
        Daemon(config, compute, "online", "default").run(once=True)
    assert len(session.children([paths.leader])[0]) == 1


def test_expired_session_stops_acting_and_leads_again_in_the_next_epoch(
    shared_zookeeper: LocalZooKeeper,
    settings: Settings,
    start: Start,
    play: Play,
    paths: Paths,
    expire_session: Callable[[KazooClient], None],
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: controller.logged("no change"), "a cycle")
    expire_session(controller.daemon._zookeeper.client)
    until(lambda: len(controller.logged("leading")) >= 2, "it to lead again")
    assert controller.logged("session lost; rejoining election") or controller.logged("stepped down")
    assert epoch(shim.client, paths) == 2
    assert len(shim.client.get_children(paths.leader)) == 1
    shim.submit(topology())
    until(lambda: shim.applied, "a plan in the new epoch")


def test_a_leader_of_an_epoch_that_the_plug_in_takes_for_old_leads_again_in_a_newer_one(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, paths: Paths
) -> None:
    """Restored from a backup, ZooKeeper has an older epoch than Nimbus, which goes on, remembers."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: controller.logged("no change"), "a cycle")
    shim.remember_epoch(50)
    shim.submit(topology())
    until(lambda: shim.applied, "a plan")
    assert epoch(shim.client, paths) == 51
    assert len(controller.logged("leading")) == 2


def test_a_plan_that_nimbus_has_not_looked_at_when_another_leads_is_applied(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, paths: Paths
) -> None:
    """Between two rounds the plug-in sees the plan and then a newer epoch: it rejects older ones."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    config = settings(shared_zookeeper.hosts)
    first = start(config)
    until(lambda: first.logged("no change"), "a cycle")
    shim.silent = True
    shim.submit(topology())
    until(lambda: shim.client.exists(paths.plan(ID)), "a plan")
    published = shim.client.get(paths.plan(ID))[0]
    second = start(config)
    until(lambda: second.logged("standby"), "the second to stand by")
    first.stop()
    until(lambda: shim.client.get(paths.plan(ID))[0] != published, "the second to take it over")
    shim.remember_epoch(epoch(shim.client, paths))
    shim.silent = False
    until(lambda: shim.applied or shim.refused, "an answer")
    assert (shim.applied, shim.refused) == ([decode(published, PlanMessage, "plan").plan_id], [])


def test_killed_in_the_middle_of_planning_leaves_no_trace_and_the_next_one_finishes_the_job(
    shared_zookeeper: LocalZooKeeper,
    settings: Settings,
    start: Start,
    play: Play,
    spawn: Spawn,
    tmp_path: Path,
    paths: Paths,
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    marker = tmp_path / "planning"
    victim = spawn(shared_zookeeper.hosts, sys.executable, "-m", "doubles.slow_controller", "CONFIG", str(marker))
    until(lambda: victim.poll() is not None or epoch_or_none(shim, paths), "the first to lead")
    shim.submit(topology())
    until(marker.exists, "it to plan")
    victim.send_signal(signal.SIGKILL)
    victim.wait(300)
    assert shim.client.get_children(paths.plan()) == []
    survivor = start(settings(shared_zookeeper.hosts))
    until(lambda: shim.applied, "the first plan, by the next one")
    assert epoch(shim.client, paths) == 2
    assert survivor.logged("published plan", reason="FIRST_PLAN")


def epoch_or_none(shim: ShimDouble, paths: Paths) -> int | None:
    return epoch(shim.client, paths) if shim.client.exists(paths.epoch) else None


def test_sigterm_ends_it_cleanly_and_frees_the_leadership_at_once(
    shared_zookeeper: LocalZooKeeper, play: Play, spawn: Spawn, paths: Paths, tmp_path: Path
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    process = spawn(shared_zookeeper.hosts, str(STORMPILOT), "run", "CONFIG")
    until(lambda: shim.client.exists(paths.controller), "a cycle")
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    assert shim.client.get_children(paths.leader) == []
    log = (tmp_path / "log").read_text()
    assert "INFO stopping" in log
    assert "Traceback" not in log


# --- ZooKeeper comes and goes -----------------------------------------------------------------------------------------


def test_controller_waits_for_zookeeper_at_the_start_and_ends_on_sigterm_without_it(
    zookeeper: LocalZooKeeper, spawn: Spawn, tmp_path: Path
) -> None:
    zookeeper.stop()
    process = spawn(zookeeper.hosts, str(STORMPILOT), "run", "CONFIG")
    until(lambda: "waiting for ZooKeeper" in (tmp_path / "log").read_text(), "it to say so")
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_zookeeper_that_stops_and_comes_back_is_waited_for(
    zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology())
    controller = start(settings(zookeeper.hosts))
    until(lambda: shim.applied, "the first plan")
    zookeeper.stop()
    until(lambda: controller.logged("waiting for ZooKeeper"), "it to say that ZooKeeper is away")
    assert controller.running
    zookeeper.start()
    until(lambda: controller.logged("ZooKeeper connection restored"), "it to say that ZooKeeper is back")
    cycles = len(controller.logged("no change"))
    until(lambda: len(controller.logged("no change")) > cycles, "cycles to go on")
    assert len(shim.applied) == 1


def test_zookeeper_that_comes_back_with_older_data_is_used_again(
    zookeeper: LocalZooKeeper, restore: Callable[[], None], settings: Settings, start: Start
) -> None:
    """Restored from a backup, it closes every connection of a client that has seen a later transaction."""
    controller = start(settings(zookeeper.hosts, session_s=BRIEF_S))
    until(lambda: controller.logged("leading"), "it to lead")
    restore()
    until(lambda: len(controller.logged("leading")) >= 2, "it to lead again")


def test_frozen_zookeeper_holds_no_controller_for_ever(
    zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    """Connections stay open and nothing answers: calls have deadlines."""
    play(zookeeper.hosts, cluster("a", "b"))
    controller = start(settings(zookeeper.hosts, session_s=BRIEF_S))
    until(lambda: controller.logged("no change"), "a cycle")
    zookeeper.pause()
    try:
        until(
            lambda: controller.logged("waiting for ZooKeeper") or controller.logged("ZooKeeper does not answer"),
            "it to notice",
        )
    finally:
        zookeeper.resume()
    cycles = len(controller.logged("no change"))
    until(lambda: len(controller.logged("no change")) > cycles, "cycles to go on")


# --- authentication ---------------------------------------------------------------------------------------------------


def test_znodes_of_a_controller_with_a_login_are_closed_to_others(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, paths: Paths, tmp_path: Path
) -> None:
    (tmp_path / "login").write_text("storm:secret\n")
    hosts = shared_zookeeper.hosts
    login = ZooKeeperSection(hosts=hosts, root=paths.root, auth_file=str(tmp_path / "login"))
    controller = start(msgspec.structs.replace(settings(hosts), zookeeper=login))
    until(lambda: controller.logged("no change"), "a cycle with the login")
    config_file = tmp_path / "c.yaml"
    config_file.write_text(f"zookeeper: {{hosts: '{hosts}', root: {paths.root}, auth_file: login}}\n")

    def status(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [STORMPILOT, "status", *options], capture_output=True, text=True, timeout=300, check=False
        )

    allowed = status("--config", str(config_file))
    assert allowed.returncode == 0, allowed.stderr
    refused = status("--zookeeper", hosts, "--root", paths.root)
    assert refused.returncode == 1
    assert "zookeeper.auth_file" in refused.stderr
