"""What the fault tests share: a real cluster of five supervisors and three ZooKeepers, a topology under our plan."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from scene import PATHS, ROUND_S, Scene, scene_on, until
from stormpilot.local.spec import ClusterSpec

OUTAGE_S = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the cluster, and is one of the faults."""
    for item in items:
        if "e2e/faults" in item.path.as_posix():
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def whole_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Flights in three workers, under a plan of ours that Nimbus has applied."""
    conf = {
        # Nimbus hears no heartbeats while ZooKeeper is away, and must not take workers for dead after the minute.
        "nimbus.task.timeout.secs": OUTAGE_S + 30,
        "nimbus.monitor.freq.secs": ROUND_S,
        # Storm keeps supervisors that were lost out of use for half an hour: the next test needs them.
        "blacklist.scheduler.tolerance.count": 100_000,
    }
    with scene_on(
        ClusterSpec(name=f"faults-{os.getpid()}", supervisors=5, slots=3, zookeepers=3, cpu_points=400, conf=conf),
        tmp_path_factory.mktemp("controller"),
        Scene,
    ) as scene:
        scene.config.write_text(
            f'zookeeper: {{hosts: "{scene.cluster.zookeeper_hosts}"}}\n'
            "cycle: {period_s: 2, poll_s: 1}\n"
            "load: {window_s: 20, settle_s: 5}\n"
            "planner: {name: online, first_plan: default, budget_s: 1}\n"
            # What a fault moves shows only where nothing moves for a gain; after losses no cool-down holds that.
            "decide: {mode: act, cool_down_s: 3600, gain_threshold_ratio: 1.0}\n"
            "new_supervisors: {enabled: false}\n"
            f"traffic_log: {{dir: {scene.folder}/traffic}}\n"
            "api: {enabled: false}\n"
        )
        scene.start_controller()
        until(scene.leads, "the controller to lead: the first plan is then ours as well")
        scene.topology_id = scene.submit("flights", "flights", **{"topology.workers": 3, "flights.rate.tps": 50})
        until(scene.applied, "the first plan to be applied")
        until(lambda: _where_planned(scene), "three workers, where the plan has them")
        until(lambda: _reports(scene), "load reports, which come when the components run")
        yield scene


@pytest.fixture
def scene(whole_scene: Scene) -> Iterator[Scene]:
    """The scene with everything running: cluster, plan applied, controller leading."""
    if whole_scene.controller is None or whole_scene.controller.poll() is not None:
        whole_scene.start_controller()
    until(whole_scene.leads, "a controller to lead")
    until(whole_scene.applied, "the plan to be in force")
    until(lambda: _where_planned(whole_scene), "its workers to run")
    yield whole_scene


def _where_planned(scene: Scene) -> bool:
    """Whether the workers that run are those of the plan: while others start or end, nothing is to be broken."""
    plan = scene.plan()
    return plan is not None and set(scene.workers()) == {(w.supervisor, w.port) for w in plan.workers}


def _reports(scene: Scene) -> bool:
    folder = PATHS.load(scene.topology_id)
    return scene.exists(folder) and bool(scene.zookeeper.client.get_children(folder))
