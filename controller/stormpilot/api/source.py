"""Where the routes read and write: a ZooKeeper session of their own, so that no request stands before a cycle's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from stormpilot import clock
from stormpilot.api.board import ProcessStatus
from stormpilot.api.health import LeaderSeen
from stormpilot.api.problems import ProblemError
from stormpilot.config import Config
from stormpilot.config.reload import Reload
from stormpilot.errors import StormpilotError, UnreachableError
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import decode
from stormpilot.model.values import Model
from stormpilot.observe.reader import Reader
from stormpilot.operate import Operator
from stormpilot.operate.pauses import pauses
from stormpilot.operate.status import gather
from stormpilot.operate.views import proposals
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

FRESH_S = 1.0
"""However many ask, ZooKeeper is read as a whole at most once in this time."""
CONNECT_S = 1.0


class Source:
    """State that the handlers of one process share.

    Attributes
    ----------
    config
        The configuration in force; replaced as a whole when it is read again.
    """

    def __init__(
        self,
        config: Config,
        board: ProcessStatus,
        zookeeper: ZooKeeper,
        reload: Reload | None = None,
        now_ms: Callable[[], int] = clock.now_ms,
    ):
        self.config = config
        self.board = board
        self.paths = Paths(config.zookeeper.root)
        self.reload = reload
        self._zookeeper = zookeeper
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._kept: tuple[float, dict[str, Any] | StormpilotError] | None = None
        self._reader = Reader(zookeeper, self.paths)
        """Under the lock, as it keeps what it has decoded."""

    @property
    def zookeeper(self) -> ZooKeeper:
        """The session; `UnreachableError` at once when it is not connected."""
        if not self._zookeeper.wait_connected(CONNECT_S):
            raise UnreachableError(f"ZooKeeper at {self._zookeeper.hosts} is away")
        return self._zookeeper

    def status(self) -> dict[str, Any]:
        """The status as `stormpilot status -f json` prints it, at most `FRESH_S` old.

        What was readable once and is not any more is shown as it was, with the problem, as the controller has it.
        """
        with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] > FRESH_S:
                answer: dict[str, Any] | StormpilotError
                try:
                    answer = self._gather()
                except StormpilotError as e:
                    answer = e
                self._kept = (time.monotonic(), answer)
            kept = self._kept[1]
        if isinstance(kept, StormpilotError):
            raise kept
        return kept

    def leader(self) -> LeaderSeen:
        """The age of what the leader wrote last, from its znode alone: probes ask for it every few seconds."""
        path = self.paths.controller
        try:
            (node,) = self.zookeeper.read([path])
            if node is None:
                return LeaderSeen()
            state = decode(node.data, ControllerState, path)
        except StormpilotError as e:
            return LeaderSeen(why_not=f"whose state cannot be read: {e}")
        return LeaderSeen(name=state.controller, age_s=(self._now_ms() - state.written_at_ms) / 1000)

    def model(self) -> Model:
        """The model of the last cycle, with the rates measured; `ProblemError` 503 where that was not our cycle."""
        board = self.board
        if board.part != "leading":
            who = "nobody leads yet"
            if board.leader:
                who = f"{board.leader} leads; ask the API on {board.leader.partition(':')[0]}"
            raise ProblemError(503, "NOT_LEADING", f"{board.name} measures nothing: {who}")
        last = board.last
        found = None if last is None else last.model
        if found is None:
            raise ProblemError(
                503, "NO_MODEL", "there is no model yet: no cycle is over, or no snapshot of the cluster"
            )
        return found

    def forget(self) -> None:
        """Something was changed: the next status is read again."""
        with self._lock:
            self._kept = None

    def operator(self, who: str = "", why: str = "", dry_run: bool = False) -> Operator:
        """Somebody who acts, or only looks."""
        return Operator(self.zookeeper, self.paths, who, why, dry_run)

    def _gather(self) -> dict[str, Any]:
        zookeeper, reader = self.zookeeper, self._reader
        seen = reader.read()
        paused = pauses(zookeeper, self.paths, seen.paused)
        proposed = proposals(zookeeper, self.paths, seen)
        reports, problems = reader.read_loads(sorted(seen.topologies))
        if self.board.part == "standby" and seen.contenders:
            self.board.leader = seen.contenders[0]
        hosts, problems = self.config.zookeeper.hosts, {**seen.problems, **problems}
        return gather(hosts, self.paths, seen, reports, problems, self._now_ms(), paused, proposed)
