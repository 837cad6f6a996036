"""Follows the hand-overs of one task in a thread of its own: what the routing table tells it, and what it answers.

The component's main thread takes work from `work` between two tuples and hands its result back; it never waits for
ZooKeeper. What a task saved lies in `keyed/<topology-id>/states/` until the taker has loaded it and the hand-over has
left the table, so that a taker that restarts in between loads it again. `messages/handover.py` has the other side.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stormpilot.instrument.worker_store import MAX_BACKOFF_S, MIN_BACKOFF_S, WorkerStore
from stormpilot.messages import limits

SCHEMA = 1
CHUNK_BYTES = 800 * 1024
"""Size of one znode's state before it is packed; several partitions share one."""
MAX_BYTES = 900 * 1024
MOST_STATE_BYTES = 64 * 1024 * 1024
"""Limit of the unpacked state of one znode; packed state is rarely a tenth of its size."""
POLL_S = 10.0
"""A look without being woken: watches may be lost."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """A job of the main thread: `on_drain` of these partitions, or `on_activate` with what was saved of them."""

    key: str
    drain: bool
    partitions: list[int]
    states: list[tuple[int, Any]] = field(default_factory=list)
    items: tuple[str, ...] = ()


class KeyedStore(Protocol):
    """The znodes; every method raises `StoreUnavailable` when it cannot do it now."""

    def table(self, changed: Callable[[Any], None]) -> bytes | None:
        """The routing table; `changed` is called once when it is another."""

    def answer(self, task: int, data: bytes) -> None:
        """Write what a task did."""

    def items(self) -> list[str]:
        """Names of what was saved and not taken away yet."""

    def save(self, item: str, data: bytes) -> None:
        """Keep an item."""

    def load(self, item: str) -> bytes | None:
        """An item."""

    def drop(self, item: str) -> None:
        """Remove an item; none is fine."""

    def close(self) -> None:
        """End the session."""


class ZooKeeperKeyedStore(WorkerStore):
    """`keyed/<topology-id>`; with ZooKeeper accounts only the topology's own reads what was saved."""

    def table(self, changed: Callable[[Any], None]) -> bytes | None:
        """See `KeyedStore`."""
        return self.get(self.paths.routes(self.topology_id), changed)

    def answer(self, task: int, data: bytes) -> None:
        """See `KeyedStore`."""
        self.put(self.paths.keyed(self.topology_id, "tasks", str(task)), data)

    def items(self) -> list[str]:
        """See `KeyedStore`."""
        return self.names(self.paths.keyed(self.topology_id, "states"))

    def save(self, item: str, data: bytes) -> None:
        """See `KeyedStore`."""
        self.put(self.paths.keyed(self.topology_id, "states", item), data, private=True)

    def load(self, item: str) -> bytes | None:
        """See `KeyedStore`."""
        return self.get(self.paths.keyed(self.topology_id, "states", item))

    def drop(self, item: str) -> None:
        """See `KeyedStore`."""
        self.remove(self.paths.keyed(self.topology_id, "states", item))


