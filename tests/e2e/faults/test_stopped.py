"""Processes that stand still for a while, a network that is slow or partitioned, and a full disk under ZooKeeper."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from invariants import invariants
from scene import PATHS, Scene, until
from slow_proxy import SlowProxy

LOG_BYTES = 4096


def stopped(scene: Scene, pids: Sequence[int], seconds: float) -> None:
    """Stop processes (SIGSTOP) for so long; nobody's worker may end or start meanwhile."""
    before = scene.workers()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:  # the fault itself
            assert scene.workers() == before
            time.sleep(1)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def running(scene: Scene, daemon: str) -> int:
    pid = scene.cluster.pid(daemon)
    assert pid is not None
    return pid


def test_a_supervisor_that_stands_still_for_40_s_keeps_its_workers(scene: Scene) -> None:
    supervisor = min(s for s, _ in scene.workers())
    with invariants(scene):
        stopped(scene, [running(scene, supervisor)], 40)
        scene.rounds(5)
        scene.cycles(3)
        until(scene.applied, "the plan to be in force")


def test_all_workers_that_stand_still_for_20_s_go_on_where_they_were(scene: Scene) -> None:
    with invariants(scene):
        stopped(scene, list(scene.workers().values()), 20)
        scene.rounds(5)
        scene.cycles(3)
        until(scene.applied, "the plan to be in force")


def test_a_nimbus_that_stands_still_for_60_s_takes_nobody_for_lost(scene: Scene) -> None:
    """Its ZooKeeper session expires meanwhile; heartbeats are older than that when it goes on."""
    with invariants(scene):
        stopped(scene, [running(scene, "nimbus")], 60)
        until(lambda: scene.cluster.leading_nimbus() is not None, "Nimbus to lead again")
        scene.rounds(10)
        scene.cycles(3)
        until(scene.applied, "the plan to be in force")


@contextmanager
def proxied(scene: Scene) -> Iterator[list[SlowProxy]]:
    """The controller reaches each ZooKeeper through a proxy, and directly again afterwards."""
    scene.stop_controller()
    config = scene.config.read_text()
    with ExitStack() as opened:
        proxies = [
            SlowProxy((d.host, d.port), seed=n) for n, d in enumerate(scene.cluster.description.of_kind("zookeeper"))
        ]
        for proxy in proxies:
            opened.callback(proxy.close)
        hosts = ",".join(p.address for p in proxies)
        scene.config.write_text(config.replace(scene.cluster.zookeeper_hosts, hosts))
        try:
            scene.start_controller()
            until(scene.leads, "the controller to lead through the proxies")
            yield proxies
        finally:
            scene.stop_controller()
            scene.config.write_text(config)


def test_a_zookeeper_that_answers_slowly_and_drops_connections_costs_time_only(scene: Scene) -> None:
    plan = scene.plan()
    with invariants(scene), proxied(scene) as proxies:
        for proxy in proxies:
            proxy.delay_s, proxy.drop_ratio = 0.2, 0.02
        until(lambda: sum(p.dropped for p in proxies) >= 3, "connections to be dropped")
        scene.cycles(3)
        assert scene.controller is not None
        assert scene.controller.poll() is None
        assert scene.plan() == plan


def test_a_controller_cut_off_from_zookeeper_and_nimbus_is_down_and_leads_again(scene: Scene) -> None:
    with invariants(scene), proxied(scene) as proxies:
        before, plan = scene.state(), scene.plan()
        assert before is not None
        for proxy in proxies:
            proxy.cut()
        until(lambda: not scene.leads(), "status to notice that no controller leads")
        scene.rounds(5)
        assert scene.applied()
        for proxy in proxies:
            proxy.mend()
        until(lambda: (s := scene.state()) is not None and s.epoch > before.epoch, "it to lead with a new epoch")
        scene.cycles(3)
        assert scene.plan() == plan


def test_a_full_disk_under_all_zookeepers_loses_nothing_that_was_acknowledged(scene: Scene) -> None:
    """A limit on the size of files stands for the disk: every write behind it fails.

    A server then writes no more, and its process may stay: somebody has to start it again.
    """
    plan = scene.read(PATHS.plan(scene.topology_id))
    daemons = [d.id for d in scene.cluster.description.of_kind("zookeeper")]
    with invariants(scene):
        for daemon in daemons:
            resource.prlimit(running(scene, daemon), resource.RLIMIT_FSIZE, (LOG_BYTES, LOG_BYTES))
        until(lambda: not scene.leads(), "status to notice that nobody can write")
        scene.rounds(5)
        for daemon in daemons:
            if scene.cluster.pid(daemon) is not None:
                scene.cluster.kill_daemon(daemon)
        scene.cluster.start_zookeeper()
        until(scene.leads, "a controller to lead")
        scene.cycles(3)
        until(scene.applied, "the plan to be in force")
    assert scene.read(PATHS.plan(scene.topology_id)) == plan
