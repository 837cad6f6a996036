"""A topology that is killed and submitted again under its name in the middle of something: the old one is over."""

from __future__ import annotations

import pytest

from doubles.world import Slots, World
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.operate import Operator

APART: Slots = {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("c", 6700): (3,)}
TOGETHER: Slots = {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("a", 6702): (3,)}
SPREAD: Slots = {("a", 6700): (1, 2), ("b", 6700): (3, 4, 5, 6)}
BETTER: Slots = {("b", 6701): (1, 2, 3, 4, 5, 6)}
SETTINGS = "rollout: {task_refresh_s: 4, step_interval_s: 2, start_timeout_s: 60}\n"


def operator(w: World) -> Operator:
    return Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]


def nodes(slots: Slots) -> set[tuple[str, tuple[int, ...]]]:
    return {(node, tasks) for (node, _), tasks in slots.items()}


def plans_of(w: World, topology_id: str) -> list[str]:
    return [e.plan.plan_id for e in w.history(topology_id)]


@pytest.mark.parametrize("phase", ["draining", "moving", "returning"])
def test_in_the_middle_of_a_rolling_move(phase: str) -> None:
    """Its step ended with it: the new one, and every other topology, is moved as if it had never been."""
    w = World("a", "b", "c", settings=SETTINGS)
    old = w.submit(APART, routed=True)
    w.tell(40)
    w.wanted = {old: TOGETHER}
    for _ in range(100):
        m = w.rollout(old)
        if m is not None and m.phase == phase:
            break
        w.tell(2)
    else:
        pytest.fail(f"no step was {phase}")
    w.kill(old)
    published = plans_of(w, old)
    new = w.submit(APART, routed=True, launch=2)
    w.tell(60)
    assert w.routes(new) is None or all(not c.draining for c in w.routes(new).components)  # type: ignore[union-attr]
    w.wanted = {new: TOGETHER}
    w.tell(400)
    assert nodes(w.slots(new)) == nodes(TOGETHER)
    carried_out = w.rollout(new)
    assert carried_out is not None
    assert carried_out.outcome == "DONE"
    assert plans_of(w, old) == published
    assert w.plan(old) is None


def test_while_its_plan_waits_for_approval() -> None:
    """The proposal was for the one that is gone; an approval that was asked for before goes to nobody."""
    w = World(
        "a", "b", "c", settings="decide: {mode: act, approve: ['*'], cool_down_s: 0, discard_hold_s: 60}\n", base=""
    )
    old = w.submit(SPREAD)
    w.tell(60)
    w.wanted = {old: BETTER}
    w.tell(60)
    proposal = w.proposal(old)
    assert proposal is not None
    assert proposal.reason == "APPROVAL_NEEDED"
    operate.approve(operator(w), "flights")
    w.kill(old)
    new = w.submit(SPREAD, launch=2)
    w.tell(60)
    assert w.plan(old) is None
    assert w.plan(new) is None
    assert w.slots(new) == SPREAD
    with pytest.raises(RefusedError, match="there is no proposal"):
        operate.approve(operator(w), "flights")
    w.wanted = {new: BETTER}
    w.tell(120)
    operate.approve(operator(w), "flights")
    w.tell(60)
    assert w.slots(new) == BETTER


def test_while_it_leaves_a_drained_host() -> None:
    """The new one starts on the host that is drained; it leaves too, and does not wait for the one that is gone."""
    w = World("a", "b", "c")
    w.apply_after_s = 1e9  # the plug-in is slow: the old one's plan is still on its way
    old = w.submit(SPREAD)
    w.tell(60)
    w.wanted = {old: BETTER}
    operate.drain(operator(w), "host-a")
    for _ in range(60):
        if w.plan(old) is not None:
            break
        w.tell(2)
    assert w.plan(old) is not None
    w.kill(old)
    w.apply_after_s = 4.0
    new = w.submit(SPREAD, launch=2)
    w.wanted = {new: BETTER}
    w.tell(200)
    assert w.slots(new) == BETTER
    assert w.plan(old) is None
