"""Slots, CPU and memory of plans that are on their way are nobody else's, and nobody has to leave for them."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import NOW_MS, PAIRED, SPREAD, Slots, model, plan, plan_message, status, subject, topology
from doubles.rolling import begun
from doubles.wanted import plan_in
from doubles.world import World
from stormpilot.control.reservations import plans_on_their_way, with_reservations
from stormpilot.decide.admit import ANSWER_MS, TopologyState
from stormpilot.messages.core import StatusMessage, Worker
from stormpilot.model.subset import subset
from stormpilot.model.values import Model, Plan, TopologyPlan

TO_C: Slots = {("c", 1): (1, 2), ("c", 2): (3, 4)}
WORKERS = [Worker(supervisor="c", port=1, executors=[(1, 1), (2, 2), (3, 3), (4, 4)])]


def placement(slots: Slots) -> TopologyPlan:
    return plan(slots).topologies[0]


def reserved(*slots: Slots, limit_mhz: float = 1000.0) -> tuple[Model, Model]:
    """The cluster with `flights` on its way to each of these placements; the same as `wordcount` may use it."""
    there = model(topology(), topology({("a", 2): (1, 2), ("b", 2): (3, 4)}, "wordcount"), limit_mhz=limit_mhz)
    whole = with_reservations(there, {"flights-1": [placement(s) for s in slots]})
    return whole, subset(whole, {"wordcount-1"})


def test_slots_of_a_plan_on_its_way_are_not_there_for_others() -> None:
    whole, own = reserved({("c", 1): (1, 2), ("b", 1): (3, 4)})
    assert {s.id: s.slots for s in own.supervisors} == {"a": [2], "b": [2], "c": [2]}
    assert [t.assignment for t in whole.topologies] == [t.assignment for t in model(*whole.topologies).topologies], (
        "what runs stays where it is, so that its slots are not free before the plan is applied"
    )


def test_cpu_and_memory_that_come_are_reserved_and_what_leaves_stays_reserved_until_then() -> None:
    _, own = reserved({("c", 1): (1, 2), ("b", 1): (3, 4)})
    assert {s.id: s.limit_mhz for s in own.supervisors} == {"a": 600.0, "b": 600.0, "c": 600.0}
    assert {s.id: s.memory_mb for s in own.supervisors} == {"a": 3896.0, "b": 3896.0, "c": 3896.0}


def test_resources_that_come_are_reserved() -> None:
    coming = topology()
    needy = [msgspec.structs.replace(c, resources={"gpu": 1.0}) for c in coming.components]
    there = model(msgspec.structs.replace(coming, components=needy))
    nodes = [msgspec.structs.replace(s, resources={"gpu": 5.0}) for s in there.supervisors]
    whole = with_reservations(msgspec.structs.replace(there, supervisors=nodes), {"flights-1": [placement(TO_C)]})
    assert {s.id: s.resources["gpu"] for s in whole.supervisors} == {"a": 5.0, "b": 5.0, "c": 1.0}


def test_a_topology_that_comes_to_a_full_node_makes_nobody_leave() -> None:
    _, own = reserved({("b", 1): (1, 2, 3, 4)}, limit_mhz=800.0)
    (b,) = (s for s in own.supervisors if s.id == "b")
    assert b.limit_mhz == 400.0, "what wordcount uses there now"


def test_a_slot_that_somebody_has_stays_his() -> None:
    _, own = reserved({("a", 2): (1, 2, 3, 4)})
    assert [s.slots for s in own.supervisors if s.id == "a"] == [[2]]


def test_all_placements_of_a_rollout_are_reserved() -> None:
    _, own = reserved(TO_C, {("b", 1): (3, 4), ("c", 1): (1, 2)})
    assert [s.slots for s in own.supervisors if s.id == "c"] == [[]]


def test_without_plans_on_their_way_the_model_is_the_same() -> None:
    there = model()
    assert with_reservations(there, {}) is there
    assert with_reservations(there, {"flights-1": [placement(SPREAD)]}) is there


def on_their_way(state: TopologyState) -> bool:
    return bool(plans_on_their_way({"flights-1": state}, {}, NOW_MS))


@pytest.mark.parametrize(
    ("answer", "age_s", "expected"),
    [
        (None, 1, True),
        (None, ANSWER_MS / 1000 + 1, False),
        (status("moving", plan_id="p-0"), 1, True),
        (status("moving"), 500, True),
        (status("waiting", "PLAN_SET_INCOMPLETE"), 500, True),
        (status("applied"), 500, True),
        (msgspec.structs.replace(status("applied"), since_ms=NOW_MS - ANSWER_MS), 500, False),
        (status("rejected", "SLOT_OCCUPIED"), 1, False),
        (status("fallback", "WORKERS_CHANGED"), 1, False),
        (status("degraded", "SUPERVISOR_LOST"), 1, False),
    ],
)
def test_a_plan_is_on_its_way_until_it_runs_or_is_refused(
    answer: StatusMessage | None, age_s: float, expected: bool
) -> None:
    state = subject(plan=plan_message(age_s, workers=WORKERS), status=answer)
    assert on_their_way(state) == expected


def test_a_plan_that_runs_or_will_never_run_is_not_on_its_way() -> None:
    here = [Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in PAIRED.items()]
    assert not on_their_way(subject(topology(PAIRED), plan=plan_message(workers=here)))
    assert not on_their_way(subject(plan=plan_message(workers=WORKERS), torn=True))
    assert not on_their_way(subject())


def test_a_rollout_is_on_its_way_to_its_target_by_its_steps() -> None:
    rollout = begun()
    (found,) = plans_on_their_way({"t": subject()}, {"t": rollout}, NOW_MS).values()
    assert [len(p.workers) for p in found] == [len(rollout.target), *(len(s.workers) for s in rollout.steps)]
    last = msgspec.structs.replace(rollout, step=len(rollout.steps) - 1)
    (found,) = plans_on_their_way({"t": subject()}, {"t": last}, NOW_MS).values()
    assert len(found) == 2, "steps that are done are in the placement already"


def into_first_free_slot(model: Model) -> Plan:
    """Every topology into the first slot of node b that nobody has."""
    wanted = {}
    for t in model.topologies:
        own = {(a.supervisor, a.port) for a in t.assignment}
        (node,) = (s for s in model.supervisors if s.id == "b")
        port = next(p for p in node.slots if ("b", p) not in own)
        wanted[t.id] = {("b", port): (1, 2, 3, 4, 5, 6)}
    return plan_in(model, wanted)


def test_a_plan_that_is_not_applied_yet_keeps_its_slots_from_the_next_plan() -> None:
    w = World("a", "b")
    w.apply_after_s = 600
    topologies = [
        w.submit({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}),
        w.submit({("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}, name="wordcount"),
    ]
    w.zookeeper.put(w.paths.pause("wordcount"), b'{"schema": 1}')
    w.tell(40)
    w.planner = into_first_free_slot
    w.tell(10)
    w.zookeeper.delete(w.paths.pause("wordcount"))
    w.tell(10)
    plans = [w.plan(t) for t in topologies]
    assert [[(x.supervisor, x.port) for x in p.workers] for p in plans if p is not None] == [
        [("b", 6702)],
        [("b", 6703)],
    ]
    assert w.applied == []
