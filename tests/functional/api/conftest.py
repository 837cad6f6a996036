"""The application on doubles: ZooKeeper in memory, a cluster with one topology, a controller that leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import plan_message
from doubles.snapshots import T0_MS, cluster, everywhere, report, topology
from stormpilot.api.app import create_app
from stormpilot.api.board import CompletedCycle, ProcessStatus
from stormpilot.api.metrics import Metrics
from stormpilot.api.source import Source
from stormpilot.api.tokens import Role, new_token
from stormpilot.config import ApiSection, Config, LoadSection, NotifySection
from stormpilot.config.reload import Reloaded
from stormpilot.decide.decision import Decision
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import HistoryEntry, StatusMessage, Worker, encode, plan_checksum
from stormpilot.observe.build import build
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import Reader
from stormpilot.zookeeper.paths import Paths

API = "/api/v1"
ID = "flights-1-1763690000"
NOW_MS = T0_MS + 100_000
NAME = "n1:7"
SLOTS = {("a", 6700): (1, 2, 3), ("b", 6700): (4, 5, 6)}
BETTER = [Worker(supervisor="a", port=6700, executors=[(t, t) for t in range(1, 7)])]
URL = "https://hooks:pw@example.org/services/T000/secret?key=1"


class Store(MemoryZooKeeper):
    """ZooKeeper in memory that may be away."""

    hosts = "memory:2181"
    up = True

    def wait_connected(self, timeout_s: float) -> bool:
        return self.up


class Api:
    """The application with what is behind it; `tokens` are by role. Its clock stands still."""

    def __init__(self, folder: Path, **section: Any):
        self.tokens = {r.name: new_token(f"ann-{r.name}", r) for r in Role}
        file = folder / "tokens"
        file.write_text("# who\n" + "\n".join(line for _, line in self.tokens.values()) + "\n")
        file.chmod(0o600)
        given = {"tokens_file": str(file), **section}
        self.config = Config(api=ApiSection(**given), notify=NotifySection(url=URL))
        self.zookeeper = Store(lambda: NOW_MS)
        self.paths = Paths()
        self.clock_s = 0.0
        self.board = ProcessStatus(NAME, lambda: self.zookeeper.up, lambda: 2, lambda: self.clock_s)
        self.metrics = Metrics(self.board, limit_s=lambda: 130, now_ms=lambda: NOW_MS)
        self.reloads = 0
        self.source = Source(self.config, self.board, self.zookeeper, self._reload, lambda: NOW_MS)
        self.app: Litestar = create_app(self.source, self.metrics)

    def _reload(self, dry_run: bool) -> Reloaded:
        self.reloads += 1
        return Reloaded(["cycle.period_s"], ["api.port"])

    def client(self, role: str | None = None, address: str = "10.0.0.9") -> TestClient[Any]:
        """A client at that address, with the token of that role."""

        async def from_there(scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "client": (address, 4000)}, receive, send)

        client = TestClient(from_there, base_url="http://127.0.0.1:8470", raise_server_exceptions=False)
        if role is not None:
            client.headers["Authorization"] = f"Bearer {self.tokens[role][0]}"
        return client

    def run(self) -> None:
        """A cluster with a topology that a controller looks after: it advises to move three executors."""
        put, p = self.zookeeper.put, self.paths
        put(p.cluster, encode(cluster("a", "b")))
        put(p.topology(ID), encode(topology(everywhere(SLOTS))))
        checksum = plan_checksum(ID, "p-1", "r-1", 1, BETTER)
        plan = plan_message(plan_id="p-1", topology_id=ID, workers=BETTER, checksum=checksum)
        entry = HistoryEntry(plan=plan, reason="GAIN", text="falls by 100%", moved_executors=3)
        put(p.proposal(ID), encode(entry))
        put(f"{p.leader}/x__lock__0000000001", NAME.encode())
        status = StatusMessage(topology_id=ID, state="fallback", code="NO_PLAN", since_ms=T0_MS, written_at_ms=T0_MS)
        put(p.status(ID), encode(status))
        put(p.load(ID, "collector-6"), encode(report(97.0)))
        view = TopologyView(
            id=ID,
            name="flights",
            mode="advise",
            action="advise",
            reason="GAIN",
            text="inter-node traffic falls by 100%",
            value=1.0,
            threshold=0.1,
            inter_node_tps=100.0,
            inter_node_share=0.5,
            total_tps=200.0,
            planned_inter_node_tps=0.0,
            reports_age_s=3.0,
        )
        state = ControllerState(
            controller=NAME,
            version="0.1.0",
            epoch=3,
            started_at_ms=T0_MS,
            written_at_ms=NOW_MS - 5000,
            period_s=30,
            cycles=9,
            planner="best",
            sentence="proposed plan: topology=flights",
            topologies=[view],
            counters={"log_rows_written": 7, "load_rejected_negative": 2},
        )
        put(p.controller, encode(state))
        seen = Reader(self.zookeeper, p).read()
        assert seen.cluster is not None
        belief = build(seen.cluster, seen.topologies, {}, LoadSection(), 0.8, NOW_MS)
        observation = Observation(NOW_MS - 5000, seen, belief, {}, {ID: T0_MS})
        decision = Decision(ID, "advise", Reason.GAIN, "falls", 1.0, 0.1, None, 3, (100.0, 0.0))
        account = CycleReport(NOW_MS - 5000, names={ID: "flights"}, modes={ID: "advise"}, decisions={ID: decision})
        looked = CompletedCycle(account, observation, state, 0.2)
        self.board.become("leading", epoch=3)
        self.board.cycle_done(looked)
        self.metrics.cycle_done(looked)

    def setting(self, path: str) -> dict[str, Any] | None:
        """What ZooKeeper holds there."""
        (node,) = self.zookeeper.read([path])
        return None if node is None else msgspec.json.decode(node.data)


def read(api: Api, path: str, role: str = "viewer") -> Any:
    with api.client(role) as client:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def send(api: Api, verb: str, **body: Any) -> tuple[int, dict[str, Any]]:
    with api.client("operator") as client:
        answer = client.post(f"{API}/{verb}", json=body)
        return answer.status_code, answer.json()


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Api]:
    """`make(**api)`: the application with that `api` section."""
    return lambda **section: Api(tmp_path, **section)


@pytest.fixture
def api(make: Callable[..., Api]) -> Iterator[Api]:
    """With tokens, and a cluster that runs."""
    made = make()
    made.run()
    yield made
