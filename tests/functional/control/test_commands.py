"""The commands as a user types them, without any server: exit codes and sentences."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from doubles.commands import Run
from stormpilot.cli.live import Place, place
from stormpilot.zookeeper import client
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "controller.example.yaml"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait for a ZooKeeper that is not there, but not for long."""
    monkeypatch.setattr(client, "CONNECT_S", 0.3)


@pytest.fixture(autouse=True)
def _hangs_up() -> Iterator[None]:
    """What `run` ignores while it starts."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing answers, and nothing will: it is taken, and nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{s.getsockname()[1]}"


def test_config_check_prints_every_setting(run: Run) -> None:
    done = run("config", "check", EXAMPLE, "-f", "json")
    assert done.code == 0
    values = json.loads(done.out)["settings"]
    assert values["decide.mode"] == "advise"
    assert values["planner.name"]  # the one that would be used
    assert json.loads(done.out)["changed"] == ["traffic_log.dir"]


def test_config_check_shows_what_differs_and_prints_yaml(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("decide: {mode: act, approve: ['a*'], repair_cool_down_s: 0}\n")
    done = run("config", "check", tmp_path / "c.yaml")
    assert done.code == 0
    line, *lines = done.out.splitlines()
    first = f"{tmp_path / 'c.yaml'}: valid, 3"
    assert line.startswith(f"{first} of ")
    differ = [
        ["decide.mode", "act", "advise"],
        ["decide.approve", "[a*]", "[]"],
        ["decide.repair_cool_down_s", "0", "none"],
    ]
    assert [line.split() for line in lines] == [
        ["setting", "value", "default"],
        *differ,
        ["--all", "shows", "the", "others"],
    ]
    done = run("config", "check", tmp_path / "c.yaml", "--all")
    everything = [line.split() for line in done.out.splitlines()]
    assert everything[0] == f"{first} of {len(everything) - 2} settings differ from the default".split()
    assert everything[2:5] == differ
    assert not {"None", "True", "False", "()"} & {word for line in everything for word in line}
    assert ["decide.owner_modes", *["['off',", "advise]"] * 2] in everything


@pytest.mark.parametrize("text", ["{}\n", "# decide: {mode: act}\n", "decide: {mode: advise}\n"])
def test_config_check_says_that_all_defaults_hold(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    done = run("config", "check", tmp_path / "c.yaml")
    assert done.code == 0
    settings = json.loads(run("config", "check", tmp_path / "c.yaml", "-f", "json").out)["settings"]
    line = f"{tmp_path / 'c.yaml'}: valid, all {len(settings)} settings have their defaults"
    assert done.out.splitlines() == [line, "--all shows the others"]


def test_config_check_names_the_new_key_for_an_old_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("decide: {reschedule_timeout_s: 5}\n")
    done = run("config", "check", tmp_path / "c.yaml")
    assert done.code == 2
    assert "c.yaml:1: decide.reschedule_timeout_s is now decide.cool_down_s" in done.err


def test_config_check_names_file_line_and_field(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("decide:\n  mode: act\n  gain_treshold_ratio: 0.1\n")
    done = run("config", "check", file)
    assert done.code == 2
    assert f"{file}:3: decide.gain_treshold_ratio: unknown setting; did you mean gain_threshold_ratio?" in done.err


@pytest.mark.parametrize("line", ["planner: {name: nosuch}", "planner: {first_plan: nosuch}"])
def test_config_check_knows_the_planners(run: Run, tmp_path: Path, line: str) -> None:
    (tmp_path / "c.yaml").write_text(line)
    done = run("config", "check", tmp_path / "c.yaml")
    assert done.code == 2
    assert "nosuch" in done.err


def test_config_check_knows_the_parameters_of_the_planner(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("planner: {name: online, params: {alfa: 0.5}}")
    done = run("config", "check", tmp_path / "c.yaml")
    assert done.code == 2
    assert "alfa" in done.err


def test_config_check_reads_the_login_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("zookeeper: {auth_file: login}")
    done = run("config", "check", tmp_path / "c.yaml")
    assert done.code == 2
    assert f"{tmp_path / 'login'} (zookeeper.auth_file)" in done.err


@pytest.mark.parametrize(("command", "files_of_api"), [("config check", True), ("run", False)])
def test_all_that_is_wrong_is_listed_at_once(run: Run, tmp_path: Path, command: str, files_of_api: bool) -> None:
    """A wrong setting, names that are unknown and files that are missing; one error hid all others."""
    file = tmp_path / "c.yaml"
    file.write_text(
        "decide: {mode: actt}\n"
        "zookeeper: {hosts: 'zk1:2181/storm', auth_file: login}\n"
        "planner: {name: nosuch, first_plan: other}\n"
        "api: {tokens_file: tokens}\n"
    )
    done = run(*command.split(), file)
    assert done.code == 2
    begins = [
        f"stormpilot: {file}:1: decide.mode: 'actt', expected",
        f"{file}: zookeeper.hosts: ",
        f"{tmp_path / 'login'} (zookeeper.auth_file): ",
        f"{file}: planner.name: ",
        f"{file}: planner.first_plan: ",
    ]
    places = [done.err.find(begin) for begin in begins]
    assert places[0] == 0
    assert places == sorted(places), done.err
    assert (str(tmp_path / "tokens") in done.err) is files_of_api


@pytest.mark.parametrize("command", ["config check", "run"])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "traffic_log: {dir: 'wasb://c/x'}",
            "traffic_log.dir: wasb://c/x: expected a folder, or one of file://, hdfs://",
        ),
        ("traffic_log: {dir: 'webhdfs://n/x'}", "traffic_log.dir: webhdfs://n/x: expected a folder, or one of"),
        ("traffic_log: {dir: 'file://host/x'}", "traffic_log.dir: file://host/x: Unsupported hostname"),
        ("traffic_log:\n  dir: ''", "c.yaml:2: traffic_log.dir: expected a path, it is empty"),
        ("traffic_log: {dir: ~/x}", "c.yaml:1: traffic_log.dir: expected a path without ~"),
        ("traffic_log: {dir: 'file:/data/x'}", "c.yaml:1: traffic_log.dir: expected a path, or file:// and a path"),
        ("sizing: {files: {flights: ~/x.json}}", "c.yaml:1: sizing.files.flights: expected a path without ~"),
        ("zookeeper: {hosts: 'zk1:2181/storm'}", "c.yaml: zookeeper.hosts: 'zk1:2181/storm': expected no path behind"),
    ],
)
def test_what_a_controller_cannot_work_with_is_refused_before_it_starts(
    run: Run, tmp_path: Path, command: str, setting: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config check` said `valid`, or `run` began what `config check` refuses."""
    from stormpilot.control import signals

    monkeypatch.setattr(signals, "run", lambda daemon, *, once: pytest.fail("it starts"))
    (tmp_path / "c.yaml").write_text(setting)
    done = run(*command.split(), tmp_path / "c.yaml")
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("store", ["hdfs://nowhere.invalid/x", "s3a://b/x", "gs://b/x"])
def test_config_check_asks_no_store_of_a_traffic_log(
    run: Run, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer holds up no start, and no reload."""
    monkeypatch.setattr("stormpilot.trafficlog.place.place_of", lambda directory: pytest.fail("it is asked"))
    (tmp_path / "c.yaml").write_text(f"traffic_log: {{dir: '{store}'}}")
    assert run("config", "check", tmp_path / "c.yaml").code == 0


@pytest.mark.usefixtures("own_process")
def test_run_starts_without_what_the_api_needs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that is gone costs the API, and no plan; `config check` refuses it."""
    from stormpilot.control import signals

    started = []
    monkeypatch.setattr(signals, "run", lambda daemon, **_: started.append(daemon))
    (tmp_path / "c.yaml").write_text("api: {cert_file: gone, key_file: gone}")
    assert run("config", "check", tmp_path / "c.yaml").code == 2
    assert run("run", tmp_path / "c.yaml").code == 0
    assert started


def test_config_example_writes_over_no_configuration(run: Run, tmp_path: Path) -> None:
    """A configuration with its settings was gone, without a question."""
    file = tmp_path / "controller.yaml"
    assert run("config", "example", "-o", file).code == 0
    assert file.read_text() == run("config", "example").out
    file.write_text("decide: {mode: act}\n")
    done = run("config", "example", "-o", file)
    assert done.code == 2
    assert f"{file} is there: name another file, or remove it" in done.err
    assert file.read_text() == "decide: {mode: act}\n"
    assert run("config", "example", "-o", "/dev/null").code == 0
    assert run("config", "example", "-o", "-").code == 2


def test_run_refuses_a_wrong_configuration_before_it_connects(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("cycle: {period_s: 0}")
    done = run("run", tmp_path / "c.yaml")
    assert done.code == 2
    assert "cycle.period_s" in done.err


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `run` sets for its whole process ends with the test: others would log to its closed stderr."""
    monkeypatch.setattr("gc.set_threshold", lambda *thresholds: None)
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


@pytest.mark.usefixtures("own_process")
def test_run_says_that_it_compiles_before_it_does(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new installation was silent for minutes."""
    from stormpilot.cli import machine_code
    from stormpilot.control import signals
    from stormpilot.model import compiling

    (tmp_path / "c.yaml").write_text("log: {format: json}")
    (tmp_path / "cost.py").write_text("\n@jit\n")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path])
    monkeypatch.setattr(signals, "run", lambda daemon, *, once: None)
    (line,) = run("run", tmp_path / "c.yaml").err.splitlines()
    assert json.loads(line)["event"].startswith("compiling planners")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "cost.total-12.py311.nbi").write_bytes(b"")
    os.utime(tmp_path / "cost.py", (0, 0))
    assert run("run", tmp_path / "c.yaml").err == ""
    monkeypatch.setattr(compiling, "_kept", False)
    (line,) = run("run", tmp_path / "c.yaml").err.splitlines()
    assert "NUMBA_CACHE_DIR" in json.loads(line)["fix"]


