"""The operator's commands as a user types them: a real ZooKeeper, a controller, and a double of the plug-in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from doubles.commands import Run
from doubles.models import PAIRED, model
from doubles.models import topology as model_topology
from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.cli import steer
from stormpilot.cli.records import moment_ms
from stormpilot.config import parse
from stormpilot.control.daemon import Daemon
from stormpilot.decide import admit
from stormpilot.errors import UsageError
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.planner import compute
from stormpilot.planner.search.warm import TINY
from stormpilot.zookeeper import client
from stormpilot.zookeeper.paths import Paths
from waiting import PATIENCE_S

SPREAD = everywhere({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)})
SETTINGS = """\
zookeeper: {{hosts: '{hosts}', session_timeout_s: 60}}
cycle: {{period_s: 1, poll_s: 0.2}}
load: {{window_s: 5, min_coverage_ratio: 0.2, settle_s: 0}}
decide: {{mode: act, approve: ['*'], consecutive_hits: 1, restart_s: 0, cool_down_s: 5}}
traffic_log: {{dir: {folder}/log}}
"""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    """One ZooKeeper for these tests, which leave it empty."""
    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def there(zookeeper: LocalZooKeeper, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShimDouble]:
    """A cluster of hosts a, b and c with one topology; its workers are no JVMs, and come up within a second."""
    monkeypatch.setenv("STORMPILOT_ZOOKEEPER", zookeeper.hosts)
    monkeypatch.setattr(steer, "user", lambda: "olga")
    monkeypatch.setattr(steer, "OUTCOME_S", PATIENCE_S)
    monkeypatch.setattr(client, "CONNECT_S", PATIENCE_S)
    monkeypatch.setattr(admit, "STARTING_MS", 1_000)
    shim = ShimDouble(zookeeper.hosts, cluster("a", "b", "c"), Paths())
    shim.submit(topology(SPREAD))
    yield shim
    shim.close()
    emptied = client.connect(zookeeper.hosts)
    emptied.delete(shim.paths.base)
    emptied.stop()


@pytest.fixture
def controller(there: ShimDouble, zookeeper: LocalZooKeeper, tmp_path: Path) -> Iterator[Path]:
    """Its configuration file; it leads until the test ends."""
    import threading

    for planner in ("online", "default"):  # what they and the judgement of a plan compile, before a deadline counts
        compute(TINY, planner, {}, seed=0, left_s=lambda: math.inf, traffic="flow")
    file = tmp_path / "controller.yaml"
    file.write_text(SETTINGS.format(hosts=zookeeper.hosts, folder=tmp_path))
    daemon = Daemon(parse(file.read_text(), "controller.yaml", tmp_path), compute, "online", "default")
    thread = threading.Thread(target=daemon.run, daemon=True)
    with structlog.testing.capture_logs():
        thread.start()
        yield file
        daemon.stop()
        thread.join(3)
        daemon.cut()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.zookeeper
def test_settings_show_before_and_after_and_a_dry_run_changes_nothing(run: Run, there: ShimDouble) -> None:
    done = run("pause", "flights", "--why", "release night", "--dry-run")
    assert done.code == 0
    assert done.out.splitlines() == [
        "flights: paused",
        "  before  nothing",
        '  after   by=olga why="release night"',
        "dry run: nothing was changed",
    ]
    assert run("audit").out == "nothing was done\n"
    assert run("pause", "flights", "--why", "release night").code == 0
    assert run("pause", "flights").out == "flights: was paused already\n"
    assert run("resume", "flights").out.splitlines()[1:] == [
        '  before  by=olga why="release night"',
        "  after   nothing",
    ]
    change = json.loads(run("mode", "off", "flights", "-f", "json").out)
    assert (change["after"]["mode"], change["changed"]) == ("off", True)
    records = json.loads(run("audit", "-f", "json").out)
    assert [(r["verb"], r["who"], r["why"]) for r in records] == [
        ("pause", "olga", "release night"),
        ("resume", "olga", ""),
        ("mode", "olga", ""),
    ]
    table = run("audit", "--since", "1h").out
    assert "release night" in table
    assert run("status").code == 0


@pytest.mark.zookeeper
def test_what_is_dangerous_is_refused_without_yes_where_nobody_can_be_asked(run: Run, there: ShimDouble) -> None:
    for command, danger in (
        (["drain", "host-a"], "executors restart elsewhere: 3 executors (3 of flights)"),
        (["exclude", "host-a"], "executors restart elsewhere"),
        (["mode", "act", "--all"], "the controller may then move every topology"),
    ):
        done = run(*command)
        assert done.code == 1
        assert danger in done.err
        assert "confirm with --yes" in done.err
        assert run(*command, "--dry-run").code == 0
    assert run("audit").out == "nothing was done\n"
    assert run("drain", "host-a", "--yes").out.startswith("host-a: is drained; 3 executors (3 of flights) to be moved")
    misspelt = run("drain", "HOST-A", "--force", "--yes", "--wait")
    assert misspelt.out.splitlines()[-1] == "HOST-A: is empty, no supervisor is on a host of that name now"
    run("undrain", "HOST-A")
    waited = run("drain", "host-a", "--yes", "--wait", "--timeout", "0")  # nobody leads here
    assert waited.code == 1
    assert "host-a: 3 executors of flights left; no controller leads: nothing moves" in waited.err
    assert "host-a: 3 executors left after 0 s; it stays drained" in waited.err
    status = run("status").out
    assert "drained     host-a: 3 of flights to be moved (by olga" in status


@pytest.mark.zookeeper
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["drain", "nowhere", "-y"], 1, "there is no supervisor on 'nowhere' (there are: host-a (supervisor a)"),
        (["pin", "flights", "prase", "a"], 1, "flights has no component 'prase' (it has: __acker, collector, parse"),
        (["pin", "flights", "parse/9", "a"], 1, "flights/parse has no task 9 (it has: 2, 3)"),
        (["pin", "flights", "parse/x", "a"], 2, "expected COMPONENT or COMPONENT/TASK"),
        (
            ["pin", "flights", "parse", "c"],
            1,
            "executors restart elsewhere: 2 executors (2 of flights): confirm with --yes",
        ),
        (["pin", "flights", "parse", "z"], 1, "'z' is no supervisor (there are:"),
        (["exclude", "z"], 1, "'z' is neither a host nor a supervisor"),
        (["exclude", "a", "flights", "prase"], 1, "flights has no component 'prase'"),
        (["approve", "flights", "-y"], 1, "flights: there is no proposal"),
        (["rollback", "flights", "-y"], 1, "there is no plan 1 back, the history holds 0"),
        (["plan", "history", "fligths"], 1, "no topology is named 'fligths' (there are: flights)"),
        (["mode", "act"], 2, "name a topology, or give --all"),
        (["audit", "--since", "yesterday"], 2, "--since is 'yesterday', expected e.g. 30m"),
        (["replan", "flights"], 1, "workers of flights restart for any gain that is found: confirm with --yes"),
        (["replan", "flights", "-y"], 3, "no controller leads: the request stays pending"),
        (["explain", "flights", "--measure", "0"], 0, ""),
    ],
)
def test_wrong_names_are_refused_with_those_there_are(
    run: Run, there: ShimDouble, command: list[str], code: int, said: str
) -> None:
    done = run(*command)
    assert (done.code, said in done.err) == (code, True), done


def measured(run: Run, said: str, *options: str) -> str:
    """The explanation of flights once two seconds were long enough for it to say this."""
    found: list[str] = []

    def explained() -> bool:
        found.append(run("explain", "flights", "--measure", "2", *options).out)
        return said in found[-1]

    until(explained, "reports within two seconds")
    return found[-1]


@pytest.mark.zookeeper
def test_an_evening_with_a_controller(run: Run, there: ShimDouble, controller: Path) -> None:
    """Approve, look at the history, roll back, drain and wait, undrain, and read the audit of it all."""
    until(lambda: "APPROVAL_NEEDED" in run("status").out, "a plan that waits for approval")
    explained = measured(run, "parse [2,2]")
    assert "an operator has approved, where that is needed" in explained
    assert "CLOSED" in explained
    assert "which is not applied" in explained
    shown = json.loads(measured(run, '"supervisor"', "-f", "json"))
    assert shown["plan"].startswith("p-")
    assert {g["state"] for g in shown["gates"]} == {"open", "CLOSED", "not asked"}
    assert len({e["supervisor"] for e in shown["executors"]}) == 1  # the plan puts all on one node

    done = run("approve", "flights", "--yes", "--why", "looks right")
    assert done.code == 0, done.err
    assert "flights: published p-" in done.out
    until(lambda: there.applied, "it to be applied")

    history = run("plan", "history", "flights").out
    assert "APPROVED" in history
    assert "olga" in history
    done = run("drain", "host-a", "--yes", "--why", "new disk", "--no-such")
    assert done.code == 2
    assert run("drain", "host-a", "--yes", "--why", "new disk").code == 0
    until(lambda: "DRAIN" in run("status").out, "a plan for the drain to wait for approval")
    until(lambda: run("approve", "flights", "--yes").code == 0, "its approval")
    done = run("drain", "host-a", "--yes", "--wait")
    assert done.out.splitlines()[-1] == "host-a: is empty"
    assert not any(s == "a" for s, _ in there.placement("flights-1-1763690000").values())
    assert "host-a: empty" in run("status").out
    refused = run("rollback", "flights", "--yes")
    assert refused.code == 1
    assert "does not fit any more: drain: host host-a" in refused.err
    assert run("undrain", "host-a").code == 0
    done = run("rollback", "flights", "--yes", "-f", "json")
    assert done.code == 0, done.err
    answer: dict[str, Any] = json.loads(done.out)
    assert answer["outcome"]["result"].startswith("published")
    assert "OPERATOR_HOLD" in run("status").out or there.applied
    verbs_done = [r["verb"] for r in json.loads(run("audit", "--config", controller, "-f", "json").out)]
    assert verbs_done.count("approve") >= 4  # asked for and done, twice
    assert {"drain", "undrain", "rollback"} <= set(verbs_done)


def test_what_if_on_a_model_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_bytes(msgspec.json.encode(model(model_topology(PAIRED))))
    done = run("what-if", "-m", file, "-p", "online", "--scale-rate", "flights=2", "--add-node", "cores=2,mhz=1000")
    assert done.code == 0, done.err
    assert "Nothing was applied" in done.out
    (share,) = (line for line in done.out.splitlines() if line.startswith("inter_node_share"))
    assert share.split()[1:4] == ["0.0%", "0.0%", "0.0%"], "as other commands show it"
    shown = json.loads(run("what-if", "-m", file, "-p", "online", "--remove-node", "c", "-f", "json").out)
    assert shown["now"]["inter_node_tps"] == 0.0
    assert {w["supervisor"] for t in shown["plan"]["topologies"] for w in t["workers"]} <= {"a", "b"}
    more = tmp_path / "more.json"
    more.write_bytes(msgspec.json.encode(model(model_topology(name="words"))))
    written = ("-o", tmp_path / "plan.json", "--changed-model", tmp_path / "new.json")
    done = run("what-if", "-m", file, "-p", "online", "--new-topology", more, *written)
    assert done.code == 0, done.err
    assert run("plan", "diff", "--model", tmp_path / "new.json", tmp_path / "plan.json").code == 0
    assert run("plan", "explain", "words", "--model", tmp_path / "new.json", "--plan", tmp_path / "plan.json").code == 0
    assert {t["id"] for t in json.loads((tmp_path / "plan.json").read_text())["topologies"]} == {"flights-1", "words-1"}
    done = run("what-if", "-m", file, "--remove-node", "a", "--remove-node", "b", "--scale-rate", "flights=2")
    assert done.code == 1
    assert "no plan exists with these changes (cpu)" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing is to be different"),
        (["--add-node", "core=2,mhz=1"], "did you mean cores?"),
        (["--add-node", "cores=2"], "mhz"),
        (["--add-node", "cores=0,mhz=5"], "cores is 0, expected more than 0"),
        (["--scale-rate", "flights"], "expected TOPOLOGY=FACTOR"),
        (["--scale-rate", "flights=x"], "expected TOPOLOGY=FACTOR"),
    ],
)
def test_what_if_says_what_it_expects(run: Run, tmp_path: Path, arguments: list[str], said: str) -> None:
    done = run("what-if", "-m", tmp_path / "model.json", *arguments)
    assert done.code == 2
    assert said in done.err


def test_moments() -> None:
    assert moment_ms("90s", 1000.0) == 910_000
    assert moment_ms("2h", 10_000.0) == 2_800_000
    with pytest.raises(UsageError):
        moment_ms("2 hours", 0.0)
    assert moment_ms("999999999999d", 0.0) == moment_ms("1900-01-01", 0.0) == 0
    with pytest.raises(UsageError):
        moment_ms(f"{10**400}d", 0.0)
