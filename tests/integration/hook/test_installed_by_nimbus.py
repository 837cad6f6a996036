"""Installed by Nimbus's storm.yaml alone: by one line, and by the validator, which also makes topologies routable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.local.words import wait_until
from scene import REPOSITORY
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.local.build import LOAD_HOOK
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.core import ComponentPart
from stormpilot.messages.load import TaskLoad, by_pair
from stormpilot.operate import Operator
from stormpilot.submit.submission import prepare, send
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.paths import Paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
KEYED = REPOSITORY / "tests" / "integration" / "routes" / "project"


@contextmanager
def installed(line: Mapping[str, Any]) -> Iterator[tuple[LocalCluster, ZooKeeper]]:
    """A cluster with the workers' jar on every host, of which only Nimbus is told."""
    spec = ClusterSpec(
        name=f"by-nimbus-{os.getpid()}",
        supervisors=2,
        slots=3,
        conf=PATIENT,
        nimbus_conf=line,
    )
    cluster = LocalCluster.up(spec)
    connection = connect(cluster.zookeeper_hosts)
    try:
        yield cluster, connection
    finally:
        connection.stop()
        cluster.down()


def submit(cluster: LocalCluster, project: Path, topology: str, jar: Path | None, **options: Any) -> str:
    """Submit as anybody would: nothing of ours is added on the way."""
    common = {"topology.workers": 2, "topology.acker.executors": 0, "stormpilot.report.secs": 1}
    nimbus = str(cluster.nimbus_address)
    return send(prepare(project, topology, options=common | options, nimbus=nimbus, instrument=False, jar=jar))


def loads(connection: ZooKeeper, topology_id: str) -> dict[str, list[TaskLoad]]:
    """What the workers report, by component."""
    found: dict[str, list[TaskLoad]] = {}
    try:
        for load in operate.loads(Operator(connection, Paths(), "test"), topology_id).values():
            found.setdefault(load.component, []).append(load)
    except RefusedError:
        return {}
    return found


def received(load: TaskLoad) -> int:
    return sum(by_pair(load.received).values())


def component(connection: ZooKeeper, topology_id: str, name: str) -> ComponentPart:
    snapshot = Operator(connection, Paths(), "test").topology(topology_id)
    return next(c for c in snapshot.components if c.id == name)


def test_one_line_in_nimbus_measures_a_topology_that_knows_nothing_of_it(jar: Path) -> None:
    with installed({"topology.auto.task.hooks": [LOAD_HOOK]}) as (cluster, connection):
        topology_id = submit(cluster, HERE / "project", "java_shell", jar, **{"bench.phases": [[3600, 300]]})
        wait_until(lambda: len(loads(connection, topology_id)) == 3, "every component to be measured")
        wait_until(
            lambda: all(received(t) > 0 for t in loads(connection, topology_id)["shell"]), "tuples to be counted"
        )

        def of_its_process() -> float:
            (shell,) = loads(connection, topology_id)["shell"]
            return shell.child_cpu_s or 0.0

        wait_until(lambda: of_its_process() > 0.5, "CPU of the process of a component that is declared in Java")
        others = [t for name, found in loads(connection, topology_id).items() if name != "shell" for t in found]
        assert {t.child_cpu_s for t in others} == {None}


def test_the_validator_measures_every_topology_and_makes_those_routable_that_ask_for_it(
    jar: Path, tmp_path: Path
) -> None:
    """A Java topology that asks for nothing, and a streamparse topology that asks for a standby."""
    line = {"nimbus.topology.validator": "io.stormpilot.worker.HookValidator"}
    with installed(line) as (cluster, connection):
        plain = submit(cluster, HERE / "project", "java_only", jar, **{"bench.phases": [[3600, 300]]})
        wishes = {"stormpilot.standby.executors": {"take": 1}, "keys.stop.file": str(tmp_path / "stop")}
        keyed = submit(cluster, KEYED, "keyed", None, **wishes)
        wait_until(lambda: len(loads(connection, plain)) == 3, "every component of the Java topology to be measured")
        wait_until(lambda: len(loads(connection, keyed).get("take", [])) == 3, "the standby to run, measured")

        take = component(connection, keyed, "take")
        assert [(i.grouping, i.routed) for i in take.inputs] == [("FIELDS", True)]
        assert take.config["stormpilot.standby"] == 1
        assert not any(i.routed for i in component(connection, plain, "sink").inputs)

        wait_until(
            lambda: sum(received(t) > 100 for t in loads(connection, keyed)["take"]) == 2, "two tasks to get tuples"
        )
        (view,) = (v for v in operate.routes(Operator(connection, Paths(), "test"), keyed) if v.component == "take")
        assert len(view.active) == 2 and len(view.standby) == 1
        assert [received(t) for t in loads(connection, keyed)["take"] if t.task in view.standby] == [0]
        operate.shift_route(Operator(connection, Paths(), "test"), keyed, "take", view.active[0], view.standby[0])
        wait_until(lambda: all(received(t) > 0 for t in loads(connection, keyed)["take"]), "the standby to get tuples")

        with pytest.raises(RefusedError, match="nobody is no bolt that can be routed"):
            submit(cluster, KEYED, "rolled", None, **wishes | {"stormpilot.standby.executors": {"nobody": 1}})
