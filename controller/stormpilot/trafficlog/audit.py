"""The audit as a file: `audit.jsonl` beside the traffic log, one record a line, only ever appended to.

Records are made in ZooKeeper, in the transaction of what they tell, by commands on any machine. The leading controller
copies them and keeps the newest there. A record is known by its id, so that a leader that takes over, or one that was
ended in the middle of a line, goes on without a gap and without a double.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import structlog

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import decode
from stormpilot.messages.settings import AuditRecord
from stormpilot.observe.plausible import read_message
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

log = structlog.get_logger(__name__)
KEPT = 1000
"""Number of records that stay in ZooKeeper."""
MOST_UNCOPIED = 10_000
"""Number of records that stay there while the file cannot be written: a folder without end could not be listed."""
FILE = "audit.jsonl"


def path_in(directory: str | None) -> Path | None:
    """The file in the traffic log's folder; None where none is kept, or where that is on no disk of this machine."""
    return None if directory is None or "://" in directory else Path(directory) / FILE


def read(path: Path, newest: int | None = None) -> Iterator[AuditRecord]:
    """The records of a file, oldest first; a torn line (the machine went down) is left out.

    With `newest` those of so many lines at its end: decoding is what costs, and a file of a year has millions.
    """
    try:
        with path.open("rb") as lines:
            for number, line in deque(enumerate(lines, 1), newest) if newest else enumerate(lines, 1):
                if line.strip():
                    try:
                        yield decode(line, AuditRecord, f"{path}:{number}")
                    except UsageError:
                        continue
    except FileNotFoundError:
        return
    except OSError as e:
        raise UsageError(f"{path}: cannot read the audit: {e.strerror}") from e


class AuditLog:
    """Copies records from ZooKeeper to the file (None: to none), and removes the oldest there.

    A file that cannot be written costs no cycle, and no record as long as `MOST_UNCOPIED` hold all: these stay in
    ZooKeeper until they are copied. It is said once, and tried again. `lost` counts records that were not copied.
    """

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, file: Path | None):
        self.lost = 0
        self._zookeeper = zookeeper
        self._paths = paths
        self._file = file
        self._seen: set[str] = set()
        self._copied: deque[str] | None = None
        self._failing = False
        self._losing = False

    def keep(self) -> None:
        """Copy what is new; `UnreachableError` when ZooKeeper is away."""
        names = sorted(self._zookeeper.children([self._paths.audit()])[0], key=lambda n: n[-10:])
        self._seen.intersection_update(names)
        new = [n for n in names if n not in self._seen]
        for part in (new[i : i + KEPT] for i in range(0, len(new), KEPT)):
            if not self._copy(part):
                break
        for name in names[: max(0, len(names) - (MOST_UNCOPIED if self._failing else KEPT))]:
            with contextlib.suppress(RefusedError):  # not ours: it stays
                self._zookeeper.delete(self._paths.audit(name))
                self._lose(name)

    def _lose(self, name: str) -> None:
        if name not in self._seen:
            if not self._losing:
                log.warning("audit records are lost: the oldest in ZooKeeper, before they were copied", file=self._file)
            self._losing = True
            self.lost += 1

    def _copy(self, names: Sequence[str]) -> bool:
        """Whether these are in the file, but for those that cannot be read."""
        nodes = self._zookeeper.read([self._paths.audit(n) for n in names], keep_denied=True)
        records = {}
        for name, node in zip(names, nodes, strict=True):
            if node is not None:
                try:
                    records[name] = read_message(node, AuditRecord, self._paths.audit(name))
                except UsageError as e:
                    log.warning("audit record cannot be read, left out", why=e)
        try:
            if self._file is not None:
                self._append(self._file, records)
        except (OSError, UsageError) as e:
            self._copied = None  # some may be in it
            if not self._failing:
                stays = "the audit file cannot be written; the newest records stay in ZooKeeper"
                log.warning(stays, file=self._file, at_most=MOST_UNCOPIED, why=e)
            self._failing = True
            return False
        self._seen.update(names)
        return True

    def _append(self, file: Path, records: Mapping[str, AuditRecord]) -> None:
        if self._copied is None:  # as many as may lie in ZooKeeper: the leader before may have ended while it copied
            most = MOST_UNCOPIED + 4 * KEPT
            self._copied = deque((r.id for r in read(file, most)), most)
        known = set(self._copied)
        self._seen.update(n for n, r in records.items() if r.id in known)
        fresh = [r for r in records.values() if r.id not in known]
        if not fresh:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a+b") as f:
            torn = f.tell() > 0 and not _ends_with_newline(f.fileno(), f.tell())
            f.write((b"\n" if torn else b"") + b"".join(msgspec.json.encode(r) + b"\n" for r in fresh))
            f.flush()
            os.fsync(f.fileno())
        self._copied.extend(r.id for r in fresh)
        if self._failing:
            log.info("the audit file is written again", file=file, records_lost=self.lost)
        self._failing = self._losing = False


def _ends_with_newline(descriptor: int, size: int) -> bool:
    return os.pread(descriptor, 1, size - 1) == b"\n"
