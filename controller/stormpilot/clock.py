"""The time of day."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch, by this machine's clock."""
    return time.time_ns() // 1_000_000
