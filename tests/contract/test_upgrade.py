"""What earlier versions wrote is read by this one, also without every field that came since."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.test_messages import KINDS
from stormpilot.errors import UsageError
from stormpilot.messages.core import Message, Part, PlanMessage, decode, encode
from stormpilot.messages.load import LoadReport

HERE = Path(__file__).parent
EARLIER = sorted((HERE / "earlier").glob("*.json"))


@pytest.mark.parametrize("file", EARLIER, ids=lambda f: f.stem)
def test_a_message_of_an_earlier_version_is_read(file: Path) -> None:
    """`earlier/` holds each example as it was first, `-schema-1` as it was last before schema 2.

    A release adds its own when messages changed.
    """
    message = decode(file.read_bytes(), KINDS[file.stem.partition("-")[0]], file.name)
    written = json.loads(file.read_text())
    kept = json.loads(msgspec.json.encode(message))
    assert all(kept[k] == v for k, v in written.items() if k in kept and isinstance(v, (str, int, bool)))


def test_a_load_report_says_the_same_in_both_schemas() -> None:
    former, now = (HERE / "earlier" / "load-schema-1.json").read_text(), (HERE / "load.json").read_text()
    now = re.sub(r'"pollingCpuS": [0-9.]+', '"pollingCpuS": null', now)  # newer than both schemas
    tasks = [decode(text.encode(), LoadReport, "load").tasks for text in (former, now)]
    assert tasks[0] == tasks[1]
    mixed = {**json.loads(former), "tasks": json.loads(now)["tasks"][:2] + json.loads(former)["tasks"][2:]}
    assert decode(json.dumps(mixed).encode(), LoadReport, "load").tasks == tasks[0], "hosts are upgraded one by one"


class FormerLoad(Part, frozen=True, kw_only=True):
    """Pairs as a version reads them that knows schema 1 alone."""

    received: list[tuple[int, str, int]]


class FormerReport(Message, frozen=True, kw_only=True):
    """Its report."""

    tasks: list[FormerLoad]


def test_a_version_before_schema_2_says_of_a_load_report_that_it_is_newer() -> None:
    written = encode(decode((HERE / "load.json").read_bytes(), LoadReport, "load"))
    with pytest.raises(UsageError, match="load: schema 2 is newer than 1, the newest that this version reads"):
        decode(written, FormerReport, "load")


def test_an_earlier_plan_keeps_its_checksum_and_its_place() -> None:
    plan = decode((HERE / "earlier" / "plan.json").read_bytes(), PlanMessage, "plan")
    assert plan.checksum == plan.expected_checksum()
    assert decode(encode(plan), PlanMessage, "plan").workers == plan.workers


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_message_without_any_optional_field_is_read(name: str) -> None:
    """A version before all of them were thought of."""
    kind: type[Message] = KINDS[name]
    full: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    needed = {f.encode_name for f in msgspec.structs.fields(kind) if f.required} | {"schema"}
    bare = {k: v for k, v in full.items() if k in needed}
    assert decode(json.dumps(bare).encode(), kind, name).schema == full["schema"]
