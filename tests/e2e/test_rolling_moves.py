"""A whole plan by rolling moves on a real cluster: every executor that can be routed moves, and nobody notices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolling_scene import ROLLOUT_S, RollingScene
from scene import PATHS, REPOSITORY, scene_on, until
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.routes import Routes
from stormpilot.submit import submit_topology

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

PROJECT = REPOSITORY / "tests" / "integration" / "routes" / "project"
MOVED = ("forward", "tally")


class Rolling(RollingScene):
    """A topology whose spout stops where a file is."""

    @property
    def stop_file(self) -> Path:
        return self.folder / "stop"

    def submit_rolled(self) -> None:
        """Submit it and wait until every task reports."""
        options = {"keys.stop.file": str(self.stop_file), "topology.message.timeout.secs": 300}
        nimbus = f"{self.cluster.nimbus_host}:{self.cluster.nimbus_port}"
        self.topology_id = submit_topology(PROJECT, "rolled", options=options, nimbus=nimbus, routable=True)
        wanted = {"keys": 1, "forward": 2, "tally": 2}
        until(lambda: self.reporting(*wanted) == wanted, "every task to report")

    def moving(self) -> bool:
        """Whether a step is under way."""
        m = self.rollout()
        return m is not None and m.phase == "moving"


@pytest.fixture
def rolling(tmp_path: Path) -> Iterator[Rolling]:
    """What is routed runs on nodes of its own, far from the spout; the controller knows a better place."""
    with scene_on(
        ClusterSpec(name=f"rolling-{os.getpid()}", supervisors=3, slots=4, cpu_points=400, conf=PATIENT),
        tmp_path,
        Rolling,
    ) as scene:
        scene.configure()
        scene.place(a0=[], b0=["forward:0", "tally:0"], c0=["forward:1", "tally:1"])
        scene.lead()
        scene.submit_rolled()
        yield scene


def test_a_plan_is_carried_out_without_a_restart_that_anybody_notices_though_the_controller_is_killed(
    rolling: Rolling,
) -> None:
    """What cannot be routed keeps its process, no tuple fails, and in the end all get tuples."""
    before = rolling.nodes_of(*MOVED)
    spout = rolling.of("keys")
    rolling.place(a0=[], a1=["forward:0", "tally:0"], a2=["forward:1", "tally:1"])

    until(rolling.moving, "a step to be under way")
    assert rolling.controller is not None
    rolling.controller.kill()
    rolling.controller.wait(300)
    rolling.lead()

    def over() -> bool:
        m = rolling.rollout()
        return m is not None and not m.running

    until(over, "the rollout to end", ROLLOUT_S)
    m = rolling.rollout()
    assert m is not None
    assert (m.outcome, m.step + 1, len(m.steps)) == ("DONE", 2, 2), m.text
    until(rolling.applied, "the plan to be applied")

    after = rolling.nodes_of(*MOVED)
    assert len(after) == 4
    assert all(after[e] != before[e] for e in after)
    assert len(set(after.values())) == 1
    assert rolling.of("keys").pid == spout.pid
    table: Routes = rolling.message(PATHS.routes(rolling.topology_id), Routes)
    assert {c.component: (c.active, c.draining) for c in table.components} == {
        c: (sorted(t for t in after if t in [x.task for x in rolling.loads() if x.component == c]), []) for c in MOVED
    }
    folder = PATHS.plan_history(rolling.topology_id)
    names = rolling.zookeeper.children([folder])[0]
    entries = [rolling.message(f"{folder}/{n}", HistoryEntry) for n in names]
    assert [(e.reason, e.rollout_of) for e in entries[-2:]] == [("GAIN", m.entry.plan.plan_id), ("GAIN", "")]

    rolling.stop_file.touch()
    until(lambda: rolling.of("keys").completed == rolling.of("keys").emitted, "every tuple to be acked")
    end = rolling.of("keys")
    assert end.failed == 0
    assert end.emitted > spout.emitted


@pytest.mark.long
def test_what_is_killed_in_the_middle_of_a_step_and_submitted_again_starts_anew(
    rolling: Rolling,
) -> None:
    """What the old topology left (it goes after ten minutes) concerns nobody: the new one gets its own plan."""
    rolling.place(a0=[], a1=["forward:0", "tally:0"], a2=["forward:1", "tally:1"])
    until(rolling.moving, "a step to be under way")
    old, mark = rolling.topology_id, rolling.log.stat().st_size
    rolling.kill_topology(old)
    until(lambda: not rolling.exists(PATHS.topology(old)), "Nimbus to forget it: the double places one of a kind")
    rolling.submit_rolled()
    assert rolling.topology_id != old
    wanted = {rolling.cluster.description.supervisors[0].id}
    until(lambda: set(rolling.nodes_of(*MOVED).values()) == wanted, "the new one to be where it is wanted", ROLLOUT_S)
    until(rolling.applied, "its own plan to be applied")
    assert not rolling.logged("cycle failed", mark)
    rolling.stop_file.touch()
    until(lambda: rolling.of("keys").completed == rolling.of("keys").emitted, "every tuple to be acked")
    assert rolling.of("keys").failed == 0
