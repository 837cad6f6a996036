"""`stormpilot submit` against a Nimbus that speaks real Thrift over a real socket."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from doubles.fake_nimbus import FakeNimbus, serving
from stormpilot.instrument.topology import COLLECTOR_ID
from stormpilot.submit import submit_topology

from .conftest import PARTS, Run

SHELL_ONLY = """
from streamparse import ShellSpout, Topology

class Flights(Topology):
    source = ShellSpout.spec(command="node", script="source.js", outputs=["line"])
"""

# --- what arrives at Nimbus -------------------------------------------------------------------------------------------


def test_a_project_arrives_whole(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    done = stormpilot(project, "-f", "json", "-O", "mine=cli", "-w", "5", "-a", "1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["topologyId"] == "flights-1-1"
    (sent,) = nimbus.submitted
    assert (sent.name, sent.active) == ("flights", True)
    conf = json.loads(sent.conf)
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
    config = json.loads((project / "config.json").read_text())
    config["envs"]["prod"]["virtualenv_root"] = "/venvs"
    (project / "config.json").write_text(json.dumps(config))
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
    config = json.loads((project / "config.json").read_text())
    del config["envs"]["prod"]["options"]
    (project / "config.json").write_text(json.dumps(config))
    assert stormpilot(project).returncode == 0
    conf = json.loads(nimbus.submitted[0].conf)
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
    (sent,) = nimbus.submitted
    conf = json.loads(sent.conf)
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


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_running_topology_of_that_name_is_refused_before_the_upload(
    project: Path, nimbus: FakeNimbus, stormpilot: Run
) -> None:
    nimbus.running["flights"] = "ACTIVE"
    done = stormpilot(project)
    assert done.returncode == 1
    assert "'flights' runs already" in done.stderr
    assert "--force" in done.stderr
    assert nimbus.uploads == {}


def test_force_kills_the_running_one_and_waits_until_it_is_gone(
    project: Path, nimbus: FakeNimbus, stormpilot: Run
) -> None:
    nimbus.running["flights"] = "ACTIVE"
    assert stormpilot(project, "--force", "--wait", "1").returncode == 0
    assert nimbus.killed == [("flights", 1)]
    assert [s.name for s in nimbus.submitted] == ["flights"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "src not found"),
        (["-R", "inbox/there.jar", "-O", "storm.zookeeper.topology.auth.payload=unknown"], "expected user:password"),
    ],
)
def test_force_kills_nothing_where_what_is_here_cannot_be_sent(
    project: Path, nimbus: FakeNimbus, arguments: list[str], words: str, stormpilot: Run
) -> None:
    shutil.rmtree(project / "src")
    (project / "topologies" / "flights.py").write_text(SHELL_ONLY)
    nimbus.running["flights"] = "ACTIVE"
    done = stormpilot(project, "--force", *arguments)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert nimbus.killed == []
    assert nimbus.uploads == {}


def test_a_name_that_storm_does_not_take_is_refused(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    done = stormpilot(project, "-N", "a/b")
    assert done.returncode == 1
    assert "does not allow" in done.stderr


def test_force_kills_nothing_before_the_jar_is_at_nimbus(
    project: Path, nimbus: FakeNimbus, stormpilot: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def goes_away(*_: object) -> None:
        raise ConnectionAbortedError

    nimbus.running["flights"] = "ACTIVE"
    monkeypatch.setattr(nimbus, "uploadChunk", goes_away)
    assert stormpilot(project, "--force").returncode == 3
    assert (nimbus.killed, nimbus.running) == ([], {"flights": "ACTIVE"})


def test_what_nimbus_refuses_is_said_in_its_words(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    nimbus.refuse = "topology.workers is not an integer"
    done = stormpilot(project)
    assert done.returncode == 1
    assert "topology.workers is not an integer" in done.stderr


def test_the_installed_command_ends_with_a_sentence_and_its_code(project: Path) -> None:
    command = [Path(sys.executable).parent / "stormpilot", "submit", "--nimbus", "127.0.0.1:1"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_nimbus_that_is_not_there_is_named(project: Path, stormpilot: Run) -> None:
    done = stormpilot(project, "--nimbus", "127.0.0.1:1")
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr


def test_a_port_that_never_answers_ends_after_the_time_out(project: Path, stormpilot: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = stormpilot(project, "--nimbus", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "300")
    assert done.returncode == 3
    assert "does not answer getLeader" in done.stderr
    words = " ".join(done.stderr.split())
    assert "--timeout is in milliseconds, as that of `sparse submit`: Nimbus has 0.3 s to answer" in words


def test_a_port_of_something_else_is_said_to_be_that(project: Path, stormpilot: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = other.accept()
                    with connection:
                        connection.recv(1024)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        done = stormpilot(project, "--nimbus", f"127.0.0.1:{other.getsockname()[1]}", "--timeout", "300000")
    assert done.returncode == 3
    assert "Nimbus's Thrift port" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-e", "dev"], "envs has no entry 'dev'"),
        (["-n", "wordcount"], "wordcount.py not found"),
        (["wordcount"], "wordcount.py not found"),
        (["flights", "-n", "wordcount"], "the topology is given twice"),
        (["-O", "a"], "expected key=value"),
        (["--project", "nowhere"], "config.json not found"),
        (["--nimbus", "host:x"], "--nimbus: 'host:x' is not an address"),
        (["-j", "absent.jar"], "absent.jar not found"),
    ],
)
def test_wrong_usage_ends_with_code_2_and_a_sentence(
    project: Path, arguments: list[str], words: str, stormpilot: Run
) -> None:
    done = stormpilot(project, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_java_components_without_a_jar_are_refused(project: Path, nimbus: FakeNimbus, stormpilot: Run) -> None:
    file = project / "topologies" / "flights.py"
    text = file.read_text().replace("ShellBolt,", "JavaBolt, ShellBolt,")
    file.write_text(text + '    sink = JavaBolt.spec(full_class_name="x.Sink", args_list=[], inputs=[parse])\n')
    done = stormpilot(project)
    assert done.returncode == 2
    assert "Java components" in done.stderr
    jar = project / "a.jar"
    jar.write_bytes(b"")
    assert stormpilot(project, "-j", "a.jar").returncode == 0
    assert nimbus.submitted[0].topology.bolts["sink"].bolt_object.java_object.full_class_name == "x.Sink"


def test_a_grouping_of_the_projects_own_java_code_is_named_where_no_jar_has_it(project: Path, stormpilot: Run) -> None:
    file = project / "topologies" / "flights.py"
    plain = file.read_text()

    def said(grouping: str, *arguments: str) -> str:
        file.write_text(plain.replace('Grouping.fields("line")', grouping))
        done = stormpilot(project, "--dry-run", *arguments)
        assert done.returncode == 0
        return " ".join(done.stderr.split())

    own, storms = (
        f'Grouping.custom_object("{name}", ["line"])' for name in ("com.x.ByAirport", "org.apache.storm.grouping.Part")
    )
    assert "workers start only if com.x.ByAirport (grouping) is in extlib/" in said(own)
    assert "grouping" not in said(own, "-R", "/nimbus/a.jar")
    assert "grouping" not in said(storms, "--routable")


@pytest.mark.parametrize(
    ("file", "hooks"),
    [
        ("tasks.py", "# é\ndef pre_submit(name, env, env_config, options):\n    raise SystemExit(9)\n"),
        ("tasks/__init__.py", "from .deploy import clean, post_submit\n"),
        ("fabfile/__init__.py", "import company\npre_submit = company.checks\n"),
    ],
)
def test_hooks_that_sparse_submit_would_run_are_named(file: str, hooks: str, project: Path, stormpilot: Run) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_bytes(hooks.encode("latin-1"))
    done = stormpilot(project, "--dry-run")
    assert done.returncode == 0
    assert f"{file} (pre_submit, post_submit) are not run" in " ".join(done.stderr.split())
    (project / file).write_text("# pre_submit\ndef clean(): ...\n")
    assert "not run" not in stormpilot(project, "--dry-run").stderr


def test_lists_of_any_shape_are_left_as_given(project: Path, nimbus: FakeNimbus) -> None:
    values: dict[str, Any] = {"x": [1, {"y": None}], "z": "ü"}
    submit_topology(project, nimbus=f"127.0.0.1:{nimbus.port}", options=values)
    conf = json.loads(nimbus.submitted[0].conf)
    assert {k: conf[k] for k in values} == values
