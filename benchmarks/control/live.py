"""A real local cluster with controllers of its own: what the soak and `benchmarks/react` have in common."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.demo.measure import Watcher
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.core import HistoryEntry, decode
from stormpilot.zookeeper.client import connect
from stormpilot.zookeeper.paths import Paths

ROOT = Path(__file__).resolve().parents[2]
STORMPILOT = Path(sys.executable).with_name("stormpilot")
PATHS = Paths()


class Controller:
    """A controller process that can be killed, frozen and started anew."""

    def __init__(self, name: str, config: Path, log: Path) -> None:
        self.name, self._config, self._log = name, config, log
        self.process = self._started()

    @property
    def pid(self) -> int:
        """Process id of the present process."""
        return self.process.pid

    def restart(self) -> None:
        """Start it again after it was killed."""
        self.process = self._started()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal: SIGSTOP, SIGCONT, SIGKILL."""
        self.process.send_signal(number)
        if number is signal.SIGKILL:
            self.process.wait()

    def stop(self) -> None:
        """End it, whatever its state."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen([STORMPILOT, "run", self._config], cwd=ROOT, stdout=log, stderr=log)


def take_down(
    cluster: LocalCluster | None, controller: Controller | None = None, watcher: Watcher | None = None
) -> None:
    """End what a benchmark started, its cluster first: whoever interrupts it may not wait until the others have ended.

    None: it was not started yet.
    """
    try:
        if cluster is not None:
            cluster.down()
    finally:
        if controller is not None:
            controller.stop()
        if watcher is not None:
            watcher.close()


def history(hosts: str, topology_id: str) -> list[HistoryEntry]:
    """The published plans of a topology that are kept, oldest first."""
    zookeeper = connect(hosts)
    try:
        folder = PATHS.plan_history(topology_id)
        (names,) = zookeeper.children([folder])
        paths = [f"{folder}/{name}" for name in sorted(names)]
        nodes = zookeeper.read(paths)
        return [decode(n.data, HistoryEntry, p) for n, p in zip(nodes, paths, strict=True) if n is not None]
    finally:
        zookeeper.stop()


def write_config(file: Path, settings: Mapping[str, Any]) -> Path:
    """A `controller.yaml` (JSON is YAML)."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(settings), indent=1))
    return file


def rss_mb(pid: int) -> float:
    """Resident memory of a process and its children, MB; 0 when it is gone."""
    total = 0.0
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) / 1024
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += rss_mb(int(child))
    return total


def live_heap_mb(pid: int) -> float | None:
    """Live objects on a JVM's heap after a full collection, MB; None when it cannot be asked."""
    done = subprocess.run(["jmap", "-histo:live", str(pid)], capture_output=True, text=True, check=False, timeout=60)
    lines = [line for line in done.stdout.splitlines() if line.startswith("Total")]
    return int(lines[-1].split()[2]) / 1e6 if done.returncode == 0 and lines else None


def lose_host(cluster: LocalCluster, supervisor: str) -> None:
    """A supervisor and what runs on its host end at once, as with the power."""
    cluster.kill_daemon(supervisor)
    for worker in cluster.workers():
        if worker.supervisor == supervisor:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
