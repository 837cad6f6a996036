"""The audit as a file: `audit.jsonl` beside the traffic log, one record a line, only ever appended to.

Records are made in ZooKeeper, in the transaction of what they tell, by commands on any machine. The leading controller
copies them and keeps the newest there. A record is known by its id, so that a leader that takes over, or one that was
ended in the middle of a line, goes on without a gap and without a double.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
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
FILE = "audit.jsonl"


def path_in(directory: str | None) -> Path | None:
    """The file in the traffic log's folder; None where none is kept, or where that is on no disk of this machine."""
    return None if directory is None or "://" in directory else Path(directory) / FILE


def read(path: Path) -> Iterator[AuditRecord]:
    """The records of a file, oldest first; a torn line (the machine went down) is left out."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
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

    A file that cannot be written costs no cycle and no record: nothing is removed from ZooKeeper before it is copied,
    it is said once, and tried again.
    """

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, file: Path | None):
        self._zookeeper = zookeeper
        self._paths = paths
        self._file = file
        self._seen: set[str] = set()
        self._copied: deque[str] | None = None
        self._failing = False

    def keep(self) -> None:
        """Copy what is new; `UnreachableError` when ZooKeeper is away."""
        names = sorted(self._zookeeper.children([self._paths.audit()])[0], key=lambda n: n[-10:])
        new = [n for n in names if n not in self._seen]
        nodes = self._zookeeper.read([self._paths.audit(n) for n in new], keep_denied=True)
        records = []
        for name, node in zip(new, nodes, strict=True):
            if node is not None:
                try:
                    records.append(read_message(node, AuditRecord, self._paths.audit(name)))
                except UsageError as e:
                    log.warning("audit record cannot be read, left out", why=e)
        if not self._append(records):
            return
        self._seen = set(names)
        for name in names[: max(0, len(names) - KEPT)]:
            with contextlib.suppress(RefusedError):  # not ours: it stays
                self._zookeeper.delete(self._paths.audit(name))

    def _append(self, records: Iterable[AuditRecord]) -> bool:
        if self._file is None:
            return True
        try:
            if self._copied is None:
                self._copied = deque((r.id for r in read(self._file)), maxlen=4 * KEPT)
            known = set(self._copied)
            fresh = [r for r in records if r.id not in known]
            if fresh:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("a+b") as f:
                    torn = f.tell() > 0 and not _ends_with_newline(f.fileno(), f.tell())
                    f.write((b"\n" if torn else b"") + b"".join(msgspec.json.encode(r) + b"\n" for r in fresh))
                    f.flush()
                    os.fsync(f.fileno())
                self._copied.extend(r.id for r in fresh)
        except (OSError, UsageError) as e:
            if not self._failing:
                log.warning("the audit file cannot be written; the records stay in ZooKeeper", file=self._file, why=e)
            self._failing = True
            return False
        self._failing = False
        return True


def _ends_with_newline(descriptor: int, size: int) -> bool:
    return os.pread(descriptor, 1, size - 1) == b"\n"
