"""The client of Nimbus by itself, against a Nimbus that answers as Storm's does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from doubles.fake_nimbus import FakeNimbus
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.nimbus import Address, Nimbus


@pytest.fixture
def client(nimbus: FakeNimbus) -> Iterator[Nimbus]:
    with Nimbus.connect(Address("127.0.0.1", nimbus.port), timeout_s=300) as connected:
        yield connected


def test_supervisors_and_topologies_are_listed(client: Nimbus, nimbus: FakeNimbus) -> None:
    nimbus.running["flights"] = "ACTIVE"
    first = client.supervisors()[0]
    assert (first.id, first.host, first.slots, first.used_slots) == ("id-node-1", "node-1", 4, 1)
    assert [(t.id, t.status) for t in client.topologies()] == [("flights-1-1", "ACTIVE")]
    assert client.topology_id("flights") == "flights-1-1"
    assert client.find("other") is None


def test_an_unknown_topology_is_refused_with_those_that_run(client: Nimbus, nimbus: FakeNimbus) -> None:
    nimbus.running["flights"] = "ACTIVE"
    with pytest.raises(RefusedError, match=r"'other' \(running: flights\)"):
        client.topology_id("other")
    with pytest.raises(RefusedError, match="other is not alive"):
        client.kill("other")


def test_a_nimbus_that_goes_away_is_not_reachable(nimbus: FakeNimbus, client: Nimbus) -> None:
    client.supervisors()
    nimbus.hangs_up = True
    with pytest.raises(UnreachableError, match="does not answer getClusterInfo"):
        client.supervisors()
