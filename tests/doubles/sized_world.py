"""ZooKeeper, a cluster and a running topology whose size is changed, for `operate.resizing`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import T0_MS, cluster, topology
from sizing_problems import model, problem
from stormpilot.config import LoadSection
from stormpilot.messages.core import (
    ClusterSnapshot,
    ExecutorPart,
    Message,
    PlanMessage,
    State,
    StatusMessage,
    TopologySnapshot,
    decode,
    encode,
)
from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.nimbus import RunningTopology
from stormpilot.operate.resizing import Resizing, resizing
from stormpilot.sizing.allocation import allocate
from stormpilot.zookeeper.client import Node
from stormpilot.zookeeper.paths import Paths

Kind = TypeVar("Kind", bound=Message)
PATHS = Paths()
PI = model("pi", (1, 100.0, 0.9, 0.2), (2, 110.0, 0.95, 0.2))
PROBLEM = problem([PI], [("source", "pi", 1.0)])
SLOT = PROBLEM.slot
TASKS = {"source": (1, 1), "pi": (2, 7), "__acker": (8, 8)}


def running(threads: Mapping[str, int], workers: int = 2) -> TopologySnapshot:
    parts = []
    for component, (first, last) in TASKS.items():
        each, larger = divmod(last - first + 1, threads[component])
        ends = [first + each * i + min(i, larger) for i in range(threads[component] + 1)]
        parts += [
            ExecutorPart(start=a, end=b - 1, component=component, supervisor="a", port=6700) for a, b in pairwise(ends)
        ]
    return topology(name="t", workers=workers, executors=parts)


class World:
    """ZooKeeper with a cluster and a topology, and a Nimbus that rebalances at once and applies what is published."""

    def __init__(
        self,
        *,
        slots: int = 1,
        nodes: str = "abcd",
        reports: Collection[int] = (2, 5),
        part: float = 1.0,
        declared: Mapping[str, float] | None = None,
        host: Mapping[str, float] | None = None,
        **of_topology: Any,
    ) -> None:
        self.zookeeper = MemoryZooKeeper(lambda: T0_MS)
        ports = list(range(6700, 6700 + slots))
        has = declared or {"cpu_pcore_percent": 100.0 * slots * part, "memory_mb": SLOT.memory_mb * slots}
        self.put(PATHS.cluster, cluster(*nodes, ports=ports, **has))
        self.snapshot = msgspec.structs.replace(running({"source": 1, "pi": 2, "__acker": 1}), **of_topology)
        self.id = self.snapshot.id
        self.put(PATHS.topology(self.id), self.snapshot)
        if reports:
            loads = [
                TaskLoad(
                    task=t,
                    component="pi",
                    host="host-a",
                    mhz=SLOT.cpu_mhz,
                    pid=1,
                    start_ms=T0_MS,
                    seq=1,
                    at_ms=T0_MS,
                    cpu_s=1.0,
                    **(host or {}),
                )
                for t in reports
            ]
            report = LoadReport(topology_id=self.id, reporter="collector-9", seq=1, written_at_ms=T0_MS, tasks=loads)
            self.put(PATHS.load(self.id, "collector-9"), report)
        self.rebalanced: list[tuple[int, int | None, dict[str, int] | None]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.waits = False
        """Nimbus rebalances once the plug-in has looked at a plan for that, and not at once."""
        self._on_its_way = self.snapshot
        self.said: list[tuple[str, str]] = []
        """Plans and their states, by round."""
        self.nimbus_conf: dict[str, str] = {}
        self.status: dict[str, str | None] = {}
        """By topology id; None: Nimbus has it no more. All others are active."""

    def put(self, path: str, message: Message) -> None:
        self.zookeeper.put(path, encode(message))

    def size(self, rate_tps: float, load: LoadSection | None = None, key: bytes | None = None) -> Resizing:
        allocation = allocate(PROBLEM, rate_tps, "mba")
        return resizing(self.zookeeper, PATHS, self, PROBLEM, allocation, "t", "sam", load=load, key=key)  # type: ignore[arg-type]

    def carry_out(self, change: Resizing) -> str | None:
        return change.carry_out(self, wait_s=3, timeout_s=5, by="ann", tell=lambda _: None)  # type: ignore[arg-type]

    def plan(self) -> PlanMessage:
        """The plan that is in force."""
        (node,) = self.zookeeper.read([PATHS.plan(self.id)])
        assert node is not None
        return decode(node.data, PlanMessage, "plan")

    # --- what is used of Nimbus ---------------------------------------------------------------------------------------

    def topologies(self) -> list[RunningTopology]:
        (ids,) = self.zookeeper.children([PATHS.topology()])
        status = dict.fromkeys(ids, "ACTIVE") | self.status
        return [RunningTopology(i, i.split("-")[0], s, 1, 1, 1, 1) for i, s in status.items() if s is not None]

    def conf(self) -> dict[str, str]:
        return self.nimbus_conf

    def rebalance(self, name: str, wait_s: int, workers: int, executors: dict[str, int] | None) -> None:
        self.rebalanced.append((wait_s, workers, executors))
        made = running({"source": 1, "pi": 2, "__acker": 1} | (executors or {}), workers)
        if self.waits:
            self._on_its_way = made
        else:
            self.put(PATHS.topology(self.id), made)
        self.zookeeper.before_commit = self.apply_later
        self.meanwhile()

    def apply_later(self) -> None:
        """The plug-in applies what is being published."""

        def read(paths: list[str], *rest: object, **more: object) -> list[object]:
            self._round(original)
            return list(original(paths))

        original = MemoryZooKeeper.read.__get__(self.zookeeper)
        self.zookeeper.read = read  # type: ignore[method-assign,assignment]

    def _round(self, read: Callable[[list[str]], list[Node | None]]) -> None:
        """Decide on the plan; where it waits for the rebalance, that comes in the next round."""

        def found(path: str, kind: type[Kind]) -> Kind | None:
            (node,) = read([path])
            return None if node is None else decode(node.data, kind, path)

        plan, nodes = found(PATHS.plan(self.id), PlanMessage), found(PATHS.cluster, ClusterSnapshot)
        if plan is None or nodes is None:
            return
        if self.waits and (plan.plan_id, "waiting") in self.said:
            self.put(PATHS.topology(self.id), self._on_its_way)
        (ids,) = self.zookeeper.children([PATHS.topology()])
        alive = [found(PATHS.topology(i), TopologySnapshot) for i in ids if self.status.get(i, "") is not None]
        running = {t.id: t.executors for t in alive if t is not None}
        now = [(e.start, e.end) for e in running.pop(self.id)]
        taken = {(e.supervisor, e.port) for others in running.values() for e in others}
        live = {s.id for s in nodes.supervisors}
        state: State = "applied"
        if sorted(e for w in plan.workers for e in w.executors) != sorted(now):
            state = "waiting" if plan.based_on.rebalance_s else "rejected"
        elif any(w.supervisor not in live or (w.supervisor, w.port) in taken for w in plan.workers):
            state = "rejected"
        self.said.append((plan.plan_id, state))
        status = StatusMessage(
            topology_id=self.id, plan_id=plan.plan_id, state=state, code="OK", since_ms=0, written_at_ms=0
        )
        self.put(PATHS.status(self.id), status)
