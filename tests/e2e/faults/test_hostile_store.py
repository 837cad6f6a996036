"""What somebody writes who may write any znode, on a real cluster."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kazoo.exceptions import KazooException, NoNodeError

from doubles.hostile import bombs, hostile
from invariants import invariants
from scene import PATHS, REPOSITORY, Scene, until
from stormpilot.messages.core import ClusterSnapshot

JUTE_BYTES = 0xFFFFF
"""`jute.maxbuffer` where nobody set it: the longest packet that a ZooKeeper server or a client reads."""
SMALL_BYTES = 150_000
"""In every folder they must not fill the servers themselves, which have 128 MB."""
OF_EACH_KIND = 10_000
AT_ONCE = 500
"""Hostile znodes of a kind, and how many of them lie there at the same time, for several rounds and cycles."""


def hostile_paths(n: int) -> list[str]:
    """A znode in every folder that Nimbus or the controller reads."""
    return [
        *(PATHS.plan(f"nobody-{n}-1"), PATHS.topology(f"nobody-{n}-1"), PATHS.status(f"nobody-{n}-1")),
        *(PATHS.mode(f"nobody-{n}"), PATHS.pin(f"nobody-{n}"), PATHS.load(f"nobody-{n}-1", "x")),
        *(PATHS.moves(f"nobody-{n}-1"), PATHS.rollout(f"nobody-{n}-1"), PATHS.request(f"nobody-{n}-1")),
        *(PATHS.hold(f"nobody-{n}-1"), PATHS.thresholds(f"nobody-{n}-1")),
    ]


@contextmanager
def written(scene: Scene, znodes: dict[str, bytes]) -> Iterator[None]:
    """These znodes, for a while."""
    client = scene.zookeeper.client
    for path, data in znodes.items():
        scene.write(path, data)
    try:
        yield
    finally:
        for path in znodes:
            with suppress(NoNodeError):  # Nimbus removes what is of no topology
                client.delete(path)


def goes_on(scene: Scene) -> None:
    """Nimbus schedules, the controller runs its cycles, and the plan is in force."""
    mark = scene.log.stat().st_size
    scene.rounds(5)
    scene.cycles(3)
    assert not scene.logged("cycle failed", mark)
    until(scene.applied, "the plan to be in force")


def problems(scene: Scene) -> set[str]:
    """Znodes that Nimbus says it cannot read."""
    cluster: ClusterSnapshot = scene.message(PATHS.cluster, ClusterSnapshot)
    return {p.path for p in cluster.problems}


def test_bombs_of_every_kind_in_every_folder_are_named_and_cost_nobody_anything(scene: Scene) -> None:
    fitting = [data for _, data in sorted(bombs().items()) if 0 < len(data) < SMALL_BYTES]
    settings = scene.settings()
    with invariants(scene):
        laid = {path: data for n, data in enumerate(fitting) for path in hostile_paths(n)}
        with written(scene, laid):
            until(lambda: problems(scene), "Nimbus to name what it cannot read")
            goes_on(scene)
            assert scene.controller is not None
            scene.controller.send_signal(signal.SIGKILL)
            scene.controller.wait(300)
            scene.start_controller()
            until(scene.leads, "the next controller to lead over them")
            goes_on(scene)
        assert scene.settings() == settings
        until(lambda: not problems(scene), "Nimbus to take back what it said")


def test_znodes_as_large_as_a_packet_may_be_are_left_out_and_larger_ones_are_not_written(scene: Scene) -> None:
    with invariants(scene):
        with written(scene, dict.fromkeys(hostile_paths(0), b"9" * (JUTE_BYTES - 500))):
            until(lambda: problems(scene), "Nimbus to name what it cannot read")
            goes_on(scene)
        try:
            scene.write(PATHS.mode("nobody"), b"9" * (JUTE_BYTES + 500))
            assert not scene.exists(PATHS.mode("nobody")), "the server reads no such packet"
        except KazooException:
            until(lambda: scene.zookeeper.wait_connected(10), "our own connection, which the server closed")
        goes_on(scene)


def kinds(topology_id: str, n: int) -> dict[str, tuple[str, str]]:
    """Kind -> example message, path of its n-th hostile znode: load reports of this topology, the rest of nobody's."""
    p, nobody = PATHS, f"nobody-{n}-1"
    return {
        "load": ("load", p.load(topology_id, f"hostile-{n}")),
        "plans": ("plan", p.plan(nobody)),
        "topologies": ("topology", p.topology(nobody)),
        "status": ("status", p.status(nobody)),
        "moves": ("history", p.moves(nobody)),
        "rollouts": ("rollout", p.rollout(nobody)),
        "routes": ("routes", p.routes(nobody)),
        "keyed": ("keyed", p.keyed(nobody)),
        "requests": ("request", p.request(nobody)),
        "holds": ("hold", p.hold(nobody)),
        "thresholds": ("thresholds", p.thresholds(nobody)),
        "profiles": ("profile", p.profile(nobody)),
        "audit": ("audit", p.audit(f"hostile-{n:010d}")),
        "settings/mode": ("mode", p.mode(f"nobody-{n}")),
        "settings/pause": ("pause", p.pause(f"nobody-{n}")),
        "settings/pin": ("pin", p.pin(f"nobody-{n}")),
        "settings/drain": ("drain", p.drain(f"nobody-{n}")),
        "settings/exclude": ("exclude", p.exclusion(f"nobody-{n}")),
        "settings/thresholds": ("threshold", p.threshold_setting(f"nobody-{n}")),
    }


def test_ten_thousand_hostile_znodes_of_each_kind_end_nobody_and_move_nothing(scene: Scene) -> None:
    client, chance, began_s = scene.zookeeper.client, random.Random(17), time.monotonic()
    honest = {
        kind: (REPOSITORY / "tests" / "contract" / f"{kind}.json").read_bytes() for kind, _ in kinds("", 0).values()
    }
    assert scene.controller is not None
    controller = scene.controller
    with invariants(scene):
        for first in range(0, OF_EACH_KIND, AT_ONCE):
            laid: dict[str, bytes] = {}
            for n in range(first, first + AT_ONCE):
                for example, path in kinds(scene.topology_id, n).values():
                    data = hostile(honest[example], chance)
                    laid[path] = data if len(data) < SMALL_BYTES else data[:SMALL_BYTES]
            for call in [client.create_async(path, data, makepath=True) for path, data in laid.items()]:
                call.get(timeout=300)
            mark = scene.log.stat().st_size
            scene.rounds(3)
            scene.cycles(2)
            assert not scene.logged("cycle failed", mark)
            for call in [client.delete_async(path) for path in laid]:
                with suppress(NoNodeError):  # Nimbus and the controller remove what is of no topology
                    call.get(timeout=300)
        goes_on(scene)
    assert scene.controller is controller
    assert controller.poll() is None
    took_s = time.monotonic() - began_s
    print(f"{OF_EACH_KIND:,} hostile znodes of each of {len(kinds('', 0))} kinds in {took_s:.0f} s")
