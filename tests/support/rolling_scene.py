"""A topology whose plans are carried out by rolling moves, under a controller that puts executors where a test says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from scene import PATHS, Scene, until
from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.messages.rollouts import Rollout
from stormpilot.operate import Operator

SETTINGS: dict[str, Any] = {
    "cycle": {"period_s": 2, "poll_s": 1},
    "load": {"window_s": 6, "settle_s": 2},
    "decide": {
        "mode": "act",
        "move_strategy": "rolling",
        "consecutive_hits": 1,
        "cool_down_s": 5,
        "overload_s": 3600,
    },
    "rollout": {
        "task_refresh_s": 3,
        "step_interval_s": 1,
        "peer_limit_ratio": 1,
        "drain_timeout_s": 300,
        "start_timeout_s": 600,
    },
    "api": {"enabled": False},
}
"""Of a cluster with quick timings; what is waited for may take long on a busy machine."""
ROLLOUT_S = 900.0


class RollingScene(Scene):
    """A controller that puts executors where `place` said last, and a topology that can be routed."""

    @property
    def placement(self) -> Path:
        return self.folder / "placement.json"

    def place(self, **workers: list[str]) -> None:
        """Node and number of the slot -> executors; the first has what is not named."""
        nodes = dict(zip("abc", self.cluster.description.supervisors, strict=True))
        wanted = {f"{nodes[w[0]].id}:{nodes[w[0]].slots[int(w[1])]}": names for w, names in workers.items()}
        whole = self.placement.with_suffix(".new")
        whole.write_text(json.dumps(wanted))
        whole.rename(self.placement)

    def configure(self) -> None:
        """Write the controller's configuration."""
        settings = {"zookeeper": {"hosts": self.cluster.zookeeper_hosts}} | SETTINGS
        self.config.write_bytes(msgspec.json.encode(settings))

    def lead(self) -> None:
        self.start_controller([sys.executable, "-m", "doubles.placing_controller", self.config, self.placement])
        until(self.leads, "the controller to lead")

    def operator(self) -> Operator:
        return Operator(self.zookeeper, PATHS, "test")

    def rollout(self) -> Rollout | None:
        found: Rollout | None = self.message(PATHS.rollout(self.topology_id), Rollout)
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

    def reporting(self, *components: str) -> dict[str, int]:
        """How many tasks of each of these components report."""
        found: dict[str, int] = {}
        for t in self.loads():
            if t.component in components:
                found[t.component] = found.get(t.component, 0) + 1
        return found

    def of(self, component: str) -> TaskLoad:
        """What the only task of a component reported last."""
        (found,) = [t for t in self.loads() if t.component == component]
        return found

    def nodes_of(self, *components: str) -> dict[int, str | None]:
        """Supervisor of every executor of these components."""
        snapshot: TopologySnapshot = self.message(PATHS.topology(self.topology_id), TopologySnapshot)
        return {e.start: e.supervisor for e in snapshot.executors if e.component in components}
