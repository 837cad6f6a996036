"""`KeyedState`: a mixin for bolts whose in-memory state follows its keys (docs/concepts/rolling-moves.md)."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from stormpilot.instrument.handing_over import HandingOver, Work, ZooKeeperKeyedStore
from stormpilot.instrument.partitions import PARTITIONS_PER_TASK, partition_of, reads_longs
from stormpilot.instrument.reporting import from_signal_handler

STANDBY_KEY = "stormpilot.standby"
QUIET_S = 1.0
"""A task that goes on with other keys saves when it saw none of the partitions that leave for so long ..."""
QUIET_AT_MOST_S = 5.0
"""... or has been told to for so long; what comes after is handed over once more."""


class KeyedState:
    """Put it first in the bases: `class Count(KeyedState, Bolt)`. Keep state by `partition_of`, and define both hooks.

    The hooks are called by the component's own main thread, between two tuples, within a second also where none come;
    what they emit is not anchored. One that raises is told in the log and hands nothing over; the task goes on.
    """

    _stormpilot_handing: HandingOver | None = None
    _stormpilot_partitions = 0
    _stormpilot_longs = False
    _stormpilot_marked: frozenset[int] | set[int] = frozenset()
    _stormpilot_hooked = False

    def on_drain(self, partitions: list[int]) -> Mapping[int, Any] | None:
        """These partitions belong to another task, and nothing more comes for them: forget and return their state.

        Returns
        -------
        mapping of int to JSON value, or None
            What `on_activate` of the other task gets, by partition, at most 900 kB packed for each; None where the
            state lies elsewhere. May be called for a partition again: for tuples that came late.
        """
        return None

    def on_activate(self, partitions: list[int], states: Sequence[tuple[int, Any]]) -> None:
        """These partitions belong to this task now: add `states`, (partition, what was returned), to what there is.

        Tuples of them have come here for some seconds already. A partition may be there several times, or not at all.
        """

    def partition_of(self, keys: Sequence[Any]) -> int:
        """The partition of a tuple, by the values of the key fields in the order of the grouping."""
        partition = partition_of(keys, self._stormpilot_partitions, longs=self._stormpilot_longs)
        if partition in self._stormpilot_marked and not self._stormpilot_hooked:
            self._stormpilot_seen(partition)
        return partition

    # --- what is ours -------------------------------------------------------------------------------------------------

    def _setup_component(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> None:
        super()._setup_component(storm_conf, context)  # type: ignore[misc]
        task, component = int(context["taskid"]), str(self.component_name)  # type: ignore[attr-defined]
        tasks = sum(1 for c in context.get("task->component", {}).values() if c == component)
        standby = storm_conf.get(STANDBY_KEY)
        active = tasks - (standby if isinstance(standby, int) else 0)
        self._stormpilot_partitions = PARTITIONS_PER_TASK * max(1, active)
        self._stormpilot_longs = reads_longs(storm_conf)
        self._stormpilot_leaving: Work | None = None
        self._stormpilot_given: set[int] = set()
        self._stormpilot_told_s = self._stormpilot_seen_s = 0.0
        if not hands_over(type(self)):
            return
        topology_id = str(storm_conf.get("storm.id") or "")
        try:
            if not topology_id:
                raise ValueError("storm.id is not in the configuration")
            store = ZooKeeperKeyedStore(storm_conf, topology_id)
        except Exception as e:
            if from_signal_handler(e):
                raise
            self._stormpilot_say(f"keyed state of this task is not handed over: {e}")
            return
        self._stormpilot_follow(HandingOver(store, topology_id, component, task))

    def _stormpilot_follow(self, handing: HandingOver) -> None:
        self._stormpilot_handing = handing
        handing.start()
        read_tuple = self.read_tuple  # type: ignore[has-type]

        def between_tuples() -> Any:
            if handing.work or self._stormpilot_leaving is not None:
                self._stormpilot_do(handing)
            return read_tuple()

        self.read_tuple = between_tuples

    def _stormpilot_do(self, handing: HandingOver) -> None:
        if self._stormpilot_leaving is not None:
            self._stormpilot_drain(handing, self._stormpilot_leaving)
        while handing.work and self._stormpilot_leaving is None:
            work = handing.work.popleft()
            if work.drain:
                self._stormpilot_leaving = work
                self._stormpilot_told_s = self._stormpilot_seen_s = time.monotonic()
                self._stormpilot_mark()
                self._stormpilot_drain(handing, work)
            else:
                self._stormpilot_given -= handing.own.union(work.partitions)
                self._stormpilot_mark()
                _, trouble = self._stormpilot_call(lambda w=work: self.on_activate(w.partitions, w.states))
                handing.done(work, trouble=trouble)
                if work.key and not trouble:  # saved so late that the keys have gone on: the state follows them
                    for partition in {p for p, _ in work.states} - handing.own:
                        handing.late(partition)

    def _stormpilot_drain(self, handing: HandingOver, work: Work) -> None:
        now_s = time.monotonic()
        busy = bool(handing.own) and now_s - self._stormpilot_seen_s < QUIET_S
        if busy and now_s - self._stormpilot_told_s < QUIET_AT_MOST_S:
            return
        self._stormpilot_leaving = None
        self._stormpilot_given |= set(work.partitions)
        self._stormpilot_given -= handing.own
        self._stormpilot_mark()
        states, trouble = self._stormpilot_call(lambda: dict(self.on_drain(work.partitions) or {}))
        handing.done(work, states, trouble)

    def _stormpilot_call(self, hook: Any) -> tuple[Any, str]:
        """Result of a user's hook, or what it raised; an exception of a signal handler goes its way.

        A `TicklessBatchingBolt` works on batches in a thread: its hooks are called under its lock, as `process` is.
        """
        with getattr(self, "_batch_lock", None) or nullcontext():
            self._stormpilot_hooked = True
            try:
                return hook(), ""
            except Exception as e:
                if from_signal_handler(e):
                    raise
                self._stormpilot_say(f"keyed state is not handed over: {type(e).__name__}: {e}")
                return None, f"{type(e).__name__}: {e}"
            finally:
                self._stormpilot_hooked = False

    def _stormpilot_mark(self) -> None:
        leaving = self._stormpilot_leaving.partitions if self._stormpilot_leaving else ()
        self._stormpilot_marked = self._stormpilot_given.union(leaving)

    def _stormpilot_seen(self, partition: int) -> None:
        if partition in self._stormpilot_given and self._stormpilot_handing is not None:
            if partition in self._stormpilot_handing.own:
                self._stormpilot_given.discard(partition)
                self._stormpilot_mark()
            else:
                self._stormpilot_handing.late(partition)
        else:
            self._stormpilot_seen_s = time.monotonic()

    def _stormpilot_say(self, text: str) -> None:
        try:
            self.logger.warning("stormpilot: %s", text)  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 (the logger is the user's)
            print(f"stormpilot: {text}", file=sys.stderr)


def hands_over(component_class: type) -> bool:
    """Whether a component hands state over: it has the mixin and a hook of its own."""
    if not issubclass(component_class, KeyedState):
        return False
    defaults = (KeyedState.on_drain, KeyedState.on_activate)
    return (component_class.on_drain, component_class.on_activate) != defaults
