"""Every component as Storm runs it: a process of `streamparse_run` that talks multilang over its pipes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flight_delays.delay_windows import WindowResult
from flight_delays.records import EnrichedFlight, Flight
from multilang import frame, heartbeat, messages_of

SRC = Path(__file__).parents[3] / "topologies" / "src"
RUN = Path(sys.executable).with_name("streamparse_run")
LINE = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
FLIGHT = Flight(0, "UA", 1545, "EWR", "IAH", "2013-01-01T10:00:00Z", 2, 11, 227, 1400)
CANCELLED = FLIGHT._replace(flight=1, dep_delay_min=None, arr_delay_min=None, air_time_min=None)
ENRICHED = EnrichedFlight(
    0, "EWR-IAH", "UA", "United Air Lines Inc.", "George Bush Intercontinental", 2, 11, 1400, 12.66, 10.0, 0.0
)
LATE = WindowResult("route", "EWR-IAH", "George Bush Intercontinental", 50, 40.0, 45.5, 90, 0.7, 0.1, "full")


def command_line(target: str) -> list[str]:
    """As Storm does: the runner, and everything else in one argument."""
    return [str(RUN), f"-s json {target}"]


def handshake(folder: Path, conf: dict | None = None, fields: dict | None = None, component: str = "it") -> dict:
    return {
        "pidDir": str(folder),
        "conf": {"topology.name": "test", "storm.id": "test-1", **(conf or {})},
        "context": {
            "taskid": 4,
            "componentid": component,
            "task->component": {"4": component, "5": component, "6": "other"},
            "source->stream->fields": fields or {},
        },
    }


@dataclass
class Case:
    """A component, the tuples that it is given, and what it is to emit: (stream, values, id of the anchor)."""

    target: str
    stream: str
    fields: tuple[str, ...]
    given: list[list[Any]]
    emits: list[tuple[str, list[Any], str]]
    conf: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case(
        "flight_delays.bolts.ParseFlight",
        "default",
        ("flight", "line"),
        [[0, LINE], [1, "no flight"]],
        [("default", list(FLIGHT), "t0"), ("rejected", [1, "malformed"], "t1")],
    ),
    Case(
        "flight_delays.bolts.FilterFlight",
        "default",
        Flight._fields,
        [list(FLIGHT), list(CANCELLED)],
        [("default", list(FLIGHT), "t0"), ("rejected", [1, "cancelled"], "t1")],
    ),
    Case(
        "flight_delays.bolts.EnrichFlight",
        "default",
        Flight._fields,
        [list(FLIGHT)],
        [("default", list(ENRICHED), "t0")],
    ),
    Case(
        "flight_delays.delay_bolts.RouteStatistics",
        "default",
        EnrichedFlight._fields,
        [list(ENRICHED), list(ENRICHED._replace(arr_delay_min=21))],
        [
            (
                "windows",
                ["route", "EWR-IAH", "George Bush Intercontinental", 2, 2.0, 16.0, 21, 0.5, 0.0, "full"],
                "t1",
            )
        ],
        {"flights.window.flights": 2},
    ),
    Case(
        "flight_delays.delay_bolts.CarrierStatistics",
        "default",
        EnrichedFlight._fields,
        [list(ENRICHED)],
        [("windows", ["carrier", "UA", "United Air Lines Inc.", 1, 2.0, 11.0, 11, 0.0, 0.0, "full"], "t0")],
        {"flights.window.flights": 1},
    ),
    Case(
        "flight_delays.alerts.DelayAlerts",
        "windows",
        WindowResult._fields,
        [list(LATE), list(LATE)],
        [("alerts", ["route", "EWR-IAH", "George Bush Intercontinental", "raised", 45.5, 0.7], "t0")],
    ),
    Case("flight_delays.sink.DelaySink", "windows", WindowResult._fields, [list(LATE)], []),
    Case(
        "word_count.bolts.SplitSentence",
        "default",
        ("topic", "sentence"),
        [["topic-1", "ba humba ba"]],
        [("default", [word], "t0") for word in ("ba", "humba", "ba")],
        {"wordcount.harmonic.terms": 100},
    ),
    Case("word_count.bolts.CountWord", "default", ("word",), [["ba"], ["humba"]], []),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.target)
def test_a_bolt_answers_tuples_with_anchored_emits_and_acknowledgements(case: Case, tmp_path: Path) -> None:
    fields = {"before": {case.stream: list(case.fields)}}
    tuples = [
        {"id": f"t{i}", "comp": "before", "stream": case.stream, "task": 6, "tuple": values}
        for i, values in enumerate(case.given)
    ]
    done = subprocess.run(
        command_line(case.target),
        input=b"".join(map(frame, [handshake(tmp_path, case.conf, fields), *tuples, heartbeat()])),
        capture_output=True,
        cwd=SRC,
        timeout=300,
        check=False,
    )
    sent = messages_of(done.stdout)
    emitted = [
        (message.get("stream", "default"), message["tuple"], message["anchors"])
        for message in sent
        if message.get("command") == "emit"
    ]
    assert emitted == [(stream, values, [anchor]) for stream, values, anchor in case.emits]
    assert [message["id"] for message in sent if message.get("command") == "ack"] == [t["id"] for t in tuples]
    assert [message for message in sent if message.get("command") in ("fail", "error")] == []
    assert sent[-1] == {"command": "sync"} or sent[-1]["command"] == "log"
    assert done.returncode == 2, "the code for: Storm closed the pipe"


class SpoutProcess:
    """A spout that is asked command by command."""

    def __init__(self, target: str, folder: Path, conf: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            command_line(target), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=SRC
        )
        self.emitted: list[dict] = []
        self._send(handshake(folder, conf, component="source"))
        assert "pid" in self._read()

    def ask(self, command: dict) -> None:
        """Send a command and read until the spout says that it is done with it."""
        self._send(command)
        while (message := self._read()) != {"command": "sync"}:
            if message["command"] == "emit":
                self.emitted.append(message)
            else:
                assert message["command"] == "log", message

    def next_until_emitted(self, count: int) -> list[dict]:
        """Ask for tuples until so many have come; the time limit is the test's own."""
        first = len(self.emitted)
        while len(self.emitted) < first + count:
            self.ask({"command": "next"})
        return self.emitted[first:]

    def close(self) -> None:
        """End it as Storm does."""
        self._process.stdin.close()
        assert self._process.wait(300) == 2
        self._process.stdout.close()
        self._process.stderr.close()

    def _send(self, message: dict) -> None:
        self._process.stdin.write(frame(message))
        self._process.stdin.flush()

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        assert self._process.stdout.readline() == b"end\n", self._process.stderr.read().decode()
        return json.loads(line)


