"""The newest load of every task, and how it is cut into messages (`LoadReport` of `messages/load.py`).

Loads stay the JSON texts that the tasks sent: the collector reads only what it must to order them.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

SCHEMA = 2
GZIP_ABOVE_BYTES = 1024
MAX_BYTES = 900 * 1024
"""ZooKeeper's limit is 1 MiB for the whole request."""
MAX_PLAIN_BYTES = 15 * 1024 * 1024
"""Somewhat less than `LOAD` of `messages/limits.py`: unpacked, and its values."""
MAX_VALUES = 900_000
SILENT_S, SILENT_PERIODS = 30.0, 3
"""A process of which nothing came for so long is not the live one, however late it started: clocks of hosts differ."""


class LoadBook:
    """The newest load per task.

    Parameters
    ----------
    tasks
        The tasks that the topology has: loads of others are refused, so that the book cannot grow.
    period_s
        Between two loads of a task.
    clock
        Seconds that only grow.
    """

    def __init__(
        self, tasks: Collection[int], period_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tasks = frozenset(tasks)
        self._silent_s = max(SILENT_S, SILENT_PERIODS * period_s)
        self._clock = clock
        self._newest: dict[int, tuple[tuple[int, int], float, str]] = {}

    def add(self, load: str) -> bool:
        """Keep a load unless a newer one is known; False if it was refused.

        Of two processes of a task the later started is the live one, or the other once that is silent; of two loads
        of a process the higher `seq` is the newer. `ValueError` for a text that is no load.
        """
        try:
            value: Any = json.loads(load)
            task, age = int(value["task"]), (int(value["startMs"]), int(value["seq"]))
        except (TypeError, KeyError, ValueError) as e:
            raise ValueError(f"not a load of a task: {repr(load)[:200]}") from e
        if task not in self._tasks:
            return False
        now_s = self._clock()
        if task in self._newest:
            newest, heard_s, _ = self._newest[task]
            other_process = age[0] != newest[0]
            if age <= newest and not (other_process and now_s - heard_s >= self._silent_s):
                return False
        self._newest[task] = (age, now_s, load)
        return True

    def loads(self) -> list[str]:
        """The loads in the order of their tasks."""
        return [self._newest[task][-1] for task in sorted(self._newest)]


def encode_reports(
    topology_id: str, reporter: str, seq: int, written_at_ms: int, loads: Sequence[str]
) -> dict[str, bytes]:
    """The znodes of one report, by reporter name: one where it fits, else `<reporter>-0`, `<reporter>-1`, ...

    No znode has more than the controller reads. A single load too large for one is left out.
    """
    whole = _encode(topology_id, reporter, seq, written_at_ms, loads)
    if whole is not None:
        return {reporter: whole}
    parts: list[Sequence[str]] = []
    _cut(topology_id, reporter, seq, written_at_ms, loads, parts)
    znodes = {f"{reporter}-{k}": part for k, part in enumerate(parts)}
    encoded = {name: _encode(topology_id, name, seq, written_at_ms, part) for name, part in znodes.items()}
    return {name: data for name, data in encoded.items() if data is not None}


def _cut(
    topology_id: str, reporter: str, seq: int, written_at_ms: int, loads: Sequence[str], parts: list[Sequence[str]]
) -> None:
    """Halve until each part fits (names are measured with a number as long as any that may come)."""
    if _encode(topology_id, f"{reporter}-99999", seq, written_at_ms, loads) is not None:
        parts.append(loads)
    elif len(loads) > 1:
        middle = len(loads) // 2
        _cut(topology_id, reporter, seq, written_at_ms, loads[:middle], parts)
        _cut(topology_id, reporter, seq, written_at_ms, loads[middle:], parts)


def _encode(topology_id: str, reporter: str, seq: int, written_at_ms: int, loads: Sequence[str]) -> bytes | None:
    """The message; None where it is too large."""
    head = json.dumps(
        {
            "schema": SCHEMA,
            "topologyId": topology_id,
            "reporter": reporter,
            "seq": seq,
            "writtenAtMs": written_at_ms,
        },
        separators=(",", ":"),
    )
    data = (head[:-1] + ',"tasks":[' + ",".join(loads) + "]}").encode()
    if len(data) > MAX_PLAIN_BYTES or sum(map(data.count, b",[{")) > MAX_VALUES:
        return None
    packed = gzip.compress(data, compresslevel=6, mtime=0) if len(data) > GZIP_ABOVE_BYTES else data
    return packed if len(packed) <= MAX_BYTES else None
