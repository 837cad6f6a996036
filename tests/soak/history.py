"""The history of a run: one JSON object a line, in the order in which they were written.

Every record has `t` (seconds since the run began) and `kind`. What the kinds hold is listed in `tests/soak/README.md`;
the checker reads nothing else.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

Record = dict[str, Any]


class History:
    """Appends records to a file, from any thread; `now_s` is the clock of the run."""

    def __init__(self, path: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock_s = clock_s
        self._began_s = clock_s()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w")
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def now_s(self) -> float:
        """Seconds since the run began."""
        return self._clock_s() - self._began_s

    def add(self, kind: str, **fields: Any) -> Record:
        """Append a record; it is in the file when this returns."""
        with self._lock:
            record = {"t": round(self.now_s(), 3), "kind": kind, **fields}
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        return record


def read(path: Path) -> list[Record]:
    """All records of a history; a last line that was cut off is left out."""
    found: list[Record] = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found
