"""A real cluster with a topology under a plan of ours.

Used by the end-to-end tests: they share one cluster, and each leaves it as it found it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from kazoo.exceptions import NoNodeError

from stormpilot.config import LoadSection
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import (
    ClusterSnapshot,
    HistoryEntry,
    PlanMessage,
    StatusMessage,
    TopologySnapshot,
    decode,
)
from stormpilot.model.values import Model
from stormpilot.nimbus import Nimbus
from stormpilot.observe.build import build
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths
from waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
STORMPILOT = Path(sys.executable).with_name("stormpilot")
PATHS = Paths()
SUBMITTER = "debug.simple.transport.user"
"""The user for whom Nimbus takes everybody, where nobody has to prove who he is."""
ROUND_S = 1
"""`nimbus.monitor.freq.secs` of the cluster."""
MISSED_SOON = {
    "nimbus.task.launch.secs": 60,
    "nimbus.task.timeout.secs": 12,
    "nimbus.supervisor.timeout.secs": 12,
    "blacklist.scheduler.tolerance.count": 100_000,
}
"""`conf` of a cluster that misses a lost host within seconds, or a minute where its workers have just been started.

Within less, a worker that is slow to start on a busy machine counts as lost: its start is given up, and begun again on
another port, for ever."""

Slot = tuple[str, int]


@dataclass
class Scene:
    """The cluster, its topology, and the controller that runs now."""

    cluster: LocalCluster
    folder: Path
    topology_id: str = ""
    zookeeper: ZooKeeper = field(init=False)
    controller: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.zookeeper = ZooKeeper(self.cluster.zookeeper_hosts)
        self.zookeeper.start()
        assert self.zookeeper.wait_connected(300)

    @property
    def config(self) -> Path:
        """The controller's configuration."""
        return self.folder / "controller.yaml"

    def configure(self, decide: str) -> None:
        """Configure a controller with short cycles and windows, and this section `decide`."""
        self.config.write_text(
            f'zookeeper: {{hosts: "{self.cluster.zookeeper_hosts}"}}\n'
            "cycle: {period_s: 2, poll_s: 1}\n"
            "load: {window_s: 10, settle_s: 5}\n"
            "planner: {budget_s: 2}\n"
            f"decide: {decide}\n"
            "new_supervisors: {enabled: false}\n"
            "api: {enabled: false}\n"
        )

    @property
    def log(self) -> Path:
        """The controller's log."""
        return self.folder / "controller.log"

    def start_controller(self, command: Sequence[str | Path] = ()) -> None:
        """Start a controller, or another command in its place."""
        with self.log.open("ab") as log:
            self.controller = subprocess.Popen(
                [*command] or [STORMPILOT, "run", self.config],
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                env=os.environ
                | {"PYTHONPATH": f"{REPOSITORY}/controller:{REPOSITORY}/tests:{REPOSITORY}/tests/support"},
            )

    def stop_controller(self) -> None:
        """End it as an operator would."""
        if self.controller is not None and self.controller.poll() is None:
            self.controller.terminate()
            self.controller.wait(300)

    def submit(self, project_topology: str, name: str, **options: Any) -> str:
        """Submit one of the example topologies under this name; its id."""
        return submit_topology(
            REPOSITORY / "topologies",
            project_topology,
            "local",
            override_name=name,
            options=options,
            nimbus=f"{self.cluster.nimbus_host}:{self.cluster.nimbus_port}",
        )

    def submits_as(self, user: str) -> None:
        """Another Nimbus, for which this user submits what is submitted from now on."""
        file = self.cluster.layout.conf / "nimbus.yaml"
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {SUBMITTER: user}))
        self.cluster.kill_nimbus()
        self.cluster.start_nimbus()

    def kill_topology(self, topology_id: str) -> None:
        """Kill a topology at once and wait until no worker of it is left, and its name is free."""
        name = topology_id.rsplit("-", 2)[0]
        with Nimbus.connect(self.cluster.nimbus_address) as nimbus:
            nimbus.kill(name, wait_s=0)
            until(lambda: not self.workers(topology_id), f"{topology_id} to end")
            until(lambda: nimbus.find(name) is None, f"Nimbus to forget {name}")

    def workers(self, topology_id: str | None = None) -> dict[Slot, int]:
        """Process id of every worker by slot."""
        wanted = topology_id or self.topology_id
        return {(w.supervisor, w.port): w.pid for w in self.cluster.workers() if w.topology_id == wanted}

    def started(self, topology_id: str | None = None) -> bool:
        """Whether each of its workers has written its process id.

        One that Storm's supervisor ends before that is lost to it, and goes on where nobody placed it (2.8.3).
        """
        data = self.cluster.layout.data
        return all(any(data.glob(f"*/workers/*/pids/{pid}")) for pid in self.workers(topology_id).values())

    def read(self, path: str) -> bytes:
        """A znode's data."""
        return self.zookeeper.client.get(path)[0]

    def exists(self, path: str) -> bool:
        """Whether there is such a znode."""
        return self.zookeeper.client.exists(path) is not None

    def write(self, path: str, data: bytes) -> None:
        """Write over a znode, or make one, as a careless hand would."""
        client = self.zookeeper.client
        if not client.exists(path):
            client.create(path, data, makepath=True)
        else:
            client.set(path, data)

    def message(self, path: str, kind: type[Any]) -> Any:
        """A znode as a message; None where there is none."""
        try:
            return decode(self.read(path), kind, path)
        except NoNodeError:
            return None

    def shim_says(self, topology_id: str | None = None) -> StatusMessage | None:
        """What the scheduler in Nimbus reports."""
        found: StatusMessage | None = self.message(PATHS.status(topology_id or self.topology_id), StatusMessage)
        return found

    def state(self) -> ControllerState | None:
        """What the leading controller wrote last."""
        found: ControllerState | None = self.message(PATHS.controller, ControllerState)
        return found

    def view(self) -> TopologyView | None:
        """What the leading controller wrote last of the topology."""
        state = self.state()
        return next((v for v in state.topologies if v.id == self.topology_id), None) if state else None

    def reason(self) -> str | None:
        """The reason that it gave last for the topology."""
        view = self.view()
        return None if view is None else view.reason

    def history(self) -> list[HistoryEntry]:
        """Plans that were published for the topology, oldest first."""
        folder = PATHS.plan_history(self.topology_id)
        names = sorted(self.zookeeper.client.get_children(folder)) if self.exists(folder) else []
        return [self.message(f"{folder}/{n}", HistoryEntry) for n in names]

    def plan(self, topology_id: str | None = None) -> PlanMessage | None:
        """The published plan."""
        found: PlanMessage | None = self.message(PATHS.plan(topology_id or self.topology_id), PlanMessage)
        return found

    def host_of(self, supervisor: str) -> str:
        """The host of a supervisor (id)."""
        return next(s.host for s in self.cluster.description.supervisors if s.id == supervisor)

    def placed(self) -> dict[int, Slot]:
        """Where Nimbus says that executors run: start task -> slot; those without one are left out."""
        snapshot: TopologySnapshot = self.message(PATHS.topology(self.topology_id), TopologySnapshot)
        return {
            e.start: (e.supervisor, e.port)
            for e in snapshot.executors
            if e.supervisor is not None and e.port is not None
        }

    def components(self) -> dict[int, str]:
        """Executors (start tasks) -> components, as the plug-in last wrote it."""
        snapshot: TopologySnapshot = self.message(PATHS.topology(self.topology_id), TopologySnapshot)
        return {e.start: e.component for e in snapshot.executors}

    def settings(self) -> dict[str, bytes]:
        """Every operator's setting, byte for byte."""
        found: dict[str, bytes] = {}
        pending = [f"{PATHS.base}/settings"]
        while pending:
            path = pending.pop()
            try:
                found[path], _ = self.zookeeper.client.get(path)
                pending += [f"{path}/{child}" for child in self.zookeeper.client.get_children(path)]
            except NoNodeError:
                continue
        return found

    def status(self) -> tuple[int, Any]:
        """Exit code and parsed output of `stormpilot status -f json` (its text where it is not JSON)."""
        done = subprocess.run(
            [STORMPILOT, "status", "-f", "json", "--zookeeper", self.cluster.zookeeper_hosts],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            return done.returncode, done.stdout + done.stderr

    def logged(self, text: str, since: int = 0) -> bool:
        """Whether the controller's log says so, from this many bytes on."""
        return text in self.log.read_bytes()[since:].decode(errors="replace")

    def told(self) -> str:
        """For the report of a test that failed: the end of the controller's log, the workers, who is placed where."""
        log = self.log.read_text(errors="replace").splitlines()[-30:] if self.log.exists() else ["no controller ran"]
        by_slot: defaultdict[Slot, list[int]] = defaultdict(list)
        for start, slot in sorted(self.placed().items()):
            by_slot[slot].append(start)
        return "\n".join([*(line[:240] for line in log), f"workers {self.workers()}", f"placed {dict(by_slot)}"])

    # --- conditions ---------------------------------------------------------------------------------------------------

    def applied(self, topology_id: str | None = None) -> bool:
        """Whether the published plan is in force."""
        status, plan = self.shim_says(topology_id), self.plan(topology_id)
        return status is not None and plan is not None and (status.state, status.plan_id) == ("applied", plan.plan_id)

    def leads(self) -> bool:
        """Whether a controller leads and cycles."""
        code, shown = self.status()
        return code == 0 and bool(shown["controller"]["up"])

    def cycles(self, n: int) -> None:
        """Wait until the controller has run so many more cycles."""
        first = self.state()
        before = (first.controller, first.cycles) if first else ("", 0)

        def done() -> bool:
            now = self.state()
            return now is not None and (now.controller != before[0] or now.cycles >= before[1] + n)

        until(done, f"{n} cycles")

    def rounds(self, n: int) -> None:
        """Let Nimbus schedule so many times."""
        end = time.monotonic() + n * (ROUND_S + 0.5)
        while time.monotonic() < end:
            assert self.cluster.pid("nimbus") is not None
            time.sleep(0.5)

    def model(self) -> Model:
        """The cluster and its topologies as the plug-in wrote them, without any measurement."""
        ids = self.zookeeper.client.get_children(PATHS.topology())
        snapshots = {i: self.message(PATHS.topology(i), TopologySnapshot) for i in ids}
        cluster: ClusterSnapshot = self.message(PATHS.cluster, ClusterSnapshot)
        return build(cluster, {i: s for i, s in snapshots.items() if s}, {}, LoadSection(), 1.0, 0).model


Kind = TypeVar("Kind", bound=Scene)


@contextmanager
def scene_on(spec: ClusterSpec, folder: Path, kind: type[Kind]) -> Iterator[Kind]:
    """A scene on a cluster of its own; in `folder` are the controller's files and, afterwards, Storm's logs."""
    cluster = LocalCluster.up(spec)
    try:
        scene = kind(cluster, folder)
        try:
            yield scene
        finally:
            scene.stop_controller()
            scene.zookeeper.stop()
    finally:
        cluster.down()
        shutil.move(cluster.layout.logs, folder / "storm")
        cluster.down(purge=True)


def groups(placed: dict[int, Slot]) -> set[tuple[str, frozenset[int]]]:
    """Who runs together, and where, whatever the port."""
    return {(slot[0], frozenset(e for e, at in placed.items() if at == slot)) for slot in set(placed.values())}
