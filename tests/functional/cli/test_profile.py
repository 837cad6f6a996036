"""`stormpilot profile` and `apply-size`: what is wrong is said before anything is asked of a cluster."""

from __future__ import annotations

import os
import signal
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from streamparse import thrift as storm

from doubles.commands import in_process as run
from doubles.fake_nimbus import FakeNimbus, serving
from doubles.memory_zookeeper import MemoryZooKeeper
from inprocess_storm import PROJECT
from sizing_problems import EXAMPLE
from stormpilot.config import LoadSection
from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.nimbus import Address, Nimbus
from stormpilot.sizing.profiling import RateGrid, Trial
from stormpilot.trials import bench as real
from stormpilot.trials.component import Specimen
from stormpilot.trials.feeder import Times
from stormpilot.trials.slot import SlotSize
from stormpilot.zookeeper.paths import Paths


def said(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.returncode == 2, done.stdout
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--rate-step", "fast"), "--rate-step is 'fast', expected tuples/s above 0, or a part such as 10%"),
        (("--rate-step", "-5%"), "--rate-step is '-5%'"),
        (("--first-rate", "50", "--max-rate", "10"), "--max-rate is 10, expected at least --first-rate (50)"),
        (("--jar", "missing.jar"), "missing.jar not found"),
        (("--fields", " , "), "--fields: expected at least one name"),
        (("--fields", "topic,text"), "--fields has 2 names: give --tuples with 2 values each"),
        (("--tuples", "missing.json"), "missing.json: cannot read the tuples"),
        (("-o", "/nowhere/pi.json"), "/nowhere/pi.json: cannot write this file for --output: No such file"),
        (("--nimbus", "nowhere:x"), "--nimbus: 'nowhere:x' is not an address"),
        (("-o", "pi.svg"), "--output (.svg) pi.svg: is the file of --output too"),
        (("-o", "."), "cannot write this file for --output: Is a directory"),
        (("-o", "pi.json", "--state", "pi.json"), "--state pi.json: is the file of --output too"),
        (("-o", "pi.json", "--state", "pi.svg"), "--state pi.svg: is the file of --output (.svg) too"),
        (("-o", "pi.json", "--plot", "pi.trials.jsonl"), "--output (.trials.jsonl) pi.trials.jsonl: is the file of"),
        (("--state", "/nowhere/pi.jsonl"), "/nowhere/pi.jsonl: cannot write this file for --state: No such file"),
        (("--plot", "pi.foo"), "--plot pi.foo: expected a name that ends in .svg, .png, .pdf"),
        (("--plot", "pi"), "--plot pi: expected a name that ends in .svg"),
        (("--name", "source"), "a model cannot be named source, as what sends to it in its file: give another --name"),
    ],
)
def test_wrong_options_of_a_profile(
    options: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("micro_tasks.pi:Pi", "--project", PROJECT, "-e", "local", "-o", tmp_path / "pi.json")
    assert text in said("profile", *given, "--zookeeper", "127.0.0.1:1", *options)


def test_trials_of_another_component_are_not_taken(tmp_path: Path) -> None:
    state = tmp_path / "pi.trials.jsonl"
    state.write_text('{"component":"other:Class"}\n')
    told = said(
        "profile", "micro_tasks.pi:Pi", "--project", PROJECT, "-e", "local", "-o", tmp_path / "pi.json",
        "--zookeeper", "127.0.0.1:1",
    )  # fmt: skip
    assert "has trials that differ in component, grid, times" in told
    assert "give --restart" in told


class Bench:
    """Sustains 100 tuples/s, and asks no cluster."""

    slot = SlotSize(cores=1.0, mhz=1000.0, memory_mb=1000.0)
    node = "host-a"

    def __init__(self, specimen: object, grid: RateGrid, *rest: object, **more: object) -> None:
        self.grid = grid

    def __call__(self, threads: int, step: int, attempt: int) -> Trial:
        rate_tps = self.grid.rate(step)
        return Trial(
            threads=threads, step=step, rate_tps=rate_tps, stable=rate_tps <= 100.0, cpu_share=0.9, memory_share=0.1
        )

    def guess(self, threads: int) -> int:
        return self.grid.step_at(90.0)

    def check(self) -> None:
        """Nothing is missing."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormpilot.trials.bench.Bench", Bench)
    monkeypatch.setattr("stormpilot.cli.profile.connected", lambda where: nullcontext())


@pytest.fixture
def java(tmp_path: Path, bench: None) -> tuple[str | Path, ...]:
    """A command that profiles a Java class, and has done so once."""
    with zipfile.ZipFile(tmp_path / "job.jar", "w") as jar:
        jar.writestr("Parse.class", "1")
    (tmp_path / "lines.json").write_text('[["a"]]')
    command: tuple[str | Path, ...] = (
        "profile", "org.example.Parse", "--jar", tmp_path / "job.jar", "--fields", "line", "--argument", "1",
        "--tuples", tmp_path / "lines.json", "-o", tmp_path / "parse.json", "--nimbus", "n:1", "--zookeeper", "z:1",
    )  # fmt: skip
    done = run(*command)
    assert (done.returncode, "from an earlier run" in done.stderr) == (0, False), done.stderr
    return command


def test_a_profile_without_a_new_trial_says_so(java: tuple[str | Path, ...]) -> None:
    done = run(*java)
    assert done.returncode == 0
    assert "trials are from an earlier run; --restart measures anew" in " ".join(done.stderr.split())


def test_what_was_measured_is_printed_where_it_cannot_be_written(
    java: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise UsageError("parse.json: cannot write the model: No space left on device")

    monkeypatch.setattr("stormpilot.trials.output.write", full)
    done = run(*java)
    assert (done.returncode, "cannot write the model: No space left" in done.stderr) == (2, True)
    assert "peak tuples/s" in done.stdout


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--argument", "50"), "argument"),
        (("--outputs", "word,count"), "outputs"),
        (("--fields", "text"), "fields"),
        (("--runner", "other_run"), "runner"),
        (("-e", "other"), "environment"),
    ],
)
def test_trials_of_other_options_are_not_taken(
    java: tuple[str | Path, ...], options: tuple[str, ...], name: str
) -> None:
    assert f"has trials that differ in {name}: give --restart" in said(*java, *options)


def test_trials_of_other_tuples_another_jar_and_another_capacity_are_not_taken(
    java: tuple[str | Path, ...], tmp_path: Path
) -> None:
    (tmp_path / "controller.yaml").write_text("load: {capacity: measured}\n")
    assert "has trials that differ in capacity" in said(*java, "--config", tmp_path / "controller.yaml")
    (tmp_path / "lines.json").write_text('[["much longer"]]')
    with zipfile.ZipFile(tmp_path / "job.jar", "w") as jar:
        jar.writestr("Parse.class", "2")
    assert "has trials that differ in tuples, jar: give --restart" in said(*java)


@pytest.mark.usefixtures("bench")
def test_trials_of_other_python_code_are_not_taken(tmp_path: Path) -> None:
    """Sources and data: all of `src/`, which goes to the workers."""
    (tmp_path / "src").mkdir()
    (tmp_path / "config.json").write_text('{"envs": {"prod": {}}}')
    (tmp_path / "src" / "tasks.py").write_text("ROUNDS = 1\n")
    command: tuple[str | Path, ...] = (
        "profile", "tasks:Pi", "--project", tmp_path, "-o", tmp_path / "pi.json", "--nimbus", "n:1",
        "--zookeeper", "z:1",
    )  # fmt: skip
    assert [run(*command).returncode for _ in range(2)] == [0, 0]
    (tmp_path / "src" / "words.txt").write_text("more\n")
    assert "has trials that differ in code: give --restart" in said(*command)
    (tmp_path / "src" / "words.txt").unlink()
    (tmp_path / "src" / "tasks.py").write_text("ROUNDS = 2\n")
    assert "has trials that differ in code: give --restart" in said(*command)
    (tmp_path / "src" / "tasks.py").write_text("ROUNDS = 1\n")
    (tmp_path / "config.json").write_text('{"envs": {"prod": {"options": {"topology.max.spout.pending": 1}}}}')
    assert "has trials that differ in options of the environment: give --restart" in said(*command)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_profile_that_is_ended_or_loses_its_terminal_kills_its_topology(
    number: signal.Signals, bench: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    def ended(*_: object) -> NoReturn:
        os.kill(os.getpid(), number)
        raise AssertionError("goes on")

    monkeypatch.setattr(Bench, "guess", ended)
    monkeypatch.setattr(Bench, "close", lambda _: closed.append(signal.getsignal(number)))
    before = signal.signal(number, lambda *_: None)
    try:
        given = ("micro_tasks.pi:Pi", "--project", PROJECT, "-e", "local", "-o", tmp_path / "pi.json")
        done = run("profile", *given, "--zookeeper", "z:1", "--nimbus", "n:1")
        assert signal.getsignal(number) is not signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert done.returncode == 128 + number
    assert closed == [signal.SIG_IGN], "a second one does not stop the kill"


def bench_at(nimbus: FakeNimbus, zookeeper: MemoryZooKeeper | None = None) -> real.Bench:
    specimen, grid = Specimen("micro_tasks.pi:Pi", project=PROJECT, environment="local"), RateGrid(10, 0.1, True, 100)
    at, store = Address("127.0.0.1", nimbus.port), zookeeper or MemoryZooKeeper(lambda: 0)
    return real.Bench(specimen, grid, Times(), at, store, Paths())  # type: ignore[arg-type]


def test_a_profile_that_is_interrupted_as_nimbus_takes_its_topology_kills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Nimbus, "topology_id", interrupted)
    with serving(FakeNimbus()) as nimbus:
        trials = bench_at(nimbus)
        trials.close()
        assert nimbus.killed == []
        with pytest.raises(KeyboardInterrupt):
            trials.guess(1)
        assert list(nimbus.running) == ["profile-Pi"]
        trials.close()
        assert nimbus.running == {}
        with pytest.raises(KeyboardInterrupt):
            trials.guess(1)
        nimbus.hangs_up = True
        with pytest.raises(UnreachableError, match="kill the topology profile-Pi, it may still run"):
            trials.close()


class FasterNimbus(FakeNimbus):
    """Another profile of the class submits its topology right before ours comes."""

    def submitTopologyWithOpts(self, name: str, *_: object) -> None:  # type: ignore[override]  # noqa: N802
        self.running[name] = "ACTIVE"
        raise storm.AlreadyAliveException(msg=f"{name} is already active")


@pytest.mark.parametrize(
    ("nimbus", "running", "text"),
    [
        (FakeNimbus(), {"profile-Pi": "ACTIVE"}, "profile-Pi-1-1 runs: another profile of Pi uses it"),
        (FasterNimbus(), {}, "profile-Pi is already active"),
    ],
)
def test_a_profile_does_not_kill_the_topology_of_another(
    nimbus: FakeNimbus, running: dict[str, str], text: str
) -> None:
    nimbus.running |= running
    with serving(nimbus):
        trials = bench_at(nimbus)
        with pytest.raises(RefusedError, match=text):
            trials.guess(1)
        trials.close()
    assert (nimbus.killed, nimbus.running) == ([], {"profile-Pi": "ACTIVE"})


def test_a_profile_waits_for_the_end_of_a_killed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nimbus, "topology_id", lambda *_: "mine")
    monkeypatch.setattr(real.Bench, "_place", lambda *_: None)
    monkeypatch.setattr(real.Bench, "_warm", lambda *_: None)
    with serving(FakeNimbus(running={"profile-Pi": "KILLED"})) as nimbus:
        trials = bench_at(nimbus)
        trials.guess(1)
        assert nimbus.running == {"profile-Pi": "ACTIVE"}
        trials.close()
        assert nimbus.killed == [], "its id is not that of the topology which it submitted"


def test_a_profile_that_cannot_sign_is_refused_where_plans_have_to_be_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"stormpilot.plan.key.file": "/etc/key", real.HOOKS_KEY: [real.HOOK]}
    monkeypatch.setattr(Nimbus, "conf", lambda _: conf)
    monkeypatch.setattr(real.Bench, "_choose", lambda *_: None)
    specimen = Specimen("micro_tasks.pi:Pi", project=PROJECT, environment="local")
    with serving(FakeNimbus()) as nimbus:
        given = (specimen, RateGrid(10.0, 0.1, True, 100.0), Times(), Address("127.0.0.1", nimbus.port))
        with pytest.raises(RefusedError, match="Nimbus takes signed plans only"):
            real.Bench(*given, MemoryZooKeeper(lambda: 0), Paths()).check()
        real.Bench(*given, MemoryZooKeeper(lambda: 0), Paths(), key=b"a key of many bytes").check()


def test_a_profile_leaves_no_plans_of_its_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    """No controller, which would remove them, may lead where a profile runs."""
    zookeeper, paths = MemoryZooKeeper(lambda: 0), Paths()

    def placed(self: real.Bench, topology_id: str) -> None:
        zookeeper.put(paths.plan_history(topology_id, "0000000001"), b"{}")

    monkeypatch.setattr(Nimbus, "topology_id", lambda *_: "profile-Pi-1-1")
    monkeypatch.setattr(real.Bench, "_place", placed)
    monkeypatch.setattr(real.Bench, "_warm", lambda *_: None)
    with serving(FakeNimbus()) as nimbus:
        trials = bench_at(nimbus, zookeeper)
        trials.guess(1)
        assert zookeeper.children([paths.plan_history()]) == [["profile-Pi-1-1"]]
        trials.close()
    assert zookeeper.children([paths.plan_history(), paths.trial()]) == [[], []]


def test_trials_and_plans_of_a_profile_that_was_killed_go_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nimbus, "conf", lambda _: {real.HOOKS_KEY: [real.HOOK]})
    monkeypatch.setattr(real.Bench, "_choose", lambda *_: None)
    zookeeper, paths = MemoryZooKeeper(lambda: 0), Paths()
    for topology_id in ("other-profile-1-1", "profile-Xml-2-1", "profile-Pi-3-1"):
        zookeeper.put(paths.trial(topology_id, "command"), b"{}")
        zookeeper.put(paths.plan_history(topology_id, "0000000001"), b"{}")
    zookeeper.put(paths.plan_history("flights-4-1", "0000000001"), b"{}")
    zookeeper.denied.add(paths.trial("profile-Pi-3-1"))
    with serving(FakeNimbus(running={"other-profile": "ACTIVE"})) as nimbus:
        trials = bench_at(nimbus, zookeeper)
        trials.check()
    assert zookeeper.children([paths.trial(), paths.plan_history()]) == [
        ["other-profile-1-1", "profile-Pi-3-1"],
        ["flights-4-1", "other-profile-1-1"],
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "--nimbus is missing, expected host or host:port"),
        (("--nimbus", "n", "--rate", "0"), "--rate is 0.0, expected tuples/s above 0"),
    ],
)
def test_wrong_options_of_apply_size(options: tuple[str, ...], text: str) -> None:
    assert text in said("apply-size", EXAMPLE, *options)


@pytest.mark.parametrize("by", ["switching", "resizing"])
def test_apply_size_goes_by_the_capacity_that_its_configuration_says(
    by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: object, load: LoadSection, **more: object) -> NoReturn:
        raise RefusedError(f"capacity: {load.capacity}")

    monkeypatch.setattr("stormpilot.cli.apply_size.connected", lambda where: nullcontext())
    monkeypatch.setattr(Nimbus, "connect_leader", lambda address: nullcontext())
    monkeypatch.setattr("stormpilot.operate.switching.switching", lambda *_, **more: None)
    monkeypatch.setattr(f"stormpilot.operate.{by}.{by}", refused)
    (tmp_path / "controller.yaml").write_text("load: {capacity: measured}\n")
    done = run("apply-size", EXAMPLE, "--nimbus", "n:1", "--config", tmp_path / "controller.yaml")
    assert "capacity: measured" in done.stderr


def test_apply_size_asks_before_workers_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name comes from the file: a wrong --nimbus restarted another topology of that name."""
    carried_out: list[bool] = []
    change = SimpleNamespace(
        controller="n1:7",
        danger=lambda wait_s: f"workers of t restart, after its sources were off for {wait_s} s",
        carry_out=lambda *_, **more: carried_out.append(True),
        changed={"pi": 4},
        early=False,
        switched=False,
        topology_id="t-1",
        wanted_workers=2,
        rebalanced=True,
        before={"pi": 2},
        threads={"pi": 4},
        workers=[],
        tasks={"pi": []},
        component_of={},
        notes=[],
        by_whom="n1:7 places its threads",
    )
    monkeypatch.setattr("stormpilot.cli.apply_size.connected", lambda where: nullcontext())
    monkeypatch.setattr(Nimbus, "connect_leader", lambda address: nullcontext())
    monkeypatch.setattr("stormpilot.operate.switching.switching", lambda *_, **more: None)
    monkeypatch.setattr("stormpilot.operate.resizing.resizing", lambda *_, **more: change)
    done = run("apply-size", EXAMPLE, "--nimbus", "n:1", "--wait", "7")
    assert (done.returncode, carried_out) == (1, [])
    assert "off for 7 s: confirm with --yes (or look with --dry-run)" in done.stderr
    assert run("apply-size", EXAMPLE, "--nimbus", "n:1", "--dry-run", "-f", "json").returncode == 0
    assert carried_out == []
    assert run("apply-size", EXAMPLE, "--nimbus", "n:1", "--yes", "-f", "json").returncode == 0
    assert carried_out == [True]

    told: list[object] = []

    def another_is_elected(danger: str, lines: object) -> None:
        told.extend([danger, lines])
        change.by_whom = "n2:8 places its threads"

    monkeypatch.setattr("stormpilot.cli.apply_size.confirm", another_is_elected)
    refused = run("apply-size", EXAMPLE, "--nimbus", "n:1")
    assert told[1] == ["t-1 at n:1", "threads of pi: 2 -> 4", "workers: 2 -> 0", "n1:7 places its threads"]
    assert (refused.returncode, carried_out) == (1, [True])
    assert "it is not what was there before: t-1 at n:1" in refused.stderr

    change.danger = lambda wait_s: ""
    assert run("apply-size", EXAMPLE, "--nimbus", "n:1", "-f", "json").returncode == 0, "nothing restarts"
    assert carried_out == [True, True]