@pytest.mark.parametrize(
    "command",
    [["status"], ["mode", "act", "flights"], ["pause"], ["pause", "flights"], ["resume"], ["status", "-f", "json"]],
)
def test_absent_zookeeper_is_said_and_ends_with_3(run: Run, command: list[str], nobody: str) -> None:
    done = run(*command, "--zookeeper", nobody)
    assert done.code == 3
    assert f"ZooKeeper at {nobody} does not answer" in done.err


def test_absent_zookeeper_is_told_with_what_named_it(
    run: Run, nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stormpilot.cli import live

    (tmp_path / "c.yaml").write_text(f"zookeeper: {{hosts: {nobody}}}")
    done = run("status", "--config", tmp_path / "c.yaml")
    assert f"? Its address is zookeeper.hosts of {tmp_path / 'c.yaml'}" in done.err
    monkeypatch.setattr(live, "DEFAULT_HOSTS", nobody)
    monkeypatch.delenv("STORMPILOT_ZOOKEEPER", raising=False)
    done = run("status")
    assert done.code == 3
    assert "? Nothing names its address: give --config controller.yaml, --zookeeper HOSTS or" in done.err
    assert "Nothing names" not in run("status", "--zookeeper", nobody).err
    monkeypatch.setenv("STORMPILOT_ZOOKEEPER", nobody)
    done = run("status")
    assert done.code == 3
    assert f"ZooKeeper at {nobody} does not answer" in done.err
    assert "? Its address is in STORMPILOT_ZOOKEEPER" in done.err


def test_a_typed_file_wins_over_servers_in_the_environment_and_typed_servers_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `pause` went to the cluster of the environment, with the login of the file."""
    file = tmp_path / "c.yaml"
    (tmp_path / "login").write_text("pilot:secret")
    file.write_text("zookeeper: {hosts: 'east:2181', root: /east, auth_file: login}")
    monkeypatch.setenv("STORMPILOT_ZOOKEEPER", "west:2181")
    assert place(None, None, None) == Place("west:2181", Paths(), Login(), "Its address is in STORMPILOT_ZOOKEEPER")
    east = Place("east:2181", Paths("/east"), Login("pilot:secret"), f"Its address is zookeeper.hosts of {file}")
    assert place(None, None, file) == east
    assert place("north:2181", None, file) == Place("north:2181", Paths("/east"), Login("pilot:secret"))
    monkeypatch.setenv("STORMPILOT_ZOOKEEPER", "")
    assert place(None, None, None).hosts == "127.0.0.1:2181"


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("::1", "bad hostname; expected host:port,host:port"),
        (",", "bad hostname; expected host:port,host:port"),
        ("", "bad hostname; expected host:port,host:port"),
        ("zk1:2181/storm", "expected no path behind the addresses"),
    ],
)
@pytest.mark.parametrize("command", [["doctor"], ["pause"]])
def test_what_is_no_address_of_zookeeper_ends_with_2_and_its_origin(
    run: Run, command: list[str], hosts: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`doctor` said to start ZooKeeper at `::1`."""
    (tmp_path / "c.yaml").write_text(f"zookeeper: {{hosts: '{hosts}'}}")
    done = run(*command, "--zookeeper", hosts)
    assert done.code == 2
    assert f"--zookeeper: {hosts!r}: {said}" in done.err
    if hosts:
        done = run(*command, "--config", tmp_path / "c.yaml")
        assert done.code == 2
        assert f"{tmp_path / 'c.yaml'}: zookeeper.hosts: {hosts!r}: {said}" in done.err
        monkeypatch.setenv("STORMPILOT_ZOOKEEPER", hosts)
        done = run(*command)
        assert done.code == 2
        assert f"STORMPILOT_ZOOKEEPER: {hosts!r}: {said}" in done.err


def test_machines_of_zookeeper_that_are_off_leave_time_to_ask_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [f"192.0.2.{n}" for n in (1, 2, 3)]
    waited_s: dict[str, float] = {}
    asked_all = threading.Event()

    def answer_nothing(address: tuple[str, int], timeout: float) -> None:
        waited_s.setdefault(address[0], timeout)
        if len(waited_s) == len(hosts):
            asked_all.set()
        raise TimeoutError  # (as if that time were over)

    monkeypatch.setattr(socket, "create_connection", answer_nothing)
    zookeeper = client.ZooKeeper(",".join(hosts))
    zookeeper.start()
    try:
        assert asked_all.wait(60)
    finally:
        zookeeper.stop()
    assert sum(waited_s.values()) <= client.CONNECT_S


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mode", "on", "flights"], "the mode is 'on', expected off, advise, act or default"),
        (["mode", "act", "../x"], "'../x' is not the name of a topology"),
        (["pause", "a/b"], "'a/b' is not the name of a topology"),
        (["status", "--root", "stormpilot"], "--root is 'stormpilot'"),
        (["status", "--zookeeper", "host:port"], "host:port"),
        (["status", "--config", "/nowhere/c.yaml"], "/nowhere/c.yaml: cannot read the configuration"),
    ],
)
def test_wrong_arguments_end_with_2_and_say_what_was_expected(
    run: Run, arguments: list[str], said: str, nobody: str
) -> None:
    options = [] if "--zookeeper" in arguments or arguments[0] == "status" else ["--zookeeper", nobody]
    done = run(*arguments, *options)
    assert done.code == 2, done.err
    assert said in done.err


