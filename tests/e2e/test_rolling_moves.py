"""A whole plan by rolling moves on a real cluster: every executor that can be routed moves, and nobody notices."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scene import PATHS, REPOSITORY, Scene, scene_on, until
from stormpilot.local.spec import ClusterSpec
from stormpilot.model.messages import HistoryEntry, TopologySnapshot
from stormpilot.model.migrations import Migration
from stormpilot.model.reports import LoadReport, TaskLoad
from stormpilot.model.routes import Routes
from stormpilot.submit import submit_topology

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

PROJECT = REPOSITORY / "tests" / "integration" / "routes" / "project"
MOVED = ("forward", "tally")


class Rolling(Scene):
    """A controller that puts executors where `placement` says, and a topology that can be routed."""

    @property
    def placement(self) -> Path:
        return self.folder / "placement.json"

    @property
    def stop_file(self) -> Path:
        return self.folder / "stop"

    def place(self, **workers: list[str]) -> None:
        """Node and number of the slot -> executors; the first has what is not named."""
        nodes = dict(zip("abc", self.cluster.description.supervisors, strict=True))
        wanted = {f"{nodes[w[0]].id}:{nodes[w[0]].slots[int(w[1])]}": names for w, names in workers.items()}
        whole = self.placement.with_suffix(".new")
        whole.write_text(json.dumps(wanted))
        whole.rename(self.placement)

    def lead(self) -> None:
        self.start_controller([sys.executable, "-m", "doubles.placing_controller", self.config, self.placement])

    def migration(self) -> Migration | None:
        found: Migration | None = self.message(PATHS.migration(self.topology_id), Migration)
        return found

    def loads(self) -> list[TaskLoad]:
        """What the tasks reported last."""
        newest: dict[int, TaskLoad] = {}
        folder = PATHS.load(self.topology_id)
        for name in self.zookeeper.children([folder])[0]:
            report = self.message(f"{folder}/{name}", LoadReport)
            for t in report.tasks if report else []:
                if t.task not in newest or newest[t.task].at_ms < t.at_ms:
                    newest[t.task] = t
        return list(newest.values())

    def reporting(self) -> dict[str, int]:
        """Tasks by component, but for the collector's."""
        found: dict[str, int] = {}
        for t in self.loads():
            if t.component in ("keys", *MOVED):
                found[t.component] = found.get(t.component, 0) + 1
        return found

    def spout(self) -> TaskLoad:
        (found,) = [t for t in self.loads() if t.component == "keys"]
        return found

    def nodes_of(self, components: tuple[str, ...]) -> dict[int, str | None]:
        snapshot: TopologySnapshot = self.message(PATHS.topology(self.topology_id), TopologySnapshot)
        return {e.start: e.supervisor for e in snapshot.executors if e.component in components}


@pytest.fixture
def rolling(tmp_path: Path) -> Iterator[Rolling]:
    """What is routed runs on nodes of its own, far from the spout; the controller knows a better place."""
    with scene_on(ClusterSpec(name="rolling", supervisors=3, slots=4, cpu_points=400), tmp_path, Rolling) as scene:
        scene.config.write_text(
            f'zookeeper: {{hosts: "{scene.cluster.zookeeper_hosts}"}}\n'
            "cycle: {period_s: 2, poll_s: 1}\n"
            "load: {window_s: 6, settle_s: 2}\n"
            "decide: {mode: act, moves: nonstop, consecutive_hits: 1, reschedule_timeout_s: 5, overload_s: 3600}\n"
            "nonstop: {task_refresh_s: 3, between_s: 1, peer_limit_ratio: 1}\n"
            "api: {enabled: false}\n"
        )
        scene.place(a0=[], b0=["forward:0", "tally:0"], c0=["forward:1", "tally:1"])
        scene.lead()
        until(scene.leads, 90, "the controller to lead")
        options = {"keys.stop.file": str(scene.stop_file), "topology.message.timeout.secs": 60}
        nimbus = f"{scene.cluster.nimbus_host}:{scene.cluster.nimbus_port}"
        scene.topology_id = submit_topology(PROJECT, "rolled", options=options, nimbus=nimbus, routable=True)
        until(lambda: scene.reporting() == {"keys": 1, "forward": 2, "tally": 2}, 90, "every task to report")
        yield scene


def test_a_plan_is_carried_out_without_a_restart_that_anybody_notices_though_the_controller_is_killed(
    rolling: Rolling,
) -> None:
    """What cannot be routed keeps its process, no tuple fails, and in the end all get tuples."""
    before = rolling.nodes_of(MOVED)
    spout = rolling.spout()
    rolling.place(a0=[], a1=["forward:0", "tally:0"], a2=["forward:1", "tally:1"])

    def in_the_middle() -> bool:
        m = rolling.migration()
        return m is not None and m.phase == "moving"

    until(in_the_middle, 90, "a step to be under way")
    assert rolling.controller is not None
    rolling.controller.kill()
    rolling.controller.wait(20)
    rolling.lead()

    def over() -> bool:
        m = rolling.migration()
        return m is not None and not m.running

    until(over, 180, "the migration to end")
    m = rolling.migration()
    assert m is not None
    assert (m.outcome, m.step + 1, len(m.steps)) == ("DONE", 2, 2), m.text
    until(rolling.applied, 30, "the plan to be applied")

    after = rolling.nodes_of(MOVED)
    assert len(after) == 4
    assert all(after[e] != before[e] for e in after)
    assert len(set(after.values())) == 1
    assert rolling.spout().pid == spout.pid
    table: Routes = rolling.message(PATHS.routes(rolling.topology_id), Routes)
    assert {c.component: (c.active, c.draining) for c in table.components} == {
        c: (sorted(t for t in after if t in [x.task for x in rolling.loads() if x.component == c]), []) for c in MOVED
    }
    folder = PATHS.plan_history(rolling.topology_id)
    names = rolling.zookeeper.children([folder])[0]
    entries = [rolling.message(f"{folder}/{n}", HistoryEntry) for n in names]
    assert [(e.reason, e.interim_of) for e in entries[-2:]] == [("GAIN", m.entry.plan.plan_id), ("GAIN", "")]

    rolling.stop_file.touch()
    until(lambda: rolling.spout().completed == rolling.spout().emitted, 60, "every tuple to be acked")
    end = rolling.spout()
    assert end.failed == 0
    assert end.emitted > spout.emitted
