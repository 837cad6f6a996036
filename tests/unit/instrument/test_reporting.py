"""The mixins in components that run in this process, against what Storm writes and reads."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from streamparse import BatchingBolt, Bolt, ReliableSpout, Spout

from multilang import handshake, heartbeat, loads, log_lines, run, tick, tuple_message, without_ours
from stormpilot.instrument import LoadReporting, SpoutLoadReporting
from stormpilot.instrument.reporting import _keep_stdout_off_the_protocol
from stormpilot.messages.load import TaskLoad


class Upper(Bolt):
    outputs: ClassVar[list[str]] = ["line"]

    def process(self, tup: Any) -> None:
        self.emit([tup.values[0].upper()])


class Numbers(Spout):
    outputs: ClassVar[list[str]] = ["n"]

    def initialize(self, storm_conf: Any, context: Any) -> None:
        self.n = 0

    def next_tuple(self) -> None:
        self.n += 1
        self.emit([self.n], tup_id=str(self.n))


class ReportingUpper(LoadReporting, Upper):
    pass


class ReportingNumbers(SpoutLoadReporting, Numbers):
    pass


def next_() -> dict[str, Any]:
    return {"command": "next", "id": ""}


# --- what is reported -----------------------------------------------------------------------------------------------


def test_bolt_reports_what_it_received_and_acked(tmp_path: Path) -> None:
    tuples = [tuple_message(str(n), ["a"], task=1 + n % 2) for n in range(5)]
    sent, _ = run(ReportingUpper, handshake(tmp_path), [*tuples, heartbeat()])
    load = msgspec.json.decode(json.dumps(loads(sent)[-1]), type=TaskLoad)
    assert load.received == {"default": ([1, 2], [3, 2])}
    assert load.acked == 5
    assert (load.task, load.component, load.pid) == (3, "parse", os.getpid())
    assert load.cpu_s > 0
    assert load.start_ms <= load.at_ms


def test_reports_are_cumulative_and_numbered(tmp_path: Path) -> None:
    sent, _ = run(ReportingUpper, handshake(tmp_path), [tuple_message(str(n), ["a"]) for n in range(4)])
    reported = loads(sent)
    assert [r["seq"] for r in reported] == [1, 2, 3, 4]
    assert [r["received"] for r in reported] == [{"default": [[1], [n]]} for n in (1, 2, 3, 4)]


def test_a_load_is_one_unanchored_tuple_that_asks_for_no_task_ids(tmp_path: Path) -> None:
    sent, _ = run(ReportingUpper, handshake(tmp_path), [tuple_message("1", ["a"])])
    (emit,) = [m for m in sent if m.get("stream") == "stormpilot_load"]
    assert emit["anchors"] == []
    assert emit["need_task_ids"] is False
    assert "id" not in emit
    assert len(emit["tuple"]) == 1


def test_bolt_reports_on_heartbeats_while_idle(tmp_path: Path) -> None:
    sent, _ = run(ReportingUpper, handshake(tmp_path), [heartbeat(), heartbeat()])
    assert [r["seq"] for r in loads(sent)] == [1, 2]
    assert without_ours(sent) == [{"command": "sync"}] * 2


def test_nothing_is_reported_before_the_period_is_over(tmp_path: Path) -> None:
    first = handshake(tmp_path, {"stormpilot.report.secs": 3600})
    sent, _ = run(ReportingUpper, first, [tuple_message("1", ["a"]), heartbeat()])
    assert loads(sent) == []


def test_spout_reports_emitted_completed_failed_and_latency(tmp_path: Path) -> None:
    commands = [next_(), next_(), next_(), {"command": "ack", "id": "1"}, {"command": "fail", "id": "2"}, next_()]
    sent, _ = run(ReportingNumbers, handshake(tmp_path, component="source"), commands)
    load = msgspec.json.decode(json.dumps(loads(sent)[-1]), type=TaskLoad)
    assert (load.emitted, load.completed, load.failed) == (3, 1, 1)  # the last emit follows its report
    assert sum(n for _, n in load.latency_ms) == 1
    assert load.received == {}


def test_spout_does_not_count_what_cannot_be_serialized(tmp_path: Path) -> None:
    """pystorm logs it and sends nothing: nobody gets such a tuple, and nobody acks it."""

    class SendsSets(SpoutLoadReporting, Numbers):
        def emit(self, tup: Any, **how: Any) -> Any:
            if self.n % 3 == 1:
                how["tup_id"] = uuid.UUID(int=self.n)
            return super().emit([{self.n}] if self.n % 3 == 2 else tup, **how)

    acks = [{"command": "ack", "id": "3"}, {"command": "deactivate"}]
    sent, _ = run(SendsSets, handshake(tmp_path), [*[next_()] * 6, *acks])
    assert [m["id"] for m in without_ours(sent) if m["command"] == "emit"] == ["3", "6"]
    load = loads(sent)[-1]
    assert (load["emitted"], load["completed"], load["failed"]) == (2, 1, 0)


def test_task_of_a_large_topology_counts_two_pairs_for_each_of_its_tasks(tmp_path: Path) -> None:
    made: list[Any] = []

    class Kept(ReportingUpper):
        def initialize(self, storm_conf: Any, context: Any) -> None:
            made.append(self)

    sources = range(1, 4_101)
    tasks = {**dict.fromkeys(sources, "source"), 5_000: "parse"}
    first = handshake(tmp_path, {"stormpilot.report.secs": 3600}, task=5_000, tasks=tasks)
    run(Kept, first, [tuple_message(str(n), ["a"], task=n) for n in sources])
    (received, _) = made[0]._stormpilot_counters.values()["received"]["default"]
    assert len(received) == 4_100


def test_spout_reports_when_it_is_deactivated(tmp_path: Path) -> None:
    """Storm asks a deactivated spout for nothing more."""
    first = handshake(tmp_path, {"stormpilot.report.secs": 3600})
    sent, _ = run(ReportingNumbers, first, [next_(), {"command": "deactivate", "id": ""}])
    assert [r["emitted"] for r in loads(sent)] == [1]


def test_spout_sends_a_load_before_the_sync_that_ends_its_turn(tmp_path: Path) -> None:
    """After a sync Storm does not read until the next command."""
    sent, _ = run(ReportingNumbers, handshake(tmp_path), [next_()])
    commands = [m.get("stream") or m.get("command") for m in sent if "command" in m and m["command"] != "log"]
    assert commands == ["stormpilot_load", "emit", "sync"]


def test_reliable_spout_keeps_its_bookkeeping_and_reports_replays(tmp_path: Path) -> None:
    class Reliable(SpoutLoadReporting, ReliableSpout):
        outputs: ClassVar[list[str]] = ["n"]

        def next_tuple(self) -> None:
            self.emit([1], tup_id="a")

    commands = [next_(), {"command": "fail", "id": "a"}, {"command": "ack", "id": "a"}, {"command": "activate"}]
    sent, _ = run(Reliable, handshake(tmp_path), commands)
    load = loads(sent)[-1]
    assert (load["emitted"], load["completed"], load["failed"]) == (2, 1, 1)
    assert [m["id"] for m in without_ours(sent) if m["command"] == "emit"] == ["a", "a"]


def test_host_is_the_supervisors_name_where_storm_tells_it(tmp_path: Path) -> None:
    first = handshake(tmp_path, {"storm.local.hostname": "node-7"})
    sent, _ = run(ReportingUpper, first, [heartbeat()])
    assert loads(sent)[0]["host"] == "node-7"


# --- every kind of bolt ---------------------------------------------------------------------------------------------


class Batches(LoadReporting, BatchingBolt):
    outputs: ClassVar[list[str]] = ["n"]
    ticks_between_batches = 0

    def process_batch(self, key: Any, tups: list[Any]) -> None:
        self.emit([len(tups)])


def test_batching_bolt_counts_acks_when_its_batch_is_done_and_leaves_ticks_out(tmp_path: Path) -> None:
    messages = [tuple_message("1", ["a"]), tuple_message("2", ["a"]), tick("t1"), heartbeat(), heartbeat()]
    sent, _ = run(Batches, handshake(tmp_path), messages)
    assert [r["acked"] for r in loads(sent)] == [0, 0, 0, 2, 2]
    assert loads(sent)[-1]["received"] == {"default": [[1], [2]]}


@pytest.mark.parametrize("auto_ack", [True, False])
@pytest.mark.parametrize("auto_anchor", [True, False])
def test_what_a_bolt_sends_is_the_same_with_and_without_reporting(
    tmp_path: Path, auto_ack: bool, auto_anchor: bool
) -> None:
    class Plain(Upper):
        pass

    Plain.auto_ack, Plain.auto_anchor = auto_ack, auto_anchor

    class Reporting(LoadReporting, Plain):
        pass

    messages = [tuple_message("1", ["a"]), tick(), heartbeat(), tuple_message("2", ["b"], stream="other")]
    plain, plain_code = run(Plain, handshake(tmp_path), messages)
    reporting, code = run(Reporting, handshake(tmp_path), messages)
    assert without_ours(reporting) == without_ours(plain)
    assert code == plain_code
    assert loads(reporting)[-1]["acked"] == (1 if auto_ack else 0)  # as of reading the second tuple


def test_task_ids_that_a_bolt_asks_for_still_reach_it(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Asking(LoadReporting, Bolt):
        outputs: ClassVar[list[str]] = ["line"]

        def process(self, tup: Any) -> None:
            seen.append(self.emit([1], need_task_ids=True))

    messages = [tuple_message("1", ["a"]), tuple_message("2", ["a"]), [7, 8], [9], heartbeat()]
    sent, _ = run(Asking, handshake(tmp_path), messages)
    assert seen == [[7, 8], [9]]
    assert loads(sent)[-1]["received"] == {"default": [[1], [2]]}


# --- no added failure mode ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exit_on_exception", [True, False])
def test_a_component_that_raises_ends_as_it_would_without_us(tmp_path: Path, exit_on_exception: bool) -> None:
    class Plain(Bolt):
        outputs: ClassVar[list[str]] = []

        def process(self, tup: Any) -> None:
            raise RuntimeError("broken line")

    Plain.exit_on_exception = exit_on_exception

    class Reporting(LoadReporting, Plain):
        pass

    def told(sent: list[Any]) -> list[str]:
        return [m["command"] for m in without_ours(sent)]

    messages = [tuple_message("1", ["a"]), tuple_message("2", ["a"])]
    plain, plain_code = run(Plain, handshake(tmp_path), messages)
    reporting, code = run(Reporting, handshake(tmp_path), messages)
    assert told(reporting) == told(plain)
    assert code == plain_code
    assert any("broken line" in m["msg"] for m in reporting if m.get("command") == "error")


def test_a_component_that_raises_while_it_starts_does_so_with_us(tmp_path: Path) -> None:
    class Broken(LoadReporting, Bolt):
        def initialize(self, storm_conf: Any, context: Any) -> None:
            raise RuntimeError("no database")

    with pytest.raises(RuntimeError, match="no database"):
        run(Broken, handshake(tmp_path), [])


def test_a_topology_without_the_load_stream_gets_no_load(tmp_path: Path) -> None:
    """An emit on an undeclared stream ends the whole worker."""
    first = handshake(tmp_path, streams=["default"])
    sent, _ = run(ReportingUpper, first, [tuple_message("1", ["a"]), heartbeat()])
    assert loads(sent) == []
    assert len(log_lines(sent)) == 1


@pytest.mark.parametrize("period", [0, -1, 3601, "soon", [5]])
def test_a_wrong_period_is_said_once_and_the_default_is_used_as_by_the_hook(tmp_path: Path, period: object) -> None:
    first = handshake(tmp_path, {"stormpilot.report.secs": period})
    sent, code = run(ReportingUpper, first, [tuple_message("1", ["a"]), tuple_message("2", ["b"])])
    assert len(log_lines(sent)) == 1
    assert (
        f"stormpilot.report.secs is {period!r}, expected seconds above 0, at most 3600; using 5" in log_lines(sent)[0]
    )
    assert [m["tuple"] for m in without_ours(sent) if m["command"] == "emit"] == [["A"], ["B"]]
    assert code == 2


class _Broken:
    def __init__(self) -> None:
        self.calls = 0

    def tuple_received(self, *_: Any) -> None:
        self.calls += 1
        raise ZeroDivisionError("ours")

    command_received = message_sent = message_refused = tuple_received


@pytest.mark.parametrize(
    ("component_class", "messages"),
    [(ReportingUpper, [tuple_message("1", ["a"]), tuple_message("2", ["b"])]), (ReportingNumbers, [next_(), next_()])],
)
def test_a_fault_of_ours_ends_reporting_with_one_line_and_nothing_else(
    tmp_path: Path, component_class: type, messages: list[Any]
) -> None:
    broken = _Broken()

    class Faulty(component_class):  # type: ignore[valid-type, misc]
        def _stormpilot_new_counters(self, storm_conf: Any, context: Any) -> Any:
            return broken

    sent, code = run(Faulty, handshake(tmp_path), messages)
    healthy, healthy_code = run(component_class, handshake(tmp_path), messages)
    assert len(log_lines(sent)) == 1
    assert without_ours(sent) == without_ours(healthy)
    assert code == healthy_code
    assert broken.calls == 1, "an exception for each tuple would take longer than many a component"


class _Handler:
    def __init__(self, handle: Callable[..., None]) -> None:
        self.handle = handle

    def __call__(self, number: int, where: Any) -> None:
        self.handle(number, where)


@pytest.mark.parametrize("made", [lambda handle: handle, partial, _Handler])
def test_an_exception_of_a_signal_handler_of_the_component_is_not_swallowed(
    tmp_path: Path, made: Callable[..., Any]
) -> None:
    """`TicklessBatchingBolt` raises the error of a batch from its handler of SIGUSR1, wherever the main thread is."""

    class Interrupted(_Broken):
        def tuple_received(self, tup: Any) -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(10)

    class Timed(LoadReporting, Bolt):
        def initialize(self, storm_conf: Any, context: Any) -> None:
            signal.signal(signal.SIGUSR1, made(self._handle))

        def process(self, tup: Any) -> None:
            pass

        def _handle(self, number: int, where: Any) -> None:
            raise RuntimeError("batch failed")

        def _stormpilot_new_counters(self, storm_conf: Any, context: Any) -> Any:
            return Interrupted()

    before = signal.getsignal(signal.SIGUSR1)
    try:
        sent, code = run(Timed, handshake(tmp_path), [tuple_message("1", ["a"])])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert code == 1
    assert log_lines(sent) == []


def test_a_child_process_does_not_report(tmp_path: Path) -> None:
    class Forking(LoadReporting, Bolt):
        """Its child goes on reading the same input, as a fork in a careless component would."""

        outputs: ClassVar[list[str]] = []

        def process(self, tup: Any) -> None:
            child = os.fork()
            if child == 0:
                self.read_tuple()
                os._exit(len(loads_of(self)))
            _, status = os.waitpid(child, 0)
            self.emit([os.waitstatus_to_exitcode(status)])

    def loads_of(component: Any) -> list[Any]:
        output = component.serializer.output_stream.buffer.getvalue().decode()
        return [1 for text in output.split("\nend\n") if "stormpilot_load" in text]

    sent, _ = run(Forking, handshake(tmp_path), [tuple_message("1", ["a"]), heartbeat()])
    loads_in_the_child = next(m["tuple"][0] for m in without_ours(sent) if m["command"] == "emit")
    assert loads_in_the_child == 1  # what the parent had sent before the fork


def test_names_of_ours_meet_none_of_the_components() -> None:
    """Every attribute that the mixins add starts with our prefix, or overrides what pystorm has."""
    for mixin, base in [(LoadReporting, Bolt), (SpoutLoadReporting, Spout)]:
        ours = {name for c in mixin.__mro__[:-1] for name in vars(c) if not name.startswith("__")}
        assert {n for n in ours if not n.startswith("_stormpilot_")} <= set(dir(base))


def test_what_is_printed_goes_to_stderr_where_stdout_is_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SimpleNamespace(fileno=lambda: 11)
    monkeypatch.setattr(sys, "stdout", shared)
    component = SimpleNamespace(serializer=SimpleNamespace(output_stream=shared))
    _keep_stdout_off_the_protocol(component)
    assert sys.stdout is sys.stderr
