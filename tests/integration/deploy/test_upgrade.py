"""A controller beside a plug-in of another version: it refuses politely, and what runs keeps its place.

The other way round, a plan that is newer than the plug-in, is tried on a real cluster in e2e/faults/test_plans.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import ClusterSnapshot, encode
from stormpilot.messages.settings import ExcludeSetting, pin_key
from stormpilot.zookeeper.paths import Paths

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(1800)]

STORMPILOT = Path(sys.executable).with_name("stormpilot")
EARLIER = Path(__file__).parents[2] / "contract" / "earlier"
ID = "flights-1-1763690000"
"""Of the topology of the examples, and of the double's."""
SETTINGS_LEFT: Mapping[str, Callable[[Paths, dict[str, Any]], str]] = {
    "pause": lambda p, _: p.pause("flights"),
    "mode": lambda p, _: p.mode("flights"),
    "pin": lambda p, m: p.pin(pin_key(m["topology"], m["component"], m["task"])),
    "drain": lambda p, m: p.drain(m["host"]),
    "exclude": lambda p, m: p.exclusion(ExcludeSetting(host=m["host"], topology=m["topology"]).key),
    "hold": lambda p, m: p.hold(m["topologyId"]),
}
"""Operators' settings by the name of their example, and where each stands."""
SLOTS = {("a", 6700): (1, 4, 5), ("b", 6700): (2, 3, 6)}
SETTINGS = """\
zookeeper: {{hosts: '{hosts}', session_timeout_s: 4}}
cycle: {{period_s: 1, poll_s: 0.2}}
load: {{window_s: 5, min_coverage_ratio: 0.2, settle_s: 0}}
planner: {{name: online}}
decide: {{mode: act, consecutive_hits: 1, cool_down_s: 1, restart_s: 0}}
traffic_log: {{dir: null}}
api: {{enabled: false}}
"""


@pytest.fixture
def shim(zookeeper: LocalZooKeeper) -> Iterator[ShimDouble]:
    made = ShimDouble(zookeeper.hosts, cluster("a", "b"))
    made.submit(topology(everywhere(SLOTS)))
    yield made
    made.close()


def status(hosts: str) -> dict[str, Any]:
    done = subprocess.run(
        [STORMPILOT, "status", "-f", "json", "--zookeeper", hosts], check=True, capture_output=True, timeout=300
    )
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def test_a_controller_older_than_the_plug_in_says_so_and_moves_nothing(
    zookeeper: LocalZooKeeper, shim: ShimDouble, tmp_path: Path
) -> None:
    """It starts beside snapshots of schema 2; when the plug-in goes back to schema 1, it goes on."""
    newer: ClusterSnapshot = msgspec.structs.replace(cluster("a", "b"), schema=2)
    shim.change_cluster(newer)
    (tmp_path / "c.yaml").write_text(SETTINGS.format(hosts=zookeeper.hosts))
    with (tmp_path / "log").open("wb") as log:
        controller = subprocess.Popen([STORMPILOT, "run", tmp_path / "c.yaml"], stdout=log, stderr=log)
    try:

        def refuses() -> bool:
            shown = status(zookeeper.hosts)
            up = isinstance(shown["controller"], dict) and int(shown["controller"].get("cycles", 0)) >= 3
            return up and "schema 2 is newer than 1" in json.dumps(shown["problems"])

        until(refuses, "three cycles that name the newer schema")
        assert shim.applied == []
        assert controller.poll() is None
        doctor = subprocess.run(
            [STORMPILOT, "doctor", "--zookeeper", zookeeper.hosts],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert doctor.returncode == 1
        assert "upgrade the older one" in doctor.stdout

        shim.change_cluster(cluster("a", "b"))
        until(lambda: bool(shim.applied), "a plan when the versions fit again")
    finally:
        controller.terminate()
        controller.wait(300)


def test_a_znode_above_our_schema_is_left_as_it_is(zookeeper: LocalZooKeeper, shim: ShimDouble, tmp_path: Path) -> None:
    """A topology that a newer plug-in wrote holds its slots and gets no plan from this controller."""
    newer = json.loads(encode(topology(everywhere(SLOTS), name="next"))) | {"schema": 2}
    path = shim.paths.topology("next-1-1763690000")
    shim.client.create(path, json.dumps(newer).encode(), makepath=True)
    before = shim.client.get(path)
    (tmp_path / "c.yaml").write_text(SETTINGS.format(hosts=zookeeper.hosts))
    with (tmp_path / "log").open("wb") as log:
        controller = subprocess.Popen([STORMPILOT, "run", tmp_path / "c.yaml"], stdout=log, stderr=log)
    try:

        def cycled() -> bool:
            shown = status(zookeeper.hosts)["controller"]
            return isinstance(shown, dict) and int(shown.get("cycles", 0)) >= 3

        until(cycled, "three cycles")
        assert not shim.client.exists(shim.paths.plan("next-1-1763690000"))
        assert shim.client.get(path) == before
    finally:
        controller.terminate()
        controller.wait(300)


def test_what_an_earlier_version_left_holds_after_the_upgrade(
    zookeeper: LocalZooKeeper, shim: ShimDouble, tmp_path: Path
) -> None:
    """Settings, plan and plan history of `contract/earlier` below a new controller: in force, and untouched."""
    left = {kind: (EARLIER / f"{kind}.json").read_bytes() for kind in (*SETTINGS_LEFT, "plan", "history")}
    where = {kind: path(shim.paths, json.loads(left[kind])) for kind, path in SETTINGS_LEFT.items()}
    where |= {"plan": shim.paths.plan(ID), "history": shim.paths.plan_history(ID, "0000000001")}
    for kind, path in where.items():
        shim.client.create(path, left[kind], makepath=True)
    (tmp_path / "c.yaml").write_text(SETTINGS.format(hosts=zookeeper.hosts))
    with (tmp_path / "log").open("wb") as log:
        controller = subprocess.Popen([STORMPILOT, "run", tmp_path / "c.yaml"], stdout=log, stderr=log)
    try:

        def decided() -> bool:
            row = status(zookeeper.hosts)["topologies"]
            return isinstance(row, list) and bool(row) and (row[0]["decision"] or {}).get("reason") == "PAUSED"

        until(decided, "the pause to hold the topology")
        shown = status(zookeeper.hosts)
        assert shown["problems"] == []
        (row,) = shown["topologies"]
        assert (row["mode"], row["modeFrom"], row["plan"]) == ("act", "operator", "p-0001")
        settings = shown["settings"]
        assert [(p["topology"], p["component"], p["task"]) for p in settings["pins"]] == [("flights", "parse", 3)]
        assert [d["host"] for d in settings["drains"]] == ["node-7"]
        assert [(x["host"], x["topology"]) for x in settings["exclusions"]] == [("node-7", "flights")]
        assert shim.applied == []
        assert {kind: shim.client.get(path)[0] for kind, path in where.items()} == left
        told = [STORMPILOT, "plan", "history", "flights", "--zookeeper", zookeeper.hosts]
        assert "p-0001" in subprocess.run(told, check=True, capture_output=True, text=True, timeout=300).stdout
    finally:
        controller.terminate()
        controller.wait(300)
