"""What becomes of requests: done, refused with the reason, or waiting."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.models import HALF, NOW_MS, PAIRED, SPREAD, Slots, model, plan_message, status, subject, topology
from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.effect import Promise
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.reasons import Reason
from stormpilot.decide.requests import RequestOutcome, Room, answer
from stormpilot.messages.core import EffectPart, HistoryEntry, PlanMessage, Worker, plan_checksum
from stormpilot.messages.settings import Hold, Request, Verb
from stormpilot.model.constraints import constrained
from stormpilot.model.subset import subset
from stormpilot.model.values import Exclusion, Model, Plan

CONFIG = DecideSection(approval_max_age_s=900, request_max_age_s=600, rollback_hold_s=1800, discard_hold_s=3600)


def made(slots: Slots = PAIRED, age_s: float = 60.0, topology_id: str = "flights-1") -> HistoryEntry:
    workers = [Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in slots.items()]
    checksum = plan_checksum(topology_id, "p-7", "r-7", 1, workers)
    plan = plan_message(
        age_s,
        plan_id="p-7",
        plan_set="r-7",
        topology_id=topology_id,
        workers=workers,
        checksum=checksum,
        reason="GAIN: x",
    )
    return HistoryEntry(plan=plan, reason="GAIN", text="traffic falls", moved_executors=2)


def asked(verb: Verb = "approve", entry: HistoryEntry | None = None, age_s: float = 1.0, **fields: Any) -> Request:
    return Request(
        id="q-1",
        verb=verb,
        topology_id="flights-1",
        at_ms=NOW_MS - int(age_s * 1000),
        by="ops",
        entry=entry or made(),
        **fields,
    )


def answered(
    request: Request | None, who: TopologyState | None = None, on: Model | None = None, lost: int = 0
) -> RequestOutcome:
    who = who or subject()
    on = on or model(who.topology)
    gone = LostSupervisors([f"s{i}" for i in range(lost)], 3 + lost)
    others = {(a.supervisor, a.port): t.name for t in on.topologies if t.id != who.topology.id for a in t.assignment}
    room = Room(subset(on, {who.topology.id}), others)
    return answer(request, who, room, gone, CONFIG, NOW_MS)


def test_approved_plan_is_published_as_it_was_made_and_ends_a_hold() -> None:
    hold = Hold(topology_id="flights-1", since_ms=0, until_ms=NOW_MS * 2, cause="rollback")
    found = answered(asked(why="fine"), subject(hold=hold))
    assert found.done
    assert found.decision is not None
    assert (found.decision.action, found.decision.reason) == ("publish", Reason.APPROVED)
    assert found.decision.text == "by ops (fine): traffic falls"
    assert found.decision.inter_node_tps == (1000.0, 0.0)
    assert found.decision.moved_executors == 2
    assert isinstance(found.plan, Plan)
    assert [(w.supervisor, w.port) for w in found.plan.topologies[0].workers] == list(PAIRED)
    assert (found.lift_hold, found.drop_proposal, found.hold) == (True, True, None)


def test_advice_may_be_approved_where_the_mode_is_advise() -> None:
    """An operator's word for one plan is more than the mode."""
    found = answered(asked(), subject(mode="advise"))
    assert found.decision is not None
    assert found.decision.action == "publish"


