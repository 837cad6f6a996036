"""Keyed state that follows its keys: components in this process, a table and items in memory."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from streamparse import Bolt

from doubles.keyed_store import A, B, N, Store
from multilang import handshake, heartbeat, log_lines, run, tuple_message
from stormpilot.instrument import KeyedState, LoadReporting, handing_over, keyed
from stormpilot.instrument.handing_over import HandingOver, packed, unpacked
from stormpilot.instrument.keyed import hands_over
from stormpilot.instrument.partitions import partition_of
from stormpilot.instrument.worker_store import StoreUnavailable


class Count(KeyedState, Bolt):
    """Counts words by partition; a tuple `do:n` runs the n-th step of the test between two words."""

    outputs: ClassVar[list[str]] = []
    store: ClassVar[Store]
    steps: ClassVar[list[Callable[[Count], None]]] = []
    made: ClassVar[list[Count]] = []
    raises: ClassVar[str] = ""

    def initialize(self, storm_conf: Any, context: Any) -> None:
        self.counts: dict[int, Counter[str]] = {}
        self.calls: list[tuple[str, list[int]]] = []
        self.made.append(self)

    def process(self, tup: Any) -> None:
        word = tup.values[0]
        if word.startswith("do:"):
            self.steps[int(word[3:])](self)
        else:
            self.counts.setdefault(self.partition_of([word]), Counter())[word] += 1

    def on_drain(self, partitions: list[int]) -> dict[int, Any]:
        self.calls.append(("drain", partitions))
        if self.raises == "drain":
            raise RuntimeError("disk is full")
        return {p: self.counts.pop(p) for p in partitions if p in self.counts}

    def on_activate(self, partitions: list[int], states: Any) -> None:
        self.calls.append(("activate", partitions))
        if self.raises == "activate":
            raise RuntimeError("no")
        for p, words in states:
            self.counts.setdefault(p, Counter()).update(words)

    def words(self) -> Counter[str]:
        return sum(self.counts.values(), Counter())


P = partition_of(["the"], N)


def poll(bolt: Count) -> None:
    assert bolt._stormpilot_handing is not None
    bolt._stormpilot_handing.poll()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    made = Store()
    monkeypatch.setattr(keyed, "ZooKeeperKeyedStore", lambda conf, topology_id: made)
    monkeypatch.setattr(HandingOver, "start", lambda self: None)
    monkeypatch.setattr(keyed, "QUIET_S", 0.0)
    monkeypatch.setattr(Count, "steps", [])
    monkeypatch.setattr(Count, "made", [])
    monkeypatch.setattr(Count, "raises", "")
    yield made


def play(tmp_path: Path, script: list[str | Callable[[Count], None]], task: int = A, cls: type = Count) -> Any:
    """Run a bolt through words and steps; heartbeats between them, as Storm sends them. (bolt, what it sent)."""
    messages: list[Any] = []
    for n, what in enumerate(script):
        word = what if isinstance(what, str) else f"do:{len(Count.steps)}"
        if not isinstance(what, str):
            Count.steps.append(what)
        messages += [tuple_message(str(n), [word]), heartbeat()]
    conf = {"storm.id": "t-1", "stormpilot.standby": 1}
    first = handshake(tmp_path, conf, task, "count", tasks={1: "source", A: "count", B: "count", 5: "count"})
    sent, _ = run(cls, first, messages)
    return Count.made[-1], sent


def test_state_follows_its_keys_and_is_added_to_what_came_meanwhile(store: Store, tmp_path: Path) -> None:
    store.tell((A, B, "save", [P]), owners={P: B})
    a, _ = play(tmp_path, ["the", "the", "cat", poll, poll])
    assert a.calls == [("drain", [P])]
    assert a.words() == {"cat": 1}
    assert store.answers[A]["saved"] == [f"{A}-{B}-1"]

    store.tell((A, B, "load", [P]), owners={P: B})
    b, _ = play(tmp_path, ["the", poll, poll, lambda _: store.tell(owners={P: B}), poll], task=B)
    assert b.calls == [("activate", [P])]
    assert b.words() == {"the": 3}
    assert store.kept == {}, "removed when the hand-over has left the table"


def test_nothing_is_loaded_before_all_is_saved(store: Store, tmp_path: Path) -> None:
    store.kept[f"{A}-{B}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.tell((A, B, "save", [P]), owners={P: B})
    b, _ = play(tmp_path, [poll, poll], task=B)
    assert b.calls == [] and store.answers[B]["loaded"] == []


def test_work_is_done_once_however_often_it_is_told(store: Store, tmp_path: Path) -> None:
    """The driver did not see the answer: it stays in the task's znode, and the hook is not called again."""
    store.tell((A, B, "save", [P]), owners={P: B})
    a, _ = play(tmp_path, ["the", poll, poll, poll, poll])
    assert a.calls == [("drain", [P])]
    store.tell((A, B, "load", [P]), owners={P: B})
    b, _ = play(tmp_path, [poll, poll, poll, poll], task=B)
    assert b.calls == [("activate", [P])]
    assert store.answers[B]["loaded"] == [f"{A}-{B}-1"]


