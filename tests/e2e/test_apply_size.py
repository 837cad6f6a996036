"""A size on a real cluster under a leading controller: the rebalance and the placement restart workers once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scene import STORMPILOT, Scene, Slot, scene_on, until
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.core import Worker

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

NAME = "micro_linear"
WAIT_S = 10
"""So many rounds of Nimbus look at the plan before the rebalance."""
SIZE = {
    "schema": 1,
    "name": NAME,
    "rate_tps": 250,
    "slot": {"cpu_mhz": 50, "memory_mb": 50},
    "vms": [{"name": "node", "slots": 1}],
    "components": [
        {"id": "source", "static": {"threads": 1, "cpu_share": 0.1, "memory_share": 0.1}},
        {"id": "xml", "model": "xml", "inputs": [{"component": "source"}]},
        {"id": "pi", "model": "pi", "inputs": [{"component": "xml"}]},
        {"id": "file", "model": "file", "inputs": [{"component": "pi"}]},
    ],
    "models": [
        {"name": name, "points": [{"threads": 1, "rate_tps": tps, "cpu_share": 0.8, "memory_share": 0.2}]}
        for name, tps in (("xml", 300), ("pi", 100), ("file", 1000))
    ],
}
"""One thread of xml, three of pi, one of file."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A controller that moves nothing for a gain, and the line in two workers by its first plan."""
    with scene_on(
        ClusterSpec(name=f"size-{os.getpid()}", supervisors=4, slots=2, cpu_points=100, conf=PATIENT),
        tmp_path_factory.mktemp("controller"),
        Scene,
    ) as scene:
        scene.configure("{mode: act, consecutive_hits: 100, restart_s: 5, overload_s: 3600}")
        scene.start_controller()
        until(scene.leads, "the controller to lead")
        options = {"topology.workers": 2, "micro.rate.tps": 10, "stormpilot.report.secs": 1}
        scene.topology_id = scene.submit(NAME, NAME, **options)
        yield scene


def ever_used(scene: Scene) -> set[Slot]:
    """Slots in which a worker of the topology ever ran: Storm keeps a folder of logs for each."""
    folders = scene.cluster.layout.logs.glob(f"supervisor-*/workers-artifacts/{scene.topology_id}/*")
    return {(f.parent.parent.parent.name, int(f.name)) for f in folders}


def held(workers: list[Worker]) -> set[tuple[str, frozenset[int]]]:
    return {(w.supervisor, frozenset(start for start, _ in w.executors)) for w in workers}


def test_the_placement_is_in_force_with_the_rebalance(scene: Scene, tmp_path: Path) -> None:
    until(lambda: scene.applied() and len(scene.workers()) == 2 and scene.started(), "its first plan to run")
    former = scene.plan()
    assert former is not None
    scene.cycles(10)  # its workers have reported by then
    used, epoch = ever_used(scene), former.epoch
    file = tmp_path / "size.json"
    file.write_text(json.dumps(SIZE))
    command = [STORMPILOT, "apply-size", file, "--wait", str(WAIT_S), "--yes", "-f", "json"]
    to = ["--nimbus", str(scene.cluster.nimbus_address), "--zookeeper", scene.cluster.zookeeper_hosts]
    ended = subprocess.run([*command, *to], capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr + scene.told()
    answer = json.loads(ended.stdout)

    plan = scene.plan()
    assert plan is not None
    assert (plan.plan_id, plan.epoch) == (answer["planId"], epoch), "the controller leads on"
    assert [e.plan.plan_id for e in scene.history()][-2:] == [former.plan_id, plan.plan_id]
    slots = set(scene.placed().values())
    until(lambda: set(scene.workers()) == slots and scene.started(), "its workers, and no others, to run")
    pids = scene.workers()
    assert ever_used(scene) == used | slots, "nothing ran where Storm's own scheduler would have put it"
    by_slot: dict[Slot, set[int]] = {}
    for start, slot in scene.placed().items():
        by_slot.setdefault(slot, set()).add(start)
    assert {(slot[0], frozenset(starts)) for slot, starts in by_slot.items()} == held(plan.workers)
    nimbus = "".join(f.read_text(errors="replace") for f in scene.cluster.layout.logs.glob("nimbus*/nimbus.log"))
    assert f"rejected plan: topology={scene.topology_id} plan={plan.plan_id}" not in nimbus

    scene.cycles(20)  # a window and more is measured
    assert scene.workers() == pids
    assert scene.plan() == plan, scene.told()
