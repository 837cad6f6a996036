"""Drain, undrain and rollback on a real Storm cluster: what must move does, and nothing else restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from doubles.shim import until
from integration.local.words import wait_until
from stormpilot import operate
from stormpilot.config import Config, parse
from stormpilot.local.cluster import LocalCluster
from stormpilot.lookup import topology_id
from stormpilot.nimbus import Nimbus
from stormpilot.observe.reader import Reader, Seen
from stormpilot.operate import Operator
from stormpilot.paths import Paths
from stormpilot.submit import submit_topology
from stormpilot.zookeeper import ZooKeeper, connect

from .conftest import Controller

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[3] / "topologies"
NAME = "wordcount_comm"
SETTINGS = """\
zookeeper: {{hosts: '{hosts}'}}
cycle: {{period_s: 2, poll_s: 1}}
load: {{window_s: 10, min_coverage_ratio: 0.2, settle_s: 0}}
decide: {{mode: act, consecutive_hits: 100, restart_s: 5, overload_s: 3600}}
"""
"""Nothing moves for its gain: only for what operators ask."""


@pytest.fixture
def connection(cluster: LocalCluster) -> Iterator[ZooKeeper]:
    found = connect(cluster.zookeeper_hosts)
    yield found
    found.stop()


@pytest.fixture
def running(cluster: LocalCluster, start: Callable[[Config], Controller], tmp_path: Path) -> Iterator[Controller]:
    """A controller, and the word count on two workers; gone after the test."""
    config = parse(SETTINGS.format(hosts=cluster.zookeeper_hosts), "test.yaml", tmp_path)
    controller = start(config)
    until(lambda: controller.said("held"), "the first cycle", 60)
    options = {"topology.workers": 2, "wordcount.rate.tps": 20, "stormpilot.report.secs": 1}
    submit_topology(PROJECT, NAME, "local", options, str(cluster.nimbus_address), True)
    yield controller
    with Nimbus.connect(cluster.nimbus_address) as nimbus:
        nimbus.kill(NAME, wait_s=0)
    wait_until(lambda: not cluster.workers(), "the workers to end")


def test_drained_host_is_left_by_its_executors_alone_and_a_rollback_brings_them_back(
    cluster: LocalCluster, connection: ZooKeeper, running: Controller
) -> None:
    paths = Paths()
    reader = Reader(connection, paths)

    def act(why: str = "") -> Operator:
        return Operator(connection, paths, "ops", why)

    def placement(seen: Seen) -> dict[int, tuple[str | None, int | None]]:
        return {e.start: (e.supervisor, e.port) for e in seen.topologies[topology_id(seen, NAME)].executors}

    def applied(reason: str) -> bool:
        seen = reader.read()
        if not any(t.name == NAME for t in seen.topologies.values()):
            return False
        i = topology_id(seen, NAME)
        published, status = seen.plans.get(i), seen.statuses.get(i)
        plan = None if published is None else published.message
        return (
            plan is not None
            and plan.reason.startswith(f"{reason}:")
            and status is not None
            and (status.plan_id, status.state) == (plan.plan_id, "applied")
        )

    wait_until(lambda: applied("FIRST_PLAN"), "the first plan to be applied")
    wait_until(lambda: len(cluster.workers()) == 2, "both workers to run")
    seen = reader.read()
    before = placement(seen)
    assert seen.cluster is not None
    hosts = {s.id: s.host for s in seen.cluster.supervisors}
    old = {(w.supervisor, w.port): w.pid for w in cluster.workers()}
    drained = sorted({s for s, _ in before.values() if s is not None})[0]

    change = operate.drain(act("new disk"), hosts[drained])
    leaving = sum(1 for s, _ in before.values() if s == drained)
    assert change.text.endswith(f"{leaving} executors ({leaving} of {NAME}) to be moved")
    wait_until(lambda: operate.draining(act(), hosts[drained]).total == 0, "the host to be left")
    wait_until(lambda: applied("DRAIN"), "the plan to be applied as a whole")
    after = placement(reader.read())
    assert {t: s for t, s in after.items() if before[t][0] != drained} == {
        t: s for t, s in before.items() if s[0] != drained
    }
    wait_until(lambda: len(cluster.workers()) == 2, "both workers to run again")
    new = {(w.supervisor, w.port): w.pid for w in cluster.workers()}
    kept = {slot: pid for slot, pid in old.items() if slot in set(after.values())}
    assert {slot: new[slot] for slot in kept} == kept  # what did not have to move was not restarted

    refused = operate.rollback(act(), NAME)
    wait_until(lambda: operate.outcome(act(), refused.request_id), "the answer while the host is drained")
    answer = operate.outcome(act(), refused.request_id)
    assert answer is not None
    assert "does not fit any more: exclusion" in answer.result

    assert operate.undrain(act(), hosts[drained]).changed
    operate.rollback(act("disk is in"), NAME)
    wait_until(lambda: applied("ROLLBACK"), "the way back")
    assert placement(reader.read()) == before
    until(lambda: running.said("held", reason="HELD"), "the hold", 60)
    assert [
        (s.entry.reason, s.entry.approved_by) for s in operate.history(act(), topology_id(reader.read(), NAME))
    ] == [
        ("ROLLBACK", "ops"),
        ("DRAIN", ""),
        ("FIRST_PLAN", ""),
    ]
