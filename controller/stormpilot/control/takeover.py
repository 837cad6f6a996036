"""Clocks of a new leader and of the one before: by how much they differ."""

from __future__ import annotations

from stormpilot.errors import UsageError
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import decode
from stormpilot.operate.status import FAILED
from stormpilot.publish.epoch import Epoch
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths


def ahead_ms(zookeeper: ZooKeeper, paths: Paths, epoch: Epoch, raised_at_ms: int) -> int:
    """Lead of our clock over that of the leader before, each held against ZooKeeper's, in ms; 0: not known.

    `epoch` was raised when our clock showed `raised_at_ms`.
    """
    wrote, raised = zookeeper.read([paths.controller, paths.epoch], keep_denied=True)
    if wrote is None or wrote.denied or raised is None or raised.denied:
        return 0
    try:
        state = decode(wrote.data, ControllerState, paths.controller)
    except UsageError:
        return 0
    if state.epoch != epoch.number - 1 or state.sentence.startswith(FAILED):  # the time of a failed cycle is older
        return 0
    return (raised_at_ms - raised.written_at_ms) - (state.written_at_ms - wrote.written_at_ms)
