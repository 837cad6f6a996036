"""`stormpilot_run` as Storm starts it, side by side with `streamparse_run`: real processes, real frames over pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from multilang import frame, handshake, heartbeat, loads, messages_of, tick, tuple_message, without_ours

BIN = Path(sys.executable).parent
TIMEOUT_S = 300


@dataclass
class Ran:
    """A component that ended: what it sent to Storm, what it wrote to stderr, its exit code."""

    sent: list[Any]
    stderr: str
    code: int


@dataclass
class Talk:
    """A component that runs: write it messages, read its answers one by one."""

    process: subprocess.Popen[bytes]
    sent: list[Any] = field(default_factory=list)

    def write(self, *messages: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(frame(m) for m in messages))
        self.process.stdin.flush()

    def read_until(self, wanted: Callable[[Any], bool]) -> Any:
        """The first message from now on that is wanted; fails at the end of the pipe."""
        assert self.process.stdout is not None
        lines: list[bytes] = []
        for line in self.process.stdout:
            if line != b"end\n":
                lines.append(line)
                continue
            message, lines = json.loads(b"".join(lines)), []
            self.sent.append(message)
            if wanted(message):
                return message
        raise AssertionError(f"the component ended before; it sent {self.sent}")

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self.sent += messages_of(rest)
        return self.process.wait(TIMEOUT_S)


def start(runner: str, component: str) -> subprocess.Popen[bytes]:
    """Start a component as a worker does: everything in one argument, the working directory that of the sources."""
    return subprocess.Popen(
        [BIN / runner, f"-s json components.{component}"],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(runner: str, component: str, first: Any, messages: Iterable[Any]) -> Ran:
    """Run a component until its input ends."""
    process = start(runner, component)
    out, err = process.communicate(b"".join(frame(m) for m in [first, *messages]), timeout=TIMEOUT_S)
    return Ran(messages_of(out), err.decode(), process.returncode)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Callable[..., Talk]]:
    """Starts components that are ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(component: str, runner: str = "stormpilot_run", first: Any = None) -> Talk:
        process = start(runner, component)
        started.append(process)
        talk = Talk(process)
        talk.write(first or handshake(tmp_path))
        return talk

    yield begin
    for process in started:
        process.kill()
        process.wait(TIMEOUT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


NEXT = {"command": "next", "id": ""}
TUPLES = [tuple_message("1", ["a"]), tuple_message("2", ["b"], task=2)]


def comparable(sent: list[Any]) -> list[Any]:
    """What a component sent of its own, tracebacks cut to their last line."""
    own = without_ours(sent)
    return [{**m, "msg": m["msg"].strip().splitlines()[-1]} if "msg" in m else m for m in own]


@pytest.mark.parametrize(
    ("component", "messages"),
    [
        ("Upper", [*TUPLES, heartbeat(), tick()]),
        ("Silent", [*TUPLES, heartbeat()]),
        ("Binary", [*TUPLES, heartbeat()]),
        ("Branching", [TUPLES[0], [4, 5], TUPLES[1], [6]]),
        ("Batches", [*TUPLES, tick("t1"), heartbeat(), tick("t2")]),
        (
            "Numbers",
            [NEXT, NEXT, {"command": "ack", "id": "1"}, {"command": "fail", "id": "2"}, {"command": "activate"}],
        ),
        ("Reliable", [NEXT, {"command": "fail", "id": "a"}, {"command": "ack", "id": "a"}, {"command": "deactivate"}]),
        ("Raising", TUPLES),
        ("Surviving", TUPLES),
        ("RaisingAtStart", TUPLES),
        ("NoComponent", TUPLES),
        ("Missing", TUPLES),
    ],
)
def test_a_component_does_the_same_with_us_as_without(tmp_path: Path, component: str, messages: list[Any]) -> None:
    """Same messages in the same order, same exit code; loads and their log lines apart."""
    plain = run("streamparse_run", component, handshake(tmp_path), messages)
    ours = run("stormpilot_run", component, handshake(tmp_path), messages)
    assert comparable(ours.sent) == comparable(plain.sent)
    assert ours.code == plain.code


def test_it_reports_what_it_did(tmp_path: Path) -> None:
    ours = run("stormpilot_run", "Upper", handshake(tmp_path), [*TUPLES, heartbeat()])
    load = loads(ours.sent)[-1]
    assert load["received"] == {"default": [[1, 2], [1, 1]]}
    assert load["acked"] == 2
    assert load["pid"] == ours.sent[0]["pid"]


def test_nothing_that_a_component_prints_reaches_the_protocol(tmp_path: Path) -> None:
    """By print, by a raw write, from C and from a child process; Storm logs stderr."""
    ours = run("stormpilot_run", "Printing", handshake(tmp_path), TUPLES)
    assert [m["tuple"] for m in without_ours(ours.sent) if m["command"] == "emit"] == [["A"], ["B"]]
    for text in ("printed in initialize", "printed a", "written", "raw", "from C", "from a child"):
        assert text in ours.stderr
    assert ours.code == 2


def test_children_write_nothing_into_the_protocol_and_their_cpu_counts(tmp_path: Path) -> None:
    ours = run("stormpilot_run", "Forking", handshake(tmp_path), [TUPLES[0], heartbeat()])
    assert [m["command"] for m in without_ours(ours.sent)] == ["emit", "ack", "sync"]
    before, after = loads(ours.sent)
    assert {load["pid"] for load in (before, after)} == {ours.sent[0]["pid"]}
    assert after["cpuS"] - before["cpuS"] > 0.25
    assert "in the child" in ours.stderr


def test_a_tickless_bolt_reports_what_its_thread_acked(talk: Callable[..., Talk]) -> None:
    component = talk("Tickless")
    component.write(*[tuple_message(str(n), ["a"]) for n in range(3)])
    for _ in range(3):
        component.read_until(lambda m: m.get("command") == "ack")
    component.write(heartbeat())
    component.read_until(lambda m: m.get("stream") == "stormpilot_load" and loads([m])[0]["acked"] == 3)
    assert component.end() == 2


@pytest.mark.parametrize("runner", ["streamparse_run", "stormpilot_run"])
def test_a_failing_batch_of_a_tickless_bolt_ends_it(runner: str, talk: Callable[..., Talk]) -> None:
    component = talk("Tickless", runner)
    component.write(tuple_message("1", ["bad"]))
    told = component.read_until(lambda m: m.get("command") == "error")
    assert "broken batch" in told["msg"]
    assert component.process.wait(TIMEOUT_S) == 1


def test_an_idle_bolt_reports_on_heartbeats_alone(talk: Callable[..., Talk]) -> None:
    component = talk("Upper")
    for seq in (1, 2, 3):
        component.write(heartbeat())
        load = component.read_until(lambda m: m.get("stream") == "stormpilot_load")
        assert loads([load])[0]["seq"] == seq


def test_it_says_its_process_id_and_marks_it_as_storm_expects(tmp_path: Path) -> None:
    ours = run("stormpilot_run", "Upper", handshake(tmp_path), [])
    assert (tmp_path / str(ours.sent[0]["pid"])).exists()


def test_arguments_may_come_in_one_piece_or_in_several(tmp_path: Path) -> None:
    for arguments in (["-s json components.Upper"], ["-s", "json", "components.Upper"], ["components.Upper"]):
        done = subprocess.run(
            [BIN / "stormpilot_run", *arguments],
            cwd=Path(__file__).parent,
            input=frame(handshake(tmp_path)),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert messages_of(done.stdout)[0].keys() == {"pid"}


def test_modules_are_found_under_resources_where_storm_leaves_them_there(tmp_path: Path) -> None:
    (tmp_path / "resources" / "pkg").mkdir(parents=True)
    source = (Path(__file__).parent / "components.py").read_text()
    (tmp_path / "resources" / "pkg" / "bolts.py").write_text(source)
    done = subprocess.run(
        [BIN / "stormpilot_run", "pkg.bolts.Upper"],
        cwd=tmp_path,
        input=frame(handshake(tmp_path)) + frame(TUPLES[0]),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert [m["tuple"] for m in without_ours(messages_of(done.stdout)) if m["command"] == "emit"] == [["A"]]


@pytest.mark.parametrize("arguments", [[], ["Upper"], ["-s", "xml", "components.Upper"]])
def test_wrong_arguments_end_with_usage(arguments: list[str]) -> None:
    done = subprocess.run(
        [BIN / "stormpilot_run", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 2
    assert "usage" in done.stderr
    assert done.stdout == ""
