"""Signatures of plans: who can write into ZooKeeper still cannot make a plan that the plug-in applies.

HMAC-SHA256, as `PlanEntry` of the plug-in checks it; `tests/contract/vectors/signature.json` has examples. A file has
one key a line: the first one signs, and the plug-in accepts all those of its own file, so that keys can be replaced.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from stormpilot.errors import UsageError
from stormpilot.messages.core import PlanMessage

LEAST_KEY_BYTES = 16
MOST_FILE_BYTES = 64 * 1024


def signed_text(plan: PlanMessage) -> str:
    r"""The lines that are signed, each ended by \n: checksum, time, reason code, and every topology of the plan set."""
    topologies = sorted({*plan.plan_set_topologies, plan.topology_id})
    lines = ["stormpilot-plan-signature-1", plan.checksum, str(plan.created_at_ms), plan.reason_code, *topologies]
    return "".join(f"{line}\n" for line in lines)


def signed_room(plan: PlanMessage) -> str:
    r"""The lines that are signed of what a plan says of CPU and memory, each ended by \n; empty where it says nothing.

    A signature of its own: a plug-in that does not know of it accepts the plan.
    """
    room = plan.room
    if room is None:
        return ""
    lines = ["stormpilot-plan-room-1", plan.checksum, str(int(room.cpu_reserved))]
    lines += [f"{count} {cpu_mhz} {memory_mb}" for count, cpu_mhz, memory_mb in room.executors]
    for s in room.supervisors:
        amounts = (s.cpu_mhz, s.cpu_most_mhz, s.memory_mb, s.memory_most_mb)
        lines += [f"supervisors {len(s.supervisors)} {' '.join(map(str, amounts))}", *s.supervisors]
    return "".join(f"{line}\n" for line in lines)


def signature(plan: PlanMessage, key: bytes) -> str:
    """HMAC-SHA256 of the plan in lower-case hex."""
    return _hmac(signed_text(plan), key)


def signed(plan: PlanMessage, key: bytes | None) -> PlanMessage:
    """The plan with its signature, and that of its room; without a key as it is."""
    if key is None:
        return plan
    room = plan.room
    if room is not None:
        room = msgspec.structs.replace(room, signature=_hmac(signed_room(plan), key))
    return msgspec.structs.replace(plan, signature=signature(plan, key), room=room)


def signed_by(plan: PlanMessage, key: bytes) -> bool:
    """Whether a plan, and what it says of CPU and memory, has the signatures of this key."""
    own = signed(plan, key)
    rooms = [(r.signature or "") for r in (plan.room, own.room) if r is not None]
    same = hmac.compare_digest((plan.signature or "").encode(), (own.signature or "").encode())
    return same and len({*rooms}) <= 1


def _hmac(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def keys_of_file(data: bytes, where: str) -> list[bytes]:
    """The keys of a file, of which the first one signs; `UsageError` names what is wrong with the file."""
    if len(data) > MOST_FILE_BYTES:
        raise UsageError(f"{where}: has {len(data)} bytes, expected one key a line")
    try:
        lines = [line.strip() for line in data.decode().splitlines()]
    except UnicodeDecodeError as e:
        raise UsageError(f"{where}: not UTF-8: {e.reason}") from e
    keys = [line.encode() for line in lines if line]
    if not keys:
        raise UsageError(f"{where}: has no key, expected one key a line")
    if any(len(key) < LEAST_KEY_BYTES for key in keys):
        raise UsageError(f"{where}: a key has less than {LEAST_KEY_BYTES} bytes (openssl rand -hex 32 makes one)")
    return keys
