"""A worker's configuration for a ZooKeeper of a test, and time-outs of its clients that make a test short."""

from __future__ import annotations

from typing import Any

import pytest

from stormpilot.instrument import handing_over, report_writer, worker_store
from stormpilot.local.zookeeper import LocalZooKeeper


def storm_conf(zookeeper: LocalZooKeeper, **more: Any) -> dict[str, Any]:
    """What Storm tells its workers of that server, and more."""
    host, port = zookeeper.hosts.split(":")
    return {"storm.zookeeper.servers": [host], "storm.zookeeper.port": int(port), **more}


def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they are does not matter to what is tested."""
    for module in (handing_over, report_writer, worker_store):
        monkeypatch.setattr(module, "MAX_BACKOFF_S", 0.5)
    monkeypatch.setattr(worker_store, "REQUEST_TIMEOUT_S", 1.0)
    monkeypatch.setattr(worker_store, "SESSION_TIMEOUT_S", 4.0)
