"""Every message in ZooKeeper against its example, which the Java side reads too."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stormpilot.errors import UsageError
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import (
    MAX_BYTES,
    ClusterSnapshot,
    HistoryEntry,
    Message,
    OwnerMessage,
    PlanMessage,
    StatusMessage,
    TopologySnapshot,
    decode,
    encode,
)
from stormpilot.messages.handover import KeyedTask
from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routes import Routes
from stormpilot.messages.settings import (
    AuditRecord,
    DrainSetting,
    ExcludeSetting,
    Hold,
    ModeSetting,
    PauseSetting,
    PinSetting,
    Request,
    ThresholdSetting,
)
from stormpilot.messages.thresholds import Profile, Thresholds

HERE = Path(__file__).parent
KINDS: dict[str, type[Message]] = {
    "audit": AuditRecord,
    "cluster": ClusterSnapshot,
    "controller": ControllerState,
    "drain": DrainSetting,
    "exclude": ExcludeSetting,
    "history": HistoryEntry,
    "hold": Hold,
    "keyed": KeyedTask,
    "load": LoadReport,
    "rollout": Rollout,
    "mode": ModeSetting,
    "moves": MoveState,
    "owner": OwnerMessage,
    "pause": PauseSetting,
    "pin": PinSetting,
    "plan": PlanMessage,
    "profile": Profile,
    "request": Request,
    "routes": Routes,
    "status": StatusMessage,
    "threshold": ThresholdSetting,
    "thresholds": Thresholds,
    "topology": TopologySnapshot,
}
each_message = pytest.mark.parametrize("name", sorted(KINDS))


def example(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    return value


def read(value: dict[str, Any], name: str) -> Message:
    return decode(json.dumps(value).encode(), KINDS[name], f"/x/{name}")


def test_there_is_an_example_of_every_message() -> None:
    assert {p.stem for p in HERE.glob("*.json")} == set(KINDS)


@each_message
def test_example_is_read_and_written_back_with_nothing_lost(name: str) -> None:
    message = read(example(name), name)
    data = encode(message)
    written = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    assert _covers(written, example(name))
    assert read(written, name) == message


def _covers(whole: Any, part: Any) -> bool:
    """Whether everything in `part` is in `whole`, which may have more fields."""
    if isinstance(part, dict):
        return all(k in whole and _covers(whole[k], v) for k, v in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(_covers(w, p) for w, p in zip(whole, part, strict=True))
    return bool(whole == part)


@each_message
def test_unknown_fields_are_ignored(name: str) -> None:
    assert read({**example(name), "addedLater": {"x": [1]}}, name) == read(example(name), name)


@each_message
def test_newer_schema_is_refused_aloud(name: str) -> None:
    newest = KINDS[name].newest_schema
    with pytest.raises(UsageError, match=f"/x/{name}: schema {newest + 1} is newer than {newest}"):
        read({**example(name), "schema": newest + 1}, name)


@each_message
def test_example_is_of_the_newest_schema(name: str) -> None:
    assert example(name)["schema"] == KINDS[name].newest_schema


@each_message
def test_wrong_type_names_the_znode_and_the_field(name: str) -> None:
    field = next(k for k in example(name) if k != "schema")
    with pytest.raises(UsageError) as e:
        read({**example(name), field: {"not": "this"}}, name)
    assert f"/x/{name}" in str(e.value)
    assert f"$.{field}" in str(e.value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\x00 not JSON", b"[]", b"null", b"\x1f\x8b broken", gzip.compress(b"{}", mtime=0)[:-4]]
)
def test_what_is_no_message_is_refused_with_its_place(data: bytes) -> None:
    with pytest.raises(UsageError, match="/x/plan: not a valid PlanMessage"):
        decode(data, PlanMessage, "/x/plan")


def test_checksum_of_the_example_is_right_and_covers_the_placement() -> None:
    plan = read(example("plan"), "plan")
    assert isinstance(plan, PlanMessage)
    assert plan.checksum == plan.expected_checksum()
    changes: list[dict[str, Any]] = [
        {"plan_id": "p-2"},
        {"plan_set": "r-2"},
        {"topology_id": "other"},
        {"epoch": 8},
        {"workers": plan.workers[:1]},
    ]
    for change in changes:
        assert msgspec.structs.replace(plan, **change).expected_checksum() != plan.checksum
    order = msgspec.structs.replace(plan, workers=plan.workers[::-1])
    assert order.expected_checksum() == plan.checksum


def _report(tasks: int) -> LoadReport:
    load = TaskLoad(task=1, component="c", host="h", pid=1, start_ms=1, seq=1, at_ms=1, cpu_s=1.0)
    return LoadReport(
        topology_id="t",
        reporter="r",
        seq=1,
        written_at_ms=1,
        tasks=[msgspec.structs.replace(load, task=i, received=[(i * 7919 % 104729, "s", i)]) for i in range(tasks)],
    )


def test_load_report_above_1_kib_is_compressed_to_less_than_half_and_read_back() -> None:
    small, large = encode(_report(1)), encode(_report(30))
    assert small[:1] == b"{"
    assert large[:2] == b"\x1f\x8b"
    assert len(large) < len(gzip.decompress(large)) / 2
    assert decode(large, LoadReport, "x") == _report(30)


def test_other_messages_can_be_read_by_eye_up_to_64_kib() -> None:
    small, large = (AuditRecord(id="a", at_ms=1, who="o", verb="v", target="t", why="w" * n) for n in (9_000, 90_000))
    assert encode(small)[:1] == b"{"
    assert encode(large)[:2] == b"\x1f\x8b"
    assert decode(encode(large), AuditRecord, "x") == large


def test_message_above_the_limit_of_a_znode_is_refused() -> None:
    why = "".join(chr(i * 7919 % 50_000 + 300) for i in range(900_000))
    with pytest.raises(UsageError, match=f"over the limit of {MAX_BYTES} bytes"):
        encode(AuditRecord(id="a", at_ms=1, who="ops", verb="mode", target="t", why=why))