@pytest.mark.parametrize(
    ("promised", "expected"),
    [
        (("inter_node_share", 0.9, 0.1, []), ("inter_node_share", 1.0, 0.2)),
        (("us_per_tuple", 2000.0, 500.0, []), ("us_per_tuple", 1000.0, 250.0)),
        (("load_ratio", 0.3, 0.2, ["b"]), ("load_ratio", 0.2, 0.1)),
    ],
)
def test_approved_plan_is_judged_by_what_it_promised_on_what_is_measured_now(
    promised: tuple[str, float, float, list[str]], expected: tuple[str, float, float]
) -> None:
    metric, before, predicted, nodes = promised
    effect = EffectPart(metric=metric, before=before, predicted=predicted, noise_ratio=0.07, nodes=nodes)
    found = answered(asked(entry=msgspec.structs.replace(made(HALF), effect=effect)))
    assert found.decision is not None
    assert found.decision.promise == Promise(*expected, 0.07, 1000.0, nodes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "fields", "effect"),
    [
        ("approve", {}, None),
        (
            "approve",
            {"not_ready": "12 s of 30 s"},
            EffectPart(metric="us_per_tuple", before=2, predicted=1, noise_ratio=0),
        ),
        ("approve", {}, EffectPart(metric="us_per_tuple", before=0, predicted=1, noise_ratio=0)),
        ("approve", {}, EffectPart(metric="load_ratio", before=1, predicted=0, noise_ratio=0)),
        ("approve", {}, EffectPart(metric="later", before=1, predicted=0, noise_ratio=0)),
        ("rollback", {}, EffectPart(metric="us_per_tuple", before=2, predicted=1, noise_ratio=0)),
    ],
)
def test_what_promised_nothing_or_is_not_measured_is_not_judged(
    verb: Verb, fields: dict[str, Any], effect: EffectPart | None
) -> None:
    found = answered(asked(verb, msgspec.structs.replace(made(), effect=effect)), subject(**fields))
    assert found.decision is not None
    assert found.decision.promise is None


def test_rollback_holds_the_topology() -> None:
    found = answered(asked("rollback", made(age_s=10**6), steps=2))
    assert found.decision is not None
    assert (found.decision.reason, found.decision.text) == (Reason.ROLLBACK, "to p-7, 2 back, by ops")
    assert found.hold is not None
    assert (found.hold.since_ms, found.hold.until_ms) == (NOW_MS, NOW_MS + 1_800_000)


def test_discard_needs_no_plan_and_no_gate() -> None:
    found = answered(asked("discard"), subject(paused=True))
    assert (found.done, found.plan, found.drop_proposal) == (True, None, True)
    assert found.hold is not None
    assert (found.hold.cause, found.hold.until_ms) == ("discard", NOW_MS + 3_600_000)


@pytest.mark.parametrize(
    ("request_", "fields", "said"),
    [
        (None, {}, "the request cannot be read"),
        (asked(age_s=601), {}, "it is 601 s old, and void after 600 s"),
        (asked(), {"paused": True}, "PAUSED: paused by an operator"),
        (asked("rollback"), {"mode": "off"}, "MODE_OFF: the mode of this topology is off"),
        (asked("plan"), {"frozen": "a pin cannot be read"}, "SETTING_UNREADABLE: a pin cannot be read"),
        (asked(entry=made(age_s=901)), {}, "plan p-7 is 901 s old, at most 900 s"),
        (asked(entry=made(SPREAD)), {}, "plan p-7 is what runs now"),
        (
            asked(),
            {"plan": plan_message(age_s=59, plan_id="p-8"), "status": status("applied", plan_id="p-8")},
            "plan p-8 was published after p-7 was proposed; wait for a new proposal",
        ),
        (asked(entry=made(topology_id="flights-0")), {}, "it is a plan of flights-0, not of flights-1"),
    ],
)
def test_refused_with_the_reason(request_: Request | None, fields: dict[str, Any], said: str) -> None:
    found = answered(request_, subject(**fields))
    assert (found.done, found.plan, found.decision) == (True, None, None)
    assert found.result.startswith("refused: ")
    assert said in found.result


def test_refused_while_most_of_the_cluster_is_gone() -> None:
    assert "MASS_FAILURE" in answered(asked(), lost=3).result


def test_changed_plan_is_refused() -> None:
    entry = made()
    other = [Worker(supervisor="c", port=1, executors=[(e, e) for e in (1, 2, 3, 4)])]
    tampered: PlanMessage = type(entry.plan)(
        **{f: getattr(entry.plan, f) for f in entry.plan.__struct_fields__} | {"workers": other}
    )
    found = answered(asked(entry=HistoryEntry(plan=tampered, reason="GAIN")))
    assert "checksum: it was changed after it was made" in found.result


