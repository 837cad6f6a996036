"""What is worth telling: once when it begins, once when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from doubles.models import NOW_MS, plan_message
from stormpilot.config import EventKind as SentKind
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.events import Event as Began
from stormpilot.decide.events import EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.decide.status_changes import StatusChange
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import HistoryEntry, StatusMessage
from stormpilot.notify.events import Event, EventDetector

ID, OTHER = "flights-1-1763690000", "words-2-1763690000"
COOL = skip(ID, Reason.COOL_DOWN, "young")
BETTER = skip(ID, Reason.NO_BETTER_PLAN, "as it is")


def report(*decisions: Decision, published: bool = False, **fields: Any) -> CycleReport:
    entry = HistoryEntry(plan=plan_message(plan_id="p-1", topology_id=ID), reason="GAIN", moved_executors=3)
    return CycleReport(
        NOW_MS,
        names={ID: "flights", OTHER: "words"},
        decisions={d.topology_id: d for d in decisions},
        plans={ID: entry} if published else {},
        **fields,
    )


def told(watch: EventDetector, *decisions: Decision, **fields: Any) -> list[tuple[str, str]]:
    return [(e.event, e.status) for e in watch.observe(report(*decisions, **fields))]


def test_every_event_is_in_the_document() -> None:
    table = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "api.md").read_text()
    for kind in get_args(SentKind):
        assert f"`{kind}`" in table, kind
    for field in Event.__struct_fields__:
        assert f'"{field}": ' in table, field


def test_published_plan_is_told_with_its_numbers() -> None:
    gain = Decision(ID, "publish", Reason.GAIN, "inter-node traffic falls by 60%", 0.6, 0.1, None, 3, (100.0, 40.0))
    (event,) = EventDetector().observe(report(gain, published=True))
    assert msgspec.to_builtins(event) == {
        "schema": 1,
        "id": "",  # given when it is sent
        "controller": "",
        "event": "published",
        "status": "info",
        "at_ms": NOW_MS,
        "text": "flights: plan p-1 is published, 3 executors move: inter-node traffic falls by 60%",
        "topology": "flights",
        "topology_id": ID,
        "reason": "GAIN",
        "value": 0.6,
        "threshold": 0.1,
        "plan_id": "p-1",
        "planner": "double",
        "moved_executors": 3,
        "inter_node_tps": (100.0, 40.0),
    }


@pytest.mark.parametrize("reason", [Reason.ROLLBACK, Reason.ROLLBACK_EFFECT])
def test_move_that_is_taken_back_is_a_rollback(reason: Reason) -> None:
    assert told(EventDetector(), Decision(ID, "publish", reason, "worse"), published=True) == [("rollback", "info")]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (Reason.MASS_FAILURE, "mass_failure"),
        (Reason.INFEASIBLE, "infeasible"),
        (Reason.PLANNER_FAILED, "planner_failed"),
    ],
)
def test_what_lasts_is_told_at_its_begin_and_its_end(reason: Reason, kind: str) -> None:
    watch, wrong = EventDetector(), skip(ID, reason, "wrong")
    assert told(watch, COOL) == []
    assert told(watch, wrong) == [(kind, "firing")]
    assert told(watch, wrong) == told(watch, wrong) == []
    assert told(watch, BETTER) == [(kind, "resolved")]
    assert told(watch, BETTER) == []
    assert told(watch, wrong) == [(kind, "firing")]


@pytest.mark.parametrize("held", [Reason.PAUSED, Reason.BLACKOUT, Reason.OPERATOR_HOLD, Reason.COOL_DOWN])
def test_what_lasts_is_not_over_because_an_earlier_gate_holds(held: Reason) -> None:
    """`stormpilot pause` in the middle of an incident resolved it, and `resume` told it anew."""
    watch, wrong = EventDetector(), skip(ID, Reason.INFEASIBLE, "no room")
    assert told(watch, wrong) == [("infeasible", "firing")]
    assert told(watch, skip(ID, held, "held")) == told(watch, wrong) == []
    assert told(watch, BETTER) == [("infeasible", "resolved")]


def test_mass_failure_is_over_when_a_topology_comes_past_it() -> None:
    watch, paused = EventDetector(), skip(OTHER, Reason.PAUSED, "paused")
    assert told(watch, skip(ID, Reason.MASS_FAILURE, "4"), paused) == [("mass_failure", "firing")]
    assert told(watch, skip(ID, Reason.PAUSED, "paused"), paused) == []
    assert told(watch, skip(ID, Reason.BLACKOUT, "at night"), paused) == [("mass_failure", "resolved")]


@pytest.mark.parametrize("reason", [Reason.MODE_OFF, Reason.EXCLUDED])
def test_what_lasts_ends_with_the_topologies_that_nobody_wants_watched(reason: Reason) -> None:
    watch = EventDetector()
    told(watch, skip(ID, Reason.INFEASIBLE, "no room"), skip(OTHER, Reason.MASS_FAILURE, "4"))
    off = [skip(t, reason, "off") for t in (ID, OTHER)]
    assert told(watch, *off) == [("infeasible", "resolved"), ("mass_failure", "resolved")]


def test_topology_that_is_gone_resolves_what_was_wrong_with_it() -> None:
    watch = EventDetector()
    told(watch, skip(ID, Reason.INFEASIBLE, "no room"))
    assert told(watch) == [], "nothing was decided about it"
    gone = CycleReport(NOW_MS, names={OTHER: "words"})
    assert [(e.event, e.status) for e in watch.observe(gone)] == [("infeasible", "resolved")]


def test_refused_request_says_nothing_of_what_lasts() -> None:
    watch = EventDetector()
    told(watch, skip(ID, Reason.INFEASIBLE, "no room"))
    assert told(watch, skip(ID, Reason.NOT_PUBLISHED, "refused: the plan does not fit")) == []


def test_what_lasts_is_not_over_while_nobody_knows_what_runs() -> None:
    """The snapshot of the cluster is gone or cannot be read: nothing is decided."""
    watch, wrong = EventDetector(), skip(ID, Reason.INFEASIBLE, "no room")
    told(watch, wrong)
    assert watch.observe(CycleReport(NOW_MS, waiting_for="no cluster snapshot yet")) == []
    assert told(watch, wrong) == []
    assert told(watch, BETTER) == [("infeasible", "resolved")]


def left_by_the_leader_before(**reasons: str) -> ControllerState:
    """Its last state, with the reasons of topologies by name."""
    ids = {"flights": ID, "words": OTHER}
    return ControllerState(
        controller="one",
        version="0.1.0",
        epoch=1,
        started_at_ms=1,
        written_at_ms=2,
        period_s=60.0,
        cycles=3,
        planner="best",
        sentence="no change",
        topologies=[
            TopologyView(id=ids[name], name=name, mode="act", action="skip", reason=reason, text="no room")
            for name, reason in reasons.items()
        ],
    )


def test_next_leader_resolves_what_its_predecessor_told_and_tells_anew_what_lasts() -> None:
    before = left_by_the_leader_before(flights="INFEASIBLE", words="INFEASIBLE")
    watch = EventDetector(before)
    assert watch.observe(CycleReport(NOW_MS, waiting_for="no cluster snapshot yet")) == []
    lasts, over = watch.observe(report(BETTER, skip(OTHER, Reason.INFEASIBLE, "no room")))
    assert (lasts.event, lasts.status, lasts.topology) == ("infeasible", "firing", "words")
    assert (over.event, over.status, over.topology_id) == ("infeasible", "resolved", ID)
    assert (over.text, over.at_ms) == ("over: flights: no room", NOW_MS)
    words_fits = skip(OTHER, Reason.NO_BETTER_PLAN, "as it is")
    assert told(watch, BETTER, words_fits) == [("infeasible", "resolved")], "of words, and once of flights"


def test_next_leader_measures_before_it_says_that_something_is_over() -> None:
    watch = EventDetector(left_by_the_leader_before(flights="INFEASIBLE"))
    unmeasured = skip(ID, Reason.INSUFFICIENT_METRICS, "nothing is measured yet")
    assert told(watch, unmeasured) == told(watch, unmeasured) == []
    assert told(watch, skip(ID, Reason.INFEASIBLE, "no room")) == [("infeasible", "firing")]
    assert told(watch, unmeasured) == [], "nor once it was told here"
    other = EventDetector(left_by_the_leader_before(flights="INFEASIBLE"))
    assert told(other, unmeasured) == []
    assert told(other, BETTER) == [("infeasible", "resolved")]
    assert told(other, BETTER) == []


def test_next_leader_resolves_one_mass_failure_and_nothing_that_it_does_not_know() -> None:
    before = left_by_the_leader_before(flights="MASS_FAILURE", words="MASS_FAILURE")
    (over,) = EventDetector(before).observe(report(COOL))
    assert (over.event, over.status, over.topology) == ("mass_failure", "resolved", None)
    assert told(EventDetector(left_by_the_leader_before(flights="OF_ANOTHER_VERSION", words="GAIN")), COOL) == []


def test_mass_failure_is_one_event_however_many_topologies_it_holds() -> None:
    watch = EventDetector()
    failures = [skip(t, Reason.MASS_FAILURE, "3 of 5 supervisors are gone") for t in (ID, OTHER)]
    (event,) = watch.observe(report(*failures))
    assert (event.topology, event.text) == (None, "3 of 5 supervisors are gone")
    assert told(watch, failures[0]) == []


def test_infeasible_is_told_per_topology() -> None:
    watch = EventDetector()
    assert told(watch, skip(ID, Reason.INFEASIBLE, "a")) == [("infeasible", "firing")]
    both = [skip(t, Reason.INFEASIBLE, "a") for t in (ID, OTHER)]
    assert told(watch, *both) == [("infeasible", "firing")]


def rejected(plan_id: str, code: str = "PORT_UNKNOWN") -> StatusMessage:
    return StatusMessage(
        topology_id=ID, plan_id=plan_id, state="rejected", code=code, text="x", since_ms=1, written_at_ms=1
    )


def test_refused_plan_is_told_once_per_plan() -> None:
    def events(status: StatusMessage, before: StatusMessage | None) -> list[Event]:
        change = StatusChange(ID, "flights", status, before)
        return EventDetector().observe(report(COOL, status_changes=[change]))

    (event,) = events(rejected("p-1"), None)
    assert (event.event, event.reason, event.plan_id) == ("rejected", "PORT_UNKNOWN", "p-1")
    assert event.text == "flights: the scheduler plug-in rejected plan p-1: PORT_UNKNOWN x"
    assert events(rejected("p-1", "SLOT_OCCUPIED"), rejected("p-1")) == [], "another reason is no other refusal"
    assert len(events(rejected("p-2"), rejected("p-1"))) == 1


def test_what_a_cycle_tells_once_is_passed_on() -> None:
    def began(kind: EventKind) -> Began:
        return Began(kind, ID, "flights", "text", NOW_MS, 1.0, 2.0)

    kinds = [EventKind.MOVE_WORSE, EventKind.MOVE_WITHOUT_GAIN, EventKind.ROLLBACK_IMPOSSIBLE]
    kinds.append(EventKind.ROLLOUT_ENDED)
    assert told(EventDetector(), events=[began(k) for k in kinds]) == [
        ("move_worse", "info"),
        ("move_without_gain", "info"),
        ("rollback_impossible", "info"),
        ("rollout_ended", "info"),
    ]
    lacking = [began(EventKind.RESOURCES_INSUFFICIENT), began(EventKind.RESOURCES_SUFFICIENT)]
    assert told(EventDetector(), events=lacking) == [
        ("resources_insufficient", "firing"),
        ("resources_insufficient", "resolved"),
    ]
    assert told(EventDetector(), events=[began(EventKind.MOVE_HELPED)]) == []


@pytest.mark.parametrize("kind", [EventKind.SIZE_PROPOSED, EventKind.RESOURCES_INSUFFICIENT])
def test_topology_that_is_gone_resolves_what_a_cycle_told_of_it_once(kind: EventKind) -> None:
    watch, name = EventDetector(), kind.value.lower()
    assert told(watch, events=[Began(kind, ID, "flights", "text", NOW_MS, 1.0, 2.0)]) == [(name, "firing")]
    assert told(watch) == []
    unknown = CycleReport(NOW_MS, waiting_for="no cluster snapshot yet")
    gone = CycleReport(NOW_MS + 1, names={OTHER: "words"})
    assert watch.observe(unknown) == []
    (event,) = watch.observe(gone)
    assert (event.event, event.status, event.topology, event.value) == (name, "resolved", "flights", None)
    assert (event.at_ms, event.text) == (NOW_MS + 1, "over: flights: text")
    assert watch.observe(gone) == []
