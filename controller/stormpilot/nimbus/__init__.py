"""Nimbus: a Thrift client (`client.py`), its values (`values.py`), Storm's own statistics (`statistics.py`)."""

from stormpilot.nimbus.client import DEFAULT_TIMEOUT_S, PAYLOAD_KEY, Nimbus, NotAliveError, with_own_login
from stormpilot.nimbus.values import (
    Address,
    ExecutorStatistics,
    RunningTopology,
    Subscription,
    SupervisorInfo,
)

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "PAYLOAD_KEY",
    "Address",
    "ExecutorStatistics",
    "Nimbus",
    "NotAliveError",
    "RunningTopology",
    "Subscription",
    "SupervisorInfo",
    "with_own_login",
]
