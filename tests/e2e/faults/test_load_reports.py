"""Load reports that are late, doubled, missing, from the future or absurd: nothing is planned on them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import msgspec
import pytest

from invariants import invariants
from scene import PATHS, Scene, until
from stormpilot.messages.core import decode, encode
from stormpilot.messages.load import LoadReport, TaskLoad

HOUR_MS = 3_600_000
WRITES = 8


def now_ms() -> int:
    return int(time.time() * 1000)


def late(t: TaskLoad, n: int) -> TaskLoad:
    return msgspec.structs.replace(t, at_ms=t.at_ms - HOUR_MS, seq=max(0, t.seq - 10))


def doubled(t: TaskLoad, n: int) -> TaskLoad:
    return t


def from_the_future(t: TaskLoad, n: int) -> TaskLoad:
    return msgspec.structs.replace(t, at_ms=t.at_ms + HOUR_MS, seq=t.seq + 1000 + n)


def negative(t: TaskLoad, n: int) -> TaskLoad:
    received = {stream: (tasks, [-count - 1 for count in tuples]) for stream, (tasks, tuples) in t.received.items()}
    return msgspec.structs.replace(t, at_ms=now_ms(), seq=t.seq + 1000 + n, received=received, cpu_s=-1.0)


def huge(t: TaskLoad, n: int) -> TaskLoad:
    received = {stream: (tasks, [10**15 * (n + 1)] * len(tasks)) for stream, (tasks, _) in t.received.items()}
    return msgspec.structs.replace(t, at_ms=now_ms(), seq=t.seq + 1000 + n, received=received, cpu_s=1e12 * (n + 1))


@pytest.mark.parametrize("spoil", [late, doubled, from_the_future, negative, huge])
def test_reports_that_cannot_be_true_change_no_plan(scene: Scene, spoil: Callable[[TaskLoad, int], TaskLoad]) -> None:
    """A second reporter speaks for the same tasks, again and again."""
    folder = PATHS.load(scene.topology_id)
    real = scene.zookeeper.client.get_children(folder)[0]
    liar = f"{folder}/liar"
    plan, before = scene.plan(), _rates(scene)
    with invariants(scene):
        try:
            for n in range(WRITES):
                good = decode(scene.read(f"{folder}/{real}"), LoadReport, real)
                tasks = [spoil(t, n) for t in good.tasks]
                written = msgspec.structs.replace(
                    good, reporter="liar", seq=n, written_at_ms=now_ms(), tasks=tasks, topology_id=scene.topology_id
                )
                scene.write(liar, encode(written))
                scene.cycles(1)
        finally:
            scene.zookeeper.delete(liar)
        assert scene.leads()
        assert scene.plan() == plan
        after = _rates(scene)
        assert after is None or before is None or after < 20 * before, "an absurd report was believed"


def test_missing_reports_close_the_gate_and_their_return_opens_it(scene: Scene) -> None:
    """The collector's process is stopped: tasks go silent, the controller says so and holds still."""
    collectors = [p for p in scene.cluster.processes() if any("collector" in a for a in p.argv)]
    assert collectors, "there is no collector to stop"
    with invariants(scene):
        for p in collectors:
            os.kill(p.pid, signal.SIGSTOP)
        try:
            until(lambda: _missing(scene) > 0, "status to say that reports are missing")
        finally:
            for p in collectors:
                os.kill(p.pid, signal.SIGCONT)
        until(lambda: _missing(scene) == 0, "reports to come again")


def _rates(scene: Scene) -> float | None:
    return getattr(scene.view(), "total_tps", None)


def _missing(scene: Scene) -> int:
    return getattr(scene.view(), "missing", 0) or 0
