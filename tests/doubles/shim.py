"""The scheduler plug-in and a running topology, played against a real ZooKeeper.

The double does what the real one promises in `storm-plugin/README.md`, as far as the controller can see it: it writes
snapshots, checks plans (checksum, epoch, slots), applies a whole round at once, and reports. Ten times a second every
placed task of `snapshots.py` writes a load report.
"""

from __future__ import annotations

import threading
import time

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from doubles import snapshots
from stormpilot.errors import UsageError
from stormpilot.messages.core import (
    ClusterSnapshot,
    Message,
    PlanMessage,
    StatusMessage,
    TopologySnapshot,
    decode,
    encode,
)
from stormpilot.zookeeper.paths import Paths
from waiting import until

__all__ = ["ShimDouble", "until"]


class ShimDouble:
    """Plays Nimbus and the topologies until closed; `applied` lists the plan ids that were applied, in order."""

    def __init__(self, hosts: str, cluster: ClusterSnapshot, paths: Paths | None = None):
        self.paths = paths or Paths()
        self.applied: list[str] = []
        self.refused: list[str] = []
        self.silent = False
        self._cluster = cluster
        self._topologies: dict[str, TopologySnapshot] = {}
        self._epoch_seen = 0
        self._seconds: dict[str, float] = {}
        self._process: dict[tuple[str, int], int] = {}
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self.client = KazooClient(hosts=hosts, timeout=60)  # what a busy machine holds up costs no session
        self.client.start(timeout=300)
        self.write(self.paths.cluster, cluster)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the play."""
        self._stop.set()
        self._thread.join(10)
        self.client.stop()
        self.client.close()

    # --- what happens in the cluster ----------------------------------------------------------------------------------

    def submit(self, topology: TopologySnapshot) -> None:
        """A topology appears, placed or not."""
        with self._lock:
            self._topologies[topology.id] = topology
            self._seconds[topology.id] = 1.0
            self.write(self.paths.topology(topology.id), topology)
            if topology.assigned_since_ms:
                self._say(topology.id, None, "fallback", "NO_PLAN")
            else:
                self._say(topology.id, None, "waiting", "WAITING_FOR_PLAN")

    def change_cluster(self, cluster: ClusterSnapshot) -> None:
        """Supervisors come or go."""
        with self._lock:
            self._cluster = cluster
            self.write(self.paths.cluster, cluster)

    def remember_epoch(self, epoch: int) -> None:
        """The plug-in has seen this epoch, and says so."""
        with self._lock:
            self._epoch_seen = epoch
            shim = msgspec.structs.replace(self._cluster.shim, epoch_seen=epoch)
            self.change_cluster(msgspec.structs.replace(self._cluster, shim=shim))

    def place(self, topology_id: str, place: snapshots.Place) -> TopologySnapshot:
        """The topology runs elsewhere from now on; executors that changed slot start anew."""
        with self._lock:
            old = self._topologies[topology_id]
            executors = []
            for e in old.executors:
                supervisor, port = place.get(e.start) or (None, None)
                if (supervisor, port) != (e.supervisor, e.port):
                    self._process[topology_id, e.start] = self._process.get((topology_id, e.start), 0) + 1
                executors.append(msgspec.structs.replace(e, supervisor=supervisor, port=port))
            new = msgspec.structs.replace(
                old, executors=executors, version=old.version + 1, assigned_since_ms=int(time.time() * 1000)
            )
            self._topologies[topology_id] = new
            self.write(self.paths.topology(topology_id), new)
            return new

    def degrade(self, topology_id: str, place: snapshots.Place) -> None:
        """Executors were lost and placed anew."""
        with self._lock:
            self.place(topology_id, place)
            plan = self._read_plan(topology_id)
            self._say(topology_id, plan, "degraded", "SUPERVISOR_LOST")

    def placement(self, topology_id: str) -> dict[int, tuple[str | None, int | None]]:
        """Where every executor runs."""
        with self._lock:
            return {e.start: (e.supervisor, e.port) for e in self._topologies[topology_id].executors}

    # --- what the plug-in and the collector do ------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            if self.silent or not self.client.connected:
                continue
            try:
                with self._lock:
                    for topology_id in list(self._topologies):
                        self._report(topology_id)
                    self._round()
            except (KazooException, OSError):
                continue  # ZooKeeper is stopped in some tests

    def _report(self, topology_id: str) -> None:
        topology = self._topologies[topology_id]
        placed = tuple(e.start for e in topology.executors if e.supervisor and e.start in snapshots.REPORTING)
        if not placed:
            return
        self._seconds[topology_id] += 0.1
        report = snapshots.report(self._seconds[topology_id], name=topology.name, tasks=placed)
        now_ms = int(time.time() * 1000)
        tasks = []
        for load in report.tasks:
            process = self._process.get((topology_id, load.task), 0)
            start_ms = snapshots.T0_MS + process
            tasks.append(msgspec.structs.replace(load, pid=load.pid + 1000 * process, start_ms=start_ms, at_ms=now_ms))
        report = msgspec.structs.replace(report, tasks=tasks, written_at_ms=now_ms)
        self.write(self.paths.load(topology_id, report.reporter), report)

    def _round(self) -> None:
        for topology_id in list(self._topologies):
            path = self.paths.plan(topology_id)
            if not self.client.exists(path):
                continue
            try:
                plan = self._read_plan(topology_id)
            except UsageError as e:
                if self._last(topology_id) != ("rejected", "MALFORMED"):
                    self._say(topology_id, None, "rejected", "MALFORMED", str(e))
                continue
            if plan is None or plan.plan_id in self.applied or plan.plan_id in self.refused:
                continue
            members = [self._read_plan(t) for t in plan.plan_set_topologies]
            if any(m is None or m.plan_set != plan.plan_set for m in members):
                continue  # the rest of the round is still to come
            refusal = next((r for m in members if m and (r := self._refusal(m))), None)
            for member in (m for m in members if m is not None):
                if refusal:
                    self.refused.append(member.plan_id)
                    self._say(member.topology_id, member, "rejected", *refusal)
                else:
                    self.applied.append(member.plan_id)
                    self._epoch_seen = max(self._epoch_seen, member.epoch)
                    slots = {(w.supervisor, w.port): tuple(s for s, _ in w.executors) for w in member.workers}
                    self.place(member.topology_id, snapshots.everywhere(slots))
                    self._say(member.topology_id, member, "applied", "OK")

    def _refusal(self, plan: PlanMessage) -> tuple[str, str] | None:
        if plan.checksum != plan.expected_checksum():
            return "CHECKSUM", "the checksum does not match the placement"
        if plan.epoch < self._epoch_seen:
            return "EPOCH_OLD", f"epoch {plan.epoch} is older than {self._epoch_seen}"
        ports = {s.id: set(s.ports) for s in self._cluster.supervisors if not s.blacklisted}
        for w in plan.workers:
            if w.port not in ports.get(w.supervisor, set()):
                return "PORT_UNKNOWN", f"{w.supervisor}:{w.port} is no slot"
            for other in self._topologies.values():
                if other.id not in plan.plan_set_topologies and any(
                    (e.supervisor, e.port) == (w.supervisor, w.port) for e in other.executors
                ):
                    return "SLOT_OCCUPIED", f"{w.supervisor}:{w.port} is held by {other.id}"
        wanted = sorted((e.start, e.end) for e in self._topologies[plan.topology_id].executors)
        if sorted(tuple(e) for w in plan.workers for e in w.executors) != wanted:
            return "EXECUTOR_MISSING", "not every executor exactly once"
        return None

    def _read_plan(self, topology_id: str) -> PlanMessage | None:
        path = self.paths.plan(topology_id)
        if not self.client.exists(path):
            return None
        return decode(self.client.get(path)[0], PlanMessage, path)

    def _last(self, topology_id: str) -> tuple[str, str]:
        data, _ = self.client.get(self.paths.status(topology_id))
        status = decode(data, StatusMessage, "status")
        return status.state, status.code

    def _say(self, topology_id: str, plan: PlanMessage | None, state: str, code: str, text: str = "") -> None:
        now_ms = int(time.time() * 1000)
        self.write(
            self.paths.status(topology_id),
            StatusMessage(
                topology_id=topology_id,
                plan_id=None if plan is None else plan.plan_id,
                plan_set=None if plan is None else plan.plan_set,
                state=state,  # type: ignore[arg-type]
                code=code,
                text=text,
                since_ms=now_ms,
                written_at_ms=now_ms,
            ),
        )

    def write(self, path: str, message: Message) -> None:
        """Write a message, whatever is there."""
        self.client.ensure_path(path)
        self.client.set(path, encode(message))
