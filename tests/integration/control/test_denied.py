"""A controller whose login may not write: it goes on asking, says why in a sentence, and acts when it may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl, make_digest_acl

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, topology
from stormpilot.config import Config
from stormpilot.errors import RefusedError
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.observe.reports import Reports
from stormpilot.zookeeper.client import MAY_NOT_READ, DeniedError, ZooKeeper, connect
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Delete, Put

from .conftest import SPREAD, Controller, message

pytestmark = pytest.mark.zookeeper
Start = Callable[[Config], Controller]
Play = Callable[[str, ClusterSnapshot], ShimDouble]
Settings = Callable[..., Config]
OTHERS = [make_digest_acl("somebody", "else", all=True), *READ_ACL_UNSAFE]


def allow(hosts: str, path: str, allowed: bool, others: Sequence[ACL] = OTHERS) -> None:
    """Whether everybody may write there, or somebody else alone; `others`: who may do what then.

    By a client of its own: to add a login to one whose other threads have requests under way breaks its connection.
    """
    somebody = KazooClient(hosts=hosts, auth_data=[("digest", "somebody:else")])
    somebody.start(timeout=60)
    try:
        somebody.set_acls(path, OPEN_ACL_UNSAFE if allowed else others)
    finally:
        somebody.stop()
        somebody.close()


def traces(controller: Controller) -> list[Any]:
    """Lines that have a traceback."""
    return [x for x in list(controller.lines) if x.get("exc_info")]


@pytest.mark.parametrize(
    ("closed", "data", "said"),
    [
        ("epoch", b"1", "set zookeeper.auth_file or .jaas_file to the login"),  # it is elected, and may not lead
        ("leader", b"", "refuses {} to us"),  # it asked again at once, for ever, and took that for a lost connection
    ],
)
def test_a_controller_without_rights_to_lead_says_so_and_stays_a_candidate(
    closed: str,
    data: bytes,
    said: str,
    shared_zookeeper: LocalZooKeeper,
    start: Start,
    play: Play,
    settings: Settings,
    paths: Paths,
) -> None:
    path = getattr(paths, closed)
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.client.create(path, data, makepath=True)
    allow(shared_zookeeper.hosts, path, False)
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: len(controller.logged("cannot lead; rejoining election")) >= 2, "it to try again")
    assert said.format(path) in str(controller.logged("cannot lead; rejoining election")[0]["why"])
    assert controller.running
    assert controller.logged("ZooKeeper connection lost") == traces(controller) == []
    allow(shared_zookeeper.hosts, path, True)
    until(lambda: controller.logged("leading"), "it to lead")


def test_a_quota_that_is_used_up_is_a_sentence_wherever_it_is_met(
    tmp_path: Path, start: Start, settings: Settings, paths: Paths
) -> None:
    with LocalZooKeeper(tmp_path, settings=["enforceQuota=true"]) as server:
        admin = connect(server.hosts)
        quota = f"/zookeeper/quota{paths.root}"
        admin.put(f"{paths.base}/x", b"")
        admin.put(f"{quota}/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3")
        admin.put(f"{quota}/zookeeper_stats", b"count=3,bytes=0")
        controller = start(settings(server.hosts))
        until(lambda: controller.logged("cannot lead; rejoining election"), "it to try")
        said = str(controller.logged("cannot lead; rejoining election")[0]["why"])
        assert "QuotaExceededError: a quota above it is used up" in said
        assert traces(controller) == []
        for write in (
            lambda: admin.put(f"{paths.base}/y", b""),
            lambda: admin.commit([Put(f"{paths.base}/y", b"", None)]),
        ):
            with pytest.raises(RefusedError, match=f"refuses {paths.base}/y: QuotaExceededError: a quota above it"):
                write()
        admin.put(f"{quota}/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1")
        until(lambda: controller.logged("leading"), "it to lead")
        controller.stop()
        admin.stop()


def test_a_denied_write_is_a_sentence_in_each_cycle_and_over_when_it_is_allowed(
    shared_zookeeper: LocalZooKeeper, start: Start, play: Play, settings: Settings, paths: Paths
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: shim.client.exists(paths.controller), "a first cycle")
    allow(shared_zookeeper.hosts, paths.controller, False)
    until(lambda: len(controller.logged("cycle failed; retrying next period")) >= 2, "cycles to fail")
    assert f"refuses {paths.controller} to us" in str(controller.logged("cycle failed; retrying next period")[0]["why"])
    assert traces(controller) == []
    before: ControllerState = message(shim, paths.controller, ControllerState)
    allow(shared_zookeeper.hosts, paths.controller, True)
    until(lambda: message(shim, paths.controller, ControllerState).cycles > before.cycles, "it to write again")


def test_reports_that_only_their_writer_may_read_are_named_and_end_no_reading(
    shared_zookeeper: LocalZooKeeper, paths: Paths
) -> None:
    """This ZooKeeper does not even tell how large they are."""
    zookeeper = connect(shared_zookeeper.hosts)
    writer = KazooClient(hosts=shared_zookeeper.hosts, auth_data=[("digest", "somebody:else")])
    closed, open_ = paths.load("closed-1-1"), paths.load("open-1-1", "x")
    try:
        writer.start(timeout=60)
        writer.ensure_path(paths.load("open-1-1"))
        writer.create(open_, b"\0", acl=CREATOR_ALL_ACL)
        writer.create(closed, b"", acl=CREATOR_ALL_ACL)
        with pytest.raises(DeniedError):
            zookeeper.stats([closed])
        read = Reports(zookeeper, paths).read(["closed-1-1", "open-1-1"])
    finally:
        for client in (zookeeper, writer):
            client.stop()
    assert read.over_limit == {"closed-1-1": MAY_NOT_READ}
    assert read.problems[open_] == f"{open_}: {MAY_NOT_READ}"


def test_what_denies_us_goes_from_a_folder_of_ours_however_often_it_was_written(
    shared_zookeeper: LocalZooKeeper, paths: Paths
) -> None:
    """Its version, which nobody may read, was taken for that of one that was never written again."""
    zookeeper, path = connect(shared_zookeeper.hosts), paths.proposal("flights-1-1")
    try:
        for _ in range(3):
            zookeeper.put(path, b"{}")
        allow(shared_zookeeper.hosts, path, False, OTHERS[:1])
        (node,) = zookeeper.read([path], keep_denied=True)
        assert node is not None
        with pytest.raises(DeniedError):
            zookeeper.commit([Put(path, b"{}", node.version)])
        zookeeper.commit([Delete(path, node.version)])
        assert zookeeper.read([path]) == [None]
    finally:
        zookeeper.stop()


def test_with_a_login_of_the_controllers_own_storms_daemons_read_what_it_publishes(
    shared_zookeeper: LocalZooKeeper,
) -> None:
    storm, pilot = (make_digest_acl(user, "p", all=True) for user in ("storm", "pilot"))
    nimbus, anybody = (KazooClient(hosts=shared_zookeeper.hosts, auth_data=a) for a in ([("digest", "storm:p")], []))
    mine = ZooKeeper(shared_zookeeper.hosts, login=Login("pilot:p", readers=(tuple(storm.id),)))
    try:
        nimbus.start(timeout=60)
        anybody.start(timeout=60)
        mine.start()
        mine.require_connected(60)
        nimbus.create("/own")
        nimbus.create("/own/plans", acl=[make_acl(*storm.id, read=True, delete=True), pilot])
        mine.commit([Put("/own/plans/t", b"plan", None)])
        assert nimbus.get("/own/plans/t")[0] == b"plan"
        for other in (nimbus, anybody):
            with pytest.raises(NoAuthError):
                other.set("/own/plans/t", b"another")
        with pytest.raises(NoAuthError):
            anybody.get("/own/plans/t")
        nimbus.delete("/own/plans/t")
    finally:
        mine.stop()
        for client in (nimbus, anybody):
            client.stop()
            client.close()
