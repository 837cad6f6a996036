"""The audit as a file: what is copied from ZooKeeper, and what goes there."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

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


def put(zookeeper: MemoryZooKeeper, *numbers: int) -> None:
    """Records that operators' commands wrote."""
    for n in numbers:
        zookeeper.put(path(n), encode(record(n)))


def test_a_record_that_denies_us_keeps_no_other_from_being_copied_shown_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "KEPT", 1)
    zookeeper = MemoryZooKeeper(lambda: 0)
    put(zookeeper, 1, 2, 3)
    zookeeper.denied.add(path(1))
    operator = Operator(zookeeper, PATHS, "ann")  # type: ignore[arg-type]
    assert [r.id for r in operate.audit(operator)] == ["a-2", "a-3"]
    audit.AuditLog(zookeeper, PATHS, tmp_path / audit.FILE).keep()  # type: ignore[arg-type]
    assert [r.id for r in audit.read(tmp_path / audit.FILE)] == ["a-2", "a-3"]
    assert [n is None for n in zookeeper.read([path(2), path(3)])] == [True, False]


def kept_in(zookeeper: MemoryZooKeeper) -> list[str]:
    return sorted(zookeeper.children([PATHS.audit()])[0])


def test_while_the_file_cannot_be_written_the_newest_records_stay_and_what_is_lost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "KEPT", 2)
    monkeypatch.setattr(audit, "MOST_UNCOPIED", 5)
    zookeeper = MemoryZooKeeper(lambda: 0)
    folder = tmp_path / "log"
    kept = audit.AuditLog(zookeeper, PATHS, folder / audit.FILE)  # type: ignore[arg-type]
    put(zookeeper, 1, 2, 3)
    kept.keep()
    assert kept_in(zookeeper) == ["e-0000000002", "e-0000000003"]
    (folder / audit.FILE).rename(tmp_path / "before")
    folder.rmdir()
    folder.write_bytes(b"")  # no folder
    with capture_logs() as lines:
        for n in range(4, 10):
            put(zookeeper, n)
            kept.keep()
    assert kept_in(zookeeper) == [f"e-{n:010d}" for n in (5, 6, 7, 8, 9)]
    assert kept.lost == 1, "2 and 3 were copied, 4 was not"
    warnings = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert warnings == [
        "the audit file cannot be written; the newest records stay in ZooKeeper",
        "audit records are lost: the oldest in ZooKeeper, before they were copied",
    ]
    folder.unlink()
    folder.mkdir()
    (tmp_path / "before").rename(folder / audit.FILE)
    with capture_logs() as lines:
        kept.keep()
    assert [r.id for r in audit.read(folder / audit.FILE)] == [f"a-{n}" for n in (1, 2, 3, 5, 6, 7, 8, 9)]
    assert kept_in(zookeeper) == ["e-0000000008", "e-0000000009"]
    assert [(line["event"], line["records_lost"]) for line in lines] == [("the audit file is written again", 1)]
    put(zookeeper, 10)
    with capture_logs() as lines:
        kept.keep()
    assert lines == [], "told once"


def test_a_leader_that_takes_over_counts_no_record_as_lost_that_is_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "KEPT", 3)
    monkeypatch.setattr(audit, "MOST_UNCOPIED", 4)
    zookeeper = MemoryZooKeeper(lambda: 0)
    file = tmp_path / audit.FILE
    put(zookeeper, 1, 2)
    audit.AuditLog(zookeeper, PATHS, file).keep()  # type: ignore[arg-type]
    kept = audit.AuditLog(zookeeper, PATHS, file)  # type: ignore[arg-type]
    put(zookeeper, *range(3, 8))
    monkeypatch.setattr("os.fsync", full)
    kept.keep()
    assert kept_in(zookeeper) == [f"e-{n:010d}" for n in (4, 5, 6, 7)]
    assert kept.lost == 1, "1 and 2 are in the file"


def test_a_leader_that_takes_over_from_one_that_copied_many_doubles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a full disk more waited than it remembered of the file: it took the oldest of them for new."""
    monkeypatch.setattr(audit, "KEPT", 3)
    monkeypatch.setattr(audit, "MOST_UNCOPIED", 40)
    zookeeper, file = MemoryZooKeeper(lambda: 0), tmp_path / audit.FILE
    put(zookeeper, *range(1, 31))
    first = audit.AuditLog(zookeeper, PATHS, file)  # type: ignore[arg-type]
    monkeypatch.setattr(zookeeper, "delete", lambda _: None)  # it ended before it removed them
    first.keep()
    audit.AuditLog(zookeeper, PATHS, file).keep()  # type: ignore[arg-type]
    assert [r.id for r in audit.read(file)] == [f"a-{n}" for n in range(1, 31)]


def test_a_leader_that_takes_over_decodes_the_end_of_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first cycle waited for a minute where the audit of a year has two million records."""
    monkeypatch.setattr(audit, "KEPT", 1)
    monkeypatch.setattr(audit, "MOST_UNCOPIED", 3)
    zookeeper, file, decoded = MemoryZooKeeper(lambda: 0), tmp_path / audit.FILE, list[str]()
    file.write_bytes(b"".join(encode(record(n)) + b"\n" for n in range(50)))
    put(zookeeper, 49, 50)
    decode = audit.decode
    monkeypatch.setattr(audit, "decode", lambda line, kind, at: decoded.append(at) or decode(line, kind, at))
    audit.AuditLog(zookeeper, PATHS, file).keep()  # type: ignore[arg-type]
    assert decoded == [f"{file}:{n}" for n in range(44, 51)]
    assert [r.id for r in audit.read(file)] == [f"a-{n}" for n in range(51)]


def test_a_record_that_was_written_though_the_disk_did_not_say_so_is_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zookeeper = MemoryZooKeeper(lambda: 0)
    kept = audit.AuditLog(zookeeper, PATHS, tmp_path / audit.FILE)  # type: ignore[arg-type]
    put(zookeeper, 1, 2)
    with monkeypatch.context() as m:
        m.setattr("os.fsync", full)
        kept.keep()
    put(zookeeper, 3)
    kept.keep()
    assert [r.id for r in audit.read(tmp_path / audit.FILE)] == ["a-1", "a-2", "a-3"]


def full(_: int) -> None:
    raise OSError(28, "No space left on device")
