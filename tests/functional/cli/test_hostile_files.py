"""Files that nobody honest wrote: one clear error that names the file, the field and what was expected."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles.commands import Run
from doubles.models import SPREAD, model, topology
from stormpilot import cli

SOUND: dict[str, Any] = json.loads(msgspec.json.encode(model(topology(SPREAD))))
SIZING = Path(__file__).resolve().parents[3] / "docs" / "reference" / "sizing.example.yaml"
DEEP = b'{"schema":1,"supervisors":[],"topologies":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def with_rate(rate: float) -> bytes:
    return json.dumps({**SOUND, "traffic": [{**SOUND["traffic"][0], "rate": rate}]}).encode()


@pytest.mark.parametrize("command", [("model", "validate"), ("model", "show"), ("plan", "compute", "--model")])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DEEP, "m.json: it is nested deeper than 64"),
        (b"[" * 500_000, "m.json: it is nested deeper than 64"),
        (b'{"schema":1,"x":"\xff"}', "m.json"),
        (b'{"schema":1,"supervisors":[{"id":"\xff\xfe"}]}', "m.json"),
        (b'{"schema":1,"x":' + b"9" * 6_000 + b"}", "m.json: it has a whole number of 6000 digits"),
        (with_rate(1e308), "1e+308, expected"),
        (with_rate(float("nan")), "m.json:1: "),
        (b"", "m.json: is empty, expected the model"),
        (
            json.dumps(SOUND).encode()[:300],
            "it breaks off after byte 300, in the middle of a value: write or copy the whole file again",
        ),
        (b'{"schema": 1,\n "x" 1}', "JSON is malformed: expected ':' (byte 19)"),
        (b"\n", "m.json: is empty, expected the model"),
        (b"\xef\xbb\xbf", "m.json: is empty, expected the model"),
        (gzip.compress(b"{}", mtime=0), "m.json: cannot read the model: is compressed (gzip), expected the text"),
    ],
)
def test_a_model_that_nobody_honest_wrote_is_one_error(
    run: Run, tmp_path: Path, command: tuple[str, ...], data: bytes, said: str
) -> None:
    (tmp_path / "m.json").write_bytes(data)
    found = run(*command, tmp_path / "m.json")
    assert found.code == 2
    assert said in found.err.replace("\n", " ") + found.out.replace("\n", " ")
    assert "Traceback" not in found.err + found.out


def test_a_model_and_a_configuration_may_begin_with_a_byte_order_mark(run: Run, tmp_path: Path) -> None:
    """Editors of Windows write one; it was malformed JSON, without a word why."""
    (tmp_path / "m.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(SOUND).encode())
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbfdecide: {mode: act}\n")
    assert run("model", "validate", tmp_path / "m.json").code == 0
    assert run("model", "show", tmp_path / "m.json").code == 0
    assert run("config", "check", tmp_path / "c.yaml").code == 0


@pytest.mark.parametrize("command", [("model", "validate"), ("config", "check")])
def test_an_error_is_one_line_whatever_the_name_of_the_file_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "argv", ["stormpilot", *command, "a\nb.json"])
    with pytest.raises(SystemExit):
        cli.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"stormpilot: a\nb.json: cannot read")


def test_a_number_of_three_hundred_digits_is_not_written_out(run: Run, tmp_path: Path) -> None:
    supervisors = [{**SOUND["supervisors"][0], "cpu_limit_mhz": 1e308}, *SOUND["supervisors"][1:]]
    (tmp_path / "m.json").write_text(json.dumps({**SOUND, "supervisors": supervisors}))
    found = run("model", "validate", tmp_path / "m.json")
    assert "1e+308 MHz is more than" in found.out
    assert max(map(len, found.out.split())) < 300


@pytest.mark.parametrize("option", ["--mined", "--replay"])
def test_what_was_mined_or_replayed_and_nobody_honest_wrote_is_one_error(run: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "r.json").write_bytes(DEEP)
    found = run("trafficlog", "report", "--log", tmp_path, option, tmp_path / "r.json")
    assert found.code == 2
    assert "r.json is not what `stormpilot trafficlog" in found.err


@pytest.mark.parametrize("option", ["--model", "--new-topology"])
def test_what_if_names_the_file_that_is_wrong(run: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "good.json").write_text(json.dumps(SOUND))
    (tmp_path / "bad.json").write_bytes(with_rate(1e308))
    given = ["--model", "good.json", "--new-topology", "good.json"]
    given[given.index(option) + 1] = "bad.json"
    found = run("what-if", *(tmp_path / g if g.endswith(".json") else g for g in given))
    assert found.code == 2
    assert "bad.json: traffic[0]: rate is 1e+308, expected" in found.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("decide: " + "[" * 3_000, "c.yaml: nested too deeply"),
        ("decide: " + "[" * 3_000 + "]" * 3_000, "c.yaml: nested too deeply"),
        ("cycle: {period_s: " + "9" * 5_000 + "}", "c.yaml: not valid YAML: Exceeds the limit"),
        ("cycle: 2001-99-99", "c.yaml: not valid YAML: month must be in 1..12"),
        ("cycle: &a [*a]", "c.yaml: more than 20000 values"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ), "c.yaml: more than 20000 values"),
        ("x" * 2_000_000, "configuration: has 2,000,000 bytes, expected a file of at most 1,048,576 bytes"),
        ("a: \x00", "c.yaml"),
    ],
)  # fmt: skip
def test_a_configuration_that_nobody_honest_wrote_is_one_error(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    found = run("config", "check", tmp_path / "c.yaml")
    assert found.code == 2
    assert said in found.err.replace("\n", " ")
    assert "Traceback" not in found.err + found.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "zookeeper: {hosts: 'z1:2181,z2:2181/prod'}",
            "expected no path behind the addresses: the root is zookeeper.root",
        ),
        ("notify: {url: 'http://[::1/x'}", "c.yaml: notify.url: expected a host"),
        ("notify: {url: 'http://:80'}", "c.yaml: notify.url: expected a host"),
        ("zookeeper: {hosts: 'a:999999'}", "c.yaml: zookeeper.hosts: 'a:999999': Port out of range"),
        ("planner: {name: nope}", "c.yaml: planner.name: "),
        ("planner: {first_plan: nope}", "c.yaml: planner.first_plan: "),
        ("planner: {params: {nope: 1}}", "c.yaml: planner.params: "),
    ],
)
def test_what_the_controller_would_refuse_is_named_with_its_key(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    found = run("config", "check", tmp_path / "c.yaml")
    assert (found.code, said in found.err) == (2, True), found.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", "[" * 100_000),
        ("t.json", "9" * 6_000),
        ("t.yaml", "[" * 3_000),
        ("t.yaml", "a: &a [*a]"),
        ("t.yaml", "a: 2001-99-99"),
        ("t.yaml", "a: \x1b[31m"),
    ],
)
def test_a_topology_to_size_that_nobody_honest_wrote_is_one_error(
    run: Run, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    found = run("size", tmp_path / name)
    assert found.code == 2
    assert name in found.err
    assert "\n" not in found.err.strip()
    assert "Traceback" not in found.err + found.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("model", "validate", "FILE"),
        ("plan", "compute", "--model", "FILE"),
        ("plan", "explain", "--model", "m.json", "--plan", "FILE"),
        ("config", "check", "FILE"),
        ("status", "--config", "FILE"),
        ("size", "FILE"),
        ("submit", "--config", "FILE"),
        ("trafficlog", "replay", "--log", ".", "--mined", "FILE"),
    ],
)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zero", "is a device, expected a file"),
        ("pipe", "is a pipe into which nobody writes, expected a file"),
        ("huge", "has 5,368,709,120 bytes, expected a file of at most "),
        ("folder", "Is a directory, expected a file"),
    ],
)
def test_what_is_no_file_of_that_kind_is_said_before_it_is_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.json").write_text(json.dumps(SOUND))
    Path("zero").symlink_to("/dev/zero")
    os.mkfifo("pipe")
    Path("folder").mkdir()
    with Path("huge").open("wb") as file:
        file.truncate(5 * 2**30)
    if "trafficlog" in arguments and name == "folder":
        said = "is a directory"  # (the option says so)
    found = run(*(name if a == "FILE" else a for a in arguments))
    assert (found.code, name in found.err, said in found.err) == (2, True, True), found.err


@pytest.mark.parametrize(
    ("command", "document", "said"),
    [
        ("plan compute -m", "{}", "expected a model (model.json): Object missing required field `supervisors`"),
        ("plan compute -m", '{"topologies": []}', "looks like a plan (plan.json), expected a model (model.json)"),
        ("model validate", '{"topologies": []}', "looks like a plan (plan.json), expected a model (model.json)"),
        ("model show", '{"components": [], "vms": []}', "looks like a topology to size, expected a model (model.json)"),
        (
            f"predict {SIZING} --plan",
            '{"topologies": [{"id": "a", "workers": 1}], "supervisors": [], "traffic": []}',
            "looks like a model (model.json), expected a plan (plan.json)",
        ),
        (f"predict {SIZING} --plan", "{}", "expected a plan (plan.json): Object missing required field `topologies`"),
    ],
)
def test_a_file_of_another_kind_is_told_which_one_is_expected(
    run: Run, tmp_path: Path, command: str, document: str, said: str
) -> None:
    (tmp_path / "f.json").write_text(document)
    done = run(*command.split(), tmp_path / "f.json")
    assert (done.code, done.err) == (2, f"stormpilot: {tmp_path / 'f.json'}: {said}")
