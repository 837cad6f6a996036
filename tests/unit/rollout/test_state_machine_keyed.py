"""Rollouts of components that hand their keyed state over: tasks come back together, and are named until they do."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doubles.rolling import CONFIG, WORK, T, handing_over, worker
from stormpilot.messages.handover import Handover, KeyedTask
from stormpilot.messages.rollouts import RolloutStepPart
from stormpilot.messages.routes import Routes, first_route, switch
from stormpilot.operate.rollouts import view
from stormpilot.rollout.routing import put_aside, with_back


def test_most_tasks_of_a_component_with_keyed_state_come_back_together() -> None:
    r = handing_over()
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome == "DONE"
    assert r.routes is not None
    (route,) = r.routes.components
    assert {route.partitions.count(t) for t in WORK} == {64}
    assert route.handovers == [], "it names them until their state has arrived"


def test_tasks_whose_tuples_cannot_be_given_back_stay_named_until_they_can_however_late() -> None:
    """No task answers, so state is given up after a minute; that is later than `start_timeout_s`."""
    r = handing_over(answers=False)
    while r.rollout.phase != "draining":
        r.look()
    r.rollout = msgspec.structs.replace(r.rollout, abort_by="ops")
    r.looks(2)
    since_s = r.now_s
    written = len(r.written)
    r.looks(int(CONFIG.start_timeout_s) + 10)
    m = r.rollout
    assert (m.phase, m.outcome, m.back) == ("returning", "ABORTED", [2, 3, 4])
    assert m.text.startswith("by ops; its tasks get no tuples yet: work: the state of its keys is still on its way")
    shown = view(m, "words", r.now_s * 1000)
    assert (shown.away, shown.text) == ([2, 3, 4], m.text)
    assert m.text in m.sentence(r.now_s * 1000)
    assert len(r.written) - written < 10, "nothing is written anew at every look"
    r.until_ended()
    r.everybody_gets_tuples()
    assert (r.rollout.outcome, r.rollout.text) == ("ABORTED", "by ops")
    assert r.now_s - since_s > CONFIG.start_timeout_s


def test_a_rollout_goes_on_without_the_state_of_a_task_that_is_gone() -> None:
    """It told of late tuples, and of nothing since: their state was asked for again and again."""
    r = handing_over(answers=False, last_answers={2: KeyedTask(topology_id=T, task=2, written_at_ms=1, late=[0])})
    r.until_ended()
    r.everybody_gets_tuples()
    said = [text for found in r.written for text in found.messages if "task 2 -> 5" in text]
    assert len(said) == 1 and "task 2 did not save it within 60 s: given up" in said[0]


@pytest.mark.parametrize("failed", [True, False])
def test_a_worker_whose_keyed_state_could_not_be_saved_is_not_restarted(failed: bool) -> None:
    """It is too large, say; or the task reports, and does not answer for a minute."""
    r = handing_over()
    answers = r._keyed

    def keyed() -> dict[int, KeyedTask]:
        route = None if r.routes is None else r.routes.of("work")
        keys = [h.key for h in ([] if route is None else route.handovers) if h.from_ == 2]
        told = dict.fromkeys(keys, "too large") if failed else {}
        return answers() | {2: KeyedTask(topology_id=T, task=2, written_at_ms=5, failed=told)}

    r._keyed = keyed  # type: ignore[method-assign]
    r.until_ended()
    r.everybody_gets_tuples()
    assert (r.rollout.outcome, r.rollout.text) == (
        "TOO_LATE",
        "keyed state of task 2 could not be saved: its worker stays",
    )
    assert not any(n.publish for n in r.written)


def test_a_worker_is_not_restarted_while_a_task_in_it_that_stands_by_hands_its_state_over() -> None:
    """Somebody shifted its tuples to task 5 just before: it is none of those that the step puts aside."""
    r = handing_over(answers=False)
    route = switch(first_route("work", WORK, 0, True, True), WORK, 3, 5, 0)
    saving = [msgspec.structs.replace(h, phase="save", since_ms=3_000) for h in route.handovers]
    r.routes = Routes(topology_id=T, components=[msgspec.structs.replace(route, handovers=saving, draining=[])])
    r.checked, r.now_s = False, 3
    r.looks(30)
    assert not any(n.publish for n in r.written)


def test_a_step_whose_keyed_state_never_rests_gives_its_tuples_back() -> None:
    """All that is asked for is handed over at once; task 2 gets tuples of a partition late again and again."""
    r = handing_over(late={2: [0]})
    while r.rollout.phase != "draining":
        r.look()
    since_s = r.now_s
    r.looks(int(CONFIG.drain_timeout_s) + 120)
    assert r.rollout.phase == "draining"
    r.looks(1)
    assert (r.rollout.phase, r.rollout.outcome) == ("returning", "TOO_LATE")
    assert r.rollout.text == f"keyed state of its tasks was still on its way after {r.now_s - since_s} s"
    r.until_ended()
    r.everybody_gets_tuples()


def test_a_step_that_moves_and_cannot_give_tuples_back_in_time_gives_them_back_later() -> None:
    """A task gets tuples of partitions that it gave away, and their state follows, again and again."""
    r = handing_over()
    while r.rollout.phase != "moving":
        r.look()
    for _ in range(100):
        assert r.routes is not None
        held = Handover(partitions=list(range(256)), from_=2, to=5, begun_ms=1, since_ms=r.now_s * 1000)
        r.routes = r.routes.with_route(msgspec.structs.replace(r.routes.components[0], handovers=[held]))
        r.look()
    assert (r.rollout.phase, r.rollout.outcome, r.rollout.back) == ("returning", "TOO_LATE", [2, 3, 4])
    assert not {2, 3, 4} & r.active()
    r.routes = r.routes.with_route(msgspec.structs.replace(r.routes.components[0], handovers=[]))
    r.until_ended()
    r.everybody_gets_tuples()


def test_several_tasks_that_stand_in_begin_together() -> None:
    """Only 2 gets tuples; 3, 4 and 5 stand by, and are to get them while it moves."""
    r = handing_over()
    step = RolloutStepPart(workers=[worker("c", 6701, 2)], away=[2], stand_ins=[3, 4, 5])
    m = msgspec.structs.replace(r.rollout, steps=[step])
    route = first_route("work", WORK, 3, keyed=True, hands_over=True)
    facts = replace(r.facts(), routes=Routes(topology_id=m.topology_id, components=[route]))
    table = put_aside(m, facts)
    assert table is not None
    assert table.components[0].active == [3, 4, 5]
    arrived = table.with_route(msgspec.structs.replace(table.components[0], handovers=[], draining=[]))
    back = with_back(m, replace(facts, routes=arrived), [2])
    assert back is not None
    assert (back.components[0].active, set(back.components[0].partitions)) == ([2], {2})


@pytest.mark.parametrize(
    ("pairs", "half_way"), [([], [2, 4, 5]), ([(2, 4), (3, 5)], [2, 5])], ids=["for all of them", "each for one"]
)
def test_who_stands_in_rests_when_all_are_back_for_whom_it_does(
    pairs: list[tuple[int, int]], half_way: list[int]
) -> None:
    """All rested with the first that was back, which got the tuples of the others too."""
    r = handing_over()
    step = RolloutStepPart(workers=[worker("c", 6701, 2)], away=[2, 3], stand_ins=[4, 5], switches=pairs)
    m = msgspec.structs.replace(r.rollout, steps=[step])
    route = first_route("work", WORK, 2, keyed=False)
    facts = replace(r.facts(), routes=Routes(topology_id=m.topology_id, components=[route]))
    for now, tasks, active in (("away", [], [4, 5]), ("back", [2], half_way), ("back", [3], [2, 3])):
        table = put_aside(m, facts) if now == "away" else with_back(m, facts, tasks)
        assert table is not None
        (route,) = table.components
        assert sorted(route.active) == active
        facts = replace(facts, routes=table.with_route(msgspec.structs.replace(route, draining=[])))
