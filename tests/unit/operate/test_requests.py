"""Approve and rollback ask for nothing that the leading controller would refuse; a dry run says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import NOW_MS, plan_message
from doubles.snapshots import cluster, topology
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import (
    HistoryEntry,
    Message,
    Worker,
    decode,
    encode,
    plan_checksum,
)
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Phase, Rollout, RolloutStepPart
from stormpilot.messages.settings import DrainSetting, ModeSetting, PauseSetting, Request
from stormpilot.operate import Operator
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()
ID = "flights-1-1763690000"
Slots = Mapping[tuple[str, int], Sequence[int]]
RUNNING: Slots = {("a", 6700): (1, 2, 3), ("b", 6700): (4, 5, 6)}
OTHER: Slots = {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}
PARTLY: Slots = {("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)}


def entry(slots: Slots = OTHER, age_s: float = 60.0, plan_id: str = "p-1", rollout_of: str = "") -> HistoryEntry:
    workers = [Worker(supervisor=s, port=p, executors=[(t, t) for t in ts]) for (s, p), ts in slots.items()]
    checksum = plan_checksum(ID, plan_id, "r-1", 1, workers)
    plan = plan_message(age_s, plan_id=plan_id, topology_id=ID, workers=workers, checksum=checksum)
    return HistoryEntry(plan=plan, reason="GAIN", text="falls", moved_executors=2, rollout_of=rollout_of)


def state(**fields: object) -> ControllerState:
    view = TopologyView(id=ID, name="flights", mode="advise", **{"action": "advise", "reason": "GAIN", **fields})  # type: ignore[arg-type]
    return ControllerState(
        controller="n1:7",
        version="0.1.0",
        epoch=1,
        started_at_ms=NOW_MS,
        written_at_ms=NOW_MS,
        period_s=30,
        cycles=1,
        planner="best",
        sentence="",
        topologies=[view],
        approval_max_age_s=900.0,
    )


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    store = MemoryZooKeeper(lambda: NOW_MS)
    store.put(PATHS.cluster, encode(cluster("a", "b")))
    store.put(PATHS.topology(ID), encode(topology({t: slot for slot, ts in RUNNING.items() for t in ts}, id=ID)))
    store.put(PATHS.controller, encode(state()))
    store.put(PATHS.proposal(ID), encode(entry()))
    store.put(PATHS.plan_history(ID, "0000000001"), encode(entry(plan_id="p-0", age_s=9_000.0)))
    store.put(PATHS.plan_history(ID, "0000000002"), encode(entry(RUNNING, plan_id="p-now", age_s=5_000.0)))
    return store


def operator(zookeeper: MemoryZooKeeper, dry_run: bool = False) -> Operator:
    return Operator(zookeeper, PATHS, "anna", now_ms=NOW_MS, dry_run=dry_run)  # type: ignore[arg-type]


def refused(zookeeper: MemoryZooKeeper, verb: str) -> str:
    """The refusal of a dry run, which must be that of the request."""
    act = {"approve": operate.approve, "rollback": operate.rollback}[verb]
    said = []
    for dry_run in (True, False):
        with pytest.raises(RefusedError) as e:
            act(operator(zookeeper, dry_run), "flights")
        said.append(str(e.value))
    assert said[0] == said[1]
    assert zookeeper.children([PATHS.request()])[0] == []
    return said[0]


@pytest.mark.parametrize("verb", ["approve", "rollback"])
def test_plan_that_fits_is_asked_for(zookeeper: MemoryZooKeeper, verb: str) -> None:
    act = {"approve": operate.approve, "rollback": operate.rollback}[verb]
    for dry_run in (True, False):
        change = act(operator(zookeeper, dry_run), "flights")
        assert change.text.endswith("the leading controller is asked to publish it")
    assert zookeeper.children([PATHS.request()])[0] == [ID]


def test_a_proposal_that_replaced_the_one_somebody_looked_at_is_not_approved(zookeeper: MemoryZooKeeper) -> None:
    with pytest.raises(RefusedError, match="the proposal is p-1 now, not p-0: look at it with `stormpilot plan diff"):
        operate.approve(operator(zookeeper), "flights", plan="p-0")
    assert zookeeper.children([PATHS.request()])[0] == []
    operate.approve(operator(zookeeper), "flights", plan="p-1")
    assert asked_for(zookeeper).plan.plan_id == "p-1"


def test_giving_up_a_plan_is_asked_for_while_there_is_one(zookeeper: MemoryZooKeeper) -> None:
    zookeeper.put(PATHS.proposal(ID), encode(entry({})))
    assert refused(zookeeper, "approve") == "flights: flights has no plan that it could give up"
    zookeeper.put(PATHS.plan(ID), encode(entry(RUNNING, plan_id="p-now", age_s=5_000.0).plan))
    change = operate.approve(operator(zookeeper), "flights")
    assert change.text == "flights: the leading controller is asked to give up its plan"
    assert change.danger == "Storm's scheduler may stop all 6 executors of flights"
    assert zookeeper.children([PATHS.request()])[0] == [ID]


@pytest.mark.parametrize("verb", ["approve", "rollback"])
@pytest.mark.parametrize(
    ("path", "message", "said"),
    [
        (PATHS.drain("host-b"), DrainSetting(host="host-b"), "drain: host host-b (b) is drained"),
        (PATHS.pause("flights"), PauseSetting(), "flights: PAUSED: paused by an operator"),
        (PATHS.mode("flights"), ModeSetting(mode="off"), "MODE_OFF: the mode of this topology is off"),
        (PATHS.cluster, cluster("a"), "slot-exists: supervisor b is not there"),
        (PATHS.controller, state(reason="MASS_FAILURE", text="2 of 3"), "flights: MASS_FAILURE: 2 of 3"),
        (PATHS.controller, state(reason="UNSUPPORTED_SETTING", text="gpu"), "flights: UNSUPPORTED_SETTING: gpu"),
    ],
)
def test_what_the_leading_controller_would_refuse_is_refused_at_once(
    zookeeper: MemoryZooKeeper, verb: str, path: str, message: Message, said: str
) -> None:
    zookeeper.put(path, encode(message))
    text = refused(zookeeper, verb)
    assert said in text
    assert "__acker" not in text


def test_proposal_is_refused_once_a_newer_plan_is_published(zookeeper: MemoryZooKeeper) -> None:
    zookeeper.put(PATHS.plan(ID), encode(entry(RUNNING, age_s=10.0, plan_id="p-2").plan))
    assert refused(zookeeper, "approve") == (
        "flights: plan p-2 was published after p-1 was proposed; wait for a new proposal"
    )


def test_proposal_is_refused_when_the_leading_controller_finds_it_too_old(zookeeper: MemoryZooKeeper) -> None:
    zookeeper.put(PATHS.proposal(ID), encode(entry(age_s=901.0)))
    assert "plan p-1 is 901 s old, at most 900 s" in refused(zookeeper, "approve")


def test_rollback_to_what_runs_is_refused(zookeeper: MemoryZooKeeper) -> None:
    zookeeper.put(PATHS.plan_history(ID, "0000000001"), encode(entry(RUNNING, plan_id="p-0")))
    assert refused(zookeeper, "rollback") == "flights: plan p-0 is what runs now"


STEP = {"plan_id": "p-2-1-abcd", "rollout_of": "p-2"}
WITHDRAWN = {"plan_id": "p-2-2-abcd", "rollout_of": "p-2"}
LAST, AGAIN = {"plan_id": "p-2"}, {"plan_id": "p-2-2-ef01"}


@pytest.mark.parametrize(
    ("published", "target", "phase", "before"),
    [
        ([], "p-2", "ended", "p-0"),
        ([], "p-2", "ready", "p-now"),
        ([STEP], "p-2", "ready", "p-now"),
        ([STEP], "p-2", "ended", "p-now"),
        ([STEP, LAST], "p-2", "moving", "p-now"),
        ([STEP, LAST], "p-2", "ended", "p-now"),
        ([STEP, LAST, WITHDRAWN], "p-2", "ready", "p-now"),
        ([STEP, LAST, WITHDRAWN], "p-2", "ended", "p-now"),
        ([STEP, LAST, WITHDRAWN, AGAIN], "p-2", "moving", "p-now"),
        ([STEP, LAST, WITHDRAWN, AGAIN], "p-2", "ended", "p-now"),
        ([STEP], "p-3", "draining", STEP["plan_id"]),
        ([STEP, {"plan_id": "p-3-1-abcd", "rollout_of": "p-3"}], "p-3", "draining", STEP["plan_id"]),
        ([STEP, LAST], "p-3", "draining", "p-2"),
    ],
)
def test_rollback_goes_back_to_what_ran_before_a_rollout_however_far_that_came(
    zookeeper: MemoryZooKeeper, published: list[dict[str, str]], target: str, phase: Phase, before: str
) -> None:
    """The rollout to `target` is in this phase, and these were published after p-0 and p-now."""
    zookeeper.put(PATHS.topology(ID), encode(topology({t: slot for slot, ts in PARTLY.items() for t in ts}, id=ID)))
    for n, plan in enumerate(published, start=3):
        zookeeper.put(PATHS.plan_history(ID, f"{n:010d}"), encode(entry(**plan)))
    step = RolloutStepPart(workers=entry().plan.workers)
    m = Rollout(topology_id=ID, entry=entry(plan_id=target), steps=[step], phase=phase, since_ms=1, started_at_ms=1)
    zookeeper.put(PATHS.rollout(ID), encode(m))
    operate.rollback(operator(zookeeper), "flights")
    assert asked_for(zookeeper).plan.plan_id == before
    back = {h.back: h.entry.plan.plan_id for h in operate.history(operator(zookeeper), ID)}
    assert back[1] == before


FIRST_STEP = {"plan_id": "p-1-1-abcd", "rollout_of": "p-1"}


@pytest.mark.parametrize(
    ("published", "phase"),
    [
        ([], "draining"),
        ([FIRST_STEP], "moving"),
        ([FIRST_STEP], "ended"),
        ([FIRST_STEP, {"plan_id": "p-1"}], "moving"),
        ([FIRST_STEP, {"plan_id": "p-1"}], "ended"),
    ],
)
def test_rollback_of_the_first_plan_goes_back_to_what_ran_before_it(
    zookeeper: MemoryZooKeeper, published: list[dict[str, str]], phase: Phase
) -> None:
    without_history(zookeeper)
    zookeeper.put(PATHS.topology(ID), encode(topology({t: slot for slot, ts in PARTLY.items() for t in ts}, id=ID)))
    for n, plan in enumerate(published, start=1):
        zookeeper.put(PATHS.plan_history(ID, f"{n:010d}"), encode(entry(**plan)))
    step, former = RolloutStepPart(workers=entry().plan.workers), entry(RUNNING).plan.workers
    m = Rollout(topology_id=ID, entry=entry(), steps=[step], phase=phase, since_ms=1, started_at_ms=1, former=former)
    zookeeper.put(PATHS.rollout(ID), encode(m))
    change = operate.rollback(operator(zookeeper), "flights")
    assert "flights: back to what ran before its first plan; " in change.text
    assert asked_for(zookeeper).plan.workers == former


def test_rollback_of_a_first_plan_that_made_it_worse_goes_back_to_what_ran_before_it(
    zookeeper: MemoryZooKeeper,
) -> None:
    without_history(zookeeper)
    zookeeper.put(PATHS.plan_history(ID, "0000000001"), encode(entry(RUNNING, plan_id="p-1")))
    former = entry(OTHER).plan.workers
    zookeeper.put(PATHS.moves(ID), encode(MoveState(topology_id=ID, phase="rollback", plan_id="p-1", former=former)))
    operate.rollback(operator(zookeeper), "flights")
    assert asked_for(zookeeper).plan.workers == former


@pytest.mark.parametrize("later", [0, 2])
def test_rollback_of_the_first_plan_goes_back_long_after_it_was_judged(zookeeper: MemoryZooKeeper, later: int) -> None:
    without_history(zookeeper)
    former = entry(OTHER).plan.workers
    first = msgspec.structs.replace(entry(PARTLY if later else RUNNING, plan_id="p-1"), former=former)
    for n, e in enumerate([first, *(entry(RUNNING, plan_id=f"p-2{n}") for n in range(later))], start=1):
        zookeeper.put(PATHS.plan_history(ID, f"{n:010d}"), encode(e))
    with pytest.raises(RefusedError, match=f"there is no plan {later + 2} back"):
        operate.rollback(operator(zookeeper), "flights", later + 2)
    change = operate.rollback(operator(zookeeper), "flights", later + 1)
    assert "flights: back to what ran before its first plan; " in change.text
    assert asked_for(zookeeper).plan.workers == former


@pytest.mark.parametrize("plans", [0, 1])
def test_rollback_to_what_nobody_knows_says_how_storm_places_it_anew(zookeeper: MemoryZooKeeper, plans: int) -> None:
    without_history(zookeeper)
    if plans:
        zookeeper.put(PATHS.plan_history(ID, "0000000001"), encode(entry(RUNNING, plan_id="p-1")))
    text = refused(zookeeper, "rollback")
    assert f"there is no plan 1 back, the history holds {plans}" in text
    assert "`stormpilot mode off flights` and then `storm rebalance flights`" in text
    with pytest.raises(RefusedError, match=f"flights: there is no plan 5 back, the history holds {plans}") as e:
        operate.rollback(operator(zookeeper), "flights", 5)
    assert "storm rebalance" not in str(e.value)


def without_history(zookeeper: MemoryZooKeeper) -> None:
    for name in zookeeper.children([PATHS.plan_history(ID)])[0]:
        zookeeper.delete(PATHS.plan_history(ID, name))


def asked_for(zookeeper: MemoryZooKeeper) -> HistoryEntry:
    (node,) = zookeeper.read([PATHS.request(ID)])
    assert node is not None
    asked = decode(node.data, Request, "request").entry
    assert asked is not None
    return asked


@pytest.mark.parametrize(("reason", "undone"), [("ROLLBACK", True), ("ROLLBACK_EFFECT", True), ("GAIN", False)])
def test_a_second_rollback_says_that_it_undoes_the_first(zookeeper: MemoryZooKeeper, reason: str, undone: bool) -> None:
    """It said "back to where they were", and carried out again what somebody had just undone."""
    newest = msgspec.structs.replace(entry(RUNNING, plan_id="p-now", age_s=5_000.0), reason=reason)
    zookeeper.put(PATHS.plan_history(ID, "0000000002"), encode(newest))
    change = operate.rollback(operator(zookeeper, dry_run=True), "flights")
    assert ("back to plan p-0, which the last rollback undid;" in change.text) == undone
    assert ("what the last rollback undid is done again" in change.danger) == undone
