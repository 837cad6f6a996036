"""The collector bolt: the newest load of every task once a period, and every tuple acked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multilang import handshake, heartbeat, loads, log_lines, run, tuple_message, without_ours
from stormpilot.instrument import collector
from stormpilot.instrument.collector import LoadCollector
from stormpilot.instrument.reporting import LOAD_STREAM

TASKS = {1: "source", 3: "parse", 9: "stormpilot-collector"}
CONF = {"storm.id": "flights-1-1", "storm.zookeeper.servers": ["127.0.0.1"], "storm.zookeeper.port": 1}


class RecordingWriter:
    """Takes what the collector offers."""

    made: list[RecordingWriter] = []  # noqa: RUF012

    def __init__(self, store: Any, topology_id: str, reporter: str) -> None:
        self.topology_id, self.reporter = topology_id, reporter
        self.offers: list[list[str]] = []
        RecordingWriter.made.append(self)

    def start(self) -> None: ...

    def offer(self, loads: list[str]) -> None:
        self.offers.append(loads)


@pytest.fixture(autouse=True)
def _recording(monkeypatch: pytest.MonkeyPatch) -> None:
    RecordingWriter.made = []
    monkeypatch.setattr(collector, "ReportWriter", RecordingWriter)


def first(tmp_path: Path, **conf: Any) -> dict[str, Any]:
    return handshake(tmp_path, {**CONF, **conf}, task=9, component="stormpilot-collector", streams=[], tasks=TASKS)


def load_message(task: int, seq: int = 1) -> dict[str, Any]:
    text = json.dumps({"task": task, "startMs": 1, "seq": seq, "component": TASKS.get(task, "?")})
    return tuple_message(f"load-{task}-{seq}", [text], task=task, stream=LOAD_STREAM)


def test_it_offers_the_newest_load_of_every_task_with_its_own(tmp_path: Path) -> None:
    run(LoadCollector, first(tmp_path), [load_message(1), load_message(3), load_message(3, seq=2), heartbeat()])
    (writer,) = RecordingWriter.made
    assert (writer.topology_id, writer.reporter) == ("flights-1-1", "collector-9")
    newest = [json.loads(text) for text in writer.offers[-1]]
    assert [(t["task"], t["seq"]) for t in newest[:2]] == [(1, 1), (3, 2)]
    assert newest[2]["component"] == "stormpilot-collector"
    assert newest[2]["received"] == {LOAD_STREAM: [[1, 3], [1, 2]]}


def test_it_offers_once_per_report_period_however_many_loads_come(tmp_path: Path) -> None:
    slow = first(tmp_path, **{"stormpilot.report.secs": 3600})
    run(LoadCollector, slow, [load_message(3, seq) for seq in range(1, 50)])
    assert RecordingWriter.made[0].offers == []


def test_it_acks_every_load_and_emits_nothing(tmp_path: Path) -> None:
    """A load that is not acked would stay in the worker's memory."""
    sent, _ = run(LoadCollector, first(tmp_path), [load_message(1), load_message(3)])
    assert without_ours(sent) == [{"command": "ack", "id": "load-1-1"}, {"command": "ack", "id": "load-3-1"}]
    assert loads(sent) == []


def test_its_acks_are_not_counted_as_tuples_to_ackers(tmp_path: Path) -> None:
    run(LoadCollector, first(tmp_path), [load_message(1), load_message(3), heartbeat()])
    assert json.loads(RecordingWriter.made[0].offers[-1][-1])["acked"] == 0


def test_what_is_no_load_is_acked_and_said_once(tmp_path: Path) -> None:
    bad = [tuple_message(str(n), ["{"], stream=LOAD_STREAM) for n in range(5)]
    sent, code = run(LoadCollector, first(tmp_path), [*bad, load_message(3), heartbeat()])
    assert len(log_lines(sent)) == 1
    assert [m["id"] for m in without_ours(sent) if m["command"] == "ack"] == ["0", "1", "2", "3", "4", "load-3-1"]
    assert json.loads(RecordingWriter.made[0].offers[-1][0])["task"] == 3
    assert code == 2


@pytest.mark.parametrize("missing", ["storm.id", "storm.zookeeper.servers"])
def test_a_configuration_without_zookeeper_is_said_once_and_the_bolt_goes_on(tmp_path: Path, missing: str) -> None:
    sent, code = run(LoadCollector, first(tmp_path, **{missing: None}), [load_message(3), heartbeat()])
    assert RecordingWriter.made == []
    assert len(log_lines(sent)) == 1
    assert missing in log_lines(sent)[0]
    assert code == 2
