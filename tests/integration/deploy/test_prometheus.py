"""Alert rules and the dashboard's queries, asked of a real Prometheus that scrapes a running controller."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import yaml

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import HistoryEntry, PlanMessage, decode
from stormpilot.messages.rollouts import Rollout, RolloutStepPart

STORMPILOT = Path(sys.executable).with_name("stormpilot")
DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
BOARD = json.loads((DEPLOY / "grafana" / "stormpilot.json").read_text())
EXPRESSIONS = [(p["title"], t["expr"]) for p in BOARD["panels"] for t in p.get("targets", [])]
# Spread badly, so that the controller moves it: both edges cross nodes.
SLOTS = {("a", 6700): (1, 4, 5), ("b", 6700): (2, 3, 6)}
SETTINGS = """\
zookeeper: {{hosts: '{hosts}', session_timeout_s: 4}}
cycle: {{period_s: 1, poll_s: 0.2}}
load: {{window_s: 5, min_coverage_ratio: 0.2, settle_s: 0}}
planner: {{name: online}}
decide: {{mode: act, consecutive_hits: 1, cool_down_s: 1, restart_s: 0}}
traffic_log: {{dir: '{folder}/traffic'}}
api: {{port: {port}}}
"""

needs_prometheus = pytest.mark.skipif(
    not shutil.which("prometheus") or not shutil.which("promtool"),
    reason="Prometheus is not installed (Debian: apt-get install prometheus)",
)
pytestmark = [needs_prometheus, pytest.mark.zookeeper]


@dataclass
class Watched:
    """A controller and the Prometheus that scrapes it every second."""

    controller: subprocess.Popen[bytes]
    scraped: str
    url: str
    shim: ShimDouble

    def ask(self, path: str, **params: str) -> Any:
        answer = requests.get(f"{self.url}/api/v1/{path}", params=params, timeout=300).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask("query", query=expression.replace("$topology", ".*"))["result"]
        return found


@pytest.fixture
def watched(zookeeper: LocalZooKeeper, free_port: Callable[[], int], tmp_path: Path) -> Iterator[Watched]:
    shim = ShimDouble(zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(everywhere(SLOTS)))
    port, own = free_port(), free_port()
    (tmp_path / "controller.yaml").write_text(SETTINGS.format(hosts=zookeeper.hosts, port=port, folder=tmp_path))
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}
    (job,) = config["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(RULES, tmp_path)
    with (tmp_path / "controller.log").open("wb") as log, (tmp_path / "prometheus.log").open("wb") as metrics_log:
        controller = subprocess.Popen([STORMPILOT, "run", tmp_path / "controller.yaml"], stdout=log, stderr=log)
        prometheus = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/tsdb",
                f"--web.listen-address=127.0.0.1:{own}",
            ],
            stdout=metrics_log,
            stderr=metrics_log,
        )
    try:
        yield Watched(controller, f"http://127.0.0.1:{port}/metrics", f"http://127.0.0.1:{own}", shim)
    finally:
        for process in (controller, prometheus):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in (controller, prometheus):
            process.wait(300)
        shim.close()


def ready(watched: Watched) -> bool:
    assert watched.controller.poll() is None, "the controller ended"
    try:
        return bool(watched.query('up{job="stormpilot"} == 1'))
    except requests.RequestException:  # not up, or up and not ready yet
        return False


@pytest.mark.timeout(1800)
def test_rules_and_dashboard_work_on_a_running_controller(watched: Watched) -> None:
    until(lambda: ready(watched), "Prometheus to scrape the controller")
    until(lambda: watched.query("stormpilot_gain_measured_ratio"), "a move that is measured")

    exposed = set(re.findall(r"^# TYPE (\S+)", requests.get(watched.scraped, timeout=300).text, re.MULTILINE))
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    for where, expression in [*EXPRESSIONS, *((r["alert"], r["expr"]) for r in rules)]:
        for name in re.findall(r"\b(?:stormpilot|process)_\w+", expression):
            assert {name, name.removesuffix("_bucket")} & exposed, f"{where}: there is no metric {name}"

    held = step_by_step(watched.shim)
    paths = watched.shim.paths
    watched.shim.write(paths.rollout(held.topology_id), held)
    # Rates need two samples; then every panel shows something, that on plans that ended once this one has.
    for title, expression in sorted(EXPRESSIONS, key=lambda e: "rollouts_ended" in e[1]):
        if "rollouts_ended" in expression:
            watched.shim.write(paths.rollout(held.topology_id), msgspec.structs.replace(held, abort_by="test"))
        until(lambda e=expression: watched.query(_without_filter(e)), f"something to show in {title}: {expression}")

    (group,) = watched.ask("rules")["groups"]
    assert {r["name"] for r in group["rules"]} == {r["alert"] for r in rules}
    assert {r["health"] for r in group["rules"]} == {"ok"}, group
    down = "StormpilotControllerDown"
    assert not [a for a in watched.ask("alerts")["alerts"] if a["labels"]["alertname"] == down]

    watched.controller.send_signal(signal.SIGTERM)
    watched.controller.wait(300)
    until(
        lambda: [a for a in watched.ask("alerts")["alerts"] if a["labels"]["alertname"] == down],
        "the alert on a controller that is down",
    )


def step_by_step(shim: ShimDouble) -> Rollout:
    """The plan that runs, as a rollout that is held before its first step."""
    (topology_id,) = shim.client.get_children(shim.paths.plan())
    path = shim.paths.plan(topology_id)
    plan = decode(shim.client.get(path)[0], PlanMessage, path)
    now_ms = int(time.time() * 1000)
    return Rollout(
        topology_id=topology_id,
        entry=HistoryEntry(plan=plan, reason="GAIN"),
        steps=[RolloutStepPart(workers=plan.workers)],
        since_ms=now_ms,
        started_at_ms=now_ms,
        standing_plan_id=plan.plan_id,
        paused_by="test",
    )


def _without_filter(expression: str) -> str:
    """`x == 1` shows nothing while no x is 1, `x > 0` none that did not rise: whether there is an x is asked."""
    return expression.removesuffix(" == 1").removesuffix(" > 0")


def test_the_rules_pass_their_own_tests() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    named = re.findall(r"- name: (\w+) (fires|is silent)", (RULES.parent / "alerts_test.yml").read_text())
    alerts = {r["alert"] for r in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
    assert set(named) == {(a, how) for a in alerts for how in ("fires", "is silent")}
