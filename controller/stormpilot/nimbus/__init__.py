"""Nimbus: a Thrift client (`client.py`), its values (`values.py`), Storm's own statistics (`statistics.py`)."""

from stormpilot.nimbus.client import DEFAULT_TIMEOUT_S, PAYLOAD_KEY, Nimbus, NotAliveError, with_own_login
from stormpilot.nimbus.values import (
    DEFAULT_PORT,
    Address,
    ExecutorStatistics,
    PlacedExecutor,
    RunningTopology,
    Subscription,
    SupervisorInfo,
    TopologyDetail,
)

__all__ = [
    "DEFAULT_PORT",
    "DEFAULT_TIMEOUT_S",
    "PAYLOAD_KEY",
    "Address",
    "ExecutorStatistics",
    "Nimbus",
    "NotAliveError",
    "PlacedExecutor",
    "RunningTopology",
    "Subscription",
    "SupervisorInfo",
    "TopologyDetail",
    "with_own_login",
]
