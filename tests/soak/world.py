"""The world of a soak: a local Storm cluster, two controllers behind proxies, and two small topologies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from scene import PATHS, REPOSITORY, STORMPILOT, Scene, until
from slow_proxy import SlowProxy
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.core import TopologySnapshot
from stormpilot.submit import submit_topology

SPEC = ClusterSpec(
    name="soak",
    supervisors=4,
    slots=3,
    zookeepers=3,
    cpu_points=400,
    conf={
        "nimbus.monitor.freq.secs": 1,
        "nimbus.task.launch.secs": 60,
        "nimbus.task.timeout.secs": 30,
        "nimbus.supervisor.timeout.secs": 30,
        "supervisor.worker.timeout.secs": 60,
        "supervisor.worker.start.timeout.secs": 180,
        "topology.message.timeout.secs": 120,
        "blacklist.scheduler.tolerance.count": 100_000,
    },
)
"""A lost host is missed within half a minute; no fault stops a process for so long."""
CONTROLLER = {
    "cycle": {"period_s": 2, "poll_s": 1},
    "load": {"window_s": 10, "settle_s": 3},
    "planner": {"budget_s": 1},
    "decide": {
        "mode": "act",
        "consecutive_hits": 1,
        "cool_down_s": 15,
        "repair_cool_down_s": 5,
        "rejected_retry_s": 5,
        "gain_threshold_ratio": 0.05,
        "rollback_hold_s": 20,
        "discard_hold_s": 20,
        "restart_s": 2,
        "payback_s": 36_000,
    },
    "rollout": {"task_refresh_s": 3, "step_interval_s": 1, "drain_timeout_s": 60, "start_timeout_s": 120},
    "api": {"enabled": False},
}
ROUTED = REPOSITORY / "tests" / "integration" / "routes" / "project"


@dataclass(frozen=True)
class Job:
    """A topology that can be submitted again and again under its name."""

    name: str
    project: Path
    topology: str
    environment: str | None
    routable: bool
    options: dict[str, object]
    components: tuple[str, ...]


JOBS = (
    Job(
        "words",
        REPOSITORY / "topologies",
        "wordcount_comm",
        "standby",
        routable=False,
        options={"topology.workers": 2, "wordcount.rate.tps": 20, "stormpilot.report.secs": 1},
        components=("sentences", "split", "count"),
    ),
    Job(
        "rolled",
        ROUTED,
        "rolled",
        None,
        routable=True,
        options={"topology.workers": 2, "keys.stop.file": "/nonexistent", "stormpilot.report.secs": 1},
        components=("keys", "forward", "tally"),
    ),
)


@dataclass
class Controller:
    """A controller process whose way to ZooKeeper leads through proxies of its own."""

    name: str
    folder: Path
    proxies: list[SlowProxy]
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Its log, over all its processes."""
        return self.folder / f"controller-{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Its process, where it runs."""
        return None if self.process is None or self.process.poll() is not None else self.process.pid

    def start(self) -> None:
        """Start it, where it does not run."""
        if self.pid is not None:
            return
        config = self.folder / f"controller-{self.name}.yaml"
        hosts = ",".join(p.address for p in self.proxies)
        own = {"traffic_log": {"dir": str(self.folder / f"traffic-{self.name}")}}
        zookeeper = {"zookeeper": {"hosts": hosts, "session_timeout_s": 5}}
        config.write_bytes(msgspec.json.encode(CONTROLLER | own | zookeeper))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [STORMPILOT, "run", config],
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                env=os.environ | {"PYTHONPATH": f"{REPOSITORY}/controller"},
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, where it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(60)

    def stop(self) -> None:
        """End it as an operator would."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self.process is not None:
            self.process.wait(120)


@dataclass
class SoakScene(Scene):
    """A scene with two controllers and several topologies."""

    controllers: list[Controller] = field(default_factory=list)

    def start(self) -> None:
        """Start the controllers and submit the topologies."""
        for name in ("one", "two"):
            servers = self.cluster.description.of_kind("zookeeper")
            proxies = [SlowProxy((d.host, d.port), seed=n) for n, d in enumerate(servers)]
            self.controllers.append(Controller(name, self.folder, proxies))
            self.controllers[-1].start()
        until(self.leads, "a controller to lead")
        for job in JOBS:
            self.submit_job(job)
        until(lambda: all(self.applied(i) for i in self.ids().values()), "first plans to be applied")

    def submit_job(self, job: Job) -> None:
        """Submit a topology under its name."""
        submit_topology(
            job.project,
            job.topology,
            job.environment,
            override_name=job.name,
            options=job.options,
            nimbus=f"{self.cluster.nimbus_host}:{self.cluster.nimbus_port}",
            routable=job.routable,
        )

    def snapshots(self) -> dict[str, TopologySnapshot]:
        """What runs, as the plug-in wrote it, by id."""
        ids = self.zookeeper.children([PATHS.topology()])[0]
        found = {i: self.message(PATHS.topology(i), TopologySnapshot) for i in ids}
        return {i: s for i, s in found.items() if s is not None}

    def ids(self) -> dict[str, str]:
        """Ids of what runs, by name."""
        return {s.name: i for i, s in self.snapshots().items()}

    def leader(self) -> Controller | None:
        """The controller that wrote its state last."""
        state = self.state()
        pid = None if state is None else int(state.controller.rpartition(":")[2])
        return next((c for c in self.controllers if c.pid == pid), None)

    def others(self) -> list[Controller]:
        """The controllers that do not lead."""
        leader = self.leader()
        return [c for c in self.controllers if c is not leader]

    def stop_all(self) -> None:
        """End the controllers and their proxies."""
        for controller in self.controllers:
            controller.stop()
            for proxy in controller.proxies:
                proxy.close()


@contextlib.contextmanager
def world(folder: Path, name: str) -> Iterator[SoakScene]:
    """The world, running; its cluster is gone afterwards, its logs are in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = LocalCluster.up(msgspec.structs.replace(SPEC, name=name), print)
    try:
        scene = SoakScene(cluster, folder)
        try:
            scene.start()
            yield scene
        finally:
            scene.stop_all()
            scene.zookeeper.stop()
    finally:
        cluster.down()
        with contextlib.suppress(OSError):
            cluster.layout.logs.rename(folder / "storm")
        cluster.down(purge=True)
