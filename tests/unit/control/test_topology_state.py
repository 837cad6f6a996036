"""States of topologies: the mode with its source, and plan sets of which only a part was written."""

from __future__ import annotations

import msgspec
import pytest

from doubles.world import NEAR, SPREAD, Slots, World
from stormpilot.messages.core import PlanMessage, encode
from stormpilot.messages.settings import ModeSetting, PauseSetting

BESIDE: Slots = {("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}


@pytest.fixture
def published() -> tuple[World, str, str]:
    """Two topologies; the plan of the first is written, and not applied yet."""
    w = World("a", "b")
    first, second = w.submit(SPREAD), w.submit(BESIDE, name="wordcount")
    w.apply_after_s = 6_000
    w.tell(40)
    w.wanted = {first: NEAR}
    w.tell(10)
    assert w.plan(first) is not None
    return w, first, second


def rewrite(w: World, t: str, **changes: object) -> PlanMessage:
    plan = w.plan(t)
    assert plan is not None
    changed = msgspec.structs.replace(plan, **changes)
    w.zookeeper.put(w.paths.plan(t), encode(changed))
    return changed


def torn(w: World, t: str) -> bool:
    return w.situation().topologies[t].torn


def test_a_plan_set_that_is_written_whole_is_not_torn(published: tuple[World, str, str]) -> None:
    w, first, _ = published
    w.new_leader()
    assert not torn(w, first)


def test_a_plan_set_of_a_former_leader_that_lacks_a_plan_is_torn(published: tuple[World, str, str]) -> None:
    w, first, second = published
    rewrite(w, first, plan_set_topologies=[first, second])
    w.new_leader()
    assert torn(w, first)


def test_our_own_plan_set_is_torn_only_after_the_time_that_writing_takes(published: tuple[World, str, str]) -> None:
    w, first, second = published
    rewrite(w, first, plan_set_topologies=[first, second], created_at_ms=w.now_ms)
    assert not torn(w, first)
    w.pass_time(12)
    assert torn(w, first)


def test_a_plan_that_the_plug_in_answered_or_whose_other_topology_is_gone_is_not_torn(
    published: tuple[World, str, str],
) -> None:
    w, first, second = published
    rewrite(w, first, plan_set_topologies=[first, second])
    w.new_leader()
    w.answer(first, "moving")
    assert not torn(w, first)
    w.answer(first, "waiting")
    assert torn(w, first)
    w.kill(second)
    assert not torn(w, first)


def test_mode_and_pause_of_a_topology_come_before_those_of_all(published: tuple[World, str, str]) -> None:
    w, first, second = published
    w.zookeeper.put(w.paths.mode("_all"), encode(ModeSetting(mode="advise")))
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="off")))
    w.zookeeper.put(w.paths.pause("wordcount"), encode(PauseSetting()))
    states = w.situation().topologies
    assert (states[first].mode, states[second].mode) == ("off", "advise")
    assert (states[first].paused, states[second].paused) == (False, True)
