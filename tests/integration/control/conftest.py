"""A controller in this process, against a real ZooKeeper and the double of the scheduler plug-in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from doubles.shim import ShimDouble, until
from doubles.snapshots import everywhere
from stormpilot.config import Config, parse
from stormpilot.control.daemon import Daemon
from stormpilot.decide import admit
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import ClusterSnapshot, decode
from stormpilot.planner import compute
from stormpilot.zookeeper.paths import Paths

ID = "flights-1-1763690000"
SPREAD = everywhere({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)})
"""Everything crosses nodes; one worker per node, so that the planner can only trade executors."""
LASTING_S = 40
"""Of a session: for what holds a busy machine up for less, no controller loses its leadership."""
BRIEF_S = 4
"""Of the session of a controller that is killed, or away from its ZooKeeper: the test waits for its end."""
SETTINGS = """\
zookeeper: {{hosts: '{hosts}', root: {root}, session_timeout_s: {session_s}}}
cycle: {{period_s: 1, poll_s: 0.2}}
load: {{window_s: 5, min_coverage_ratio: 0.2, settle_s: 0}}
decide: {{mode: act, consecutive_hits: 2, cool_down_s: 600, rejected_retry_s: 1}}
api: {{enabled: false}}
"""


class Controller:
    """A daemon on a thread; `lines` is what it logged."""

    def __init__(self, config: Config, lines: list[Mapping[str, object]], planner: str = "online"):
        self.daemon = Daemon(config, compute, planner, "default")
        self.lines = lines
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.daemon.run()
        except BaseException as e:
            self.failure = e
            raise

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def logged(self, event: str, **fields: object) -> list[Mapping[str, object]]:
        """Lines of that event with these fields."""
        return [x for x in list(self.lines) if x["event"] == event and all(x.get(k) == v for k, v in fields.items())]

    def stop(self) -> None:
        """End it, whatever ZooKeeper does."""
        self.daemon.stop()
        self._thread.join(3)
        self.daemon.cut()
        self._thread.join(10)
        assert not self._thread.is_alive()


Start = Callable[[Config], Controller]
Play = Callable[[str, ClusterSnapshot], ShimDouble]
Settings = Callable[..., Config]


def message(shim: ShimDouble, path: str, kind: Any) -> Any:
    """A znode as a message."""
    return decode(shim.client.get(path)[0], kind, path)


def view(shim: ShimDouble, topology_id: str = ID) -> Any:
    """What the leading controller says of a topology; None before it says anything."""
    if not shim.client.exists(shim.paths.controller):
        return None
    state: ControllerState = message(shim, shim.paths.controller, ControllerState)
    return next((v for v in state.topologies if v.id == topology_id), None)


def held(shim: ShimDouble, reason: str, topology_id: str = ID) -> bool:
    """Whether the last decision has this reason."""
    v = view(shim, topology_id)
    return v is not None and v.reason == reason


@pytest.fixture(autouse=True)
def _workers_that_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The double's workers are no JVMs: a second is long enough for them to come up."""
    monkeypatch.setattr(admit, "STARTING_MS", 1_000)


@pytest.fixture(scope="package")
def shared_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    """One ZooKeeper for the tests that leave it alone; each has a root of its own."""
    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def lines() -> Iterator[list[Mapping[str, object]]]:
    """Everything that is logged."""
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def paths(request: pytest.FixtureRequest) -> Paths:
    """Znodes of this test's own."""
    return Paths("/" + "".join(c if c.isalnum() else "-" for c in request.node.name))


@pytest.fixture
def settings(paths: Paths, tmp_path: Path) -> Callable[..., Config]:
    """`settings(hosts, more, session_s, **decide)`: a configuration for tests; `more` is YAML that is added."""

    def make(hosts: str, more: str = "", session_s: float = LASTING_S, **decide: Any) -> Config:
        text = SETTINGS.format(hosts=hosts, root=paths.root, session_s=session_s) + more
        config = parse(text, "test.yaml", tmp_path)
        return msgspec.structs.replace(config, decide=msgspec.structs.replace(config.decide, **decide))

    return make


@pytest.fixture
def start(lines: list[Mapping[str, object]]) -> Iterator[Callable[[Config], Controller]]:
    """Start controllers that end with the test."""
    started: list[Controller] = []

    def start_one(config: Config) -> Controller:
        started.append(Controller(config, lines))
        return started[-1]

    yield start_one
    for controller in started:
        controller.stop()


@pytest.fixture
def play(paths: Paths) -> Iterator[Callable[[str, ClusterSnapshot], ShimDouble]]:
    """Start doubles of the plug-in that end with the test."""
    started: list[ShimDouble] = []

    def play_one(hosts: str, cluster: ClusterSnapshot) -> ShimDouble:
        started.append(ShimDouble(hosts, cluster, paths))
        return started[-1]

    yield play_one
    for shim in started:
        shim.close()


__all__ = ["Controller", "until"]
