"""The thread that follows hand-overs, round by round, and the items that it saves."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from doubles.keyed_store import A, B, N, Store
from stormpilot.instrument.handing_over import HandingOver, packed, unpacked
from stormpilot.instrument.partitions import partition_of
from stormpilot.instrument.worker_store import StoreUnavailable

P = partition_of(["the"], N)


@pytest.fixture
def store() -> Store:
    return Store()


def test_states_are_cut_into_items_that_fit() -> None:
    states = dict.fromkeys(range(7), "x" * 300000)
    chunks = packed(states)
    assert len(chunks) == 4
    assert {p: s for chunk in chunks for p, s in unpacked(chunk)} == states
    assert packed({}) == []


@pytest.mark.parametrize(
    "table",
    [
        lambda: gzip.compress(b'{"schema":1,"components":[' + b"0," * 30_000_000 + b"0]}", 1),
        b"\x1f\x8b\x08\x00 broken",
        b"[" * 200_000,
        b'{"schema":1,"components":[' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
        b"\xff\xfe",
    ],
)
def test_a_table_that_nobody_honest_wrote_is_as_if_it_were_not_there(
    table: bytes | Callable[[], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    class Hostile(Store):
        def table(self, changed: Callable[[Any], None]) -> bytes | None:
            return table() if callable(table) else table

    handing = HandingOver(Hostile(), "t-1", "count", A)
    handing.poll()
    handing.poll()
    assert not handing.work
    assert caplog.text.count("the routing table cannot be read") == 1, "not at each look"


def test_a_state_that_unpacks_to_more_than_was_ever_saved_is_refused() -> None:
    bomb = gzip.compress(b'{"states":[[1,"' + b"x" * 70_000_000 + b'"]]}', 1)
    with pytest.raises(ValueError, match="unpacks to more than"):
        unpacked(bomb)


def test_a_table_that_is_damaged_for_a_moment_saves_nothing_a_second_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key was forgotten, drained again, and the few states that came late written over the saved ones."""
    store.tell((A, B, "save", [P]))
    handing = HandingOver(store, "t-1", "count", A)
    handing.poll()
    handing.done(handing.work.popleft(), {P: {"the": 2}})
    handing.poll()
    kept, own = dict(store.kept), handing.own
    assert len(kept) == 1
    with monkeypatch.context() as damaged:
        damaged.setattr(store, "table", lambda _: b"{")
        handing.poll()
    assert handing.own == own
    handing.poll()
    assert not handing.work
    assert store.kept == kept


def test_states_that_could_not_be_saved_are_offered_until_they_are_taken_back(store: Store) -> None:
    """They are nowhere else: a hook that raised once for them lost them."""
    store.tell((A, B, "save", [P]))
    handing = HandingOver(store, "t-1", "count", A)
    handing.poll()
    handing.done(handing.work.popleft(), {P: {"no JSON"}})
    handing.poll()
    back = handing.work.popleft()
    assert back.states == [(P, {"no JSON"})]
    handing.done(back, trouble="not now")
    handing.poll()
    assert handing.work.popleft() == back
    handing.done(back)
    handing.poll()
    assert not handing.work


def test_a_hook_that_always_raises_is_called_once_for_each_look(store: Store) -> None:
    store.kept[f"{A}-{B}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.tell((A, B, "load", [P]), owners={P: B})
    handing = HandingOver(store, "t-1", "count", B)
    handing.poll()
    handing.done(handing.work.popleft(), trouble="no")
    assert not handing._wake.is_set()
    handing.poll()
    assert [work.partitions for work in handing.work] == [[P]]


def test_items_that_cannot_be_removed_now_are_no_new_state(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is lost at the end of a hand-over: what was loaded would be added once more."""
    store.kept[f"{A}-{B}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.tell((A, B, "load", [P]), owners={P: B})
    handing, loaded = HandingOver(store, "t-1", "count", B), []

    def work() -> None:
        while handing.work:
            loaded.append(handing.work[0].states)
            handing.done(handing.work.popleft())

    for _ in range(2):
        handing.look()
        work()
    store.tell(owners={P: B})
    drop = store.drop
    monkeypatch.setattr(store, "drop", refuse)
    handing.look()
    monkeypatch.setattr(store, "drop", drop)
    for _ in range(3):
        handing.look()
        work()
    assert loaded == [[(P, {"the": 2})]]
    assert store.kept == {}


def refuse(_: str) -> None:
    raise StoreUnavailable("no connection")


def test_an_item_that_is_no_state_keeps_no_other_from_its_task(store: Store) -> None:
    store.kept |= {f"77-{B}-1-1-0": b"junk", f"{A}-{B}-1-7-0": packed({P: {"the": 2}})[0]}
    store.tell((A, B, "load", [P]), owners={P: B})
    handing, loaded = HandingOver(store, "t-1", "count", B), []
    for _ in range(3):
        handing.look()
        while handing.work:
            loaded += handing.work[0].states
            handing.done(handing.work.popleft())
    assert loaded == [(P, {"the": 2})]
    assert store.answers[B]["loaded"] == [f"{A}-{B}-1"]


def test_late_tuples_of_a_partition_wake_the_thread_once(store: Store) -> None:
    handing = HandingOver(store, "t-1", "count", A)
    handing.late(P)
    assert handing._wake.is_set()
    handing._wake.clear()
    handing.late(P)
    assert not handing._wake.is_set()


def test_an_outage_of_weeks_is_said_once_and_asked_for_less_and_less(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    handing = HandingOver(store, "t-1", "count", A)
    store.down = True
    assert [handing.look() for _ in range(9)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    store.down = False
    assert [handing.look() for _ in range(3)] == [10.0] * 3
    store.down = True
    assert handing.look() == 0.5
    wait, go_on = (f"stormpilot: hand-overs of task {A} {what}" for what in ("wait: no connection", "go on"))
    assert caplog.messages == [wait, go_on, wait]
