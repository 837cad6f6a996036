"""Plans that are given up, so that the ResourceAwareScheduler finds room for a topology that comes before theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from doubles import snapshots
from doubles.wanted import Slots, plan_in
from doubles.world import World
from storm_schedulers import DEFAULT, RAS
from stormpilot.config import BlackoutWindow
from stormpilot.messages.core import decode, encode
from stormpilot.messages.settings import AuditRecord, Hold, ModeSetting, PauseSetting, Request
from stormpilot.model.values import Infeasible, Model, Plan

ALL = (1, 2, 3, 4, 5, 6)
EVICT = "decide: {mode: act, cool_down_s: 120, evict: ['h*'], evict_approval: %s}\n"
BASE = "cycle: {period_s: 10, poll_s: 2}\nload: {window_s: 30, min_coverage_ratio: 0.9, settle_s: 4}\n"
ORDER = "resource.aware.scheduler.priority.strategy"


def world(
    decide: str = EVICT % "false", *, fallback: str = RAS, supervisors: Sequence[str] = ("a", "b"), **config: object
) -> World:
    """Supervisors of one slot each; a topology needs a whole one."""
    w = World(base=BASE + decide)
    cluster = snapshots.cluster(*supervisors)
    one_slot = [msgspec.structs.replace(s, ports=s.ports[:1]) for s in cluster.supervisors]
    shim = msgspec.structs.replace(cluster.shim, fallback=fallback, config=config)
    w.zookeeper.put(w.paths.cluster, encode(msgspec.structs.replace(cluster, shim=shim, supervisors=one_slot)))

    def plan(model: Model) -> Plan | Infeasible:
        slots = [(s.id, port) for s in model.supervisors for port in s.slots]
        if len(slots) < len(model.topologies):
            return Infeasible(constraint="slots", text="no slot is free")
        wanted = {t.id: {slot: ALL} for t, slot in zip(model.topologies, slots, strict=False) if not t.assignment}
        return plan_in(model, wanted)

    w.planner = plan
    return w


def at(supervisor: str) -> Slots:
    return {(supervisor, 6700): ALL}


def submit(w: World, name: str, priority: int, slots: Slots | None = None) -> str:
    t = w.submit(slots or {}, name=name)
    w._topologies[t] = msgspec.structs.replace(w._topologies[t], priority=priority)
    w.zookeeper.put(w.paths.topology(t), encode(w._topologies[t]))
    return t


def planned(w: World, name: str, priority: int, supervisor: str) -> str:
    """A topology that runs there by a plan of ours."""
    t = submit(w, name, priority)
    w.tell(30)
    assert w.plan(t) is not None
    w.place(t, at(supervisor), "applied")
    return t


def full(w: World) -> tuple[str, str]:
    """Two topologies that run by plans, the humble after the fair."""
    fair = planned(w, "hefty", 10, "a")
    humble = planned(w, "humble", 20, "b")
    w.tell(60)
    return fair, humble


def approve(w: World, t: str) -> None:
    entry = w.proposal(t)
    assert entry is not None
    request = Request(id="q-1", verb="approve", topology_id=t, at_ms=w.now_ms, by="ada", why="payroll", entry=entry)
    w.zookeeper.put(w.paths.request(t), encode(request))


def audit(w: World) -> list[AuditRecord]:
    (names,) = w.zookeeper.children([w.paths.audit()])
    nodes = w.zookeeper.read([w.paths.audit(n) for n in sorted(names)])
    return [decode(n.data, AuditRecord, "audit") for n in nodes if n is not None]


def test_the_last_in_the_order_gives_up_its_plan_once_another_has_waited_long_enough() -> None:
    w = world()
    fair, humble = full(w)
    proud = submit(w, "proud", 1)
    w.tell(50)
    assert w.plan(humble) is not None
    w.tell(30)
    assert w.plan(humble) is None
    assert w.plan(fair) is not None
    given_up = next(r for r in w.reports if humble in r.decisions and r.decisions[humble].reason == "EVICTED")
    assert "proud comes before it" in given_up.decisions[humble].text
    assert given_up.sentence(1)[0] == "gave up plan"
    assert (audit(w)[-1].verb, audit(w)[-1].target) == ("evict", "humble")
    assert "gave up p-" in audit(w)[-1].result
    assert w.decision(proud).reason == "INFEASIBLE"


def test_it_gets_no_new_plan_until_the_other_one_runs() -> None:
    """Between the two rounds of the plug-in a plan would hold its room once more."""
    w = world()
    _, humble = full(w)
    proud = submit(w, "proud", 1)
    w.tell(120)
    assert w.plan(humble) is None
    assert w.decision(humble).reason == "HIGHER_PRIORITY_WAITS"
    w.place(humble, {})
    w.place(proud, at("b"))
    w.tell(60)
    assert w.decision(humble).reason == "INFEASIBLE"
    w.kill(proud)
    w.tell(30)
    assert w.plan(humble) is not None


def test_it_waits_for_approval_and_an_operator_gives_it() -> None:
    w = world(EVICT % "true")
    _, humble = full(w)
    submit(w, "proud", 1)
    w.tell(100)
    assert w.plan(humble) is not None
    assert w.decision(humble).reason == "APPROVAL_NEEDED"
    assert "waits for `stormpilot approve humble`" in w.decision(humble).text
    proposed = w.proposal(humble)
    assert proposed is not None
    assert proposed.gives_up
    w.tell(60)
    assert w.proposal(humble) == proposed, "it is not proposed anew in every cycle"
    approve(w, humble)
    w.tell(10)
    assert w.plan(humble) is None
    assert w.proposal(humble) is None
    record = audit(w)[-1]
    assert (record.verb, record.who, record.why) == ("approve", "ada", "payroll")
    assert "gave up p-" in record.result


def test_a_proposal_is_void_once_nobody_waits_for_that_room() -> None:
    w = world(EVICT % "true")
    _, humble = full(w)
    proud = submit(w, "proud", 1)
    w.tell(100)
    assert w.decision(humble).reason == "APPROVAL_NEEDED"
    w.kill(proud)
    w.tell(10)
    approve(w, humble)
    w.tell(10)
    assert w.plan(humble) is not None
    assert "which nobody waits for" in audit(w)[-1].result
    assert w.proposal(humble) is None


def test_a_proposal_for_one_topology_is_void_for_another() -> None:
    w = world(EVICT % "true")
    fair, humble = full(w)
    proud = submit(w, "proud", 1)
    w.tell(100)
    first = w.proposal(humble)
    w.kill(proud)
    submit(w, "prouder", 2)
    w.tell(10)
    approve(w, humble)
    w.tell(10)
    assert w.plan(humble) is not None
    assert "which nobody waits for" in audit(w)[-1].result
    w.tell(100)
    second = w.proposal(humble)
    assert first is not None
    assert second is not None
    assert "prouder comes before it" in second.text
    approve(w, humble)
    w.tell(10)
    assert w.plan(humble) is None
    assert w.plan(fair) is not None


def test_in_mode_advise_it_is_a_proposal_alone() -> None:
    w = world()
    _, humble = full(w)
    w.zookeeper.put(w.paths.mode("humble"), encode(ModeSetting(mode="advise")))
    submit(w, "proud", 1)
    w.tell(200)
    assert w.plan(humble) is not None
    assert (w.decision(humble).action, w.decision(humble).reason) == ("advise", "EVICTED")
    first = w.proposal(humble)
    assert first is not None
    w.tell(100)
    assert w.proposal(humble) == first, "it stands while nothing changes"
    w.tell(900)
    assert w.proposal(humble) != first, "it is too old to be approved"
    approve(w, humble)
    w.tell(10)
    assert w.plan(humble) is None


@pytest.mark.parametrize(
    ("decide", "fallback", "config"),
    [
        ("decide: {mode: act}\n", RAS, {}),
        (EVICT % "false", DEFAULT, {}),
        (EVICT % "false", RAS, {ORDER: "org.example.ByName"}),
        ("decide: {mode: act, evict: ['x*'], evict_approval: false}\n", RAS, {}),
    ],
    ids=["not wanted", "another fallback", "another order", "not by policy"],
)
def test_nobody_gives_up_a_plan_otherwise(decide: str, fallback: str, config: dict[str, str]) -> None:
    w = world(decide, fallback=fallback, **config)
    fair, humble = full(w)
    submit(w, "proud", 1)
    w.tell(200)
    assert w.plan(humble) is not None
    assert w.plan(fair) is not None


def test_one_that_comes_after_all_makes_nobody_leave() -> None:
    w = world()
    fair, humble = full(w)
    submit(w, "meek", 29)
    w.tell(200)
    assert w.plan(humble) is not None
    assert w.plan(fair) is not None


def test_what_nobody_would_have_room_by_makes_nobody_leave() -> None:
    w = world()
    fair, humble = full(w)
    plan = w.planner

    def none_for_proud(model: Model) -> Plan | Infeasible:
        if "proud" in {t.name for t in model.topologies}:
            return Infeasible(constraint="memory", text="larger than any node")
        return plan(model)

    w.planner = none_for_proud
    submit(w, "proud", 1)
    w.tell(200)
    assert w.plan(humble) is not None
    assert w.plan(fair) is not None


def test_only_as_many_leave_as_it_needs() -> None:
    """It needs two nodes of three: the last two in the order leave, and not who comes before them."""
    w = world(supervisors=("a", "b", "c"))
    first, fair, humble = (
        planned(w, name, n, at) for name, n, at in (("hot", 5, "a"), ("hefty", 10, "b"), ("hum", 20, "c"))
    )
    w.tell(60)
    plan = w.planner

    def two_nodes(model: Model) -> Plan | Infeasible:
        if {t.name for t in model.topologies} == {"proud"} and sum(len(s.slots) for s in model.supervisors) < 2:
            return Infeasible(constraint="memory", text="it needs two nodes")
        return plan(model)

    w.planner = two_nodes
    submit(w, "proud", 1)
    w.tell(200)
    assert (w.plan(humble), w.plan(fair)) == (None, None)
    assert w.plan(first) is not None


@pytest.mark.parametrize("by", ["pause", "hold"])
def test_an_operators_pause_or_hold_keeps_the_plan_and_the_next_in_the_order_leaves(by: str) -> None:
    w = world()
    fair, humble = full(w)
    hold = Hold(topology_id=humble, since_ms=w.now_ms, until_ms=w.now_ms + 3_600_000, cause="rollback", by="ada")
    path, setting = {"pause": (w.paths.pause("humble"), PauseSetting()), "hold": (w.paths.hold(humble), hold)}[by]
    w.zookeeper.put(path, encode(setting))
    submit(w, "proud", 1)
    w.tell(120)
    assert w.plan(humble) is not None
    assert w.plan(fair) is None


def test_nobody_gives_up_a_plan_in_a_blackout_window() -> None:
    w = world()
    fair, humble = full(w)
    begin = datetime.fromtimestamp(w.now_ms / 1000, UTC) - timedelta(minutes=1)
    window = BlackoutWindow(from_=f"{begin:%H:%M}", to=f"{begin + timedelta(minutes=10):%H:%M}")
    decide = msgspec.structs.replace(w.config.decide, blackouts=[window])
    w.use(msgspec.structs.replace(w.config, decide=decide))
    submit(w, "proud", 1)
    w.tell(240)
    assert w.plan(humble) is not None
    assert w.plan(fair) is not None
    w.tell(600)
    assert w.plan(humble) is None


def free(w: World, name: str, priority: int, supervisor: str, code: str) -> str:
    """A topology that runs there without a plan, and gets none."""
    t = submit(w, name, priority, at(supervisor))
    w.zookeeper.put(w.paths.mode(name), encode(ModeSetting(mode="off")))
    w.answer(t, "fallback", code)
    return t


@pytest.mark.parametrize(("code", "leaves"), [("NO_PLAN", True), ("PLAN_GIVEN_UP", False)])
def test_one_whose_room_alone_helps_can_leave_only_once_those_after_it_have_no_plan(code: str, leaves: bool) -> None:
    w = world()
    humble = planned(w, "humble", 20, "b")
    w.tell(60)
    free(w, "fair", 10, "a", code)
    plan = w.planner

    def on_a_alone(model: Model) -> Plan | Infeasible:
        if {t.name for t in model.topologies} == {"proud"} and not any(
            s.id == "a" and s.slots for s in model.supervisors
        ):
            return Infeasible(constraint="site", text="it needs supervisor a")
        return plan(model)

    w.planner = on_a_alone
    submit(w, "proud", 1)
    w.tell(120)
    assert (w.plan(humble) is None) is leaves


def test_one_that_waits_with_a_plan_of_its_own_gives_that_up_too() -> None:
    """The scheduler places what has no plan; the plug-in repairs what has one, and evicts nobody for it."""
    w = world()
    proud = planned(w, "proud", 1, "a")
    humble = planned(w, "humble", 20, "b")
    w.tell(60)
    w.place(proud, {})
    w.place(submit(w, "hasty", 15), at("a"))
    w.tell(200)
    assert (w.plan(humble), w.plan(proud)) == (None, None)


def test_a_plan_that_cannot_be_removed_for_a_znode_below_it_ends_no_cycle() -> None:
    w = world()
    fair, humble = full(w)
    below = f"{w.paths.plan(humble)}/below"
    w.zookeeper.put(below, b"")
    submit(w, "proud", 1)
    w.tell(120)
    assert any(r.decisions[humble].reason == "NOT_PUBLISHED" for r in w.reports if humble in r.decisions)
    assert w.plan(humble) is not None
    assert w.plan(fair) is not None
    w.zookeeper.delete(below)
    w.tell(660)
    assert w.plan(humble) is None
