"""What operators ask for, from their verbs to what the double of the plug-in applies, through a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, topology
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import HistoryEntry, PlanMessage
from stormpilot.messages.settings import AuditRecord
from stormpilot.operate import Operator
from stormpilot.trafficlog import audit
from stormpilot.zookeeper.client import connect

from .conftest import ID, SPREAD, Play, Settings, Start, held, message, view

pytestmark = pytest.mark.zookeeper

Act = Callable[..., Operator]


@pytest.fixture
def act(shared_zookeeper: LocalZooKeeper, paths: Any) -> Any:
    """`act(why, dry_run)`: an operator."""
    connection = connect(shared_zookeeper.hosts)
    yield lambda why="", dry_run=False: Operator(connection, paths, "ops", why, dry_run)
    connection.stop()


def ended(act: Act, change: operate.Change) -> AuditRecord:
    """What became of a request."""
    until(lambda: operate.outcome(act(), change.request_id), f"the outcome of {change.verb}")
    found = operate.outcome(act(), change.request_id)
    assert found is not None
    return found


def on(shim: ShimDouble, supervisor: str, topology_id: str = ID) -> int:
    return sum(1 for s, _ in shim.placement(topology_id).values() if s == supervisor)


# --- approval ---------------------------------------------------------------------------------------------------------


def test_move_waits_for_approval_and_then_exactly_that_plan_is_published(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    start(settings(shared_zookeeper.hosts, approve=["fl*"]))
    until(lambda: held(shim, "APPROVAL_NEEDED"), "a plan that waits for approval")
    assert shim.applied == []
    proposal: HistoryEntry = message(shim, shim.paths.proposal(ID), HistoryEntry)
    assert proposal.reason == "APPROVAL_NEEDED"
    seen = operate.approve(act(dry_run=True), "flights")
    assert (seen.dry_run, seen.request_id) == (True, "")
    assert shim.client.get_children(shim.paths.request()) == []

    change = operate.approve(act("looks right"), "flights")
    outcome = ended(act, change)
    assert outcome.result.startswith(f"published {proposal.plan.plan_id}")
    assert (outcome.who, outcome.why, outcome.verb) == ("ops", "looks right", "approve")
    assert len(outcome.inputs_hash) == 64
    until(lambda: shim.applied, "the plan to be applied")
    plan: PlanMessage = message(shim, shim.paths.plan(ID), PlanMessage)
    assert plan.workers == proposal.plan.workers
    assert plan.plan_id == proposal.plan.plan_id
    entry: HistoryEntry = message(shim, shim.paths.plan_history(ID, "0000000001"), HistoryEntry)
    assert (entry.reason, entry.approved_by) == ("APPROVED", "ops")
    assert not shim.client.exists(shim.paths.request(ID))
    assert not shim.client.exists(shim.paths.proposal(ID))


def test_discarded_plan_is_dropped_and_the_topology_left_alone(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    start(settings(shared_zookeeper.hosts, approve=["*"]))
    until(lambda: held(shim, "APPROVAL_NEEDED"), "a plan that waits for approval")
    outcome = ended(act, operate.discard(act("not today"), "flights"))
    assert outcome.result.startswith("discarded p-")
    until(lambda: held(shim, "OPERATOR_HOLD"), "the hold")
    assert "by ops (not today)" in view(shim).text
    assert not shim.client.exists(shim.paths.proposal(ID))
    with pytest.raises(RefusedError, match="there is no proposal"):
        operate.approve(act(), "flights")
    ended(act, operate.replan(act(), "flights"))
    until(lambda: shim.client.exists(shim.paths.proposal(ID)), "a new plan, since an operator wanted one")


def test_approval_of_a_plan_that_does_not_fit_any_more_is_refused_with_the_reason(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    """The supervisor that it uses is gone by the time it is approved."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b", "c"))
    shim.submit(topology(SPREAD))
    controller = start(settings(shared_zookeeper.hosts, approve=["*"]))
    until(lambda: held(shim, "APPROVAL_NEEDED"), "a plan that waits for approval")
    controller.stop()
    change = operate.approve(act(), "flights")
    proposal: HistoryEntry = message(shim, shim.paths.proposal(ID), HistoryEntry)
    lost = proposal.plan.workers[0].supervisor
    shim.change_cluster(cluster(*({"a", "b", "c"} - {lost})))
    start(settings(shared_zookeeper.hosts, approve=["*"], max_lost_supervisors_ratio=0.9))
    outcome = ended(act, change)
    assert outcome.result == (
        f"refused: plan {proposal.plan.plan_id} does not fit any more: slot-exists: supervisor {lost} is not there"
    )
    assert shim.applied == []


