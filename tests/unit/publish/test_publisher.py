"""Fencing: only the leader of the newest epoch writes, only over what it read; plans of one decision go together."""

from __future__ import annotations

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import NOW_MS, plan_message
from stormpilot.errors import UsageError
from stormpilot.messages import core
from stormpilot.messages.core import EffectPart, HistoryEntry, PlanMessage, Worker, decode, encode
from stormpilot.messages.moves import MoveState
from stormpilot.publish import publisher as module
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import KEPT_PLANS, DeposedError, Publisher
from stormpilot.zookeeper import transaction
from stormpilot.zookeeper.client import ConflictError
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Put, TooLargeError

PATHS = Paths()
ID, OTHER = "flights-1", "wordcount-1"


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper(lambda: NOW_MS)


def leader(zookeeper: MemoryZooKeeper) -> Publisher:
    """Whoever is elected now."""
    return Publisher(zookeeper, PATHS, raise_epoch(zookeeper, PATHS))  # type: ignore[arg-type]


def entry(plan_id: str, topology_id: str = ID, *, executors: int = 1, rollout_of: str = "") -> HistoryEntry:
    workers = [Worker(supervisor="a", port=1, executors=[(i, i) for i in range(1, executors + 1)])]
    plan = plan_message(plan_id=plan_id, topology_id=topology_id, workers=workers)
    return HistoryEntry(plan=plan, reason="GAIN", rollout_of=rollout_of)


def published(zookeeper: MemoryZooKeeper, topology_id: str = ID) -> str | None:
    """The id of the plan that lies there."""
    (node,) = zookeeper.read([PATHS.plan(topology_id)])
    return None if node is None else decode(node.data, PlanMessage, "plan").plan_id


def history(zookeeper: MemoryZooKeeper, topology_id: str = ID) -> list[str]:
    (names,) = zookeeper.children([PATHS.plan_history(topology_id)])
    nodes = zookeeper.read([PATHS.plan_history(topology_id, n) for n in names])
    return [decode(n.data, HistoryEntry, "history").plan.plan_id for n in nodes if n is not None]


# --- fencing ----------------------------------------------------------------------------------------------------------


def test_a_deposed_leader_writes_nothing(zookeeper: MemoryZooKeeper) -> None:
    old = leader(zookeeper)
    old.publish([entry("p-1")], {})
    new = leader(zookeeper)
    writes = [
        lambda: old.publish([entry("p-2")], {ID: 0}),
        lambda: old.advise([entry("p-2")]),
        lambda: old.write([Put(PATHS.hold(ID), b"{}", None)]),
        lambda: old.follow(MoveState(topology_id=ID)),
        lambda: old.put(PATHS.controller, b"{}"),
    ]
    for write in writes:
        with pytest.raises(DeposedError, match="epoch 1 is over"):
            write()
    assert (published(zookeeper), history(zookeeper)) == ("p-1", ["p-1"])
    assert zookeeper.read([PATHS.proposal(ID), PATHS.hold(ID), PATHS.moves(ID), PATHS.controller]) == [None] * 4
    new.publish([entry("p-3")], {ID: 0})
    assert published(zookeeper) == "p-3"


def test_a_leader_that_is_deposed_between_reading_and_writing_writes_nothing(zookeeper: MemoryZooKeeper) -> None:
    old = leader(zookeeper)

    def another_one_is_elected() -> None:
        zookeeper.before_commit = lambda: None
        leader(zookeeper)

    zookeeper.before_commit = another_one_is_elected
    with pytest.raises(DeposedError):
        old.publish([entry("p-1")], {})
    assert (published(zookeeper), history(zookeeper)) == (None, [])


def test_a_leader_without_its_place_in_the_election_writes_nothing(zookeeper: MemoryZooKeeper) -> None:
    place = f"{PATHS.leader}/lock-1"
    zookeeper.ensure([place])
    bound = Publisher(zookeeper, PATHS, raise_epoch(zookeeper, PATHS).bound_to(place))  # type: ignore[arg-type]
    bound.publish([entry("p-1")], {})
    zookeeper.delete(place)
    with pytest.raises(DeposedError):
        bound.publish([entry("p-2")], {ID: 0})
    assert published(zookeeper) == "p-1"


