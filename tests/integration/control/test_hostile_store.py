"""A controller that is elected over hostile znodes: it leads, names them, and plans for the sound topologies."""

from __future__ import annotations

import pytest

from doubles.hostile import bombs
from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, topology
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.observe.listing import MAX_CHILDREN
from stormpilot.zookeeper.paths import Paths

from .conftest import ID, SPREAD, Play, Settings, Start, message

pytestmark = pytest.mark.zookeeper
OTHER = "other-1-1763690000"
FITS_BYTES = 1_000_000


def test_an_election_over_bombs_of_every_kind_ends_neither_the_controller_nor_its_cycles(
    shared_zookeeper: LocalZooKeeper, start: Start, play: Play, settings: Settings, paths: Paths
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    laid = []
    for n, data in enumerate(d for _, d in sorted(bombs().items()) if len(d) < FITS_BYTES):
        for path in (
            *(paths.load(OTHER, f"r{n}"), paths.load(ID, f"r{n}"), paths.mode(f"x{n}"), paths.pin(f"x{n}")),
            *(paths.topology(f"x{n}-1-1"), paths.plan(f"x{n}-1-1"), paths.status(f"x{n}-1-1"), paths.request(f"x{n}")),
        ):
            shim.client.create(path, data, makepath=True)
            laid.append(path)
    shim.client.ensure_path(paths.base)
    shim.client.create(paths.controller, bombs()["deep list"], makepath=True)
    first = start(settings(shared_zookeeper.hosts))
    until(lambda: shim.applied, "the sound topology to be planned")
    assert len(first.logged("leading")) == 1, "no cycle and no read ended the leadership"
    assert not first.logged("cycle failed; retrying next period")
    assert {str(x["path"]) for x in first.logged("cannot be read, left out")} & set(laid)
    first.stop()

    second = start(settings(shared_zookeeper.hosts))
    until(lambda: len(second.logged("leading")) >= 2, "the next one to lead")
    until(lambda: message(shim, paths.controller, ControllerState).epoch >= 2, "its first cycle")
    assert second.running
    assert not second.logged("cannot lead; rejoining election")


@pytest.mark.faults
@pytest.mark.parametrize("folder", ["plan", "topology", "mode"])
def test_a_folder_whose_list_is_longer_than_a_packet_is_named_and_stops_neither_election_nor_cycles(
    shared_zookeeper: LocalZooKeeper, start: Start, play: Play, settings: Settings, paths: Paths, folder: str
) -> None:
    """The server sends the list all the same; a Java client would lose its connection over it (`jute.maxbuffer`)."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    first = start(settings(shared_zookeeper.hosts))
    until(lambda: shim.applied, "the topology to be planned")
    path = getattr(paths, folder)
    shim.client.ensure_path(path())
    calls = [shim.client.create_async(path(f"{'nobody' * 17}-{n}"), b"") for n in range(MAX_CHILDREN + 500)]
    for call in calls:
        call.get(timeout=300)
    until(lambda: _told(shim, path(), MAX_CHILDREN), "the folder to be named")
    before = message(shim, paths.controller, ControllerState).cycles
    until(lambda: message(shim, paths.controller, ControllerState).cycles > before + 2, "cycles to go on")
    assert not first.logged("cycle failed; retrying next period")
    first.stop()
    second = start(settings(shared_zookeeper.hosts))
    until(lambda: len(second.logged("leading")) >= 2, "the next one to lead over it")
    until(lambda: message(shim, paths.controller, ControllerState).epoch >= 2, "its first cycle")
    assert _told(shim, path(), MAX_CHILDREN)
    shim.client.delete(path(), recursive=True)


def _told(shim: ShimDouble, path: str, most: int) -> bool:
    problems: list[str] = message(shim, shim.paths.controller, ControllerState).problems
    return any(p.startswith(f"{path}: it has ") and f"more than {most}" in p for p in problems)
