"""The compose cluster as tests see it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stormpilot
from scene import until

OURS = {
    service: f"stormpilot/{name}:{stormpilot.__version__}"
    for service, name in (("nimbus", "storm"), ("controller", "controller"))
}
"""A service of each of our images, and the image."""


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=300, check=False)
    return done.stdout.strip()


def _image(name: str) -> str:
    """An image's id; empty if there is none of that name."""
    return _docker("images", "-q", "--no-trunc", name)


BUILD_S = 2400.0
"""Packages are downloaded and planners compiled: minutes, on a busy machine many."""


@dataclass
class Stack:
    """A project of docker-compose.yml; `applied_after_s` is from `up` to the first applied plan, images built."""

    repository: Path
    project: str
    applied_after_s: float = 0.0
    profiles: tuple[str, ...] = ("demo",)
    _compose: list[str] = field(init=False)
    _containers: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
        command = ["docker", "compose"] if plugin else [shutil.which("docker-compose") or "docker-compose"]
        profiles = [x for p in self.profiles for x in ("--profile", p)]
        self._compose = [*command, "-p", self.project, *profiles]

    def compose(
        self, *arguments: str, timeout_s: float = 600.0, check: bool = True, profiles: tuple[str, ...] = ()
    ) -> str:
        """Run a compose command in the repository, with these profiles too; its stdout."""
        done = subprocess.run(
            [*self._compose, *(x for p in profiles for x in ("--profile", p)), *arguments],
            cwd=self.repository,
            env=os.environ | {"STORMPILOT_PORT": "0"},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout

    def build(self) -> None:
        """Build our images, at once, and remove what they take the place of."""
        assert list((self.repository / "dist").glob("*.whl")), "images are made of dist/: run make dist"
        before = {i: _image(i) for i in OURS.values()}
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda service: self.compose("build", service, timeout_s=BUILD_S), OURS))
        for name, old in before.items():
            if old and old != _image(name):
                _docker("rmi", old)

    def up(self) -> None:
        """Start everything, of images that are built, and wait for the first applied plan."""
        started = time.monotonic()
        self.compose("up", "-d")
        until(lambda: self.applied("flights"), "a plan for flights to be applied")
        self.applied_after_s = time.monotonic() - started
        out = self.repository / "build"
        out.mkdir(exist_ok=True)
        (out / "compose-up.json").write_text(json.dumps({"up_to_applied_s": round(self.applied_after_s, 1)}) + "\n")

    def down(self) -> None:
        """End it and remove its volumes; where a test failed before, its logs are in build/compose.log."""
        (self.repository / "build").mkdir(exist_ok=True)
        log = self.compose("logs", "--no-color", "--tail=200", check=False)
        (self.repository / "build" / "compose.log").write_text(log)
        self.compose("down", "-v", "--remove-orphans", "-t", "5")

    # --- looking ------------------------------------------------------------------------------------------------------

    def container(self, service: str) -> str:
        """Id of a service's container, running or not, by its labels: compose needs ten times as long."""
        if not self._containers.get(service):
            labels = {"project": self.project, "service": service, "oneoff": "False"}
            wanted = [x for k, v in labels.items() for x in ("--filter", f"label=com.docker.compose.{k}={v}")]
            self._containers[service] = _docker("ps", "-aq", "--no-trunc", *wanted)
        return self._containers[service]

    def inside(self, service: str, *command: str, check: bool = True) -> str:
        """The stdout of a command in a service's container, by `docker exec`: compose needs ten times as long."""
        done = subprocess.run(
            ["docker", "exec", self.container(service), *command],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout

    def status(self) -> dict[str, Any]:
        """`stormpilot status -f json` by the controller's container; empty while it does not answer."""
        try:
            return dict(json.loads(self.inside("controller", "stormpilot", "status", "-f", "json", check=False)))
        except ValueError:
            return {}

    def topology(self, name: str) -> dict[str, Any]:
        """A row of `status`; empty while there is none."""
        return next((t for t in self.status().get("topologies", []) if t["name"] == name), {})

    def applied(self, name: str) -> bool:
        """Whether every executor runs where the newest plan wants it."""
        t = self.topology(name)
        return bool(t) and t["state"] == "applied" and t["statePlan"] == t["plan"] and t["unplaced"] == 0

    def runs(self, name: str) -> bool:
        """Whether every executor runs: as planned, or where the plug-in put it when its supervisor was lost."""
        t = self.topology(name)
        return bool(t) and t["state"] in ("applied", "degraded") and t["unplaced"] == 0

    def znode(self, path: str) -> Any:
        """A message in ZooKeeper, read in the controller's container."""
        return self._zookeeper(
            f"n = z.read(['{path}'])[0]; d = n.data if n else b'null'; "
            "out(gzip.decompress(d) if d[:2] == b'\\x1f\\x8b' else d)"
        )

    def children(self, path: str) -> list[str]:
        """Names of what is below a path in ZooKeeper; none if there is no such path."""
        return list(self._zookeeper(f"out(json.dumps(z.children(['{path}'])[0]).encode())"))

    def _zookeeper(self, program: str) -> Any:
        """The JSON that a program writes with `out` in the controller's container, where `z` is its ZooKeeper."""
        begin = "import gzip, json, sys; from stormpilot.zookeeper.client import connect"
        program = f"{begin}; z = connect('zookeeper:2181'); out = sys.stdout.buffer.write; {program}; z.stop()"
        return json.loads(self.inside("controller", "python", "-c", program))

    def _executors(self) -> list[tuple[str, int]]:
        """Host and port of every executor of `flights`, as the plug-in wrote it; host "" for none."""
        cluster = self.znode("/stormpilot/v1/cluster")
        host = {s["id"]: s["host"] for s in cluster["supervisors"]}
        snapshot = self.znode(f"/stormpilot/v1/topologies/{self.topology('flights')['id']}")
        return [(host.get(e.get("supervisor") or "", ""), e.get("port") or 0) for e in snapshot["executors"]]

    def hosts(self) -> dict[str, int]:
        """Executors of `flights` by the host that they run on; key "" for none."""
        return dict(Counter(host for host, _ in self._executors()))

    def busiest(self) -> str:
        """The host with most executors of `flights`."""
        counts = self.hosts()
        return max((host for host in counts if host), key=lambda host: counts[host])

    def supervisors(self) -> set[str]:
        """Hosts of the supervisors that Nimbus knows."""
        return {s["host"] for s in self.znode("/stormpilot/v1/cluster")["supervisors"]}

    def workers(self) -> dict[str, list[str]]:
        """Worker JVMs by service: pid and start time in ticks, which a restarted worker changes."""
        program = (
            'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline 2>/dev/null | '
            'grep -q "org.apache.storm.daemon.worker.Worker " && '
            '! tr "\\0" " " <$p/cmdline | grep -q LogWriter && echo "${p#/proc/} $(cut -d" " -f22 $p/stat)"; done; true'
        )
        return {
            s: sorted(self.inside(s, "bash", "-c", program).split("\n")[:-1])
            for s in ("supervisor-1", "supervisor-2", "supervisor-3")
        }

    def workers_run(self) -> bool:
        """Whether every slot of the placement has its worker."""
        placed, running = Counter(host for host, _ in set(self._executors())), self.workers()
        return all(len(running.get(host, ())) >= slots for host, slots in placed.items())
