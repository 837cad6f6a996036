"""A controller that ends anywhere in the middle of a request: it is done once, or still to do, and never half."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from doubles.snapshots import T0_MS, cluster, everywhere, topology
from stormpilot import operate
from stormpilot.config import Config
from stormpilot.control.assembly import cycle_of
from stormpilot.control.current_config import CurrentConfig
from stormpilot.errors import UnreachableError
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import (
    HistoryEntry,
    PlanMessage,
    StatusMessage,
    TopologySnapshot,
    Worker,
    decode,
    encode,
    plan_checksum,
)
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader
from stormpilot.operate import Operator
from stormpilot.planner import compute
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import Node, Watch, ZooKeeper, connect
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Step

pytestmark = pytest.mark.zookeeper

ID = "flights-1-1763690000"
NOW_MS = T0_MS + 600_000
HERE = everywhere({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)})
THERE = (
    Worker(supervisor="a", port=6701, executors=[(1, 1), (2, 2), (3, 3)]),
    Worker(supervisor="b", port=6701, executors=[(4, 4), (5, 5), (6, 6)]),
)
Settings = Callable[..., Config]


class Crash(ZooKeeper):
    """Our own connection; the call number `at` is the last one: lost before it is done, or only its answer is."""

    def __init__(self, real: ZooKeeper, at: int, *, done: bool):
        self._real, self._at, self._done = real, at, done
        self.calls = 0

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls < self._at:
            return getattr(self._real, name)(*arguments, **options)
        if self._done and self.calls == self._at:
            getattr(self._real, name)(*arguments, **options)
        raise UnreachableError("the controller ends here")

    def read(self, paths: Sequence[str], watch: Watch | None = None, *, keep_denied: bool = False) -> list[Node | None]:
        found: list[Node | None] = self._call("read", paths, watch, keep_denied=keep_denied)
        return found

    def stats(self, paths: Sequence[str], *, keep_denied: bool = False) -> Any:
        return self._call("stats", paths, keep_denied=keep_denied)

    def children(self, paths: Sequence[str], watch: Watch | None = None) -> list[list[str]]:
        found: list[list[str]] = self._call("children", paths, watch)
        return found

    def ensure(self, paths: Any) -> None:
        self._call("ensure", list(paths))

    def delete(self, path: str) -> bool:
        return bool(self._call("delete", path))

    def commit(self, steps: Sequence[Step]) -> None:
        self._call("commit", steps)


class Stage:
    """One topology with a plan that waits for approval, or with one to go back to, and an operator's request for it."""

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, config: Config):
        self.zookeeper, self.paths = zookeeper, paths
        self.config = msgspec.structs.replace(
            config, decide=msgspec.structs.replace(config.decide, approval_max_age_s=3600.0)
        )

    def set(self, verb: str) -> operate.Change:
        """Everything as new, then the request."""
        z, p = self.zookeeper, self.paths
        z.delete(p.base)
        z.put(p.cluster, encode(cluster("a", "b")))
        z.put(p.topology(ID), encode(topology(HERE)))
        status = StatusMessage(topology_id=ID, state="fallback", code="NO_PLAN", since_ms=T0_MS, written_at_ms=T0_MS)
        z.put(p.status(ID), encode(status))
        there = HistoryEntry(plan=_plan("p-there", THERE), reason="APPROVAL_NEEDED", text="GAIN")
        operator = Operator(z, p, "ops", "test", now_ms=NOW_MS)
        if verb == "rollback":
            here = [Worker(supervisor=s, port=6700, executors=[(1, 1)]) for s in ("a", "b")]
            z.put(p.plan_history(ID, "0000000001"), encode(there))
            z.put(p.plan_history(ID, "0000000002"), encode(HistoryEntry(plan=_plan("p-here", here), reason="GAIN")))
            return operate.rollback(operator, "flights")
        z.put(p.proposal(ID), encode(there))
        return {"approve": operate.approve, "discard": operate.discard}[verb](operator, "flights")

    def cycle(self, zookeeper: ZooKeeper) -> None:
        """A controller takes the lead and runs one cycle."""
        numbers = itertools.count(1)
        epoch = raise_epoch(self.zookeeper, self.paths)
        cycle = cycle_of(
            Observer(Reader(zookeeper, self.paths), self.config.load, 0.8),
            Publisher(zookeeper, self.paths, epoch),
            CurrentConfig(self.config, "online", "default"),
            compute,
            new_id=lambda: f"{epoch.number}-{next(numbers)}",
            clock_ms=lambda: NOW_MS,
            name=f"controller-{epoch.number}",
        )
        cycle.run(cycle.observer.observe(NOW_MS))

    def state(self) -> dict[str, Any]:
        """What matters of it all."""
        z, p = self.zookeeper, self.paths
        plan, hold, proposal, request = z.read([p.plan(ID), p.hold(ID), p.proposal(ID), p.request(ID)])
        (history,) = z.children([p.plan_history(ID)])
        operator = Operator(z, p, "ops")
        return {
            "plan": None if plan is None else decode(plan.data, PlanMessage, "plan").workers,
            "history": len(history),
            "held": hold is not None,
            "proposal": proposal is not None,
            "request": request is not None,
            "outcomes": sorted(r.result for r in operate.audit(operator) if r.result != "asked for"),
        }


