"""The clock of a new leader against that of the one before, by what ZooKeeper's clock said of each."""

from __future__ import annotations

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import plan_message
from doubles.snapshots import topology
from stormpilot.control.takeover import ahead_ms, owed_ms, unanswered
from stormpilot.messages.controller_state import ConfiguredModes, ControllerState
from stormpilot.messages.core import StatusMessage, encode
from stormpilot.messages.settings import Mode, ModeSetting, setting_key
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot
from stormpilot.operate.status import FAILED
from stormpilot.publish.epoch import raise_epoch
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()
THEN_MS, LATER_MS, HOUR_MS = 1_000_000_000, 1_000_090_000, 3_600_000
STATE = ControllerState(
    controller="n1:7",
    version="0",
    epoch=1,
    started_at_ms=0,
    written_at_ms=THEN_MS,
    period_s=10.0,
    cycles=1,
    planner="best",
    sentence="no change",
)


def seen(wrote: bytes | None, by_ms: int, own_ms: int | None = None) -> tuple[int, int]:
    """What a leader finds 90 s after the one before wrote: the lead of its clock, and what it owes to rollouts.

    Its clock is ahead of ZooKeeper's by so much, and shows `own_ms` since it was set.
    """
    now = {"ms": THEN_MS}
    zookeeper = MemoryZooKeeper(lambda: now["ms"])
    raise_epoch(zookeeper, PATHS)  # type: ignore[arg-type]
    if wrote is not None:
        zookeeper.put(PATHS.controller, wrote)
    now["ms"] = LATER_MS
    epoch = raise_epoch(zookeeper, PATHS)  # type: ignore[arg-type]
    at = zookeeper, PATHS, epoch, LATER_MS + by_ms
    return ahead_ms(*at), owed_ms(*at, own_ms)  # type: ignore[arg-type]


@pytest.mark.parametrize("ours_ms", [-HOUR_MS, 0, HOUR_MS])
@pytest.mark.parametrize("theirs_ms", [-HOUR_MS, 0, HOUR_MS])
def test_each_clock_is_held_against_that_of_zookeeper(ours_ms: int, theirs_ms: int) -> None:
    state = msgspec.structs.replace(STATE, written_at_ms=THEN_MS + theirs_ms)
    assert seen(encode(state), ours_ms) == (ours_ms - theirs_ms, max(0, ours_ms - theirs_ms))


@pytest.mark.parametrize(
    "wrote",
    [
        None,
        b"{nonsense",
        encode(msgspec.structs.replace(STATE, epoch=0)),
        encode(msgspec.structs.replace(STATE, sentence=f"{FAILED}x")),
    ],
)
def test_nothing_is_said_without_a_cycle_of_the_leader_before(wrote: bytes | None) -> None:
    assert seen(wrote, HOUR_MS) == (0, 0)


@pytest.mark.parametrize("by_ms", [-HOUR_MS, 0, HOUR_MS])
def test_after_a_leadership_of_our_own_it_is_by_how_much_our_clock_was_set(by_ms: int) -> None:
    """What that one wrote last was by the clock before."""
    _, owed = seen(encode(STATE), by_ms, own_ms=LATER_MS)
    assert owed == by_ms


@pytest.mark.parametrize(
    ("plan_id", "state", "code", "age_s", "found"),
    [
        (None, "fallback", "NO_PLAN", 5, True),
        ("p-0", "applied", "OK", 5, True),
        ("p-1", "waiting", "PLAN_SET_INCOMPLETE", 5, False),
        ("p-1", "waiting", "PAUSED", 5, False),
        ("p-1", "rejected", "EPOCH_OLD", 5, True),
        ("p-1", "rejected", "EPOCH_OLD", 90, False),
        ("p-0", "applied", "OK", 90, False),
        ("p-1", "rejected", "SLOT_OCCUPIED", 5, False),
        ("p-1", "moving", "OK", 5, False),
        ("p-1", "applied", "OK", 5, False),
    ],
)
def test_plans_that_wait_for_a_round_of_nimbus_are_those_that_came_just_now(
    plan_id: str | None, state: str, code: str, age_s: int, found: bool
) -> None:
    """An old one was made for a load that is past."""
    t = topology()
    plan = msgspec.structs.replace(plan_message(plan_id="p-1", topology_id=t.id), created_at_ms=THEN_MS)
    status = StatusMessage(topology_id=t.id, plan_id=plan_id, state=state, code=code, since_ms=0, written_at_ms=0)  # type: ignore[arg-type]
    snapshot = StoreSnapshot(topologies={t.id: t}, plans={t.id: PublishedPlan(plan, 3, 0)}, statuses={t.id: status})
    assert unanswered(snapshot, THEN_MS + age_s * 1000, ConfiguredModes(mode="act")) == ([(plan, 3)] if found else [])


@pytest.mark.parametrize(("other", "found"), [(None, 0), ("r-1", 2), ("r-2", 0)])
def test_a_part_of_a_plan_set_is_not_taken_over(other: str | None, found: int) -> None:
    """The leader ended while it wrote the set: the next one replaces it, and at once while the epoch is not its own."""
    ids = ["flights-1-1", "wordcount-2-1"]
    sets = {ids[0]: "r-1"} | ({} if other is None else {ids[1]: other})
    plans = {
        t: PublishedPlan(
            msgspec.structs.replace(
                plan_message(topology_id=t, plan_set=plan_set, plan_set_topologies=ids), created_at_ms=THEN_MS
            ),
            3,
            0,
        )
        for t, plan_set in sets.items()
    }
    topologies = {t: msgspec.structs.replace(topology(), id=t) for t in ids}
    taken = unanswered(StoreSnapshot(topologies=topologies, plans=plans), THEN_MS, ConfiguredModes(mode="act"))
    assert len([p for p, _ in taken if p.plan_set == "r-1"]) == found


@pytest.mark.parametrize(("now", "setting", "found"), [("act", None, 1), ("off", None, 0), ("off", "act", 1)])
def test_a_plan_of_another_mode_is_not_taken_over(now: Mode, setting: Mode | None, found: int) -> None:
    """The plug-in hears of the new mode with the first cycle only: until then it would carry the plan out."""
    t = topology()
    plan = msgspec.structs.replace(plan_message(topology_id=t.id), created_at_ms=THEN_MS)
    snapshot = StoreSnapshot(
        topologies={t.id: t},
        plans={t.id: PublishedPlan(plan, 3, 0)},
        modes={} if setting is None else {setting_key(t.name): ModeSetting(mode=setting)},
        controller=msgspec.structs.replace(STATE, modes=ConfiguredModes(mode="act")),
    )
    assert len(unanswered(snapshot, THEN_MS, ConfiguredModes(mode=now))) == found