def test_a_taker_that_restarts_before_the_end_loads_again(store: Store, tmp_path: Path) -> None:
    store.kept[f"{A}-{B}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.tell((A, B, "load", [P]), owners={P: B})
    play(tmp_path, [poll, poll], task=B)
    store.tell(owners={P: B})  # the first process answered, and died before it took the state away
    again, _ = play(tmp_path, [poll, poll], task=B)
    assert again.words() == {"the": 2}
    assert store.kept == {}


def test_a_giver_that_restarts_saves_beside_what_it_saved_before(store: Store, tmp_path: Path) -> None:
    store.kept[f"{A}-{B}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.tell((A, B, "save", [P]), owners={P: B})
    play(tmp_path, ["the", poll, poll])
    store.tell((A, B, "load", [P]), owners={P: B})
    b, _ = play(tmp_path, [poll, poll], task=B)
    assert b.words() == {"the": 3}


def test_what_lies_ready_is_loaded_when_the_hand_over_was_given_up(store: Store, tmp_path: Path) -> None:
    store.kept[f"{A}-{B}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.kept[f"{B}-{A}-1-7-0"] = packed({P: {"not": 1}})[0]
    store.routes = None
    b, _ = play(tmp_path, [poll, poll], task=B)
    assert b.words() == {"the": 2}, "the other one is not for this task"
    assert list(store.kept) == [f"{B}-{A}-1-7-0"]


def test_state_whose_keys_have_gone_on_when_it_is_loaded_follows_them(store: Store, tmp_path: Path) -> None:
    """Its giver saved it after that had been given up, and the keys are a third task's by now."""
    store.kept[f"{A}-{B}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.tell(owners={P: 5})
    play(tmp_path, [poll, poll, poll], task=B)
    assert store.answers[B]["late"] == [P]


def test_a_tuple_that_comes_too_late_is_told_and_goes_with_a_second_hand_over(store: Store, tmp_path: Path) -> None:
    def more(_: Count) -> None:
        assert store.answers[A]["late"] == [P]
        store.tell((A, B, "save", [P]), (A, 5, "save", []), owners={P: B})

    def over(_: Count) -> None:
        store.tell(owners={P: B})

    store.tell((A, B, "save", [P]), owners={P: B})
    a, _ = play(tmp_path, ["the", poll, poll, over, poll, "the", poll, more, poll, poll])
    assert a.calls == [("drain", [P]), ("drain", [P]), ("drain", [])]
    assert store.answers[A]["late"] == [] and a.words() == {}


def test_a_partition_that_came_back_is_not_late(store: Store, tmp_path: Path) -> None:
    def back(_: Count) -> None:
        store.tell((B, A, "load", [P]))

    store.tell((A, B, "save", [P]), owners={P: B})
    a, _ = play(tmp_path, [poll, back, "the", poll, "the", poll])
    assert store.answers[A]["late"] == []
    assert a.words() == {"the": 2}


def test_a_task_that_keeps_other_keys_saves_when_those_that_leave_are_quiet(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(keyed, "QUIET_S", 1.0)
    monkeypatch.setattr(keyed.time, "monotonic", lambda: now_s[0])

    def later(by_s: float) -> Callable[[Count], None]:
        def step(bolt: Count) -> None:
            now_s[0] += by_s

        return step

    def not_yet(bolt: Count) -> None:
        assert bolt.calls == []

    store.tell((A, B, "save", [P]), owners={P: B})
    script = [poll, not_yet, later(0.9), "the", later(0.9), not_yet, later(0.2), "cat", poll]
    a, _ = play(tmp_path, script)
    assert a.calls == [("drain", [P])]
    assert dict(unpacked(next(iter(store.kept.values())))) == {P: {"the": 1}}


@pytest.mark.parametrize("raises", ["drain", "activate"])
def test_a_hook_that_raises_hands_nothing_over_and_the_task_goes_on(
    store: Store, tmp_path: Path, raises: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Count, "raises", raises)
    store.kept[f"{B}-{A}-1-7-0"] = packed({P: {"the": 2}})[0]
    store.tell((A, B, "save", [P]), (B, A, "load", [P]), owners={P: B})
    a, sent = play(tmp_path, ["the", poll, poll, "cat", poll])
    assert any("keyed state is not handed over: RuntimeError" in line for line in log_lines(sent))
    assert a.counts[partition_of(["cat"], N)] == {"cat": 1}
    if raises == "drain":
        assert store.answers[A]["failed"] == {f"{A}-{B}-1": "RuntimeError: disk is full"}
    else:
        assert store.answers[A]["loaded"] == [] and f"{B}-{A}-1-7-0" in store.kept


def test_state_that_is_too_large_or_no_json_stays_where_it_was(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "MAX_BYTES", 10)
    store.tell((A, B, "save", [P]), owners={P: B})
    a, _ = play(tmp_path, ["the", poll, poll, poll])
    assert "10 are taken" in store.answers[A]["failed"][f"{A}-{B}-1"]
    assert a.words() == {"the": 1} and store.kept == {}


def test_a_task_answers_anew_when_zookeeper_is_back(store: Store, tmp_path: Path) -> None:
    """Whoever drives may have given it up, and asks for nothing until it writes."""

    def down(bolt: Count) -> None:
        store.answers.clear()
        poll(bolt)
        assert not store.answers, "nothing is written anew without a reason"
        store.down = True
        with pytest.raises(StoreUnavailable):
            poll(bolt)
        store.down = False

    store.tell()
    play(tmp_path, [poll, down, poll])
    assert A in store.answers


def test_while_zookeeper_is_away_nothing_is_lost(store: Store, tmp_path: Path) -> None:
    def down(bolt: Count) -> None:
        store.down = True

    def still_down(bolt: Count) -> None:
        with pytest.raises(StoreUnavailable):
            poll(bolt)

    def up(bolt: Count) -> None:
        store.down = False

    store.tell((A, B, "save", [P]), owners={P: B})
    play(tmp_path, ["the", poll, down, still_down, still_down, up, poll])
    assert [dict(unpacked(d)) for d in store.kept.values()] == [{P: {"the": 1}}]


def test_a_table_that_is_broken_or_of_tomorrow_starts_nothing(store: Store, tmp_path: Path) -> None:
    def newer(_: Count) -> None:
        assert store.routes is not None
        store.routes["schema"] = 2

    def wrong(_: Count) -> None:
        store.routes = {"schema": 1, "components": [7]}

    store.tell((A, B, "save", [P]), owners={P: B})
    a, _ = play(tmp_path, [newer, poll, poll, wrong, poll, poll])
    assert a.calls == []


def test_however_often_it_looks_it_leaves_one_watch(store: Store, tmp_path: Path) -> None:
    """The client keeps what it was given until the table changes, which may be months."""
    play(tmp_path, [poll] * 5)
    assert len(store.watches) == 1


def test_it_reports_its_load_as_well(store: Store, tmp_path: Path) -> None:
    class Both(LoadReporting, Count):
        pass

    store.tell((A, B, "save", [P]), owners={P: B})
    a, sent = play(tmp_path, ["the", poll, poll], cls=Both)
    assert a.calls == [("drain", [P])]
    assert any(m.get("stream") == "stormpilot_load" for m in sent)


def test_hooks_are_not_called_while_a_thread_works_on_a_batch(store: Store, tmp_path: Path) -> None:
    class Batching(Count):
        def initialize(self, storm_conf: Any, context: Any) -> None:
            super().initialize(storm_conf, context)
            self._batch_lock = threading.RLock()  # as TicklessBatchingBolt has it

        def on_drain(self, partitions: list[int]) -> dict[int, Any]:
            other = ThreadPoolExecutor().submit(self._batch_lock.acquire, blocking=False)
            self.calls.append(("alone", [int(other.result() is False)]))
            return {}

    store.tell((A, B, "save", [P]), owners={P: B})
    assert play(tmp_path, [poll, poll], cls=Batching)[0].calls == [("alone", [1])]


def test_a_component_without_hooks_follows_nothing(store: Store, tmp_path: Path) -> None:
    class Plain(KeyedState, Bolt):
        outputs: ClassVar[list[str]] = []

        def process(self, tup: Any) -> None:
            assert self._stormpilot_handing is None

    first = handshake(tmp_path, {"storm.id": "t-1"}, A, "count", tasks={1: "source", A: "count"})
    run(Plain, first, [tuple_message("1", ["the"])])
    assert not hands_over(Plain) and hands_over(Count) and not hands_over(Bolt)


@pytest.mark.parametrize(
    ("returned", "saved", "failed"),
    [
        ([(P, {"the": 1})], {P: {"the": 1}}, None),
        (7, {}, "TypeError: 'int' object is not iterable"),
        ([P], {}, "TypeError: cannot convert dictionary update sequence element #0 to a sequence"),
    ],
)
def test_what_a_hook_returns_that_is_no_mapping_does_not_stop_hand_overs(
    returned: Any, saved: dict[int, Any], failed: str | None, store: Store, tmp_path: Path
) -> None:
    class Other(Count):
        def on_drain(self, partitions: list[int]) -> Any:
            return returned

    store.tell((A, B, "save", [P]), owners={P: B})
    play(tmp_path, [poll, poll], cls=Other)
    assert {p: s for kept in store.kept.values() for p, s in unpacked(kept)} == saved
    assert store.answers[A]["failed"].get(f"{A}-{B}-1") == failed


def test_state_that_nobody_could_load_is_not_saved(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too long once it is unpacked, or too deep."""
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]

    class Deep(Count):
        def on_drain(self, partitions: list[int]) -> Any:
            return {P: deep}

    store.tell((A, B, "save", [P]), owners={P: B})
    a, _ = play(tmp_path, [poll, poll, poll], cls=Deep)
    assert f"{A}-{B}-1" in store.answers[A]["failed"]
    assert store.kept == {}
    assert a.calls[0] == ("activate", [P])  # and again, for the hook of the test cannot take it either
    monkeypatch.setattr(handing_over, "MOST_STATE_BYTES", 1000)
    with pytest.raises(ValueError, match=f"the state of partition {P} has 10[0-9]{{2}} bytes, 1000 are taken"):
        packed({P: "x" * 1000})
