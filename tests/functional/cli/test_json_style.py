"""What commands that read print: `-f json` and HTTP with one casing and one form of a moment; tables with whole ids."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from doubles.commands import Run
from doubles.models import PAIRED, SPREAD, model, plan
from doubles.models import topology as model_topology
from doubles.trial_log import write_trial_log
from functional.api.conftest import ID, NOW_MS, Api
from stormpilot import clock
from stormpilot.cli import live, live_plan, output, status, steer
from stormpilot.local.status import ClusterStatus, DaemonStatus, SupervisorStatus, WorkerStatus
from stormpilot.messages.casing import camel
from stormpilot.messages.core import HistoryEntry, decode, encode
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.settings import AuditRecord

CONTRACT = Path(__file__).parents[2] / "contract"
CAMEL = re.compile(r"[a-z][a-zA-Z0-9]*$")
NAMED = {
    *("before", "after", "metrics", "present", "params", "counters", "settings", "conf", "vms", "allocations"),
    *("executors", "remaining", "decisions", "now", "planned", "then", "modes", "verdicts"),
}
"""Fields that are maps: their keys are names of metrics, settings, topologies or machines."""
MOMENT = re.compile(r"(AtMs|sinceMs|untilMs|fromMs|toMs|startMs)$")
OTHER_MOMENT = re.compile(r"At(S)?$")
DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


def problems(value: Any, at: str = "$") -> Iterator[str]:
    """Keys that are not camelCase, moments that are no integers, and dates as text."""
    if isinstance(value, dict):
        named = at.rpartition(".")[2] in NAMED
        for key, inner in value.items():
            if not named and not CAMEL.match(key):
                yield f"{at}.{key}"
            if OTHER_MOMENT.search(key) or (MOMENT.search(key) and not (inner is None or isinstance(inner, int))):
                yield f"{at}.{key} is {inner!r}"
            yield from problems(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from problems(inner, at)
    elif isinstance(value, str) and DATE.match(value):
        yield f"{at} is {value}"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    """A cluster with one topology, a controller, a proposal, a history, a rollout and an audit record."""
    api = Api(tmp_path)
    api.run()
    put, paths = api.zookeeper.put, api.paths
    (proposal,) = api.zookeeper.read([paths.proposal(ID)])
    assert proposal is not None
    entry = decode(proposal.data, HistoryEntry, "proposal")
    put(paths.plan_history(ID, "0000000001"), encode(entry))
    rollout = decode((CONTRACT / "rollout.json").read_bytes(), Rollout, "rollout.json")
    put(paths.rollout(ID), encode(msgspec.structs.replace(rollout, topology_id=ID)))
    put(paths.audit("e-0000000001"), encode(AuditRecord(id="a", at_ms=NOW_MS, who="ann", verb="pause", target="x")))

    @contextmanager
    def connected(_: object) -> Iterator[Any]:
        yield api.zookeeper

    for module in (live, live_plan, status, steer):
        monkeypatch.setattr(module, "connected", connected)
    return api


LIVE = [
    ["status"],
    ["explain", "flights", "--measure", "0"],
    ["audit"],
    ["plan", "show", "flights"],
    ["plan", "diff", "flights"],
    ["plan", "history", "flights"],
    ["rollout", "status"],
    ["routes", "show", "flights"],
    ["thresholds", "show", "flights"],
    ["pause", "flights", "--dry-run"],
    ["mode", "act", "flights", "--dry-run"],
]


@pytest.mark.parametrize("command", LIVE, ids=" ".join)
def test_commands_that_read_a_running_system(run: Run, world: Api, command: list[str]) -> None:
    found = run(*command, "-f", "json").json()
    assert found
    assert not list(problems(found))
    table = run(*command)
    assert table.code == 0, table.err
    assert "None" not in table.out


@pytest.mark.parametrize("width", [80, 44])
@pytest.mark.parametrize("command", LIVE, ids=" ".join)
def test_no_id_and_no_other_word_is_broken_on_a_terminal(
    run: Run, world: Api, monkeypatch: pytest.MonkeyPatch, command: list[str], width: int
) -> None:
    """Ids of this cluster are short: 44 columns are to them what 80 are to longer ones."""

    def printed(**terminal: Any) -> str:
        shown = io.StringIO()
        monkeypatch.setattr(output, "console", Console(file=shown, color_system=None, highlight=False, **terminal))
        assert run(*command).code == 0
        return shown.getvalue()

    piped, shown = printed(width=1000), printed(width=width, force_terminal=True)
    words = {w for w in shown.split() if not w.isdigit()}  # time goes on
    assert words
    assert words <= {*piped.split()}
    assert max(map(len, shown.splitlines())) <= width


OFFLINE = [
    ["model", "validate", "m.json"],
    ["model", "show", "m.json"],
    ["plan", "diff", "--model", "m.json", "p.json"],
    ["plan", "explain", "--model", "m.json", "--plan", "p.json"],
    ["plan", "compare", "--model", "m.json", "-p", "default", "--budget", "1"],
    ["planners"],
    ["trial-run", "--log", "log"],
    ["config", "check", "c.yaml"],
    ["config", "explain", "decide"],
    ["token", "new", "ann"],
]


@pytest.mark.parametrize("command", OFFLINE, ids=lambda c: " ".join(c[:2]))
def test_commands_that_read_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.json").write_bytes(msgspec.json.encode(model(model_topology(SPREAD))))
    Path("p.json").write_bytes(msgspec.json.encode(plan(PAIRED)))
    Path("c.yaml").write_text("decide: {mode: act}")
    write_trial_log(Path("log"), clock.now_ms() - 600_000)
    assert not list(problems(run(*command, "-f", "json").json()))


def test_status_of_a_local_cluster() -> None:
    found = ClusterStatus(
        name="default", state="up", storm_version="2.8.3", scheduler="pilot", nimbus="127.0.0.1:6627", logs="/logs",
        zookeeper="127.0.0.1:2181", created_at_ms=NOW_MS, keeper_pid=1, topologies=[], nimbus_error=None,
        daemons=[DaemonStatus("nimbus", "nimbus", "127.0.0.1", 6627, "running", 2, 1.5, None, 0, None)],
        supervisors=[SupervisorStatus("s", "127.0.0.1", "r", None, 100.0, 1000.0, [6700], 0)],
        workers=[WorkerStatus("s", 6700, 3, ID, 1.5)],
    )  # fmt: skip
    assert not list(problems(camel(found)))


READS = [
    *("status", "topologies", "topologies/flights", "topologies/flights/plan", "topologies/flights/plan/diff"),
    *("topologies/flights/explain?executors=true", "topologies/flights/history", "topologies/flights/rollout"),
    *("audit", "hosts/host-a/remaining"),
]


@pytest.mark.parametrize("path", READS)
def test_http(world: Api, path: str) -> None:
    with world.client("viewer") as client:
        answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    assert not list(problems(answer.json()))


def test_the_check_finds_what_it_forbids() -> None:
    assert list(problems({"a_b": 1})) == ["$.a_b"]
    assert list(problems({"rows": [{"createdAtMs": "2026-01-31"}]})) == ["$.rows.createdAtMs is '2026-01-31'"]
    assert list(problems({"createdAt": 1767225600.5})) == ["$.createdAt is 1767225600.5"]
    assert list(problems({"at": "2026-01-31T12:00"})) == ["$.at is 2026-01-31T12:00"]
    assert not list(problems({"metrics": {"inter_node_tps": 1.0}, "sinceMs": 5}))
