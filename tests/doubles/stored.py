"""Messages that a controller has written, as a story reads them back."""

from __future__ import annotations

from typing import TypeVar

from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import HistoryEntry, Message, PlanMessage, decode
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routes import Routes
from stormpilot.zookeeper.paths import Paths

Kind = TypeVar("Kind", bound=Message)


class Stored:
    """Messages in ZooKeeper, by topology id; None where there is none."""

    zookeeper: MemoryZooKeeper
    paths: Paths

    def plan(self, topology_id: str) -> PlanMessage | None:
        return self._read(self.paths.plan(topology_id), PlanMessage)

    def proposal(self, topology_id: str) -> HistoryEntry | None:
        return self._read(self.paths.proposal(topology_id), HistoryEntry)

    def moves(self, topology_id: str) -> MoveState:
        found = self._read(self.paths.moves(topology_id), MoveState)
        assert found is not None
        return found

    def state(self) -> ControllerState:
        found = self._read(self.paths.controller, ControllerState)
        assert found is not None
        return found

    def routes(self, topology_id: str) -> Routes | None:
        return self._read(self.paths.routes(topology_id), Routes)

    def rollout(self, topology_id: str) -> Rollout | None:
        return self._read(self.paths.rollout(topology_id), Rollout)

    def history(self, topology_id: str) -> list[HistoryEntry]:
        (names,) = self.zookeeper.children([self.paths.plan_history(topology_id)])
        entries = (self._read(self.paths.plan_history(topology_id, n), HistoryEntry) for n in names)
        return [e for e in entries if e is not None]

    def _read(self, path: str, kind: type[Kind]) -> Kind | None:
        (node,) = self.zookeeper.read([path])
        return None if node is None else decode(node.data, kind, path)
