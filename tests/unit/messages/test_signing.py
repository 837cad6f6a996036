"""Plans that are signed: the same numbers as the plug-in computes, and nothing that it acts on can be changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import plan_message
from stormpilot.config import PublishSection, plan_key
from stormpilot.errors import UsageError
from stormpilot.messages.core import HistoryEntry, PlanMessage, PlanRoom, decode, encode
from stormpilot.messages.signing import keys_of_file, signature, signed, signed_by, signed_text
from stormpilot.observe.reader import Reader
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.paths import Paths

FILE = Path(__file__).parents[2] / "contract" / "vectors" / "signature.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text())["vectors"]
KEY = b"0123456789abcdef0123456789abcdef"


def plan_of(vector: dict[str, Any]) -> PlanMessage:
    return msgspec.convert({"planner": "", **vector["plan"]}, PlanMessage)


@pytest.mark.parametrize("vector", VECTORS)
def test_text_and_signature_are_those_of_the_plug_in(vector: dict[str, Any]) -> None:
    plan = plan_of(vector)
    assert plan.checksum == plan.expected_checksum()
    assert signed_text(plan) == vector["text"]
    assert signature(plan, vector["key"].encode()) == plan.signature


def test_every_change_that_matters_changes_the_signature() -> None:
    plan = plan_of(VECTORS[0])
    changes: list[dict[str, Any]] = [
        {"checksum": "0" * 64},
        {"created_at_ms": plan.created_at_ms + 1},
        {"reason_code": "REPAIR"},
        {"plan_set_topologies": ["other"]},
        {"topology_id": "another"},
    ]
    found = [signature(msgspec.structs.replace(plan, **change), KEY) for change in changes]
    assert len({plan.signature, *found, signature(plan, b"another key, as long")}) == len(changes) + 2


def test_plans_are_published_signed_where_there_is_a_key_and_as_before_without() -> None:
    for key in (KEY, None):
        zookeeper, paths = MemoryZooKeeper(lambda: 0), Paths()
        publisher = Publisher(zookeeper, paths, raise_epoch(zookeeper, paths), key)  # type: ignore[arg-type]
        plan = plan_message(plan_id="p-1", topology_id="t-1")
        publisher.publish([HistoryEntry(plan=plan, reason="GAIN")], {})
        (node,) = zookeeper.read([paths.plan("t-1")])
        assert node is not None
        assert decode(node.data, PlanMessage, "x").signature == (signature(plan, KEY) if key else "")
        assert signed(plan, key) == decode(node.data, PlanMessage, "x")


def test_a_leader_signs_plans_of_its_former_key_anew_and_no_others() -> None:
    """A topology that is placed well gets no other plan: the old key had to stay in Nimbus for ever."""
    zookeeper, paths, new = MemoryZooKeeper(lambda: 0), Paths(), b"another key, as long as that one"
    for name, key in (("ours", KEY), ("forged", b"nobody's key, or one of another"), ("unsigned", None)):
        publisher = Publisher(zookeeper, paths, raise_epoch(zookeeper, paths), key)  # type: ignore[arg-type]
        plan = plan_message(plan_id=name, topology_id=name)
        plan = msgspec.structs.replace(plan, checksum=plan.expected_checksum())
        publisher.publish([HistoryEntry(plan=plan, reason="GAIN")], {})
    before = Reader(zookeeper, paths).read().plans  # type: ignore[arg-type]
    plans = [(p.message, p.version) for p in before.values() if p.message is not None]
    Publisher(zookeeper, paths, raise_epoch(zookeeper, paths), new, KEY).sign_anew(plans)  # type: ignore[arg-type]
    after = {t: p.message for t, p in Reader(zookeeper, paths).read().plans.items()}  # type: ignore[arg-type]
    assert {t: m is not None and signed_by(m, new) for t, m in after.items()} == {
        "ours": True,
        "forged": False,
        "unsigned": False,
    }
    assert (after["forged"], after["unsigned"]) == (before["forged"].message, before["unsigned"].message)


def test_a_leader_takes_over_signed_plans_of_the_one_before_and_no_others() -> None:
    """Who can write into ZooKeeper would have it sign what it never made."""
    zookeeper, paths = MemoryZooKeeper(lambda: 0), Paths()
    for name, key in (("ours", KEY), ("forged", b"nobody's key, or one of another"), ("unsigned", None)):
        publisher = Publisher(zookeeper, paths, raise_epoch(zookeeper, paths), key)  # type: ignore[arg-type]
        plan = plan_message(plan_id=name, topology_id=name, epoch=publisher.epoch.number)
        plan = msgspec.structs.replace(plan, checksum=plan.expected_checksum())
        publisher.publish([HistoryEntry(plan=plan, reason="GAIN")], {})
    before = Reader(zookeeper, paths).read().plans  # type: ignore[arg-type]
    leader = Publisher(zookeeper, paths, raise_epoch(zookeeper, paths), KEY)  # type: ignore[arg-type]
    leader.take_over([(p.message, p.version) for p in before.values() if p.message is not None])
    after = {t: p.message for t, p in Reader(zookeeper, paths).read().plans.items()}  # type: ignore[arg-type]
    ours = after["ours"]
    assert ours is not None
    assert (ours.epoch, ours.checksum) == (leader.epoch.number, ours.expected_checksum())
    assert signed_by(ours, KEY)
    assert (after["forged"], after["unsigned"]) == (before["forged"].message, before["unsigned"].message)


@pytest.mark.parametrize("change", [{"cpu_reserved": True}, {"executors": [(4, 1, 1)]}, {"signature": "0" * 64}])
def test_a_plan_of_a_former_key_whose_room_is_not_signed_by_it_stays_as_it_is(change: dict[str, Any]) -> None:
    """The new key would vouch for numbers that nobody who knows a key has written."""
    zookeeper, paths, new = MemoryZooKeeper(lambda: 0), Paths(), b"another key, as long as that one"
    room = PlanRoom(executors=[(4, 100, 128)])
    plan = plan_message(plan_id="p-1", topology_id="t-1", room=room)
    plan = signed(msgspec.structs.replace(plan, checksum=plan.expected_checksum()), KEY)
    forged = msgspec.structs.replace(plan, room=msgspec.structs.replace(plan.room, **change))
    publisher = Publisher(zookeeper, paths, raise_epoch(zookeeper, paths), new, KEY)  # type: ignore[arg-type]
    for written, anew in ((plan, True), (forged, False)):
        zookeeper.put(paths.plan("t-1"), encode(written))
        (node,) = zookeeper.read([paths.plan("t-1")])
        assert node is not None
        publisher.sign_anew([(written, node.version)])
        (node,) = zookeeper.read([paths.plan("t-1")])
        assert node is not None
        after = decode(node.data, PlanMessage, "x")
        assert (signed_by(after, new), after == written) == (anew, not anew)


def test_the_first_line_signs_so_that_keys_can_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("\n  the newer key, long enough \nthe older key, long enough\n")
    assert plan_key(PublishSection(plan_key_file=str(file))) == b"the newer key, long enough"
    assert plan_key(PublishSection()) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "has no key"),
        (b" \n\n", "has no key"),
        (b"long enough for a key\nshort\n", "less than 16 bytes"),
        (b"\xff" * 40, "not UTF-8"),
        (b"k" * 70_000, "70000 bytes"),
    ],
)
def test_a_file_that_holds_no_key_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=rf"^the file: .*{said}"):
        keys_of_file(data, "the file")


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"key \(publish.plan_key_file\): cannot read it: No such file"):
        plan_key(PublishSection(plan_key_file=str(tmp_path / "key")))
