"""What earlier versions wrote is read by this one, also without every field that came since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.test_messages import KINDS
from stormpilot.messages.core import Message, PlanMessage, decode, encode

HERE = Path(__file__).parent
EARLIER = sorted((HERE / "earlier").glob("*.json"))


@pytest.mark.parametrize("file", EARLIER, ids=lambda f: f.stem)
def test_a_message_of_an_earlier_version_is_read(file: Path) -> None:
    """`earlier/` holds each example as it was first; a release adds its own when messages changed."""
    message = decode(file.read_bytes(), KINDS[file.stem], file.name)
    written = json.loads(file.read_text())
    kept = json.loads(msgspec.json.encode(message))
    assert all(kept[k] == v for k, v in written.items() if k in kept and isinstance(v, (str, int, bool)))


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