def test_slots_that_others_hold_and_that_are_gone_are_named() -> None:
    other = topology({("b", 1): (1, 2, 3, 4)}, "words")
    who = subject(topology({("a", 2): (1, 2, 3, 4)}))
    found = answered(
        asked(entry=made({("b", 1): (1, 3), ("b", 9): (2,), ("z", 1): (4,)})), who, model(who.topology, other)
    )
    assert found.result == (
        "refused: plan p-7 does not fit any more: slot-one-topology: slot b:1 is held by words; "
        "slot-exists: host-b (b) has no slot 9 now; slot-exists: supervisor z is not there"
    )


def limited(**changes: Any) -> Model:
    """The model with other limits of supervisor `a`, which has executors 1 and 3 in the plan."""
    m = model()
    a, *others = m.supervisors
    return msgspec.structs.replace(m, supervisors=[msgspec.structs.replace(a, **changes), *others])


def test_constraints_that_the_plan_would_break_are_told() -> None:
    m = limited(cpu_limit_mhz=300.0, memory_mb=100.0)
    m = msgspec.structs.replace(m, exclusions=[Exclusion(supervisor="b", component="x")])
    found = answered(asked(), subject(), m)
    assert found.result == (
        "refused: plan p-7 does not fit any more: exclusion: flights-1/x is excluded from b; "
        "cpu: a: 400 MHz of 300 MHz; memory: a: 200 MB of 100 MB"
    )


@pytest.mark.parametrize("verb", ["approve", "rollback"])
def test_drained_host_is_named_once_for_all_executors_on_it(verb: Verb) -> None:
    m = constrained(model(), {"host-b"}, (), ())
    found = answered(asked(verb), subject(), m)
    assert found.result == "refused: plan p-7 does not fit any more: drain: host host-b (b) is drained"


def test_rollback_is_not_refused_for_heap_and_a_proposal_is() -> None:
    """It ran like that, under a limit of the worker that was the fullest then."""
    who = subject()
    own = who.topology
    components = [msgspec.structs.replace(c, heap_mb=100.0) for c in own.components]
    m = model(msgspec.structs.replace(own, components=components, worker_heap_mb=150.0))
    refused = answered(asked("approve"), who, m).result
    assert "does not fit any more: worker-heap: flights-1: a:1 has 200 MB of heap of 150 MB" in refused
    assert "worker-heap" not in answered(asked("rollback"), who, m).result


def test_what_refuses_a_rollback_is_told_before_what_does_not() -> None:
    m = limited(cpu_limit_mhz=300.0)
    m = msgspec.structs.replace(m, exclusions=[Exclusion(supervisor="b", component="x")])
    refused = "refused: plan p-7 does not fit any more: exclusion: flights-1/x is excluded from b"
    assert answered(asked("rollback"), subject(), m).result == refused


def test_rollback_is_not_refused_for_cpu_but_says_so() -> None:
    """Right after a move everything starts anew, and measures more CPU than ever."""

    def ask(m: Model) -> RequestOutcome:
        return answered(asked("rollback"), subject(), m)

    found = ask(limited(cpu_limit_mhz=300.0))
    assert found.decision is not None
    over = "over the CPU limit by what is measured now: a: 400 MHz of 300 MHz"
    assert found.note == f"{over}; then nothing moves for 1800 s"
    assert found.decision.text.endswith(f"by ops; {over}")
    assert ask(limited(cpu_limit_mhz=300.0, memory_mb=100.0)).result.startswith("refused: ")
    assert ask(model()).note == "then nothing moves for 1800 s"


def test_waits_while_the_plan_before_is_on_its_way() -> None:
    who = subject(plan=plan_message(age_s=5), status=status("moving"))
    found = answered(asked(), who)
    assert (found.done, found.plan) == (False, None)
    assert found.decision is not None
    assert found.decision.reason is Reason.PLAN_MOVING


def test_plan_now_lets_the_cycle_decide() -> None:
    assert answered(asked("replan")) == RequestOutcome(done=False)
