"""From a spec to configuration files and command lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from secure_zookeeper import write_jaas
from stormpilot.errors import UsageError
from stormpilot.local import state
from stormpilot.local.build import build, check_jars
from stormpilot.local.forwarder import parse
from stormpilot.local.home import StormHome
from stormpilot.local.ports import Reservation
from stormpilot.local.spec import ClusterSpec
from stormpilot.local.state import Description, Layout
from stormpilot.logins.jaas import SaslLogin

HOME = StormHome(Path("/opt/storm"), "/opt/java/bin/java")


@pytest.fixture
def ports() -> Iterator[Reservation]:
    with closing(Reservation()) as held:
        yield held


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "cluster")


def conf(layout: Layout, daemon: str) -> dict[str, Any]:
    return dict(yaml.safe_load((layout.conf / f"{daemon}.yaml").read_text()))


def build_default(layout: Layout, ports: Reservation, **fields: Any) -> Description:
    return build(ClusterSpec(scheduler="default", **fields), layout, HOME, ports)


def test_every_supervisor_has_its_own_host_ports_folders_and_id(layout: Layout, ports: Reservation) -> None:
    built = build_default(layout, ports, supervisors=12, slots=3)
    confs = [conf(layout, s.id) for s in built.supervisors]
    for key in ("storm.local.hostname", "supervisor.thrift.port", "storm.local.dir", "storm.log.dir"):
        assert len({c[key] for c in confs}) == 12, key
    slots = [port for c in confs for port in c["supervisor.slots.ports"]]
    assert len(set(slots)) == 36
    ids = [c["stormpilot.local.supervisor.id"] for c in confs]
    assert not [(a, b) for a in ids for b in ids if a != b and b.startswith(a)], "Storm matches ids by their beginning"


def test_with_logins_by_digest_all_are_where_storms_servers_take_them_to_be(
    layout: Layout, ports: Reservation, tmp_path: Path
) -> None:
    jaas = write_jaas(tmp_path / "jaas.conf", {"storm": "secret"}, SaslLogin("storm", "secret"))
    built = build_default(layout, ports, supervisors=2, jaas_file=jaas)
    for daemon in ("nimbus", *(s.id for s in built.supervisors)):
        said = conf(layout, daemon)
        assert said["nimbus.seeds"] == said["storm.zookeeper.servers"] == ["localhost"]
        assert said["storm.local.hostname"] == "localhost"
    for wrong in ({"isolate": True}, {"nimbuses": 2}):
        with pytest.raises(UsageError, match="jaas_file: "):
            ClusterSpec(jaas_file=jaas, **wrong)


def test_a_single_nimbus_needs_no_forwarder(layout: Layout, ports: Reservation) -> None:
    built = build_default(layout, ports)
    assert built.of_kind("forwarder") == []
    assert conf(layout, "nimbus")["nimbus.thrift.port"] == conf(layout, "supervisor-01")["nimbus.thrift.port"]


def test_racks_and_sites_go_round(layout: Layout, ports: Reservation) -> None:
    built = build_default(layout, ports, supervisors=4, racks=3, sites=("north", "south"))
    assert [s.rack for s in built.supervisors] == ["/rack-0", "/rack-1", "/rack-2", "/rack-0"]
    racks = conf(layout, "nimbus")["stormpilot.local.racks"]
    assert racks == {s.host: s.rack for s in built.supervisors}
    sites = [conf(layout, s.id)["supervisor.scheduler.meta"]["site"] for s in built.supervisors]
    assert sites == ["north", "south", "north", "south"]


def test_no_sites_no_tags(layout: Layout, ports: Reservation) -> None:
    built = build_default(layout, ports, supervisors=1, sites=())
    assert "supervisor.scheduler.meta" not in conf(layout, built.supervisors[0].id)


def test_machine_is_shared_out_unless_told_otherwise(layout: Layout, ports: Reservation) -> None:
    built = build_default(layout, ports, supervisors=3, memory_mb=512.0)
    declared = conf(layout, "supervisor-01")
    assert declared["supervisor.memory.capacity.mb"] == 512.0
    assert 3 * declared["supervisor.cpu.capacity"] == pytest.approx(
        100 * round(3 * declared["supervisor.cpu.capacity"] / 100), abs=1
    )
    assert [s.cpu_points for s in built.supervisors] == [declared["supervisor.cpu.capacity"]] * 3


def test_keys_of_the_user_win(layout: Layout, ports: Reservation) -> None:
    build_default(layout, ports, supervisors=1, conf={"nimbus.monitor.freq.secs": 7, "nimbus.childopts": "-Xmx77m"})
    assert conf(layout, "nimbus")["nimbus.monitor.freq.secs"] == 7
    nimbus = next(d for d in state.read_description(layout).daemons if d.kind == "nimbus")
    assert "-Xmx77m" in nimbus.argv
    assert "-Xmx384m" not in nimbus.argv


def test_defaults_leave_storms_timings_alone(layout: Layout, ports: Reservation) -> None:
    build_default(layout, ports, supervisors=1, tuned=False)
    assert "nimbus.monitor.freq.secs" not in conf(layout, "nimbus")


def test_our_scheduler_is_copied_for_nimbus_alone(layout: Layout, ports: Reservation, tmp_path: Path) -> None:
    jar = tmp_path / "stormpilot-scheduler-1.jar"
    jar.write_bytes(b"jar")
    build(ClusterSpec(scheduler_jar=jar), layout, HOME, ports)
    assert conf(layout, "nimbus")["storm.scheduler"] == "io.stormpilot.PilotScheduler"
    assert (layout.extlib_daemon / jar.name).read_bytes() == b"jar"
    assert not (layout.extlib / jar.name).exists()


def test_hook_is_for_workers_and_in_every_storm_yaml(layout: Layout, ports: Reservation, tmp_path: Path) -> None:
    jar = tmp_path / "stormpilot-worker-1.jar"
    jar.write_bytes(b"jar")
    build_default(layout, ports, supervisors=1, hook=True, hook_jar=jar)
    assert (layout.extlib / jar.name).read_bytes() == b"jar"
    for daemon in ("nimbus", "supervisor-01"):
        assert conf(layout, daemon)["topology.auto.task.hooks"] == ["io.stormpilot.worker.LoadHook"]


def test_without_the_hook_nothing_of_it_is_there(layout: Layout, ports: Reservation) -> None:
    build_default(layout, ports, supervisors=1)
    assert "topology.auto.task.hooks" not in conf(layout, "nimbus")
    assert list(layout.extlib.iterdir()) == []


@pytest.mark.parametrize("field", ["scheduler_jar", "hook_jar", "extlib"])
def test_jar_that_is_not_there_is_named(field: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone.jar"
    named: dict[str, Any] = {field: (gone,) if field == "extlib" else gone}
    if field == "hook_jar":
        named |= {"hook": True, "scheduler": "default"}
    with pytest.raises(UsageError, match=rf"{field}: .*gone\.jar does not exist"):
        check_jars(ClusterSpec(**named))


def test_description_can_be_read_back_and_is_private(layout: Layout, ports: Reservation) -> None:
    built = build_default(layout, ports, conf={"topology.workers": 2})
    assert state.read_description(layout) == built
    assert layout.description_file.stat().st_mode & 0o777 == 0o600


def test_ensemble_shares_a_client_port_on_different_hosts(layout: Layout, ports: Reservation) -> None:
    """Storm knows one ZooKeeper port for all servers."""
    built = build_default(layout, ports, zookeepers=3)
    servers = built.of_kind("zookeeper")
    assert len({d.host for d in servers}) == 3
    assert len({d.port for d in servers}) == 1
    written = conf(layout, "nimbus")
    assert written["storm.zookeeper.servers"] == [d.host for d in servers]
    assert [(layout.data / d.id / "myid").read_text().strip() for d in servers] == ["1", "2", "3"]
    config = (layout.data / "zookeeper-2" / "zoo.cfg").read_text().splitlines()
    assert len([line for line in config if line.startswith("server.")]) == 3


def test_nimbuses_have_a_port_each_behind_a_common_one_and_copy_topologies_to_each_other(
    layout: Layout, ports: Reservation
) -> None:
    built = build_default(layout, ports, nimbuses=2)
    nimbuses = built.of_kind("nimbus")
    assert [d.id for d in nimbuses] == ["nimbus-1", "nimbus-2"]
    assert len({d.host for d in nimbuses}) == 2
    assert len({d.port for d in nimbuses}) == 2
    assert [conf(layout, d.id)["nimbus.thrift.port"] for d in nimbuses] == [d.port for d in nimbuses]
    (forwarder,) = built.of_kind("forwarder")
    common = conf(layout, "supervisor-01")["nimbus.thrift.port"]
    assert parse(forwarder.argv[3:]) == [((d.host, common), (d.host, d.port)) for d in nimbuses]
    written = conf(layout, "nimbus-2")
    assert written["nimbus.seeds"] == [d.host for d in nimbuses]
    assert written["storm.local.hostname"] == nimbuses[1].host
    assert written["topology.min.replication.count"] == 2
    assert written["storm.local.dir"] != conf(layout, "nimbus-1")["storm.local.dir"]


def test_supervisors_that_declare_nothing_leave_storms_defaults(layout: Layout, ports: Reservation) -> None:
    own = {"supervisor-02": {"supervisor.cpu.capacity": 100}}
    built = build_default(layout, ports, supervisors=2, declares=False, supervisor_conf=own)
    declared = [{k: v for k, v in conf(layout, s.id).items() if ".capacity" in k} for s in built.supervisors]
    assert declared == [{}, {"supervisor.cpu.capacity": 100}]


@pytest.mark.parametrize("wrong", [{"cpu_points": 100}, {"supervisor_conf": {"supervisor-09": {}}}])
def test_capacities_that_contradict_each_other_and_unknown_supervisors_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ClusterSpec(declares=False, **wrong)
