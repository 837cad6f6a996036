"""Where the doctor looks for ZooKeeper's servers and Nimbus, and when for what."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any, NoReturn

import msgspec
import pytest
from kazoo.hosts import collect_hosts
from kazoo.protocol.paths import normpath

from doubles import snapshots
from doubles.installations import state
from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.doctor import Level, ensemble, evidence, examine
from stormpilot.doctor.evidence import (
    Access,
    Evidence,
    NimbusSaid,
    _ask_nimbus,
    _ask_others,
    _children,
    _look,
)
from stormpilot.doctor.registered import nimbus_addresses
from stormpilot.doctor.surroundings import clocks
from stormpilot.errors import UnreachableError, UsageError
from stormpilot.messages.core import OwnerMessage, encode
from stormpilot.nimbus import Address
from stormpilot.operate.status import FAILED
from stormpilot.zookeeper.login import Login, addresses
from stormpilot.zookeeper.paths import Paths


@pytest.mark.parametrize(
    ("hosts", "servers"),
    [
        ("zk1", [("zk1", "2181")]),
        ("zk1:2182, zk2/storm", [("zk1", "2182"), ("zk2", "2181")]),
        ("[fd00::1]:2182,[fd00::2]", [("fd00::1", "2182"), ("fd00::2", "2181")]),
        ("[::]", [("::", "2181")]),
    ],
)
def test_servers_of_a_connection_string_are_those_of_the_client(hosts: str, servers: list[tuple[str, str]]) -> None:
    assert addresses(hosts) == servers
    assert [(host, str(port)) for host, port in collect_hosts(hosts)[0]] == servers


@pytest.mark.parametrize(("block", "pause_s"), [(b"x" * 65536, 0.0), (b"x", 0.01)])
def test_a_server_whose_answer_has_no_end_is_not_waited_for(
    block: bytes, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another service, say, whose port stands in `zookeeper.hosts`."""
    monkeypatch.setattr(ensemble, "TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                while True:
                    client.sendall(block)
                    time.sleep(pause_s)

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        (server,) = ensemble.ask(f"127.0.0.1:{listener.getsockname()[1]}")
        talking.join()
    assert server.error != ""


def test_a_server_that_refuses_is_told_as_the_system_tells_it() -> None:
    with socket.socket() as silent:  # bound, and nobody listens
        silent.bind(("127.0.0.1", 0))
        (server,) = ensemble.ask(f"127.0.0.1:{silent.getsockname()[1]}")
    assert server.error == "Connection refused"


def test_access_lists_of_a_zookeeper_that_went_away_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would be waited for, and told as one that is not ours."""

    class Away(MemoryZooKeeper):
        client, call_timeout_s = None, 5.0

        def read(self, *rest: object, **more: object) -> NoReturn:  # type: ignore[override]
            raise UnreachableError("ZooKeeper at z:1 is away (ConnectionLoss)")

        children = read  # type: ignore[assignment]

        def stop(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(ensemble, "ask", lambda *_: [])
    monkeypatch.setattr(evidence, "connect", lambda *_, **__: Away(lambda: 0))
    found = evidence.gather("z:1", Paths(), Login(readers=(("digest", "storm:y"),)), None)
    assert found.nimbus_ids == [("digest", "storm:y")]
    assert (found.error, found.access) == ("ZooKeeper at z:1 is away (ConnectionLoss)", [])


def test_nimbus_is_asked_at_the_port_that_storm_registered() -> None:
    """Another than the default: it was skipped, and nothing was wrong."""
    assert nimbus_addresses(None, ["n2:7001", "n1:7000"], "n1") == [Address("n1", 7000), Address("n2", 7001)]
    assert nimbus_addresses("n3:1", ["n1:7000"], "n1") == [Address("n3", 1)]
    assert nimbus_addresses(None, [], "n1") == [Address("n1")]
    assert nimbus_addresses(None, ["n1:7000", "n2:7001"], "n2") == [Address("n2", 7001), Address("n1", 7000)]
    assert nimbus_addresses(None, ["no address: x"], None) == []
    with pytest.raises(UsageError, match="--nimbus"):
        nimbus_addresses("n1:x", [], None)


def test_of_several_nimbuses_the_first_that_answers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(address: Address) -> NimbusSaid:
        return NimbusSaid(address=str(address), error="" if address.port == 7001 else f"{address}: refused")

    monkeypatch.setattr(evidence, "_ask_one", ask)
    down, up = Address("n1", 7000), Address("n2", 7001)
    assert _ask_nimbus([down, up]) == NimbusSaid(address="n2:7001")
    assert _ask_nimbus([down]) == NimbusSaid(address="n1:7000", error="n1:7000: refused")
    assert _ask_nimbus([]) is None


def test_the_nimbus_of_another_storm_on_the_same_zookeeper_is_not_taken_for_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That one is at the usual root, and ours at another."""
    zookeeper, paths = MemoryZooKeeper(lambda: snapshots.T0_MS), Paths()
    zookeeper.put(paths.cluster, encode(snapshots.cluster("a")))
    zookeeper.put("/storm/nimbuses/theirs", b"")
    zookeeper.put("/storm/supervisors/x", b"")
    supervisors = {"nimbus-1:6627": ["a"], "theirs:6627": ["x"]}
    monkeypatch.setattr(evidence, "_access", lambda _, path, needs: Access(path=path))

    def ask(address: Address) -> NimbusSaid:
        if str(address) not in supervisors:
            return NimbusSaid(address=str(address), error=f"{address}: refused")
        root = {"storm.zookeeper.root": "/storm" if address.host == "theirs" else "/ours"}
        return NimbusSaid(address=str(address), conf=root, supervisors=supervisors[str(address)])

    def look() -> tuple[str, str, bool, list[str] | None]:
        e = _look(Evidence(now_ms=0, hosts="zk:2181"), zookeeper, paths, None, None)
        assert e.nimbus is not None
        return e.nimbus.address, e.nimbus.error, e.nimbus_elsewhere, e.storm_supervisors

    monkeypatch.setattr(evidence, "_ask_one", ask)
    assert look() == ("nimbus-1:6627", "", False, None)
    del supervisors["nimbus-1:6627"]
    error = "Nimbus at nimbus-1:6627 does not answer; theirs:6627 is of another Storm"
    assert look() == ("nimbus-1:6627", error, True, None)
    supervisors["theirs:6627"] = ["a", "b"]  # it is ours, and leads since nimbus-1 died
    assert look() == ("theirs:6627", "", False, ["x"])
    supervisors.clear()
    assert look() == ("nimbus-1:6627", "nimbus-1:6627: refused", True, None)


ROOTS = {"nimbus-1:6627": "/storm", "nimbus-1:7627": "/storm-b"}
"""Two Storm clusters on one ZooKeeper, whose Nimbuses share a host."""


def look_at_b(monkeypatch: pytest.MonkeyPatch, down: str = "") -> Evidence:
    """What the doctor sees of the cluster at /storm-b, where the plug-in wrote `owner`."""
    zookeeper, paths = MemoryZooKeeper(lambda: snapshots.T0_MS), Paths("/stormpilot-b")
    zookeeper.put(paths.cluster, encode(snapshots.cluster("b1")))
    zookeeper.put(paths.owner, encode(OwnerMessage(storm_root="/storm-b", nimbus="nimbus-1")))
    for address, root in ROOTS.items():
        zookeeper.put(f"{root}/nimbuses", b"")
        if address != down:
            zookeeper.put(f"{root}/nimbuses/{address}", b"")
    zookeeper.put("/storm/supervisors/a1", b"")
    zookeeper.put("/storm-b/supervisors/b1", b"")
    monkeypatch.setattr(evidence, "_access", lambda _, path, needs: Access(path=path))

    def ask(address: Address) -> NimbusSaid:
        name, root = str(address), ROOTS[str(address)]
        if name == down:
            return NimbusSaid(address=name, error=f"{name}: refused")
        conf = {"storm.zookeeper.root": root + "/", "stormpilot.zookeeper.root": "/stormpilot" + root[6:]}
        return NimbusSaid(address=name, conf=conf, supervisors=["a1" if root == "/storm" else "b1"])

    monkeypatch.setattr(evidence, "_ask_one", ask)
    return _look(Evidence(now_ms=0, hosts="zk:2181", root=paths.root), zookeeper, paths, None, None)


def test_the_storm_at_another_root_than_the_usual_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The healthy Nimbus of another Storm was judged: three things were wrong that were not, and its root was said."""
    found = look_at_b(monkeypatch)
    assert found.nimbus is not None
    assert (found.nimbus.address, found.storm_supervisors) == ("nimbus-1:7627", ["b1"])
    assert [f.text for f in examine(found) if f.check == "owner"] == ["/stormpilot-b is of this Storm cluster"]


def test_another_storm_is_not_asked_in_place_of_ours_whose_nimbus_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look_at_b(monkeypatch, down="nimbus-1:7627")
    assert found.nimbus is not None
    assert "nimbus-1:6627 is of another Storm" in found.nimbus.error
    assert (found.storm_nimbuses, found.storm_supervisors) == ([], ["b1"])
    assert [f.text for f in examine(found) if f.check == "nimbus"] == [
        "no Nimbus runs: running workers are unaffected, and nothing is placed"
    ]


def test_below_a_root_that_is_no_path_there_is_nothing() -> None:
    class Strict(MemoryZooKeeper):
        def read(self, paths: Any, *rest: Any, **more: Any) -> Any:
            return super().read([normpath(path) for path in paths], *rest, **more)

    assert _children(Strict(lambda: 0), "/../storm/nimbuses") is None  # type: ignore[arg-type]


def test_a_storm_whose_root_was_changed_is_told_of_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisors are those of the snapshot, though its root is not that of the znode."""
    zookeeper, paths = MemoryZooKeeper(lambda: snapshots.T0_MS), Paths()
    zookeeper.put(paths.cluster, encode(snapshots.cluster("a")))
    zookeeper.put(paths.owner, encode(OwnerMessage(storm_root="/storm")))
    zookeeper.put("/new/supervisors/a", b"")
    said = NimbusSaid(address="nimbus-1:6627", conf={"storm.zookeeper.root": "/new"}, supervisors=["a"])
    monkeypatch.setattr(evidence, "_access", lambda _, path, needs: Access(path=path))
    monkeypatch.setattr(evidence, "_ask_one", lambda _: said)
    found = _look(Evidence(now_ms=0, hosts="zk:2181"), zookeeper, paths, None, None)
    assert found.storm_supervisors == ["a"]
    assert [f.level for f in examine(found) if f.check == "owner"] == [Level.fail]


def test_every_other_nimbus_is_asked_what_it_is_configured_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_ask_conf", lambda a, leads: NimbusSaid(address=str(a), leads=leads))
    first, second = Address("127.0.0.1", 7000), Address("127.0.0.2", 7000)
    assert _ask_others(first, [(first, False), (second, True)]) == [NimbusSaid(address="127.0.0.2:7000", leads=True)]
    assert _ask_others(Address("tunnel.invalid"), [(first, True)]) == []
    assert _ask_others(first, []) == []


def test_a_nimbus_that_takes_long_does_not_make_this_machines_clock_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others write meanwhile is younger than the look at the clock."""
    now_ms, paths = snapshots.T0_MS, Paths()
    zookeeper = MemoryZooKeeper(lambda: now_ms)

    def write() -> None:
        written = msgspec.structs.replace(snapshots.cluster("a"), written_at_ms=now_ms)
        zookeeper.put(paths.cluster, encode(written))

    def ask_slowly(addresses: Any) -> None:
        nonlocal now_ms
        now_ms += 20_000
        write()

    write()
    monkeypatch.setattr(evidence.clock, "now_ms", lambda: now_ms)
    monkeypatch.setattr(evidence, "_ask_nimbus", ask_slowly)
    monkeypatch.setattr(evidence, "_access", lambda _, path, needs: Access(path=path))
    e = _look(Evidence(now_ms=now_ms, hosts="zk:2181"), zookeeper, paths, None, None)
    assert e.written
    assert [f.text for f in clocks(e)] == ["1 writers are within 2 s of ZooKeeper"]


def test_a_controller_whose_cycles_fail_has_no_wrong_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state has the time of the last complete cycle: the doctor spoke of NTP, not of what fails."""
    now_ms, paths = snapshots.T0_MS, Paths()
    zookeeper = MemoryZooKeeper(lambda: now_ms)
    told = msgspec.structs.replace(state(), written_at_ms=now_ms - 600_000, sentence=f"{FAILED}planner failed")
    zookeeper.put(paths.controller, encode(told))
    monkeypatch.setattr(evidence.clock, "now_ms", lambda: now_ms)
    monkeypatch.setattr(evidence, "_ask_nimbus", lambda _: None)
    monkeypatch.setattr(evidence, "_access", lambda _, path, needs: Access(path=path))
    found = _look(Evidence(now_ms=now_ms, hosts="zk:2181"), zookeeper, paths, None, None)  # type: ignore[arg-type]
    assert [f.text for f in clocks(found) if f.level in ("warn", "fail")] == []