def test_every_transaction_checks_the_epoch(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    zookeeper.commits.clear()
    publisher.publish([entry("p-1")], {})
    publisher.advise([entry("p-2")])
    publisher.follow(MoveState(topology_id=ID))
    assert len(zookeeper.commits) == 3
    assert all(tuple(steps[: len(publisher.epoch.checks)]) == publisher.epoch.checks for steps in zookeeper.commits)


# --- compare-and-set --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, 7])
def test_a_plan_that_somebody_changed_after_it_was_read_stays(zookeeper: MemoryZooKeeper, version: int | None) -> None:
    publisher = leader(zookeeper)
    publisher.publish([entry("p-1")], {})
    with pytest.raises(ConflictError) as conflict:
        publisher.publish([entry("p-2")], {} if version is None else {ID: version})
    assert not isinstance(conflict.value, DeposedError)
    assert conflict.value.path == PATHS.plan(ID)
    assert (published(zookeeper), history(zookeeper)) == ("p-1", ["p-1"])


def test_plans_of_one_decision_are_published_together_or_not_at_all(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    publisher.publish([entry("p-1"), entry("p-2", OTHER)], {})
    publisher.publish([entry("p-3")], {ID: 0})
    with pytest.raises(ConflictError):
        publisher.publish([entry("p-4", OTHER), entry("p-5")], {ID: 0, OTHER: 0})
    assert (published(zookeeper), published(zookeeper, OTHER)) == ("p-3", "p-2")
    assert history(zookeeper, OTHER) == ["p-2"]


def test_what_goes_with_a_plan_is_written_in_its_transaction(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    zookeeper.ensure([PATHS.hold()])
    hold = {ID: [Put(PATHS.hold(ID), b"{}", 3)]}  # there is none, so the whole is in conflict
    with pytest.raises(ConflictError):
        publisher.publish([entry("p-1")], {}, [MoveState(topology_id=ID, plan_id="p-1")], hold)
    assert published(zookeeper) is None
    assert zookeeper.read([PATHS.moves(ID)]) == [None]


# --- size -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def room_for_two(monkeypatch: pytest.MonkeyPatch) -> int:
    """A transaction holds two plans with their history."""
    one = entry("p-0", "t-0-1")
    plan, told = PATHS.plan("t-0-1"), PATHS.plan_history("t-0-1", "0000000001")
    steps = [Put(plan, encode(one.plan), None), Put(told, encode(one), None)]
    size = 2 * transaction.size_of(steps) + 100
    monkeypatch.setattr(module, "TRANSACTION_BYTES", size)
    return size


def test_a_plan_set_that_is_too_large_for_one_transaction_goes_in_several(
    zookeeper: MemoryZooKeeper, room_for_two: int
) -> None:
    publisher = leader(zookeeper)
    zookeeper.commits.clear()
    publisher.publish([entry(f"p-{i}", f"t-{i}-1") for i in range(6)], {})
    assert [published(zookeeper, f"t-{i}-1") for i in range(6)] == [f"p-{i}" for i in range(6)]
    assert len(zookeeper.commits) == 3
    for steps in zookeeper.commits:
        assert sum(len(s.data) for s in steps if isinstance(s, Put)) <= room_for_two
        written = [s.path for s in steps if isinstance(s, Put)]
        for i in range(6):  # plan and history of a topology are never apart
            assert (PATHS.plan(f"t-{i}-1") in written) == any(PATHS.plan_history(f"t-{i}-1") in p for p in written)


@pytest.mark.usefixtures("room_for_two")
def test_a_leader_deposed_between_two_transactions_of_a_plan_set_leaves_it_incomplete(
    zookeeper: MemoryZooKeeper,
) -> None:
    """The plug-in waits for the whole plan set; the next leader replaces it."""
    publisher, seen = leader(zookeeper), 0

    def deposed_before_the_second() -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            zookeeper.before_commit = lambda: None
            leader(zookeeper)

    zookeeper.before_commit = deposed_before_the_second
    with pytest.raises(DeposedError):
        publisher.publish([entry(f"p-{i}", f"t-{i}-1") for i in range(6)], {})
    assert [published(zookeeper, f"t-{i}-1") is not None for i in range(6)] == [True, True, *[False] * 4]


def test_the_former_placement_of_a_huge_topology_is_left_out_rather_than_the_plan(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = leader(zookeeper)
    huge = entry("p-1", executors=3000)
    followed = MoveState(topology_id=ID, plan_id="p-1", former=huge.plan.workers)
    monkeypatch.setattr(module, "TRANSACTION_BYTES", len(encode(huge.plan)) + len(encode(followed)) - 1)
    publisher.publish([huge], {}, [followed])
    (node,) = zookeeper.read([PATHS.moves(ID)])
    assert node is not None
    move = decode(node.data, MoveState, "moves")
    assert (move.plan_id, move.former) == ("p-1", [])


def test_the_history_of_a_huge_plan_follows_it(zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the plan and what it can be undone with there is no room for the plan once more."""
    publisher = leader(zookeeper)
    huge = entry("p-1", executors=3000)
    followed = MoveState(topology_id=ID, plan_id="p-1", former=huge.plan.workers)
    monkeypatch.setattr(module, "TRANSACTION_BYTES", len(encode(huge.plan)) + len(encode(followed)) + 500)
    zookeeper.commits.clear()
    publisher.publish([huge], {}, [followed])
    assert [[s.path.split("/")[3] for s in steps if isinstance(s, Put)] for steps in zookeeper.commits] == [
        ["plans", "moves"],
        ["plan-history"],
    ]
    assert history(zookeeper) == ["p-1"]
    (node,) = zookeeper.read([PATHS.moves(ID)])
    assert node is not None and decode(node.data, MoveState, "moves") == followed


def test_a_plan_that_is_too_large_for_zookeeper_is_refused_before_anything_of_its_set_is_written(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server would end the connection, and it looked like one that was lost, again and again."""
    publisher = leader(zookeeper)
    huge = entry("p-1", executors=3000)
    monkeypatch.setattr(transaction, "MOST_BYTES", len(encode(huge.plan)))
    zookeeper.commits.clear()
    with pytest.raises(TooLargeError, match=f"{ID}.*: with what is written beside it [0-9]+ bytes"):
        publisher.publish([entry("p-0", "small-1-1"), huge], {})
    assert zookeeper.commits == []


def test_nothing_of_a_plan_set_is_written_where_a_later_transaction_of_it_is_too_large(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = leader(zookeeper)
    huge = entry("p-1", executors=3000)
    monkeypatch.setattr(module, "TRANSACTION_BYTES", len(encode(huge)))
    monkeypatch.setattr(transaction, "MOST_BYTES", len(encode(huge.plan)))
    zookeeper.commits.clear()
    with pytest.raises(TooLargeError, match=f"{ID}.*: with what is written beside it [0-9]+ bytes"):
        publisher.publish([entry("p-0", OTHER), huge], {})
    assert (zookeeper.commits, published(zookeeper, OTHER), history(zookeeper, OTHER)) == ([], None, [])


def test_plans_of_many_small_topologies_go_in_as_many_requests_as_servers_take(zookeeper: MemoryZooKeeper) -> None:
    """Each step has a path and a header beside its data: hundreds of them count."""
    publisher = leader(zookeeper)
    zookeeper.commits.clear()
    names = [f"{'orders-of-a-region-' * 3}{i}-1-1700000000" for i in range(1200)]
    publisher.publish([entry("p-1", t) for t in names], {}, [MoveState(topology_id=t, plan_id="p-1") for t in names])
    assert len(zookeeper.commits) > 1
    assert published(zookeeper, names[-1]) == "p-1"


def test_a_plan_that_is_too_large_for_a_znode_is_told_as_such(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "MAX_BYTES", 1000)
    with pytest.raises(TooLargeError, match=r"PlanMessage is [0-9]+ bytes, over the limit"):
        leader(zookeeper).publish([entry("p-1", executors=3000)], {})


def test_what_ran_before_a_huge_first_plan_is_left_out_of_its_history_before_the_plan_cannot_be_undone(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = leader(zookeeper)
    plain = entry("p-1", executors=3000)
    former = [Worker(supervisor=f"s{i * i}", port=i, executors=[(i, i)]) for i in range(1, 3001)]
    huge = msgspec.structs.replace(plain, former=former)
    move = MoveState(topology_id=ID, plan_id="p-1", former=plain.plan.workers)
    monkeypatch.setattr(module, "TRANSACTION_BYTES", len(encode(plain)) + len(encode(plain.plan)) + len(encode(move)))
    publisher.publish([huge], {}, [move])
    (kept,) = zookeeper.read([PATHS.plan_history(ID, "0000000001")])
    (followed,) = zookeeper.read([PATHS.moves(ID)])
    assert kept is not None and decode(kept.data, HistoryEntry, "history") == plain
    assert followed is not None and decode(followed.data, MoveState, "moves") == move


# --- history ----------------------------------------------------------------------------------------------------------


def test_the_history_keeps_the_newest_plans(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    for i in range(KEPT_PLANS + 5):
        publisher.publish([entry(f"p-{i}")], {ID: i - 1} if i else {})
    assert history(zookeeper) == [f"p-{i}" for i in range(5, KEPT_PLANS + 5)]


def test_a_rollout_of_many_steps_pushes_no_whole_plan_out_of_the_history(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    before = [f"p-{i}" for i in range(KEPT_PLANS)]
    steps = [f"p-new-{i}-abcd" for i in range(KEPT_PLANS + 5)]
    of_steps = [entry(s, rollout_of="p-new") for s in steps]
    for i, e in enumerate([*map(entry, before), *of_steps, entry("p-new")]):
        publisher.publish([e], {ID: i - 1} if i else {})
    assert history(zookeeper) == [*before[1:], *steps[-KEPT_PLANS:], "p-new"]


def test_what_others_put_into_a_history_is_bounded_and_pushes_no_plan_out(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    for i in range(KEPT_PLANS):
        publisher.publish([entry(f"p-{i}")], {ID: i - 1} if i else {})
    for i in range(KEPT_PLANS + 5):
        zookeeper.put(PATHS.plan_history(ID, f"junk-{i:02d}"), b"{nonsense")
    publisher.publish([entry("p-new")], {ID: KEPT_PLANS - 1})
    (names,) = zookeeper.children([PATHS.plan_history(ID)])
    plans, junk = [f"{i:010d}" for i in range(2, KEPT_PLANS + 2)], [f"junk-{i:02d}" for i in range(5, KEPT_PLANS + 5)]
    assert names == [*plans, *junk]


def test_the_effect_of_a_move_is_written_into_its_plan(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    publisher.publish([entry("p-1")], {})
    publisher.publish([entry("p-2")], {ID: 0})
    zookeeper.put(PATHS.plan_history(ID, "0000000009"), b"{nonsense")
    effect = EffectPart(metric="inter_node_share", before=0.5, predicted=0.2, noise_ratio=0.1, verdict="HELPED")
    publisher.judge(ID, "p-1", effect)
    publisher.judge(ID, "p-unknown", effect)
    nodes = zookeeper.read([PATHS.plan_history(ID, f"{n:010d}") for n in (1, 2)])
    effects = [decode(n.data, HistoryEntry, "history").effect for n in nodes if n is not None]
    assert effects == [effect, None]


def test_a_proposal_that_cannot_be_read_still_has_a_version(zookeeper: MemoryZooKeeper) -> None:
    publisher = leader(zookeeper)
    assert publisher.proposal(ID) == (None, None)
    zookeeper.put(PATHS.proposal(ID), b"{nonsense")
    assert publisher.proposal(ID) == (None, 0)
    zookeeper.put(PATHS.proposal(ID), encode(entry("p-1")))
    assert publisher.proposal(ID) == (entry("p-1"), 1)


def test_a_proposal_that_no_znode_holds_is_too_large_and_no_wrong_file(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another error than of a znode ended the cycle, for every topology; the history alone ends nothing."""

    def full(message: core.Message) -> bytes:
        raise UsageError("HistoryEntry is 2000000 bytes packed, over the limit")

    publisher = leader(zookeeper)
    publisher.publish([entry("p-1")], {})
    monkeypatch.setattr(module, "encode", full)
    writes = [
        lambda: publisher.advise([entry("p-1")]),
        lambda: publisher.follow(MoveState(topology_id=ID)),
    ]
    for write in writes:
        with pytest.raises(TooLargeError, match="2000000 bytes"):
            write()
    kept = zookeeper.read([PATHS.plan_history(ID, "0000000001")])
    publisher.reject(ID, "p-1", "SLOT_TAKEN")
    assert zookeeper.read([PATHS.plan_history(ID, "0000000001")]) == kept


def test_what_ran_before_a_rejected_first_plan_is_kept_as_long_as_its_twenty_followers(
    zookeeper: MemoryZooKeeper,
) -> None:
    publisher = leader(zookeeper)
    first = Worker(supervisor="a", port=1, executors=[(1, 1)])
    publisher.publish([msgspec.structs.replace(entry("p-0"), former=[first])], {})
    publisher.reject(ID, "p-0", "SLOT_TAKEN")
    for n in range(1, 21):
        publisher.publish([entry(f"p-{n}")], {ID: n - 1})
    for n in range(21, 43):
        publisher.publish([entry(f"p-{n}")], {ID: n - 1})
        publisher.reject(ID, f"p-{n}", "SLOT_TAKEN")
    kept = history(zookeeper)
    assert kept[0] == "p-0"
    assert kept[1:20] == [f"p-{n}" for n in range(2, 21)]  # the first rejected one was no such one when it came
    publisher.publish([entry("p-43")], {ID: 42})
    publisher.publish([entry("p-44")], {ID: 43})
    assert "p-0" not in history(zookeeper), "with the first of them"
