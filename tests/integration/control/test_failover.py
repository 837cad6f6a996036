"""Leaders that are frozen or end at the worst moment: nothing of theirs is applied later, nothing stays half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from doubles.models import plan_message
from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.config import Config
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import ClusterSnapshot, HistoryEntry, PlanMessage, Worker, decode, encode
from stormpilot.messages.moves import MoveState
from stormpilot.publish import publisher
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

from .conftest import BRIEF_S, SETTINGS, Controller

pytestmark = pytest.mark.zookeeper

ID, OTHER = "flights-1-1763690000", "wordcount-1-1763690000"
TESTS = Path(__file__).resolve().parents[2]
SPREAD = everywhere({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)})
Start = Callable[[Config], Controller]
Play = Callable[[str, ClusterSnapshot], ShimDouble]
Settings = Callable[..., Config]
Spawn = Callable[[str, Path, Path], subprocess.Popen[bytes]]


@pytest.fixture
def spawn(tmp_path: Path, paths: Paths) -> Iterator[Spawn]:
    """`spawn(hosts, marker, release)`: a controller process that plans until `release` exists; its log is `log`."""
    started: list[subprocess.Popen[bytes]] = []

    def start_process(hosts: str, marker: Path, release: Path) -> subprocess.Popen[bytes]:
        config = tmp_path / f"controller-{len(started)}.yaml"
        config.write_text(SETTINGS.format(hosts=hosts, root=paths.root, session_s=BRIEF_S))
        line = [sys.executable, "-m", "doubles.slow_controller", str(config), str(marker), str(release)]
        with (tmp_path / f"log-{len(started)}").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS}/support"}
            started.append(subprocess.Popen(line, stdout=log, stderr=log, env=environment))
        return started[-1]

    yield start_process
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(300)


def plan_of(shim: ShimDouble, topology_id: str = ID) -> PlanMessage:
    path = shim.paths.plan(topology_id)
    return decode(shim.client.get(path)[0], PlanMessage, path)


def test_leader_that_was_frozen_while_it_planned_cannot_publish_when_it_wakes_up(
    shared_zookeeper: LocalZooKeeper, play: Play, spawn: Spawn, tmp_path: Path
) -> None:
    """Two real processes: the first stops while it plans, the second leads and publishes, then the first goes on."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    hosts, marker, release, free = shared_zookeeper.hosts, tmp_path / "planning", tmp_path / "go", tmp_path / "free"
    free.touch()
    first = spawn(hosts, marker, release)
    until(lambda: shim.client.exists(shim.paths.epoch), "the first to lead")
    second = spawn(hosts, tmp_path / "unused", free)
    until(lambda: "standby" in (tmp_path / "log-1").read_text(), "the second to stand by")
    shim.submit(topology())
    until(marker.exists, "the first to plan")
    first.send_signal(signal.SIGSTOP)
    until(lambda: shim.applied, "a plan of the second")
    assert plan_of(shim).epoch == 2
    history = shim.client.get_children(shim.paths.plan_history(ID))
    mine = shim.client.get(shim.paths.plan(ID))

    release.touch()
    first.send_signal(signal.SIGCONT)
    until(lambda: (tmp_path / "log-0").read_text().count("standby"), "the first to notice that it is over")
    said = (tmp_path / "log-0").read_text()
    assert "stepped down" in said or "session lost" in said
    assert "published plan" not in said
    assert shim.client.get(shim.paths.plan(ID))[0] == mine[0]
    assert shim.client.get_children(shim.paths.plan_history(ID)) == history
    assert len(shim.applied) == 1
    second.send_signal(signal.SIGTERM)
    assert second.wait(300) == 0
    until(lambda: shim.client.get(shim.paths.epoch)[0] == b"3", "the first to lead again, in its own turn")


def test_round_that_a_leader_wrote_only_in_part_is_cleaned_up_by_the_next_one(
    shared_zookeeper: LocalZooKeeper,
    settings: Settings,
    start: Start,
    play: Play,
    paths: Paths,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader ends between the transactions of a round too large for one; the plug-in never applies a part."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    shim.submit(topology(everywhere({("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}), name="wordcount"))
    session = ZooKeeper(shared_zookeeper.hosts)
    session.start()
    assert session.wait_connected(300)
    entries = [_entry(t, {("a", port): (1, 2, 3, 4, 5, 6)}) for t, port in ((ID, 6702), (OTHER, 6703))]
    monkeypatch.setattr(publisher, "TRANSACTION_BYTES", 1)
    leader = Publisher(session, paths, raise_epoch(session, paths))
    commit, written = leader._commit, []

    def commit_once(steps: object) -> None:
        if written:
            raise KeyboardInterrupt  # the process ends here
        commit(steps)  # type: ignore[arg-type]
        written.append(steps)

    monkeypatch.setattr(leader, "_commit", commit_once)
    with pytest.raises(KeyboardInterrupt):
        leader.publish(entries, {})
    session.stop()
    monkeypatch.undo()
    assert plan_of(shim).plan_id == f"p-{ID}"
    assert not shim.client.exists(paths.plan(OTHER))

    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: shim.applied, "the next leader to replace what was left of the round")
    assert plan_of(shim).plan_id != f"p-{ID}"
    assert f"p-{ID}" not in shim.applied
    assert controller.logged("published plan")
    for t, port in ((ID, 6702), (OTHER, 6703)):
        assert set(shim.placement(t).values()) != {("a", port)}, "what the torn round wanted"
    until(lambda: plan_of(shim).epoch >= 2, "a plan of the new leader")


def _entry(topology_id: str, slots: dict[tuple[str, int], tuple[int, ...]]) -> HistoryEntry:
    message = plan_message(
        plan_id=f"p-{topology_id}",
        plan_set="r-torn",
        topology_id=topology_id,
        epoch=1,
        plan_set_topologies=[ID, OTHER],
        workers=[Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in slots.items()],
    )
    return HistoryEntry(plan=msgspec.structs.replace(message, checksum=message.expected_checksum()), reason="GAIN")


def test_former_placement_that_is_too_large_to_go_with_its_plan_is_left_out(
    shared_zookeeper: LocalZooKeeper, play: Play, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan goes out all the same; it only cannot be undone by itself."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    session = ZooKeeper(shared_zookeeper.hosts)
    session.start()
    assert session.wait_connected(300)
    entry = _entry(ID, {("a", 6702): (1, 2, 3, 4, 5, 6)})
    former = [Worker(supervisor="b", port=p, executors=[(p, p)]) for p in range(200)]
    state = MoveState(topology_id=ID, phase="moving", plan_id=entry.plan.plan_id, former=former)
    monkeypatch.setattr(publisher, "TRANSACTION_BYTES", len(encode(entry.plan)) + len(encode(entry)) + 1000)
    Publisher(session, paths, raise_epoch(session, paths)).publish([entry], {}, [state])
    session.stop()
    written = decode(shim.client.get(paths.moves(ID))[0], MoveState, "moves")
    assert (written.phase, written.former) == ("moving", [])
    assert plan_of(shim) == entry.plan
