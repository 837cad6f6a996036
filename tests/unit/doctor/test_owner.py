"""What the doctor says of znodes that are another Storm cluster's."""

from __future__ import annotations

from typing import Any

import pytest

from doubles.installations import bad, evidence
from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.doctor import Level, examine
from stormpilot.doctor.evidence import _owner
from stormpilot.messages.core import OwnerMessage, encode
from stormpilot.zookeeper.paths import Paths


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"owner": OwnerMessage(storm_root="/b", nimbus="b:6627")}, "storm.zookeeper.root /b (Nimbus b:6627)"),
        ({"owner_error": "field stormRoot is missing"}, "field stormRoot is missing: the plug-in writes nothing"),
    ],
)
def test_a_root_of_another_storm_cluster_is_named_with_the_way_out(fields: dict[str, Any], says: str) -> None:
    (found,) = (f for f in bad(evidence(**fields)) if f.check == "owner")
    assert found.level is Level.fail
    assert says in found.text
    assert "delete /stormpilot/v1/owner" in found.fix


def test_a_root_of_this_storm_cluster_or_of_nobody_is_right() -> None:
    (found,) = (f for f in examine(evidence(owner=OwnerMessage(storm_root="/storm"))) if f.check == "owner")
    assert found.level is Level.ok
    silent = ({}, {"nimbus": None, "owner": OwnerMessage(storm_root="/x")})
    assert not any(f.check == "owner" for fields in silent for f in examine(evidence(**fields)))


def test_an_owner_is_read_and_one_that_cannot_be_is_told() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: 0), Paths()
    assert _owner(zookeeper, paths) == (None, "")
    zookeeper.put(paths.owner, encode(OwnerMessage(storm_root="/storm")))
    assert _owner(zookeeper, paths) == (OwnerMessage(storm_root="/storm"), "")
    zookeeper.put(paths.owner, b"?")
    found, error = _owner(zookeeper, paths)
    assert found is None
    assert "owner" in error
