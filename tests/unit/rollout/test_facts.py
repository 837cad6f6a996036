"""Who learns late of a step: senders to its tasks on nodes that it does not touch."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doubles.rolling import Rolling, worker
from stormpilot.messages.core import ComponentPart, ExecutorPart, InputPart, Worker
from stormpilot.messages.rollouts import RolloutStepPart
from stormpilot.rollout.facts import untold

PLACED = {1: ("a", 6700), 2: ("b", 6700), 3: ("c", 6700), 4: ("d", 6700), 5: ("d", 6700)}
"""spout (1) -> parse (2, 3) -> sink (4); 5 is of `other`, to which nobody sends."""
COMPONENTS = {1: "spout", 2: "parse", 3: "parse", 4: "sink", 5: "other"}


def reads(component: str, *sources: str) -> ComponentPart:
    inputs = [InputPart(component=s, grouping="SHUFFLE", routed=True) for s in sources]
    return ComponentPart(id=component, kind="bolt" if sources else "spout", inputs=inputs)


def asked(*workers: Worker, live: str = "abcde") -> list[str]:
    """What is said of a step with these workers."""
    r = Rolling()
    seen = msgspec.structs.replace(
        r.facts().snapshot,
        components=[reads("spout"), reads("parse", "spout"), reads("sink", "parse"), reads("other", "other")],
        executors=[
            ExecutorPart(start=s, end=s, component=COMPONENTS[s], supervisor=node, port=port)
            for s, (node, port) in PLACED.items()
        ],
    )
    m = msgspec.structs.replace(r.rollout, steps=[RolloutStepPart(workers=list(workers))])
    return untold(m, replace(r.facts(), snapshot=seen, supervisors=frozenset(live)))


@pytest.mark.parametrize(
    ("step", "late"),
    [
        ([worker("b", 6701, 4)], ["c"]),  # one of `parse` is where `sink` goes
        ([worker("d", 6701, 4)], ["b", "c"]),  # another port is a change as well
        ([worker("c", 6701, 2)], ["a"]),
        ([worker("a", 6701, 2)], []),  # the spout's node is told
        ([worker("e", 6700, 4, 2)], ["a", "c"]),  # `parse` on b starts anew, and reads all places then
        ([worker("e", 6700, 1)], []),  # nobody sends to a spout
        ([worker("e", 6700, 5)], []),  # only itself
        ([], []),
    ],
)
def test_nodes_with_senders_that_the_step_does_not_touch_learn_late(step: list[Worker], late: list[str]) -> None:
    assert asked(*step) == late


def test_a_node_that_is_gone_is_not_waited_for() -> None:
    assert asked(worker("b", 6701, 4), live="abde") == []
