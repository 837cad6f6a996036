"""A topology of plain Java classes, in which nothing reports, is measured by its workers and planned like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scene import Scene, until
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.controller_state import TopologyView
from stormpilot.submit.submission import prepare, send

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

PROJECT = Path(__file__).parent / "project"


@pytest.fixture
def scene(hooked: LocalCluster, jar: Path, tmp_path: Path) -> Iterator[Scene]:
    """The topology where Storm's own scheduler put it, and a controller that may act."""
    scene = Scene(hooked, tmp_path)
    scene.config.write_text(
        f'zookeeper: {{hosts: "{hooked.zookeeper_hosts}"}}\n'
        "cycle: {period_s: 2, poll_s: 1}\n"
        "load: {window_s: 10, settle_s: 3}\n"
        "planner: {name: online, first_plan: default, budget_s: 1}\n"
        "decide: {mode: act, consecutive_hits: 1, cool_down_s: 0}\n"
        f"traffic_log: {{dir: {tmp_path}/traffic}}\n"
        "api: {enabled: false}\n"
    )
    submission = prepare(
        PROJECT,
        "java_only",
        options={"topology.workers": 3, "topology.acker.executors": 0, "bench.phases": [[3600, 300]]},
        nimbus=str(hooked.nimbus_address),
        instrument=False,
        override_name="plain-java",
        jar=jar,
    )
    scene.topology_id = send(submission)
    try:
        until(lambda: len(scene.workers()) == 3, "three workers")
        scene.start_controller()
        yield scene
    finally:
        scene.stop_controller()
        scene.kill_topology(scene.topology_id)
        scene.zookeeper.stop()


def view(scene: Scene) -> TopologyView | None:
    state = scene.state()
    return next((t for t in state.topologies if t.id == scene.topology_id), None) if state else None


def test_plain_java_topology_is_measured_planned_and_moved(scene: Scene) -> None:
    def measured() -> bool:
        now = view(scene)
        return now is not None and bool(now.total_tps) and now.missing == 0

    until(measured, "every task to be measured")

    def better() -> bool:
        plan = scene.plan()
        return (
            plan is not None and plan.expected.before.get("inter_node_tps", 0) > plan.expected.after["inter_node_tps"]
        )

    until(better, "a plan with less traffic between nodes than was measured")
    until(scene.applied, "the plan to be applied")
    plan = scene.plan()
    assert plan is not None
    wanted = {start: (w.supervisor, w.port) for w in plan.workers for start, _ in w.executors}
    assert {start: node for start, (node, _) in scene.placed().items()} == {s: node for s, (node, _) in wanted.items()}
    until(measured, "the moved tasks to be measured where they are now")
