"""What is published fits beside what stays, however many plans must be held one after the other until it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import builders
from builders import supervisor
from doubles.models import NOW_MS, PAIRED, SPREAD, Slots, subject, topology
from doubles.models import model as model_of
from doubles.models import plan as plan_of
from doubles.verdicts import ONE_HIT, judged
from stormpilot.config import BudgetSection
from stormpilot.decide.approval import with_approval
from stormpilot.decide.capacity_check import hold_what_does_not_fit
from stormpilot.decide.criteria import Criteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.judge import judge
from stormpilot.decide.memory import Memory
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.predict import Prediction, predict
from stormpilot.decide.reasons import Reason
from stormpilot.messages.moves import Spent
from stormpilot.model.load import node_load_mhz, planned_load_mhz
from stormpilot.model.subset import subset
from stormpilot.model.values import (
    Assigned,
    Component,
    Executor,
    Model,
    Plan,
    SharedMemory,
    Topology,
    TopologyPlan,
    Worker,
)

NODES = 4
WHERE = st.integers(0, NODES - 1)


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Model, Plan, dict[str, Prediction]]:
    """Topologies of one executor each, every one with a port of its own on every node; each is to go somewhere."""
    nodes = [supervisor(f"n{n}", 9, mhz=draw(st.sampled_from([200.0, 400.0, 700.0]))) for n in range(NODES)]
    topologies, plans, predictions = [], [], {}
    for t in range(draw(st.integers(2, 7))):
        name, now, then = f"t{t}", draw(WHERE), draw(WHERE)
        cpu_mhz, later_mhz = (draw(st.sampled_from([0.1, 100.0, 150.3, 250.0])) for _ in range(2))
        topologies.append(
            Topology(
                id=name,
                name=name,
                workers=1,
                components=[Component(id="c", kind="spout")],
                executors=[Executor(start=1, end=1, component="c", cpu_mhz=cpu_mhz)],
                assignment=[Assigned(start=1, supervisor=f"n{now}", port=nodes[now].slots[t])],
            )
        )
        worker = Worker(supervisor=f"n{then}", port=nodes[then].slots[t], executors=[(1, 1)])
        plans.append(TopologyPlan(id=name, workers=[worker]))
        predictions[name] = Prediction(0.0, 0.0, 0.0, 1, {1: later_mhz}, {})
    return Model(supervisors=nodes, topologies=topologies, traffic=[]), Plan(topologies=plans), predictions


@given(rounds())
def test_what_is_left_fits_and_nothing_more_need_be_held(case: tuple[Model, Plan, dict[str, Prediction]]) -> None:
    model, plan, predictions = case
    plans = {p.id: p for p in plan.topologies}
    wanted = {t: Decision(t, "publish", Reason.GAIN, "", moved_executors=1) for t in plans}
    answer = hold_what_does_not_fit(model, wanted, plans, predictions)
    moving = {t: plans[t] for t, d in answer.items() if d.action != "skip"}
    assert all(d.reason is Reason.INSUFFICIENT_CPU for d in answer.values() if d.action == "skip")
    if len(moving) < len(plans):
        now_mhz, limit_mhz = node_load_mhz(model), {s.id: s.limit_mhz for s in model.supervisors}
        gone_to = {w.supervisor for p in moving.values() for w in p.workers}
        for s, mhz in planned_load_mhz(model, moving).items():
            assert s not in gone_to or mhz <= max(limit_mhz[s], now_mhz[s]) + 1e-6
    assert hold_what_does_not_fit(model, answer, plans, predictions) == answer


# --- who stays for another reason than its gain -----------------------------------------------------------------------

LEAVES_A: tuple[Slots, Slots] = ({("a", 1): (1, 2), ("b", 1): (3, 4)}, {("c", 1): (1, 3), ("c", 2): (2, 4)})
COMES_TO_A: tuple[Slots, Slots] = ({("a", 2): (1, 2), ("b", 2): (3, 4)}, {("a", 1): (1, 3), ("a", 2): (2, 4)})


def after_another(first: dict[str, Any], second: dict[str, Any] | None = None, **terms: Any) -> dict[str, Decision]:
    """Slot a:1 is that of flights, which leaves it, and wordcount gets it; the fields are of the two topologies."""
    states = [subject(topology(LEAVES_A[0]), **first), subject(topology(COMES_TO_A[0], "wordcount"), **(second or {}))]
    verdict = judged(states, LEAVES_A[1], COMES_TO_A[1], **terms)
    decisions = with_approval(verdict.decisions, {s.topology.id: s for s in states})
    assert list(verdict.plans) == [t for t, d in decisions.items() if d.action != "skip"]
    return decisions


def test_room_of_a_topology_that_the_budget_or_an_approval_holds_is_nobody_elses() -> None:
    assert {d.action for d in after_another({}).values()} == {"publish"}
    spent = {"flights-1": [Spent(at_ms=NOW_MS - 60_000, executors=4, workers=2)]}
    over = after_another({}, budget=BudgetSection(topology_executors_per_hour=4), spent=spent)
    assert [d.reason for d in over.values()] == [Reason.MOVE_BUDGET, Reason.SLOT_OCCUPIED]
    waits = after_another({"approval": True})
    assert [(d.action, d.reason) for d in waits.values()] == [
        ("advise", Reason.APPROVAL_NEEDED),
        ("skip", Reason.SLOT_OCCUPIED),
    ]


def test_room_of_a_topology_whose_restarts_are_not_wanted_is_nobody_elses() -> None:
    forbidden = {"flights-1": MoveStrategy("restart", "", forbidden=True)}
    assert after_another({}, strategies=forbidden)["wordcount-1"].reason is Reason.SLOT_OCCUPIED


def test_plan_that_waits_for_an_approval_may_need_what_a_published_one_leaves() -> None:
    waits = after_another({}, {"approval": True})
    assert [(d.action, d.reason) for d in waits.values()] == [
        ("publish", Reason.GAIN),
        ("advise", Reason.APPROVAL_NEEDED),
    ]


TRADES: tuple[Slots, Slots] = ({("a", 1): (1, 2), ("b", 1): (3, 4)}, {("a", 2): (1, 2), ("b", 2): (3, 4)})


def traded(*approval: bool) -> dict[str, Decision]:
    """Flights and wordcount each want the two slots of the other one."""
    names = ("flights", "wordcount")
    who = zip(TRADES, names, approval, strict=True)
    states = [subject(topology(slots, name), approval=needs) for slots, name, needs in who]
    verdict = judged(states, {("a", 2): (1, 3), ("b", 2): (2, 4)}, PAIRED)
    decisions = with_approval(verdict.decisions, {s.topology.id: s for s in states})
    assert list(verdict.plans) == [t for t, d in decisions.items() if d.action != "skip"]
    return decisions


def test_plans_that_trade_places_are_proposed_together_where_one_needs_an_approval() -> None:
    assert {d.action for d in traded(False, False).values()} == {"publish"}
    assert {d.action for d in traded(True, True).values()} == {"advise"}
    first, second = traded(True, False).values()
    assert {(d.action, d.reason) for d in (first, second)} == {("advise", Reason.APPROVAL_NEEDED)}
    assert first.text.endswith("; trades places with wordcount, which will move with it")
    assert second.text.startswith("GAIN: inter-node traffic falls by 100%; trades places with flights: ")
    assert second.text.endswith("`stormpilot approve flights` lets it move too")


def test_budget_that_a_plan_without_room_does_not_use_is_left_for_the_next_one() -> None:
    """Of 4 executors per hour flights would take all, but its room is kept by a topology that stays."""
    states = [
        subject(topology(SPREAD)),
        subject(topology({("a", 2): (1, 3), ("c", 1): (2, 4)}, "third")),
        subject(topology({("b", 2): (1, 2), ("c", 2): (3, 4)}, "wordcount")),
    ]
    slots: tuple[Slots, ...] = (
        {("a", 2): (1, 3), ("b", 1): (2, 4)},
        {("a", 1): (1, 3), ("c", 1): (2, 4)},
        {("b", 2): (1, 3), ("c", 2): (2, 4)},
    )
    by_id = {s.topology.id: s for s in states}
    terms = Criteria(ONE_HIT, NOW_MS, 10, budget=BudgetSection(cluster_executors_per_hour=4))
    names = ("flights", "third", "wordcount")
    verdict = judge(model_of(*(s.topology for s in states)), by_id, plan_of(*slots, names=names), Memory(), terms)
    assert [d.reason for d in verdict.decisions.values()] == [
        Reason.SLOT_OCCUPIED,
        Reason.NO_BETTER_PLAN,
        Reason.GAIN,
    ]


# --- memory, resources, and who brings nothing ------------------------------------------------------------------------

STAYS: Slots = {("a", 1): (1, 3), ("a", 2): (2, 4)}
COMES: tuple[Slots, Slots] = ({("b", 1): (1, 2), ("c", 1): (3, 4)}, {("a", 3): (1, 3), ("a", 4): (2, 4)})


def beside_what_stays(change: Callable[[Topology], Topology], **of_nodes: Any) -> dict[str, Decision]:
    """Node a is that of wordcount, which would leave it for flights, but wins nothing and stays."""
    stays = change(topology(STAYS, "wordcount", cpu_mhz=10.0))
    comes = change(topology(COMES[0], cpu_mhz=10.0))
    nodes = [msgspec.structs.replace(s, slots=[1, 2, 3, 4], **of_nodes) for s in model_of().supervisors]
    on = msgspec.structs.replace(model_of(comes, stays), supervisors=nodes)
    verdict = judged([subject(comes), subject(stays)], COMES[1], {("b", 2): (1, 3), ("b", 3): (2, 4)}, on=on)
    assert verdict.decisions["wordcount-1"].reason is Reason.NO_BETTER_PLAN
    return verdict.decisions


def with_memory(memory_mb: float) -> Callable[[Topology], Topology]:
    return lambda t: msgspec.structs.replace(
        t, executors=[msgspec.structs.replace(e, memory_mb=memory_mb) for e in t.executors]
    )


def with_shared_memory(t: Topology) -> Topology:
    shared = SharedMemory(name="table", components=["x"], node_mb=3000.0)
    return msgspec.structs.replace(with_memory(0.0)(t), shared_memory=[shared])


def with_gpus(t: Topology) -> Topology:
    components = [msgspec.structs.replace(c, resources={"gpu": 1.0}) for c in t.components]
    return msgspec.structs.replace(t, components=components)


def test_memory_that_a_topology_keeps_is_nobody_elses() -> None:
    held = beside_what_stays(with_memory(1000.0), memory_mb=4096.0)["flights-1"]
    assert (held.action, held.reason) == ("skip", Reason.INSUFFICIENT_RESOURCES)
    assert (held.value, held.threshold) == (8000.0, 4096.0)
    assert held.text.startswith("a would have 8000 of 4096 MB of memory taken")
    assert beside_what_stays(with_memory(1000.0), memory_mb=8000.0)["flights-1"].reason is Reason.GAIN
    assert beside_what_stays(with_memory(1000.0), memory_mb=0.0)["flights-1"].reason is Reason.GAIN, "no limit"


def test_memory_that_components_share_and_other_resources_are_kept_too() -> None:
    assert beside_what_stays(with_shared_memory, memory_mb=5000.0)["flights-1"].reason is Reason.INSUFFICIENT_RESOURCES
    assert beside_what_stays(with_shared_memory, memory_mb=6000.0)["flights-1"].reason is Reason.GAIN
    assert beside_what_stays(with_gpus, resources={"gpu": 7.0})["flights-1"].reason is Reason.INSUFFICIENT_RESOURCES
    assert beside_what_stays(with_gpus, resources={"gpu": 8.0})["flights-1"].reason is Reason.GAIN


def test_plan_that_brings_nothing_to_a_full_node_is_not_held() -> None:
    """Node a is full since wordcount stays there; third comes to it, flights only keeps a worker there."""
    keeps = topology({("b", 1): (1, 2), ("c", 1): (3,), ("a", 1): (4,)}, cpu_mhz=50.0)
    stays = topology({("a", 2): (1, 3), ("a", 3): (2, 4)}, "third", cpu_mhz=150.0)
    comes = topology({("b", 2): (1, 2), ("c", 2): (3, 4)}, "wordcount", cpu_mhz=150.0)
    states = [subject(t) for t in (keeps, stays, comes)]
    nodes = [msgspec.structs.replace(s, slots=[1, 2, 3, 4, 5]) for s in model_of().supervisors]
    on = msgspec.structs.replace(model_of(keeps, stays, comes), supervisors=nodes)
    slots: tuple[Slots, ...] = (
        {("b", 1): (1, 3), ("c", 1): (2,), ("a", 1): (4,)},
        {("c", 3): (1, 3), ("c", 4): (2, 4)},
        {("a", 4): (1, 3), ("a", 5): (2, 4)},
    )
    plan = plan_of(*slots, names=("flights", "third", "wordcount"))
    verdict = judge(on, {s.topology.id: s for s in states}, plan, Memory(), Criteria(ONE_HIT, NOW_MS, 10))
    assert [d.reason for d in verdict.decisions.values()] == [
        Reason.GAIN,
        Reason.NO_BETTER_PLAN,
        Reason.INSUFFICIENT_CPU,
    ]


def test_plan_that_brings_nothing_to_a_node_without_headroom_is_not_held() -> None:
    states = [
        subject(topology({("a", 1): (1, 2), ("b", 1): (3, 4)}, cpu_mhz=100.0)),
        subject(topology({("b", 2): (1, 2), ("c", 2): (3, 4)}, "wordcount", cpu_mhz=100.0)),
    ]
    slots: tuple[Slots, Slots] = (PAIRED, {("a", 2): (1, 3), ("c", 2): (2, 4)})
    verdict = judged(states, *slots, room_mhz={"a": 300.0})
    assert [d.reason for d in verdict.decisions.values()] == [Reason.GAIN, Reason.HEADROOM]


def looking(polling_mhz: float, mhz: float, stays_mhz: float) -> tuple[Model, Plan]:
    """`a`, 650 MHz in five executors that look for tuples with so much each, is to go to n1, where `b` stays."""
    a = builders.topology("a", {"s": 1, "b": 4}, workers=1, cpu_mhz=130.0)
    executors = [msgspec.structs.replace(e, polling_mhz=polling_mhz) for e in a.executors]
    at = [Assigned(start=e.start, supervisor="n2", port=6700) for e in executors]
    a = msgspec.structs.replace(a, executors=executors, assignment=at)
    b = builders.topology("b", {"s": 1}, workers=1, cpu_mhz=stays_mhz)
    b = msgspec.structs.replace(b, assignment=[Assigned(start=1, supervisor="n1", port=6700)])
    worker = Worker(supervisor="n1", port=6701, executors=[(e.start, e.end) for e in executors])
    plan = Plan(topologies=[TopologyPlan(id="a", workers=[worker])])
    return Model(supervisors=[supervisor(n, mhz=mhz) for n in ("n1", "n2")], topologies=[a, b]), plan


def held(model: Model, plan: Plan, room_mhz: dict[str, float] | None = None) -> Decision:
    (moves,) = plan.topologies
    prediction = predict(subset(model, {"a"}), plan, "measured")
    decision = Decision("a", "publish", Reason.GAIN, "", moved_executors=5)
    return hold_what_does_not_fit(model, {"a": decision}, {"a": moves}, {"a": prediction}, room_mhz)["a"]


def test_cpu_of_looking_for_tuples_makes_room_beside_what_stays_too() -> None:
    """1,150 MHz on a node of 1,000, of which half of 500 give way: as the plan's check says."""
    assert held(*looking(100.0, 1000.0, 500.0)).action == "publish"
    assert held(*looking(0.0, 1000.0, 500.0)).reason is Reason.INSUFFICIENT_CPU