def _plan(plan_id: str, workers: Sequence[Worker]) -> PlanMessage:
    return PlanMessage(
        plan_id=plan_id,
        plan_set="r-1",
        topology_id=ID,
        epoch=0,
        created_at_ms=NOW_MS - 60_000,
        planner="online",
        workers=list(workers),
        checksum=plan_checksum(ID, plan_id, "r-1", 0, list(workers)),
    )


@pytest.fixture
def stage(shared_zookeeper: LocalZooKeeper, paths: Paths, settings: Settings) -> Iterator[Stage]:
    connection = connect(shared_zookeeper.hosts)
    yield Stage(connection, paths, settings(shared_zookeeper.hosts))
    connection.stop()


def points(stage: Stage, verb: str) -> int:
    """How many calls a cycle makes that is not interrupted."""
    stage.set(verb)
    counting = Crash(stage.zookeeper, 10**9, done=True)
    stage.cycle(counting)
    return counting.calls


@pytest.mark.parametrize("verb", ["approve", "discard", "rollback"])
def test_request_that_is_interrupted_at_any_call_is_done_exactly_once_by_the_next_leader(
    stage: Stage, verb: str
) -> None:
    """Before a call, or after it with its answer lost: whatever was reached, two leaders together do it once."""
    calls = points(stage, verb)
    wanted = stage.state()
    assert not wanted["request"]
    assert wanted["plan"] == (None if verb == "discard" else list(THERE))
    assert wanted["held"] == (verb != "approve")
    assert wanted["history"] == {"approve": 1, "discard": 0, "rollback": 3}[verb]
    assert len(wanted["outcomes"]) == 1
    half = 0
    for at in range(1, calls + 1):
        for done in (False, True):
            stage.set(verb)
            with pytest.raises(UnreachableError):
                stage.cycle(Crash(stage.zookeeper, at, done=done))
            left = stage.state()
            assert left["request"] == (left["outcomes"] == []), f"half done at call {at}: {left}"
            half += left["request"]
            stage.cycle(stage.zookeeper)
            stage.cycle(stage.zookeeper)
            now = stage.state()
            assert _unnamed(now) == _unnamed(wanted), f"call {at}, done {done}"
    assert 0 < half < 2 * calls  # some interruptions came before it was done, some after


def _unnamed(state: dict[str, Any]) -> dict[str, Any]:
    """Without ids that every controller makes for itself."""
    return {**state, "outcomes": [" ".join(w for w in o.split() if "p-" not in w) for o in state["outcomes"]]}


def test_request_of_yesterday_is_void(stage: Stage) -> None:
    """An approval must not fire when the controller comes back hours later."""
    change = stage.set("approve")
    z, p = stage.zookeeper, stage.paths
    (node,) = z.read([p.request(ID)])
    assert node is not None
    old = decode(node.data, operate.Request, "request")
    z.put(p.request(ID), encode(msgspec.structs.replace(old, at_ms=NOW_MS - 601_000)))
    stage.cycle(z)
    state = stage.state()
    assert (state["plan"], state["request"]) == (None, False)
    found = operate.outcome(Operator(z, p, "ops"), change.request_id)
    assert found is not None
    assert found.result == "refused: it is 601 s old, and void after 600 s"


@pytest.mark.parametrize("garbage", [b"", b"{}", b'{"schema": 99}', b"\x00"])
def test_request_that_cannot_be_read_is_removed_and_told(stage: Stage, garbage: bytes) -> None:
    stage.set("approve")
    stage.zookeeper.put(stage.paths.request(ID), garbage)
    stage.cycle(stage.zookeeper)
    assert stage.state()["request"] is False
    assert stage.state()["outcomes"] == ["refused: the request cannot be read"]


def test_plan_of_executors_that_are_others_now_is_refused(stage: Stage) -> None:
    """A user rebalanced between the proposal and its approval."""
    stage.set("approve")
    snapshot = topology(HERE)
    fewer: TopologySnapshot = msgspec.structs.replace(snapshot, executors=snapshot.executors[:-1])
    stage.zookeeper.put(stage.paths.topology(ID), encode(fewer))
    stage.cycle(stage.zookeeper)
    (outcome,) = stage.state()["outcomes"]
    assert "the executors are others now (1 of the plan are gone, 0 are new)" in outcome
    assert stage.state()["plan"] is None
