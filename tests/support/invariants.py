"""Invariants of a scene: what must hold there whatever breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from kazoo.exceptions import KazooException

from scene import Scene, Slot
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.model.violations import violations

LOAD_CONSTRAINTS = {"cpu", "memory"}
"""Constraints of the planner's own, which the plug-in does not know."""


@contextmanager
def invariants(
    scene: Scene,
    *,
    may_restart: Collection[Slot] = (),
    nimbus_may_end: bool = False,
    unplaced_s: float = 0.0,
) -> Iterator[None]:
    """Break something inside; what must hold meanwhile and afterwards, else the test fails.

    - Nimbus stays the same process, unless the test ends it.
    - No worker starts or ends, but those in the slots that the fault itself takes away.
    - No executor is without a slot for longer than `unplaced_s`, by what Nimbus says every half second.
    - What is applied in the end keeps every constraint that a plan must keep.
    - The operator's settings are what they were.
    """
    workers, nimbus, settings = scene.workers(), scene.cluster.pid("nimbus"), scene.settings()
    executors = {e.start for t in scene.model().topologies if t.id == scene.topology_id for e in t.executors}
    watch = _Watch(scene, executors)
    watch.start()
    try:
        yield
    finally:
        watch.stop()
    assert watch.longest_unplaced_s <= unplaced_s, f"executors were unplaced for {watch.longest_unplaced_s:.1f} s"
    if not nimbus_may_end:
        assert scene.cluster.pid("nimbus") == nimbus, "Nimbus ended"
    kept = {slot: pid for slot, pid in workers.items() if slot not in may_restart}
    now = scene.workers()
    assert {slot: now.get(slot) for slot in kept} == kept, "a worker restarted that need not"
    assert scene.settings() == settings, "an operator's setting was changed"
    assert set(scene.placed()) == executors
    plan = scene.plan()
    if plan is not None and scene.applied():
        placement = TopologyPlan(id=scene.topology_id, workers=plan.workers)
        model = scene.model()
        alone = [t for t in model.topologies if t.id == scene.topology_id]
        wrong = violations(
            Model(supervisors=model.supervisors, topologies=alone, exclusions=model.exclusions),
            Plan(topologies=[placement]),
        )
        assert [v for v in wrong if v.constraint not in LOAD_CONSTRAINTS] == []


@contextmanager
def never(scene: Scene, wrong: Callable[[Mapping[int, str], Mapping[int, Slot]], set[str]]) -> Iterator[None]:
    """Nothing that Nimbus writes meanwhile is wrong, by executors' components and slots; looked at twice a second."""
    found: set[str] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.5):
            with suppress(KazooException, AttributeError):
                found.update(wrong(scene.components(), scene.placed()))

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield
    finally:
        stop.set()
        watch.join(30)
    assert found == set()


class _Watch(threading.Thread):
    """Looks every half second who is unplaced, as Nimbus wrote it; a time without ZooKeeper tells nothing."""

    def __init__(self, scene: Scene, executors: set[int]) -> None:
        super().__init__(daemon=True)
        self._scene = scene
        self._executors = executors
        self._stopping = threading.Event()
        self.longest_unplaced_s = 0.0

    def run(self) -> None:
        since: float | None = None
        while not self._stopping.wait(0.5):
            try:
                whole = set(self._scene.placed()) == self._executors
            except (KazooException, AttributeError, OSError):
                since = None
                continue
            now = time.monotonic()
            since = None if whole else since or now
            if since is not None:
                self.longest_unplaced_s = max(self.longest_unplaced_s, now - since)

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)
