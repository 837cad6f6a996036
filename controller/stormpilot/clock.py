"""The time of day."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Milliseconds since the epoch, by this machine's clock."""
    return time.time_ns() // 1_000_000


def utc(at_ms: int) -> str:
    """Date and time to the minute, UTC, of a moment (ms since the epoch)."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}"
