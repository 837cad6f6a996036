"""Metrics as Prometheus reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from doubles.models import plan_message
from doubles.rolling import begun
from doubles.snapshots import T0_MS, cluster, everywhere, topology
from stormpilot.api.board import CompletedCycle, ProcessStatus
from stormpilot.api.health import fresh_for_s
from stormpilot.api.metrics import Metrics
from stormpilot.config import Config, parse
from stormpilot.decide.decision import Decision
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.decide.status_changes import StatusChange
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import HistoryEntry, StatusMessage
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import StoreSnapshot, Versioned

ID = "flights-1-1763690000"
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "api.md"
PLACE = everywhere({("a", 6700): (1, 2, 3, 4, 5)})


def looked(decision: Decision, *, plan: bool = False, **fields: Any) -> CompletedCycle:
    seen = StoreSnapshot(
        cluster=cluster("a", "b"),
        topologies={ID: topology(PLACE)},
        paused=frozenset({"flights"}),
        problems={"/x": "broken"},
    )
    entry = HistoryEntry(plan=plan_message(plan_id="p-1", topology_id=ID), reason="GAIN", moved_executors=3)
    account = CycleReport(
        T0_MS,
        names={ID: "flights"},
        modes={ID: "act"},
        decisions={ID: decision},
        plans={ID: entry} if plan else {},
        **fields,
    )
    view = TopologyView(
        id=ID,
        name="flights",
        mode="act",
        action=decision.action,
        reason=decision.reason.value,
        inter_node_tps=100.0,
        total_tps=400.0,
        planned_inter_node_tps=40.0,
        reports_age_s=2.0,
        missing=1,
    )
    state = ControllerState(
        controller="n1:7",
        version="0.1.0",
        epoch=3,
        started_at_ms=T0_MS,
        written_at_ms=T0_MS,
        period_s=30,
        cycles=1,
        planner="best",
        sentence="",
        counters={"log_rows_written": 7, "log_rows_lost": 1, "load_rejected_negative": 2, "audit_records_lost": 3},
        topologies=[view],
    )
    return CompletedCycle(account, Observation(T0_MS, seen, None, {}, {}), state, 0.2)


class Scraped:
    """A board, its metrics, and the value of a sample at a scrape."""

    def __init__(self, now_ms: int = T0_MS + 9000):
        self.board = ProcessStatus("n1:7", lambda: True, lambda: 2)
        self.config = Config()
        self.metrics = Metrics(
            self.board,
            limit_s=lambda: fresh_for_s(self.config),
            notifications=lambda: ({"sent": 4}, 1),
            now_ms=lambda: now_ms,
        )

    def cycle(self, seen: CompletedCycle) -> None:
        self.board.cycle_done(seen)
        self.metrics.cycle_done(seen)

    def value(self, sample: str, **labels: str) -> float | None:
        found = [
            s.value
            for family in text_string_to_metric_families(self.metrics.text().decode())
            for s in family.samples
            if s.name == f"stormpilot_{sample}" and s.labels == labels
        ]
        assert len(found) <= 1, f"{sample} {labels} is there twice"
        return found[0] if found else None


@pytest.fixture
def scraped() -> Scraped:
    made = Scraped()
    made.board.become("leading", epoch=3)
    return made


PUBLISH = Decision(ID, "publish", Reason.GAIN, "falls", 0.6, 0.1, None, 3, (100.0, 40.0))
HOLD = Decision(ID, "skip", Reason.COOL_DOWN, "young", 12.0, 180.0)


def test_leadership_that_ends_during_a_scrape_fails_none(scraped: Scraped, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looked(HOLD)
    scraped.cycle(seen)
    left = [seen]
    monkeypatch.setattr(ProcessStatus, "last", property(lambda _: left.pop() if left else None, lambda *_: None))
    assert scraped.value("unreadable_znodes") == 1


def test_what_happens_is_counted(scraped: Scraped) -> None:
    scraped.cycle(looked(PUBLISH, plan=True))
    scraped.cycle(looked(HOLD))
    scraped.cycle(looked(HOLD))
    assert scraped.value("cycles_total", outcome="done") == 3
    assert scraped.value("decisions_total", action="publish", reason="GAIN") == 1
    assert scraped.value("refusals_total", reason="COOL_DOWN") == 2
    assert scraped.value("refusals_total", reason="GAIN") is None
    assert scraped.value("plans_published_total", topology="flights", planner="double") == 1
    assert scraped.value("moved_executors_total", topology="flights") == 3
    assert scraped.value("cycle_duration_seconds_count") == 3
    assert scraped.value("cycle_duration_seconds_bucket", le="0.25") == 3
    assert scraped.value("cycle_duration_seconds_bucket", le="0.1") == 0


def test_inputs_grow_old_between_cycles(scraped: Scraped) -> None:
    """A leader that hangs does not look fresh: ages are those of the moment of the scrape."""
    scraped.cycle(looked(HOLD))
    assert scraped.value("cluster_snapshot_age_seconds") == 9
    assert scraped.value("topology_snapshot_age_seconds", topology="flights") == 9
    assert scraped.value("load_report_age_seconds", topology="flights") == 2 + 9
    assert scraped.value("observation_age_seconds") == 9


def test_what_is_now(scraped: Scraped) -> None:
    scraped.cycle(looked(HOLD))
    assert scraped.value("leader") == 1
    assert scraped.value("epoch") == 3
    assert scraped.value("part", part="standby") == 0
    assert scraped.value("zookeeper_connected") == 1
    assert scraped.value("zookeeper_sessions_lost_total") == 2
    assert scraped.value("supervisors", state="live") == 2
    assert scraped.value("unreadable_znodes") == 1
    assert scraped.value("traffic_log_rows_total") == 7
    assert scraped.value("traffic_log_rows_lost_total") == 1
    assert scraped.value("audit_records_lost_total") == 3
    assert scraped.value("load_counts_not_used_total", reason="rejected_negative") == 2
    assert scraped.value("executors", topology="flights") == 6
    assert scraped.value("unplaced_executors", topology="flights") == 1
    assert scraped.value("unmeasured_tasks", topology="flights") == 1
    assert scraped.value("topology_mode", topology="flights", mode="act") == 1
    assert scraped.value("topology_paused", topology="flights") == 1
    assert scraped.value("inter_node_tuples_per_second", topology="flights", placement="running") == 100
    assert scraped.value("inter_node_tuples_per_second", topology="flights", placement="planned") == 40
    assert scraped.value("inter_node_ratio", topology="flights", placement="planned") == 0.1
    assert scraped.value("notifications_total", outcome="sent") == 4
    assert scraped.value("notifications_waiting") == 1


def test_who_does_not_lead_tells_nothing_of_topologies(scraped: Scraped) -> None:
    scraped.cycle(looked(HOLD))
    scraped.board.become("standby", leader="n2:8")
    assert scraped.value("leader") == 0
    assert scraped.value("executors", topology="flights") is None
    assert scraped.value("cycles_total", outcome="done") == 1  # a counter stays


def test_gains_predicted_and_measured(scraped: Scraped) -> None:
    move = MoveState(topology_id=ID, metric="inter_node_share", before=0.5, predicted=0.2)
    scraped.cycle(looked(HOLD, followed={ID: move}))
    assert scraped.value("gain_predicted_ratio", topology="flights") == pytest.approx(0.6)
    assert scraped.value("gain_measured_ratio", topology="flights") is None
    helped = Event(EventKind.MOVE_HELPED, ID, "flights", "by half", T0_MS)
    measured = MoveState(topology_id=ID, metric="inter_node_share", before=0.5, predicted=0.2, measured=0.25)
    scraped.cycle(looked(HOLD, followed={ID: measured}, events=[helped]))
    assert scraped.value("gain_measured_ratio", topology="flights") == pytest.approx(0.5)
    assert scraped.value("events_total", topology="flights", kind="MOVE_HELPED") == 1


def test_counts_of_a_topology_begin_at_0_and_end_with_it(scraped: Scraped) -> None:
    """A series that begins with its first event has no increase, and no alert on it fires."""
    scraped.cycle(looked(HOLD))
    for kind in EventKind:
        assert scraped.value("events_total", topology="flights", kind=kind) == 0
    assert scraped.value("moved_executors_total", topology="flights") == 0
    for planner in ("best", "rollback"):
        assert scraped.value("plans_published_total", topology="flights", planner=planner) == 0
    for state, code in (("rejected", "PORT_UNKNOWN"), ("applied", "OK"), ("degraded", "SUPERVISOR_LOST")):
        assert scraped.value("plan_answers_total", topology="flights", state=state, code=code) == 0
    for outcome in ("DONE", "ABORTED", "GAVE_UP"):
        assert scraped.value("rollouts_ended_total", topology="flights", outcome=outcome) == 0
    assert scraped.value("rollouts_ended_total", topology="flights", outcome="") is None
    worse = Event(EventKind.MOVE_WORSE, ID, "flights", "by half", T0_MS)
    scraped.cycle(looked(PUBLISH, plan=True, events=[worse]))
    scraped.cycle(looked(HOLD))
    assert scraped.value("events_total", topology="flights", kind="MOVE_WORSE") == 1
    assert scraped.value("moved_executors_total", topology="flights") == 3
    gone = looked(HOLD)
    nobody = replace(gone.observation, seen=replace(gone.observation.seen, topologies={}))
    scraped.cycle(replace(gone, report=CycleReport(T0_MS, events=[worse]), observation=nobody, state=None))
    assert scraped.value("moved_executors_total", topology="flights") is None
    assert scraped.value("events_total", topology="flights", kind="MOVE_WORSE") == 1  # what was said of it at its end
    scraped.cycle(replace(gone, report=CycleReport(T0_MS), observation=nobody, state=None))
    assert 'topology="flights"' not in scraped.metrics.text().decode()


def test_counts_of_decisions_begin_at_0_with_the_process(scraped: Scraped) -> None:
    assert scraped.value("decisions_total", action="publish", reason="GAIN") == 0
    assert scraped.value("decisions_total", action="advise", reason="GAIN") == 0
    assert scraped.value("decisions_total", action="skip", reason="COOL_DOWN") == 0
    assert scraped.value("refusals_total", reason="COOL_DOWN") == 0


def test_a_first_cycle_that_hangs_grows_old_from_the_moment_of_leading() -> None:
    scraped, now_s = Scraped(), [100.0]
    scraped.board.clock_s = lambda: now_s[0]
    scraped.board.become("standby", leader="n2:8")
    assert scraped.value("last_cycle_age_seconds") is None
    scraped.board.become("leading", epoch=3)
    now_s[0] += 500
    scraped.board.beat()
    assert scraped.value("last_cycle_age_seconds") == 500
    scraped.cycle(looked(HOLD))
    assert scraped.value("last_cycle_age_seconds") == 0


def test_how_old_the_last_cycle_may_be_follows_the_configuration(scraped: Scraped) -> None:
    assert scraped.value("last_cycle_limit_seconds") == 3 * 30 + 14 * 10
    scraped.config = parse("cycle: {period_s: 600}\nplanner: {budget_s: 60}\n", "controller.yaml")
    assert scraped.value("last_cycle_limit_seconds") == 3 * 600 + 14 * 60


def test_answer_of_the_plug_in_is_counted_when_it_changes(scraped: Scraped) -> None:
    def changed(state: str, code: str, plan_id: str | None = "p-1") -> StatusChange:
        status = StatusMessage(topology_id=ID, plan_id=plan_id, state=state, code=code, since_ms=1, written_at_ms=1)
        return StatusChange(ID, "flights", status)

    for changes in ([changed("fallback", "NO_PLAN", None)], [changed("moving", "OK")], [], [changed("applied", "OK")]):
        scraped.cycle(looked(HOLD, status_changes=changes))
    assert scraped.value("plan_answers_total", topology="flights", state="fallback", code="NO_PLAN") is None
    assert scraped.value("plan_answers_total", topology="flights", state="moving", code="OK") == 1
    assert scraped.value("plan_answers_total", topology="flights", state="applied", code="OK") == 1


def carried_out(*rollouts: Rollout) -> CompletedCycle:
    """A cycle that sees these rollouts, of one topology each."""
    seen = looked(HOLD)
    kept = {m.topology_id: Versioned(m, 1) for m in rollouts}
    return replace(seen, observation=replace(seen.observation, seen=replace(seen.observation.seen, rollouts=kept)))


def test_how_far_a_plan_is_that_is_carried_out_step_by_step(scraped: Scraped) -> None:
    going = msgspec.structs.replace(
        begun(), topology_id=ID, step=1, phase="draining", since_ms=T0_MS + 4000, started_at_ms=T0_MS
    )
    scraped.cycle(carried_out(going))
    assert scraped.value("rollout_steps", topology="flights") == 2
    assert scraped.value("rollout_steps_done", topology="flights") == 1
    assert scraped.value("rollout_phase_age_seconds", topology="flights", phase="draining") == 5
    scraped.cycle(carried_out(msgspec.structs.replace(going, phase="ended", outcome="DONE")))
    assert scraped.value("rollout_steps", topology="flights") is None
    assert scraped.value("rollouts_ended_total", topology="flights", outcome="DONE") == 1


def test_the_end_of_a_rollout_is_counted_once_and_by_who_saw_it(scraped: Scraped) -> None:
    """What ended before this process began was counted by the one before."""
    old = msgspec.structs.replace(begun(), topology_id=ID, phase="ended", outcome="DONE", started_at_ms=1)
    for m in (old, old, msgspec.structs.replace(old, started_at_ms=2, outcome="ABORTED")):
        scraped.cycle(carried_out(m))
        scraped.cycle(carried_out(m))
    assert scraped.value("rollouts_ended_total", topology="flights", outcome="DONE") == 0
    assert scraped.value("rollouts_ended_total", topology="flights", outcome="ABORTED") == 1


def test_end_of_a_rollout_that_another_leader_saw_is_not_counted_again(scraped: Scraped) -> None:
    """Leadership comes back to the same process."""
    going = msgspec.structs.replace(begun(), topology_id=ID, phase="draining", since_ms=T0_MS, started_at_ms=T0_MS)
    scraped.cycle(carried_out(going))
    scraped.metrics.led_anew()
    scraped.cycle(carried_out(msgspec.structs.replace(going, phase="ended", outcome="DONE")))
    assert scraped.value("rollouts_ended_total", topology="flights", outcome="DONE") == 0


def test_two_topologies_of_a_name_are_one_series(scraped: Scraped) -> None:
    """One that is killed and submitted again is there twice for a while; Prometheus would refuse the whole scrape."""
    seen = looked(HOLD)
    snapshots = {ID: topology(PLACE), "flights-2-1763790000": topology(PLACE, id="flights-2-1763790000")}
    observation = Observation(T0_MS, StoreSnapshot(cluster=cluster("a"), topologies=snapshots), None, {}, {})
    scraped.cycle(CompletedCycle(seen.report, observation, seen.state, 0.2))
    assert scraped.value("executors", topology="flights") == 6


def test_every_metric_is_in_the_document(scraped: Scraped) -> None:
    scraped.cycle(looked(PUBLISH, plan=True))
    table = DOCUMENT.read_text()
    for family in text_string_to_metric_families(scraped.metrics.text().decode()):
        name = family.name.removeprefix("stormpilot_") + ("_total" if family.type == "counter" else "")
        assert f"`{name}`" in table or name.startswith("process_"), name


def test_every_metric_says_what_it_is(scraped: Scraped) -> None:
    scraped.cycle(looked(PUBLISH, plan=True))
    families = list(text_string_to_metric_families(scraped.metrics.text().decode()))
    assert len(families) > 30
    for family in families:
        assert family.documentation, family.name
        assert not family.name.endswith("_created")
        assert family.name.startswith(("stormpilot_", "process_"))
