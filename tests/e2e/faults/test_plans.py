"""Plans that nobody should apply: written into ZooKeeper by hand while the controller is held still."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from invariants import invariants
from scene import PATHS, Scene, until
from stormpilot.messages.core import Worker, plan_checksum

Fields = dict[str, Any]
MUTATIONS = 50
ANSWER_S = 4.0
"""A plan is read within a second, and answered in the next round."""


@contextmanager
def held(scene: Scene) -> Iterator[Fields]:
    """The good plan as JSON, while the controller cannot mend what is written; the good plan is put back.

    Both are of the epoch that is in force now, whoever published: the plug-in takes nothing older than what it saw.
    """
    path = PATHS.plan(scene.topology_id)
    state = scene.state()
    assert state is not None
    assert scene.controller is not None
    scene.controller.send_signal(signal.SIGSTOP)
    good = json.loads(scene.read(path)) | {"epoch": state.epoch}
    try:
        yield json.loads(json.dumps(good))
    finally:
        scene.write(path, sealed(good))
        scene.controller.send_signal(signal.SIGCONT)
        until(scene.applied, "the good plan to be accepted again")


def sealed(fields: Fields) -> bytes:
    """The plan with the checksum that fits what it says."""
    workers = [
        Worker(supervisor=w["supervisor"], port=w["port"], executors=[tuple(e) for e in w["executors"]])
        for w in fields["workers"]
    ]
    fields["checksum"] = plan_checksum(
        fields["topologyId"], fields["planId"], fields["planSet"], fields["epoch"], workers
    )
    return json.dumps(fields).encode()


def exchanged(fields: Fields) -> bytes:
    """Two workers exchange their executors, under the old checksum."""
    first, second, *_ = fields["workers"]
    first["executors"], second["executors"] = second["executors"], first["executors"]
    return json.dumps(fields).encode()


def on_a_missing_slot(fields: Fields) -> bytes:
    """An executor joins another worker, which is to start on a port that is not there."""
    first, second, *_ = fields["workers"]
    first["executors"].append(second["executors"].pop())
    first["port"] = 1
    return sealed(fields | {"planId": "p-hand"})


def on_a_missing_supervisor(fields: Fields) -> bytes:
    fields["workers"][0]["supervisor"] = "nobody"
    return sealed(fields | {"planId": "p-hand"})


def without_an_executor(fields: Fields) -> bytes:
    del fields["workers"][0]["executors"][0]
    return sealed(fields | {"planId": "p-hand"})


def with_an_executor_twice(fields: Fields) -> bytes:
    fields["workers"][0]["executors"].append(fields["workers"][1]["executors"][0])
    return sealed(fields | {"planId": "p-hand"})


BAD: dict[str, tuple[str, Callable[[Fields], bytes]]] = {
    "not JSON": ("MALFORMED", lambda _: b"\x00 not a plan"),
    "truncated": ("MALFORMED", lambda f: json.dumps(f).encode()[: len(json.dumps(f)) // 2]),
    "a worker changed": ("CHECKSUM", exchanged),
    "a newer schema": ("SCHEMA_NEWER", lambda f: json.dumps(f | {"schema": 99}).encode()),
    "an older epoch": ("EPOCH_OLD", lambda f: sealed(f | {"epoch": 0, "planId": "p-hand"})),
    "a missing slot": ("PORT_UNKNOWN", on_a_missing_slot),
    "a missing supervisor": ("SUPERVISOR_GONE", on_a_missing_supervisor),
    "an executor left out": ("EXECUTOR_MISSING", without_an_executor),
    "an executor twice": ("EXECUTOR_TWICE", with_an_executor_twice),
}


SMOKE = ("a worker changed", "a missing slot")


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.smoke] if k in SMOKE else []) for k in BAD])
def test_a_plan_that_cannot_be_right_is_refused_by_name_and_changes_nothing(scene: Scene, kind: str) -> None:
    code, spoil = BAD[kind]
    with invariants(scene), held(scene) as fields:
        scene.write(PATHS.plan(scene.topology_id), spoil(fields))
        until(lambda: (s := scene.shim_says()) is not None and s.state == "rejected", "the plan to be refused")
        refusal = scene.shim_says()
        assert refusal is not None
        assert refusal.code == code
        assert refusal.text
        _, shown = scene.status()
        assert code in json.dumps(shown)
        scene.rounds(2)


@pytest.mark.smoke
def test_a_plan_for_a_topology_that_does_not_run_is_left_alone(scene: Scene) -> None:
    ghost = PATHS.plan("ghost-1-1700000000")
    with invariants(scene):
        fields = json.loads(scene.read(PATHS.plan(scene.topology_id)))
        scene.write(ghost, sealed(fields | {"topologyId": "ghost-1-1700000000"}))
        scene.rounds(3)
        scene.cycles(2)
        assert scene.applied()
    if scene.exists(ghost):
        scene.zookeeper.delete(ghost)


def test_fifty_mutated_plans_are_refused_or_change_nothing(scene: Scene) -> None:
    """Each is a valid plan with one value of the tree deleted, or put in place by another kind of value."""
    path = PATHS.plan(scene.topology_id)
    chance = random.Random(2026)
    seen: Counter[str] = Counter()
    with invariants(scene), held(scene) as fields:
        for n in range(MUTATIONS):
            scene.write(path, mutated(fields, chance, n))
            end = time.monotonic() + ANSWER_S
            while (status := scene.shim_says()) is None or status.state != "rejected":
                if time.monotonic() > end:  # it was read, and what was changed matters to nobody
                    break
                time.sleep(0.2)
            assert status is not None
            assert status.state in ("rejected", "applied"), f"mutation {n}: {status}"
            seen[status.code] += 1
        scene.rounds(2)
    assert seen.total() - seen["OK"] >= MUTATIONS // 2, f"too few of the mutations matter: {seen}"


def mutated(fields: Fields, chance: random.Random, n: int) -> bytes:
    """The plan with one change, of the n-th kind of value, at a place that chance finds."""
    tree = json.loads(json.dumps(fields))
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        for key in keys:
            places.append((node, key))
            walk(node[key])

    walk(tree)
    node, key = chance.choice(places)
    values = [None, True, -1, 0, 2**70, 1.5, -1e308, "", "\u0000", "x" * 5000, [], {}, [[]], "NaN", [1, 2, 3]]
    if n % 16 == 15:
        del node[key]
    else:
        node[key] = values[n % 16]
    return json.dumps(tree).encode()