class HandingOver:
    """One task's part; `look` is one round of the thread that `start` begins.

    The main thread takes from `work`, and calls `done` and `late`.
    """

    def __init__(self, store: KeyedStore, topology_id: str, component: str, task: int) -> None:
        self.work: deque[Work] = deque()
        self.own: frozenset[int] = frozenset()
        """Partitions that the table gives to this task."""
        self._store = store
        self._topology_id = topology_id
        self._component = component
        self._task = task
        self._start_ms = int(time.time() * 1000)
        self._done: deque[tuple[Work, Any, str]] = deque()
        self._wake = threading.Event()
        self._told: set[str] = set()
        self._taken: dict[str, tuple[str, ...]] = {}
        self._saved: set[str] = set()
        self._loaded: set[str] = set()
        self._failed: dict[str, str] = {}
        self._late: set[int] = set()
        self._damaged: set[str] = set()
        self._unread = ""
        self._known: tuple[list[dict[str, Any]], list[int]] = ([], [])
        """Hand-overs and owners when the table could be read last: one that is damaged takes nothing back."""
        self._answered: dict[str, Any] | None = None
        self._trouble = ""
        self._backoff_s = MIN_BACKOFF_S

    # --- the main thread ----------------------------------------------------------------------------------------------

    def done(self, work: Work, states: Any = None, trouble: str = "") -> None:
        """Work was done: `on_drain` returned these states, or it went wrong.

        What could not be loaded is offered again with the next look: at once, a hook that always raises would be called
        for every tuple.
        """
        self._done.append((work, states, trouble))
        if work.drain or not trouble:
            self._wake.set()

    def late(self, partition: int) -> None:
        """A tuple of a partition that was given away has come."""
        if partition not in self._late:  # told once, however many come
            self._late.add(partition)
            self._wake.set()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._run, name="stormpilot-handing-over", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            self._wake.wait(self.look())

    def look(self) -> float:
        """One round; seconds until the next one, unless something wakes the thread. Trouble is said when it is new."""
        try:
            self.poll()
        except Exception as e:  # noqa: BLE001 (whatever the client raises, the next look may get through)
            trouble = str(e) or type(e).__name__
            if trouble != self._trouble:
                log.warning("stormpilot: hand-overs of task %d wait: %s", self._task, trouble)
            self._trouble, wait_s = trouble, self._backoff_s
            self._backoff_s = min(MAX_BACKOFF_S, 2 * wait_s)
            return wait_s
        if self._trouble:
            log.warning("stormpilot: hand-overs of task %d go on", self._task)
        self._trouble, self._backoff_s = "", MIN_BACKOFF_S
        return POLL_S

    def _table_changed(self, _: Any) -> None:
        """One method, not a function per look: the client keeps every watch that it was given until it fires."""
        self._wake.set()

    def poll(self) -> None:
        """Save what was drained, see what the table tells, answer: anew after a look that failed.

        Whoever drives has perhaps given this task up meanwhile, and asks again once it has written.
        """
        answered, self._answered = self._answered, None
        self._save_what_was_done()
        read = self._read(self._store.table(self._table_changed))
        handovers, owners = self._known = self._known if read is None else read
        self.own = frozenset(p for p, owner in enumerate(owners) if owner == self._task)
        self._late -= self.own
        by_key = {f"{h['from']}-{h['to']}-{h['begunMs']}": h for h in handovers}
        for key, h in by_key.items():
            if h["from"] == self._task and h["phase"] == "save" and key not in self._told:
                self._told.add(key)
                self._late -= set(h["partitions"])
                self.work.append(Work(key, True, list(h["partitions"])))
        self._take(by_key)
        for known in (self._told, self._saved, self._loaded):
            known.intersection_update(by_key)
        self._failed = {key: why for key, why in self._failed.items() if key in by_key}
        self._answer(answered)

    def _read(self, data: bytes | None) -> tuple[list[dict[str, Any]], list[int]] | None:
        """The hand-overs of the component and the owners of its partitions: none of them where there is no table.

        None for a table that cannot be read.
        """
        if data is None:
            return [], []
        try:
            table = json.loads(limits.text_within(data, limits.ROUTES))
            if table["schema"] > SCHEMA:
                raise ValueError(f"schema {table['schema']} is newer than {SCHEMA}")
            route: dict[str, Any] = next((c for c in table["components"] if c["component"] == self._component), {})
            return list(route.get("handovers", [])), list(route.get("partitions", []))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as e:
            if str(e) != self._unread:
                log.warning("stormpilot: the routing table cannot be read: %s", e)
            self._unread = str(e)
            return None

    def _save_what_was_done(self) -> None:
        while self._done:
            work, states, trouble = self._done[0]
            if not work.drain:
                self._note_loaded(work, trouble)
            elif trouble:
                self._failed[work.key] = trouble
            else:
                try:
                    chunks = packed(states or {})
                except (TypeError, ValueError, RecursionError) as e:
                    self._failed[work.key] = str(e)
                    self.work.append(Work("", False, work.partitions, list(states.items())))  # back where it was
                else:
                    for n, chunk in enumerate(chunks):
                        self._store.save(f"{work.key}-{self._start_ms}-{n}", chunk)
                    self._saved.add(work.key)
            self._done.popleft()

    def _note_loaded(self, work: Work, trouble: str) -> None:
        if trouble and not work.key:
            self.work.append(work)  # it is nowhere else
        elif trouble:
            self._taken.pop(work.key, None)  # offered again with the next look
        elif work.key:
            self._loaded.add(work.key)

    def _take(self, by_key: Mapping[str, Mapping[str, Any]]) -> None:
        """Load what is ready for this task, and remove what it has loaded once the hand-over is over."""
        items: dict[str, list[str]] = {}
        for name in sorted(self._store.items()):
            key = name.rsplit("-", 2)[0]
            if key.split("-")[1:2] == [str(self._task)] and name not in self._damaged:
                items.setdefault(key, []).append(name)
        for key in self._loaded - by_key.keys():
            for name in self._taken.get(key, ()):
                self._store.drop(name)
            self._taken.pop(key, None)  # after that: what could not be removed now is no new state
            items.pop(key, None)
        ready = {key for key, h in by_key.items() if h["to"] == self._task and h["phase"] == "load"}
        for key in sorted(ready | (items.keys() - by_key.keys())):
            if key in self._taken:
                continue
            found = {name: states for name in items.get(key, ()) if (states := self._states(name)) is not None}
            if not found and key not in by_key:
                continue
            names = tuple(found)
            states = [state for name in names for state in found[name]]
            partitions = by_key[key]["partitions"] if key in by_key else sorted({p for p, _ in states})
            self._taken[key] = names
            self.work.append(Work(key, False, list(partitions), states, names))

    def _states(self, name: str) -> Sequence[tuple[int, Any]] | None:
        """States of an item; None of one that is damaged, or somebody else's: it is left where it is."""
        data = self._store.load(name)
        try:
            return unpacked(data or b"{}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError, EOFError, zlib.error) as e:
            log.warning("stormpilot: state %s cannot be read and is left out: %s", name, e)
            self._damaged.add(name)
            return None

    def _answer(self, answered: Mapping[str, Any] | None) -> None:
        answer = {
            "schema": SCHEMA,
            "topologyId": self._topology_id,
            "task": self._task,
            "pid": os.getpid(),
            "startMs": self._start_ms,
            "saved": sorted(self._saved),
            "loaded": sorted(self._loaded),
            "failed": self._failed,
            "late": sorted(self._late),
        }
        if answer != answered:
            written = {**answer, "writtenAtMs": int(time.time() * 1000)}
            self._store.answer(self._task, json.dumps(written, separators=(",", ":")).encode())
        self._answered = answer | {"failed": dict(self._failed)}


def packed(states: Mapping[int, Any]) -> list[bytes]:
    """States of partitions as items that fit into znodes; `ValueError` where one partition's does not."""
    chunks: list[dict[int, str]] = [{}]
    size = 0
    for partition, state in sorted(states.items()):
        text = f"[{int(partition)},{json.dumps(state, separators=(',', ':'))}]"
        if size and size + len(text) > CHUNK_BYTES:
            chunks.append({})
            size = 0
        chunks[-1][partition] = text
        size += len(text)
    found = []
    for chunk in filter(None, chunks):
        data = f'{{"schema":{SCHEMA},"states":[{",".join(chunk.values())}]}}'.encode()
        if len(data) > MOST_STATE_BYTES:
            raise ValueError(f"the state of partition {min(chunk)} has {len(data)} bytes, {MOST_STATE_BYTES} are taken")
        found.append(gzip.compress(data, 6, mtime=0))
        if len(found[-1]) > MAX_BYTES:
            raise ValueError(
                f"the state of partition {min(chunk)} has {len(found[-1])} bytes packed, {MAX_BYTES} are taken"
            )
    return found


def unpacked(data: bytes) -> Sequence[tuple[int, Any]]:
    """(partition, state) of an item; `ValueError` for one that is larger than any that was saved."""
    value = json.loads(limits.unpacked(data, MOST_STATE_BYTES) if data[:2] == limits.GZIP_MAGIC else data)
    return [(int(partition), state) for partition, state in value.get("states", [])]
