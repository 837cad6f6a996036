"""The audit as a file: what is copied from ZooKeeper, and what goes there."""

from __future__ import annotations

from pathlib import Path

import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot import operate
from stormpilot.messages.core import encode
from stormpilot.messages.settings import AuditRecord
from stormpilot.operate import Operator
from stormpilot.trafficlog import audit
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()


def path(number: int) -> str:
    return PATHS.audit(f"e-{number:010d}")


def record(number: int) -> AuditRecord:
    return AuditRecord(id=f"a-{number}", at_ms=number, who="ann", verb="pause", target="flights", result="done")


def test_a_record_that_denies_us_keeps_no_other_from_being_copied_shown_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "KEPT", 1)
    zookeeper = MemoryZooKeeper(lambda: 0)
    for n in (1, 2, 3):
        zookeeper.put(path(n), encode(record(n)))
    zookeeper.denied.add(path(1))
    operator = Operator(zookeeper, PATHS, "ann")  # type: ignore[arg-type]
    assert [r.id for r in operate.audit(operator)] == ["a-2", "a-3"]
    audit.AuditLog(zookeeper, PATHS, tmp_path / audit.FILE).keep()  # type: ignore[arg-type]
    assert [r.id for r in audit.read(tmp_path / audit.FILE)] == ["a-2", "a-3"]
    assert [n is None for n in zookeeper.read([path(2), path(3)])] == [True, False]