def test_headroom_is_kept_of_all_cpu_that_is_used() -> None:
    """A node that voluntary plans may fill to 800 MHz is not full at 950: threads there go on looking."""
    for polling_mhz in (0.0, 100.0):
        refused = held(*looking(polling_mhz, 2000.0, 300.0), {"n1": 800.0, "n2": 800.0})
        assert refused.reason is Reason.HEADROOM
        assert "not to 950" in refused.text


def test_headroom_is_given_up_for_relief_alone() -> None:
    """What leaves n1 finds room on n2 if b makes it; that d goes to n5 relieves nobody."""
    goes = {"a": ("n1", "n2"), "b": ("n2", "n3"), "d": ("n4", "n5")}
    topologies, plans, predictions, decisions = [], {}, {}, {}
    for t, (now, then) in goes.items():
        own = builders.topology(t, {"s": 1}, workers=1, cpu_mhz=600.0)
        own = msgspec.structs.replace(own, assignment=[Assigned(start=1, supervisor=now, port=6700)])
        plans[t] = TopologyPlan(id=t, workers=[Worker(supervisor=then, port=6701, executors=[(1, 1)])])
        reason = Reason.OVERLOAD if t == "a" else Reason.GAIN
        decisions[t] = Decision(t, "publish", reason, "", moved_executors=1)
        topologies.append(own)
    on = Model(supervisors=[supervisor(f"n{i}", mhz=1000.0) for i in range(1, 6)], topologies=topologies)
    for t, plan in plans.items():
        predictions[t] = predict(subset(on, {t}), Plan(topologies=[plan]), "measured")
    kept = hold_what_does_not_fit(on, decisions, plans, predictions, {s.id: 500.0 for s in on.supervisors})
    assert {t: d.reason for t, d in kept.items()} == {"a": Reason.OVERLOAD, "b": Reason.GAIN, "d": Reason.HEADROOM}
