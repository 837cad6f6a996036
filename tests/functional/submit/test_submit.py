"""`stormpilot submit` against a Nimbus that speaks real Thrift over a real socket."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from doubles.fake_nimbus import FakeNimbus, serving
from stormpilot.instrument.topology import COLLECTOR_ID
from stormpilot.submit import submit_topology

from .conftest import PARTS, Run


def configure(project: Path, settings: dict[str, Any]) -> None:
    """Settings of the environment of the project."""
    config = json.loads((project / "config.json").read_text())
    config["envs"]["prod"] |= settings
    (project / "config.json").write_text(json.dumps(config))


def conf_of(nimbus: FakeNimbus) -> dict[str, Any]:
    """The configuration of the only topology that was submitted."""
    (sent,) = nimbus.submitted
    return json.loads(sent.conf)


# --- what arrives at Nimbus -------------------------------------------------------------------------------------------


def test_a_project_arrives_whole(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    done = stormpilot(project, "-f", "json", "-O", "mine=cli", "-w", "5", "-a", "1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["topologyId"] == "flights-1-1"
    (sent,), conf = nimbus.submitted, conf_of(nimbus)
    assert (sent.name, sent.active) == ("flights", True)
    assert conf["mine"] == "cli"
    assert (conf["topology.workers"], conf["topology.acker.executors"]) == (5, 1)
    assert conf["topology.message.timeout.secs"] == 20
    assert conf["topology.original_name"] == "flights"
    assert sent.topology.spouts["source"].common.parallelism_hint == 3
    assert json.loads(sent.topology.bolts["parse"].common.json_conf) == {"site": "east"}
    (only,) = sent.topology.bolts["parse"].common.inputs.values()
    assert only.fields == ["line"]
    with zipfile.ZipFile(io.BytesIO(sent.jar)) as jar:
        assert jar.read("resources/flights/parts.py").decode() == PARTS
    assert nimbus.finished == set(nimbus.uploads)


def test_components_report_and_the_collector_hears_them(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    assert stormpilot(project).returncode == 0
    topology = nimbus.submitted[0].topology
    runner = str(Path(sys.executable).parent / "stormpilot_run")
    shells = [topology.spouts["source"].spout_object.shell, topology.bolts["parse"].bolt_object.shell]
    assert [s.execution_command for s in shells] == [runner, runner]
    assert [s.script for s in shells] == ["-s json flights.parts.Source", "-s json flights.parts.Parse"]
    inputs = {(i.componentId, i.streamId) for i in topology.bolts[COLLECTOR_ID].common.inputs}
    assert inputs == {("source", "stormpilot_load"), ("parse", "stormpilot_load")}
    assert topology.bolts["node"].bolt_object.shell.execution_command == "node"
    assert set(topology.bolts["node"].common.streams) == set()


def test_each_topology_gets_a_login_to_zookeeper_of_its_own(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    scheme, payload = "storm.zookeeper.topology.auth.scheme", "storm.zookeeper.topology.auth.payload"
    for options in ((), ("-N", "second"), ("-N", "third", "-O", f"{payload}=mine:known")):
        assert stormpilot(project, *options).returncode == 0
    sent = [json.loads(s.conf) for s in nimbus.submitted]
    assert {c[scheme] for c in sent} == {"digest"}
    first, second, third = (c[payload] for c in sent)
    assert len(first) == len(second) > 32
    assert first != second
    assert third == "mine:known"
    wrong = stormpilot(project, "-N", "fourth", "-O", f"{payload}=unknown")
    assert (wrong.returncode, f"{payload}: expected user:password" in wrong.stderr) == (2, True)


def test_a_virtualenv_that_is_not_used_is_told(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    """Through a tunnel Nimbus is on loopback, and the workers are not."""
    assert "virtualenv_root" not in stormpilot(project, "--dry-run").stderr
    configure(project, {"virtualenv_root": "/venvs"})
    told = " ".join(stormpilot(project, "--dry-run").stderr.split())
    assert f"{Path(sys.executable).parent / 'stormpilot_run'}, not from virtualenv_root: if it is a tunnel" in told
    for options in (("-O", "use_virtualenv=true"), ("-O", "use_virtualenv=false"), ("--runner", "/x/run")):
        assert "virtualenv_root" not in stormpilot(project, "--dry-run", *options).stderr


def test_no_instrument_leaves_the_topology_alone(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    assert stormpilot(project, "--no-instrument").returncode == 0
    topology = nimbus.submitted[0].topology
    assert set(topology.bolts) == {"parse", "node"}
    assert set(topology.spouts["source"].common.streams) == {"default"}
    command = topology.bolts["parse"].bolt_object.shell.execution_command
    assert command == str(Path(sys.executable).parent / "streamparse_run")


def test_workers_default_to_the_supervisors_that_nimbus_has(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    configure(project, {"options": {}})
    assert stormpilot(project).returncode == 0
    conf = conf_of(nimbus)
    assert conf["storm.workers.list"] == ["node-1", "node-2", "node-3"]
    assert conf["topology.workers"] == 3


def test_a_large_jar_goes_up_in_chunks_that_nimbus_takes(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    data = os.urandom(3 * 1024 * 1024)
    (project / "src" / "data.bin").write_bytes(data)
    assert stormpilot(project).returncode == 0
    with zipfile.ZipFile(io.BytesIO(nimbus.submitted[0].jar)) as jar:
        assert jar.read("resources/data.bin") == data


def test_a_given_jar_is_uploaded_as_it_is(project: Path, nimbus: FakeNimbus, tmp_path: Path, stormpilot: Run) -> None:
    jar = tmp_path / "given.jar"
    jar.write_bytes(b"not looked at")
    assert stormpilot(project, "-j", str(jar)).returncode == 0
    assert nimbus.submitted[0].jar == b"not looked at"


def test_a_jar_that_nimbus_has_is_used_without_an_upload(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    nimbus.uploads["inbox/earlier.jar"] = b"earlier"
    assert stormpilot(project, "-R", "inbox/earlier.jar").returncode == 0
    assert nimbus.submitted[0].jar == b"earlier"
    assert list(nimbus.uploads) == ["inbox/earlier.jar"]


def test_a_jar_that_nimbus_has_wins_over_one_here_and_a_dry_run_says_so(
    project: Path, nimbus: FakeNimbus, stormpilot: Run
) -> None:
    nimbus.uploads["inbox/earlier.jar"] = b"earlier"
    (project / "a.jar").write_bytes(b"here")
    both = ("-j", "a.jar", "-R", "inbox/earlier.jar")
    assert "jar: inbox/earlier.jar" in stormpilot(project, *both, "--dry-run").stdout
    assert stormpilot(project, *both).returncode == 0
    assert nimbus.submitted[0].jar == b"earlier"


def test_name_options_runner_and_activity_can_be_given(
    project: Path, nimbus: FakeNimbus, tmp_path: Path, stormpilot: Run
) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("a: file\nb: file\n")
    done = stormpilot(
        project, "-N", "other", "--inactive", "--runner", "/x/run", "--option-file", str(file), "-O", "b=cli", "-d"
    )
    assert done.returncode == 0, done.stderr
    (sent,), conf = nimbus.submitted, conf_of(nimbus)
    assert (sent.name, sent.active) == ("other", False)
    assert (conf["a"], conf["b"], conf["topology.debug"]) == ("file", "cli", True)
    assert conf["topology.original_name"] == "flights"
    assert sent.topology.bolts["parse"].bolt_object.shell.execution_command == "/x/run"


def test_nimbus_of_the_command_line_wins_over_process_environment_and_file(
    project: Path, nimbus: FakeNimbus, stormpilot: Run
) -> None:
    here = f"127.0.0.1:{nimbus.port}"
    assert stormpilot(project, "--nimbus", here, STREAMPARSE_NIMBUS="127.0.0.1:1").returncode == 0
    assert stormpilot(project, "-N", "b", STREAMPARSE_NIMBUS="127.0.0.1:1").returncode == 3


def test_the_library_call_returns_the_id(project: Path, nimbus: FakeNimbus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMPARSE_NIMBUS", raising=False)
    assert submit_topology(project, options={"topology.workers": 1}) == "flights-1-1"


def test_a_topology_that_nimbus_lists_a_moment_later_is_waited_for(
    project: Path, nimbus: FakeNimbus, stormpilot: Run
) -> None:
    nimbus.polls_until_listed = 3
    done = stormpilot(project)
    assert done.returncode == 0, done.stderr
    assert nimbus.polls_until_listed == 0


def test_a_dry_run_prints_what_would_be_sent_and_sends_nothing(
    project: Path, nimbus: FakeNimbus, stormpilot: Run
) -> None:
    table = stormpilot(project, "--dry-run")
    machine = stormpilot(project, "--dry-run", "-f", "json")
    assert table.returncode == machine.returncode == 0
    assert "resources/flights/parts.py" in table.stdout
    shown = json.loads(machine.stdout)
    assert {c["component"]: c["parallelism"] for c in shown["components"]} == {
        "source": 3,
        "parse": 2,
        "node": 1,
        COLLECTOR_ID: 1,
    }
    assert shown["conf"]["topology.workers"] == 2
    assert shown["jarEntries"] == ["flights/__init__.py", "flights/parts.py"]
    assert nimbus.submitted == []
    assert nimbus.uploads == {}


def test_lists_of_any_shape_are_left_as_given(project: Path, nimbus: FakeNimbus) -> None:
    values: dict[str, Any] = {"x": [1, {"y": None}], "z": "ü"}
    submit_topology(project, nimbus=f"127.0.0.1:{nimbus.port}", options=values)
    assert conf_of(nimbus).items() >= values.items()


# --- leader -----------------------------------------------------------------------------------------------------------


def test_it_follows_to_the_leading_nimbus(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    with serving(FakeNimbus(host="127.0.0.2")) as leader:
        nimbus.leader, nimbus.leading = (leader.host, leader.port), False
        assert stormpilot(project).returncode == 0
        assert len(leader.submitted) == 1
    assert nimbus.submitted == []


def test_a_leader_out_of_reach_leaves_the_call_where_it_was_sent(
    project: Path, nimbus: FakeNimbus, stormpilot: Run
) -> None:
    """Through a tunnel Nimbus calls itself by a name that means nothing here."""
    nimbus.leader = ("nimbus-1.invalid", 6627)
    assert stormpilot(project).returncode == 0
    assert len(nimbus.submitted) == 1


def test_no_leader_is_said_as_not_reachable(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    nimbus.leading = False
    done = stormpilot(project)
    assert done.returncode == 3
    assert "no Nimbus leads" in done.stderr