def test_new_token_is_printed_once_with_its_line(run: Run, tmp_path: Path) -> None:
    done = run("token", "new", "ann", "--role", "operator")
    assert done.code == 0
    (token,) = done.out.split()
    line = f"ann operator {hashlib.sha256(token.encode()).hexdigest()}"
    assert line in done.err
    (tmp_path / "tokens").write_text(line)
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "c.yaml").write_text("api: {tokens_file: tokens}")
    assert run("config", "check", tmp_path / "c.yaml").code == 0
    shown = json.loads(run("token", "new", "bob", "-f", "json").out)
    assert shown["line"].startswith("bob viewer ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["ann", "--role", "root"], "expected viewer, operator, admin"), (["a b"], "'a b' is no name for a token")],
)
def test_wrong_token_is_refused(run: Run, arguments: list[str], said: str) -> None:
    done = run("token", "new", *arguments)
    assert done.code == 2
    assert said in done.err
    assert not done.out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("api: {tokens_file: tokens}", "tokens:1 (api.tokens_file): expected `name role sha256`"),
        ("api: {cert_file: nowhere, key_file: tokens}", "nowhere (api.cert_file): cannot read it"),
        ("notify: {url: 'http://x', headers_file: tokens}", "tokens (notify.headers_file): line 1"),
    ],
)
def test_config_check_reads_the_files_of_the_api_and_the_webhook(
    run: Run, tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "tokens").write_text("ann\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "c.yaml").write_text(line)
    done = run("config", "check", tmp_path / "c.yaml")
    assert done.code == 2
    assert said in done.err