# --- rollback ---------------------------------------------------------------------------------------------------------


def test_rollback_publishes_the_plan_before_and_holds_the_topology(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology())
    start(settings(shared_zookeeper.hosts, cool_down_s=1.0, gain_threshold_ratio=0.01))
    until(lambda: shim.applied, "the first plan")
    first = shim.placement(ID)
    until(lambda: len(shim.applied) >= 2, "a better one")
    assert shim.placement(ID) != first
    steps = operate.history(act(), ID)
    back = next(s.back for s in steps if s.entry.plan.plan_id == shim.applied[0])
    change = operate.rollback(act("latency"), "flights", back)
    outcome = ended(act, change)
    assert outcome.result.startswith("published"), outcome
    until(lambda: shim.placement(ID) == first, "the first placement")
    until(lambda: held(shim, "OPERATOR_HOLD"), "the hold")
    newest = operate.history(act(), ID)[0].entry
    assert (newest.reason, newest.approved_by) == ("ROLLBACK", "ops")
    with pytest.raises(RefusedError, match="there is no plan 30 back"):
        operate.rollback(act(), "flights", 30)


# --- drain ------------------------------------------------------------------------------------------------------------


def test_drained_host_is_emptied_one_topology_after_the_other_and_used_again_after_undrain(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    """Both topologies lie on a and b; whichever host they leave, the third has room."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b", "c"))
    other = "words-1-1763690000"
    shim.submit(topology(SPREAD))
    shim.submit(topology({t: (s, p + 1) for t, (s, p) in SPREAD.items()}, name="words"))
    start(settings(shared_zookeeper.hosts, consecutive_hits=100, restart_s=1.0))
    until(lambda: view(shim, other) is not None, "a cycle")
    change = operate.drain(act("new disk"), "host-a")
    assert change.text == "host-a: is drained; 6 executors (3 of flights, 3 of words) to be moved"
    assert change.danger
    until(lambda: len(shim.applied) == 1, "the first to move")
    until(lambda: held(shim, "WAITING_FOR_DRAIN", other) or on(shim, "a", other) == 0, "the second to wait")
    until(lambda: on(shim, "a") + on(shim, "a", other) == 0, "the host to be empty")
    kept = {t: SPREAD[t] for t in (2, 3, 5)}
    assert kept.items() <= shim.placement(ID).items()  # what was not on the drained host did not move
    assert operate.draining(act(), "host-a").total == 0
    entry = operate.history(act(), ID)[0].entry
    assert entry.reason == "DRAIN"
    assert "leaving host-a, drained" in entry.text

    shim.submit(topology(name="late"))
    until(lambda: all(s for s, _ in shim.placement("late-1-1763690000").values()), "a new topology to be placed")
    assert on(shim, "a", "late-1-1763690000") == 0
    assert operate.undrain(act(), "host-a").changed
    assert not operate.undrain(act(), "host-a").changed
    shim.submit(topology(name="later", workers=6))
    until(lambda: on(shim, "a", "later-1-1763690000"), "the host to be used again")


def test_drain_that_cannot_be_done_names_executors_and_constraint_and_moves_nothing(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    operate.pin(act(), "flights", "sink", "a")
    start(settings(shared_zookeeper.hosts, consecutive_hits=100))
    until(lambda: view(shim) is not None, "a cycle")
    operate.drain(act(), "host-a")
    until(lambda: held(shim, "INFEASIBLE"), "the refusal")
    assert "leaving host-a, drained: 3 executors (collector, sink, source), but they cannot" in view(shim).text
    assert "pin" in view(shim).text
    assert shim.applied == []


# --- pins, exclusions, owners -----------------------------------------------------------------------------------------


def test_pin_and_exclusion_move_what_runs_elsewhere_and_nothing_else(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b", "c"))
    shim.submit(topology(SPREAD))
    start(settings(shared_zookeeper.hosts, consecutive_hits=100, restart_s=0.0))
    until(lambda: view(shim) is not None, "a cycle")
    text = operate.pin(act(), "flights", "parse", "host-c", task=2).text
    assert text.endswith("pinned to c on host-c; 1 executor (1 of flights) to be moved")
    until(lambda: shim.placement(ID).get(2, ("", 0))[0] == "c", "the pinned executor to move")
    assert {t: shim.placement(ID)[t][0] for t in (1, 4, 6)} == {1: "a", 4: "a", 6: "a"}
    operate.exclude(act(), "b", topology="flights")
    until(lambda: on(shim, "b") == 0, "the excluded supervisor to be left")
    assert operate.history(act(), ID)[0].entry.reason == "CONSTRAINT_VIOLATED"
    until(lambda: not operate.pin(act(), "flights", "parse", "c", task=2).changed, "the pin to stand")


def test_owner_may_lower_the_mode_but_not_raise_it_and_status_says_where_it_comes_from(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD, config={"stormpilot.mode": "off"}))
    shim.submit(topology({}, name="bold", config={"stormpilot.mode": "act"}))
    bold = "bold-1-1763690000"
    start(settings(shared_zookeeper.hosts))
    until(lambda: held(shim, "MODE_OFF"), "the owner's wish")
    assert view(shim).mode_from == "owner: stormpilot.mode"
    until(lambda: view(shim, bold) is not None, "the other one")
    assert "which decide.owner_modes does not allow (off, advise)" in view(shim, bold).mode_from
    operate.mode(act(), "act", "flights")
    until(lambda: view(shim).mode_from == "operator", "the operator's setting to win")


def test_what_was_done_is_in_the_audit_with_who_why_before_and_after(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    controller = start(settings(shared_zookeeper.hosts))
    operate.pause(act("release night"))
    operate.resume(act())
    shim.submit(topology())
    until(lambda: shim.applied, "the first plan")
    records = operate.audit(act())
    assert [(r.verb, r.target, r.who) for r in records] == [
        ("pause", "_all", "ops"),
        ("resume", "_all", "ops"),
        ("publish", "flights", controller.daemon.name),
    ]
    pause, resume, publish = records
    assert (pause.why, pause.before, pause.after["why"]) == ("release night", None, "release night")
    assert (resume.before["by"], resume.after) == ("ops", None)
    assert publish.plan_id == shim.applied[0]
    assert len(publish.inputs_hash) == 64


def test_audit_is_copied_to_a_file_once_and_survives_a_torn_line_and_a_new_leader(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, act: Act, tmp_path: Any
) -> None:
    file = tmp_path / "log" / "audit.jsonl"

    def targets() -> list[str]:
        return [r.target for r in audit.read(file)]

    play(shared_zookeeper.hosts, cluster("a", "b"))
    operate.pause(act(), "one")
    config = settings(shared_zookeeper.hosts, "traffic_log: {dir: log}\n")
    first = start(config)
    until(lambda: targets() == ["one"], "the record from before")
    operate.pause(act(), "two")
    until(lambda: targets() == ["one", "two"], "the new record")
    first.stop()
    file.write_bytes(file.read_bytes()[:-10])  # the machine went down while it was written
    operate.pause(act(), "three")
    start(config)
    until(lambda: targets() == ["one", "two", "three"], "the torn record and the new one")
