"""A controller process with its API, beside a real ZooKeeper: read, measured, steered by token, stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from prometheus_client.parser import text_string_to_metric_families

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.api.tokens import Role, new_token
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.zookeeper.paths import Paths

pytestmark = pytest.mark.zookeeper

STORMPILOT = Path(sys.executable).with_name("stormpilot")
SLOTS = {("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)}
ID = "flights-1-1763690000"
SETTINGS = """\
zookeeper: {{hosts: '{hosts}', session_timeout_s: 4, auth_file: {login}}}
cycle: {{period_s: 1, poll_s: 0.2}}
load: {{window_s: 5, min_coverage_ratio: 0.2, settle_s: 0}}
planner: {{name: online}}
api: {{port: {port}, tokens_file: tokens}}
log: {{format: json}}
"""
Spawn = Callable[..., "Controller"]


class Controller:
    """A process; `get` and `post` speak to it as the holder of a token."""

    def __init__(self, folder: Path, hosts: str, port: int, login: Path | None):
        folder.mkdir()
        self.tokens = {r.name: new_token(f"ann-{r.name}", r) for r in Role}
        (folder / "tokens").write_text("\n".join(line for _, line in self.tokens.values()))
        (folder / "tokens").chmod(0o600)
        self.config = folder / "controller.yaml"
        self.config.write_text(SETTINGS.format(hosts=hosts, port=port, login=login or "null"))
        self.log = folder / "log"
        self.url = f"http://127.0.0.1:{port}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([STORMPILOT, "run", self.config], stdout=log, stderr=log)

    def ask(self, method: str, path: str, role: str | None = "viewer", **options: Any) -> requests.Response:
        headers = {} if role is None else {"Authorization": f"Bearer {self.tokens[role][0]}"}
        return requests.request(method, self.url + path, headers=headers, timeout=300, **options)

    def get(self, path: str, role: str | None = "viewer") -> Any:
        return self.ask("GET", path, role).json()

    def up(self, path: str = "/healthz") -> bool:
        try:
            return self.ask("GET", path, None).status_code == 200
        except requests.ConnectionError:
            assert self.process.poll() is None, self.log.read_text()
            return False

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(300)


@pytest.fixture
def spawn(free_port: Callable[[], int], tmp_path: Path) -> Iterator[Spawn]:
    started: list[Controller] = []

    def start_one(hosts: str, port: int | None = None, login: Path | None = None) -> Controller:
        folder = tmp_path / f"controller-{len(started)}"
        started.append(Controller(folder, hosts, port or free_port(), login))
        return started[-1]

    yield start_one
    for controller in started:
        if controller.process.poll() is None:
            os.kill(controller.process.pid, signal.SIGCONT)
            controller.process.kill()
        controller.process.wait(300)


@pytest.fixture
def shim(zookeeper: LocalZooKeeper) -> Iterator[ShimDouble]:
    made = ShimDouble(zookeeper.hosts, cluster("a", "b"))
    made.submit(topology(everywhere(SLOTS)))
    yield made
    made.close()


def test_leader_and_standby_serve_what_they_should(zookeeper: LocalZooKeeper, shim: ShimDouble, spawn: Spawn) -> None:
    first = spawn(zookeeper.hosts)
    until(lambda: first.up("/readyz"), "the first controller to be ready")
    second = spawn(zookeeper.hosts)
    until(lambda: second.up("/readyz"), "the second to stand by")

    shown = first.get("/api/v1/status")
    assert shown["controller"]["up"]
    (row,) = shown["topologies"]
    assert (row["name"], row["mode"]) == ("flights", "advise")
    assert first.get("/api/v1/model")["topologies"][0]["id"] == ID
    assert second.get("/api/v1/status")["controller"]["leader"] == shown["controller"]["leader"]
    assert second.get("/api/v1/model")["code"] == "NOT_LEADING"
    printed = subprocess.run(
        [STORMPILOT, "status", "--config", first.config, "-f", "json"], check=True, capture_output=True, timeout=300
    )
    assert set(json.loads(printed.stdout)) == set(shown)

    def metrics(controller: Controller) -> dict[tuple[str, str], float]:
        text = controller.ask("GET", "/metrics").text
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        return {(s.name, ",".join(s.labels.values())): s.value for s in samples}

    until(lambda: metrics(first).get(("stormpilot_inter_node_tuples_per_second", "running,flights")), "rates")
    led, stood = metrics(first), metrics(second)
    assert (led["stormpilot_leader", ""], stood["stormpilot_leader", ""]) == (1, 0)
    assert led["stormpilot_epoch", ""] == shown["controller"]["epoch"]
    assert led["stormpilot_cycles_total", "done"] >= 1
    assert led["stormpilot_load_report_age_seconds", "flights"] < 60
    assert stood["stormpilot_zookeeper_connected", ""] == 1
    assert ("stormpilot_executors", "flights") not in stood

    # steered by token, refused by role; through the standby as well
    for controller in (first, second):
        assert controller.ask("POST", "/api/v1/pause", "viewer", json={}).status_code == 403
        assert controller.ask("POST", "/api/v1/pause", None, json={}).status_code == 401
    assert second.ask("POST", "/api/v1/pause", "operator", json={"why": "test"}).status_code == 200
    until(lambda: first.get("/api/v1/topologies")[0]["decision"]["reason"] == "PAUSED", "the leader to heed it")
    assert first.ask("POST", "/api/v1/resume", "operator", json={}).json()["changed"]
    until(lambda: first.get("/api/v1/topologies")[0]["decision"]["reason"] != "PAUSED", "the leader to go on")
    assert [(r["verb"], r["who"]) for r in first.get("/api/v1/audit")] == [
        ("resume", "ann-operator"),
        ("pause", "ann-operator"),
    ]

    assert first.stop() == 0
    until(lambda: second.get("/readyz", None)["part"] == "leading", "the second to lead")
    assert second.stop() == 0
    for controller in (first, second):
        assert not [x for x in controller.lines() if x["level"] == "error"]


def test_configuration_is_read_anew_over_http_by_an_admin_alone(
    zookeeper: LocalZooKeeper, shim: ShimDouble, spawn: Spawn
) -> None:
    """A good file is followed, a bad one leaves the old one in force and is named in the log."""
    controller = spawn(zookeeper.hosts)
    until(lambda: controller.up("/readyz"), "the controller to be ready")
    text = controller.config.read_text()

    def mode() -> Any:
        rows = controller.get("/api/v1/status")["topologies"]
        return rows[0]["mode"] if rows else None

    def logged(*words: str) -> bool:
        return any(all(w in str(line) for w in words) for line in controller.lines())

    def reload(role: str, **body: object) -> int:
        return controller.ask("POST", "/api/v1/config/reload", role, json=body).status_code

    until(lambda: mode() == "advise", "the first cycle")
    controller.config.write_text(text + "decide: {mode: act}\n")
    assert reload("operator") == 403
    assert reload("admin", dryRun=True) == 202
    controller.config.write_text(text + "decide: {mode: atc}\n")
    refused = controller.ask("POST", "/api/v1/config/reload", "admin", json={})
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID")
    assert "decide.mode" in refused.json()["detail"]
    until(lambda: logged("the old one stays", "decide.mode"), "the bad file to be refused")
    assert not logged("configuration reloaded")
    assert mode() == "advise"

    controller.config.write_text(text + "decide: {mode: act}\n")
    done = controller.ask("POST", "/api/v1/config/reload", "admin", json={})
    assert (done.status_code, done.json()["used"], done.json()["needRestart"]) == (202, ["decide.mode"], [])
    until(lambda: mode() == "act", "the new mode")
    assert logged("configuration reloaded", "decide.mode")
    assert controller.stop() == 0


def test_controller_goes_on_without_its_port(zookeeper: LocalZooKeeper, shim: ShimDouble, spawn: Spawn) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        controller = spawn(zookeeper.hosts, other.getsockname()[1])

        def cycles() -> list[dict[str, Any]]:
            return [x for x in controller.lines() if x["event"] in ("no change", "proposed plan")]

        until(cycles, "a cycle")
        (said,) = [x for x in controller.lines() if x["event"].startswith("the API is not served")]
        assert "Address already in use" in said["why"]
    assert controller.stop() == 0


def test_reads_say_so_while_zookeeper_is_away(zookeeper: LocalZooKeeper, shim: ShimDouble, spawn: Spawn) -> None:
    controller = spawn(zookeeper.hosts)
    until(lambda: controller.up("/readyz"), "the controller to be ready")
    zookeeper.stop()
    until(lambda: not controller.up("/readyz"), "it to be unready")
    assert controller.up("/healthz")
    assert controller.get("/api/v1/status")["code"] == "UNREACHABLE"
    assert controller.ask("POST", "/api/v1/pause", "operator", json={}).status_code == 503
    zookeeper.start()
    until(lambda: controller.up("/readyz"), "it to be ready again")
    assert controller.stop() == 0


def test_what_is_written_with_a_login_is_closed_to_others(
    zookeeper: LocalZooKeeper, spawn: Spawn, tmp_path: Path
) -> None:
    """Every znode that the controller or an operator makes, their parents too, is of that login alone."""
    (tmp_path / "login").write_text("storm:secret\n")
    controller = spawn(zookeeper.hosts, login=tmp_path / "login")
    until(lambda: controller.up("/readyz"), "the controller to be ready")
    for verb, body in (("pause", {}), ("mode", {"topology": "flights", "mode": "act"})):
        assert controller.ask("POST", f"/api/v1/{verb}", "operator", json=body).status_code == 200
    owner, stranger = (KazooClient(hosts=zookeeper.hosts, auth_data=d) for d in ([("digest", "storm:secret")], None))
    owner.start(timeout=300)
    stranger.start(timeout=300)
    try:
        p = Paths()
        found = list(below(owner, p.root))
        assert {p.pause(), p.mode("flights"), p.controller, p.epoch} <= set(found)
        assert any(path.startswith(p.audit("e-")) for path in found)
        for path in found:
            acls, _ = owner.get_acls(path)
            assert [(a.id.scheme, a.id.id.split(":")[0], a.perms) for a in acls] == [("digest", "storm", 31)], path
        for path in (p.pause(), p.controller):
            with pytest.raises(NoAuthError):
                stranger.get(path)
            with pytest.raises(NoAuthError):
                stranger.set(path, b"{}")
        with pytest.raises(NoAuthError):
            stranger.create(f"{p.plan()}/x", b"{}")
    finally:
        for client in (owner, stranger):
            client.stop()
            client.close()
    assert controller.stop() == 0


def below(client: KazooClient, path: str) -> Iterator[str]:
    """A znode and all below it."""
    yield path
    for name in client.get_children(path):
        yield from below(client, f"{path}/{name}")
