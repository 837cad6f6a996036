"""What `stormpilot submit` refuses, or names on standard error, in words and by its exit code."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from doubles.fake_nimbus import FakeNimbus

from .conftest import Run

SHELL_ONLY = """
from streamparse import ShellSpout, Topology

class Flights(Topology):
    source = ShellSpout.spec(command="node", script="source.js", outputs=["line"])
"""


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
