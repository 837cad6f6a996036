"""Counters of bolts and spouts: what counts, the bound on pairs, several threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pystorm.component import Tuple

from stormpilot.instrument import counters
from stormpilot.instrument.counters import BoltCounters, ProcessCpu, SpoutCounters, most_pairs


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def received(task: int, stream: str = "default", tuple_id: str = "x") -> Tuple:
    return Tuple(tuple_id, "source", stream, task, ("a",))


def test_bolt_counts_tuples_by_source_task_and_stream() -> None:
    bolt = BoltCounters()
    for task, stream in [(1, "default"), (2, "default"), (1, "default"), (1, "errors")]:
        bolt.tuple_received(received(task, stream))
    assert bolt.values()["received"] == {"default": ([1, 2], [2, 1]), "errors": ([1], [1])}


def test_pairs_stand_in_an_order_that_stays() -> None:
    """A reader takes in what stays the same from report to report faster."""
    bolt, told = BoltCounters(), []
    for _ in range(2):
        for task, stream in [(7, "words"), (2, "errors"), (5, "words"), (2, "words")]:
            bolt.tuple_received(received(task, stream))
        told.append([(stream, tasks) for stream, (tasks, _) in bolt.values()["received"].items()])
    assert told[0] == told[1] == [("words", [7, 5, 2]), ("errors", [2])]


def test_bolt_does_not_count_ticks_and_heartbeats() -> None:
    bolt = BoltCounters()
    bolt.tuple_received(received(-1, "__tick"))
    bolt.tuple_received(received(-1, "__heartbeat"))
    assert bolt.values()["received"] == {}


def test_bolt_counts_acks_and_fails_but_not_those_of_ticks() -> None:
    """Storm sends an acker nothing for a tick."""
    bolt = BoltCounters()
    bolt.tuple_received(received(-1, "__tick", "t1"))
    for command, tuple_id in [("ack", "a"), ("fail", "b"), ("ack", "t1"), ("emit", "c")]:
        bolt.message_sent({"command": command, "id": tuple_id})
    bolt.message_sent({"pid": 1})
    assert bolt.values()["acked"] == 2


def test_ticks_that_are_never_acked_are_not_kept_for_ever() -> None:
    bolt = BoltCounters()
    for n in range(1000):
        bolt.tuple_received(received(-1, "__tick", f"t{n}"))
    bolt.message_sent({"command": "ack", "id": "t999"})
    assert bolt.values()["acked"] == 0
    assert len(bolt._ticks) < 100


def test_bolt_stops_adding_sources_at_the_limit_says_so_once_and_goes_on_counting_the_known() -> None:
    said: list[str] = []
    bolt = BoltCounters(most=2, say=said.append)
    for task in (1, 2, 3, 4, 1):
        bolt.tuple_received(received(task))
    assert bolt.values()["received"] == {"default": ([1, 2], [2, 1])}
    assert said == ["tuples come from more than 2 tasks and streams: the rest is not counted"]


@pytest.mark.parametrize(
    ("last", "of_component", "pairs"),
    [
        (9, 1, 4_096),
        (49, 48, 4_096),
        (49, 49, 4_081),
        (19_999, 1, 40_000),
        (19_999, 10, 20_000),
        (19_999, 400, 500),
        (99_999, 1, 50_000),
        (299_999, 250_000, 1),
    ],
)
def test_tasks_of_a_large_topology_are_counted_as_far_as_they_can_be_reported(
    last: int, of_component: int, pairs: int
) -> None:
    """The numbers of `TaskCountersTest.java`."""
    assert most_pairs(range(last + 1), of_component) == pairs


def test_acks_of_several_threads_are_all_counted() -> None:
    bolt = BoltCounters()

    def ack() -> None:
        for _ in range(5000):
            bolt.message_sent({"command": "ack", "id": "a"})

    threads = [threading.Thread(target=ack) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bolt.values()["acked"] == 20_000


def test_spout_counts_emits_with_an_id_and_what_became_of_them() -> None:
    spout = SpoutCounters(give_up_s=60)
    for tuple_id in ("a", "b", "c", None):
        spout.message_sent({"command": "emit", "tuple": [1], **({"id": tuple_id} if tuple_id else {})})
    spout.message_sent({"command": "log", "id": "x"})
    spout.command_received({"command": "ack", "id": "a"}, time.monotonic())
    spout.command_received({"command": "fail", "id": "b"}, time.monotonic())
    spout.command_received({"command": "next", "id": ""}, time.monotonic())
    values = spout.values()
    assert (values["emitted"], values["completed"], values["failed"]) == (3, 1, 1)


def test_latency_is_the_time_from_emit_to_ack() -> None:
    clock = Clock()
    spout = SpoutCounters(give_up_s=60, clock=clock)
    spout.message_sent({"command": "emit", "id": 7})
    clock.now_s += 0.25
    spout.command_received({"command": "ack", "id": 7}, clock())
    (upper,) = [bound for bound, n in spout.values()["latencyMs"] if n]
    assert upper / 1.1 <= 250 <= upper


def test_latency_of_a_replayed_tuple_counts_from_its_last_emit() -> None:
    clock = Clock()
    spout = SpoutCounters(give_up_s=60, clock=clock)
    spout.message_sent({"command": "emit", "id": "a"})
    clock.now_s += 30
    spout.command_received({"command": "fail", "id": "a"}, clock())
    spout.message_sent({"command": "emit", "id": "a"})
    clock.now_s += 0.1
    spout.command_received({"command": "ack", "id": "a"}, clock())
    (upper,) = [bound for bound, n in spout.values()["latencyMs"] if n]
    assert upper < 120


def test_failed_tuples_have_no_latency() -> None:
    spout = SpoutCounters(give_up_s=60)
    spout.message_sent({"command": "emit", "id": "a"})
    spout.command_received({"command": "fail", "id": "a"}, time.monotonic())
    assert spout.values()["latencyMs"] == []


@pytest.mark.parametrize("tuple_id", [("a", 1), [1, 2], {"k": 1}, 1.5, True])
def test_ids_that_come_back_in_another_shape_are_counted_and_not_timed(tuple_id: object) -> None:
    spout = SpoutCounters(give_up_s=60)
    spout.message_sent({"command": "emit", "id": tuple_id})
    spout.command_received({"command": "ack", "id": tuple_id}, time.monotonic())
    values = spout.values()
    assert (values["emitted"], values["completed"], values["latencyMs"]) == (1, 1, [])


def test_pending_tuples_are_limited_and_the_rest_is_counted_untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MAX_PENDING", 2)
    spout = SpoutCounters(give_up_s=60)
    for tuple_id in ("a", "b", "c"):
        spout.message_sent({"command": "emit", "id": tuple_id})
    for tuple_id in ("a", "b", "c"):
        spout.command_received({"command": "ack", "id": tuple_id}, time.monotonic())
    values = spout.values()
    assert (values["emitted"], values["completed"]) == (3, 3)
    assert sum(n for _, n in values["latencyMs"]) == 2


def test_tuples_never_heard_of_again_make_room_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MAX_PENDING", 1)
    clock = Clock()
    spout = SpoutCounters(give_up_s=60, clock=clock)
    spout.message_sent({"command": "emit", "id": "lost"})
    clock.now_s += 61
    spout.values()
    spout.message_sent({"command": "emit", "id": "new"})
    spout.command_received({"command": "ack", "id": "new"}, clock())
    assert sum(n for _, n in spout.values()["latencyMs"]) == 1


BURN = """
import sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
burn(0.3)
print("burnt", flush=True)
sys.stdin.read()
"""


def test_cpu_of_what_a_component_started_counts_while_it_lives_and_once() -> None:
    """A pool of processes: all of its work used to come at once, in the moment in which it ended."""
    cpu = ProcessCpu()
    before = cpu.seconds()
    shell = ["sh", "-c", f"{sys.executable} -c '{BURN}'; true"]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == b"burnt\n"
        while_it_lives = cpu.seconds()
        child.stdin.close()
    assert while_it_lives - before > 0.25
    ended = cpu.seconds()
    assert ended >= while_it_lives, "the kernel tells it of its children now"
    assert ended - before < 2 * (while_it_lives - before) + 0.5, "not twice"


def test_cpu_never_goes_back_where_nobody_waits_for_a_process(tmp_path: Path) -> None:
    task = tmp_path / str(os.getpid()) / "task" / "1"
    task.mkdir(parents=True)
    (task / "children").write_text("77 ")
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "stat").write_text("77 (a) b) S 1 1 1 0 -1 0 0 0 0 0 9000000 5 20 0 20 0 1 0 4242 1 1\n")
    cpu = ProcessCpu(tmp_path)
    most_s = cpu.seconds()
    assert most_s > 9_000_025 / os.sysconf("SC_CLK_TCK")
    (task / "children").write_text("")
    assert cpu.seconds() == most_s, "it may have been missed"
    assert cpu.seconds() == most_s, "it is gone"
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert most_s + 0.04 < cpu.seconds() < most_s + 5, "what comes after counts"


def test_cpu_of_a_process_that_one_reading_missed_does_not_count_twice(tmp_path: Path) -> None:
    task = tmp_path / str(os.getpid()) / "task" / "1"
    task.mkdir(parents=True)
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "stat").write_text("77 (a) S 1 1 1 0 -1 0 0 0 0 0 9000000 5 20 0 20 0 1 0 4242 1 1\n")
    cpu = ProcessCpu(tmp_path)
    for children in ("77", "", "77"):
        (task / "children").write_text(children)
        last_s = cpu.seconds()
    assert last_s < 1.5 * 9_000_025 / os.sysconf("SC_CLK_TCK")


def test_cpu_seconds_grow_with_work_of_this_process() -> None:
    cpu_seconds = ProcessCpu().seconds
    before = cpu_seconds()
    while cpu_seconds() == before:
        sum(range(10_000))
    assert cpu_seconds() > before