def test_the_sentence_spout_emits_and_replays_what_failed(tmp_path: Path) -> None:
    spout = SpoutProcess("word_count.spout.SentenceSpout", tmp_path, {"wordcount.rate.tps": 2000})
    first, second = spout.next_until_emitted(2)[:2]
    assert (first["id"], second["id"]) == ("0", "2")
    assert first["tuple"][0].startswith("topic-")
    assert len(first["tuple"][1].split()) == 10
    spout.ask({"command": "ack", "id": "0"})
    spout.ask({"command": "fail", "id": "2"})
    assert spout.next_until_emitted(1)[0] == second
    spout.close()


def test_the_flight_spout_answers_storm_and_emits_nothing_while_zookeeper_is_gone(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: a connection is refused
        conf = {
            "storm.zookeeper.servers": ["127.0.0.1"],
            "storm.zookeeper.port": nobody.getsockname()[1],
            "flights.rate.tps": 2000,
        }
        spout = SpoutProcess("flight_delays.spout.FlightSpout", tmp_path, conf)
        for _ in range(100):
            spout.ask({"command": "next"})
        spout.ask({"command": "deactivate"})
        spout.ask({"command": "activate"})
        assert spout.emitted == []
        spout.close()


@pytest.mark.zookeeper
def test_the_flight_spout_goes_on_where_its_killed_predecessor_was(tmp_path: Path, zookeeper: Any) -> None:
    """Commits in the background to a real ZooKeeper, through an outage of it; the next process resumes."""
    from kazoo.client import KazooClient

    from flight_delays.progress import read_progress

    host, port = zookeeper.hosts.split(":")
    conf = {
        "storm.zookeeper.servers": [host],
        "storm.zookeeper.port": int(port),
        "flights.rate.tps": 2000,
        "flights.commit.period.secs": 0.1,
    }
    client = KazooClient(hosts=zookeeper.hosts, timeout=60)  # its session outlives the outage
    client.start(timeout=300)

    def ask_until_committed(spout: SpoutProcess, offset: int) -> None:
        while not (parts := read_progress(client, "test-1")) or parts[0].committed < offset:
            spout.ask({"command": "next"})

    try:
        spout = SpoutProcess("flight_delays.spout.FlightSpout", tmp_path, conf)
        emitted = spout.next_until_emitted(40)
        assert [int(message["id"]) for message in emitted[:40]] == list(range(40))
        assert emitted[0]["tuple"] == [0, LINE]
        for offset in range(30):
            spout.ask({"command": "ack", "id": str(offset)})
        ask_until_committed(spout, 30)
        zookeeper.stop()
        spout.ask({"command": "ack", "id": "30"})
        spout.next_until_emitted(20)
        zookeeper.start()
        ask_until_committed(spout, 31)
        os.kill(spout._process.pid, 9)
        spout._process.wait()
        successor = SpoutProcess("flight_delays.spout.FlightSpout", tmp_path, conf)
        assert int(successor.next_until_emitted(1)[0]["id"]) == 31
        assert read_progress(client, "test-1")[0].incarnation == 2
        successor.close()
    finally:
        client.stop()
        client.close()
