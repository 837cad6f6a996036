"""Operators' verbs on a real cluster, from the command line to the workers: what must move does, and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from scene import PATHS, STORMPILOT, Scene, Slot, groups, scene_on, until
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.moves import MoveState

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

NAME = "wordcount_comm"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A controller that moves nothing for a gain unless an operator asks, and the word count in two workers.

    Storm declares 230 CPU points for its 23 executors, more than the two workers can reach: the first plan has to be
    made all the same.
    """
    with scene_on(
        ClusterSpec(name=f"operators-{os.getpid()}", supervisors=3, slots=3, cpu_points=100, conf=PATIENT),
        tmp_path_factory.mktemp("controller"),
        Scene,
    ) as scene:
        scene.config.write_text(
            f'zookeeper: {{hosts: "{scene.cluster.zookeeper_hosts}"}}\n'
            "cycle: {period_s: 2, poll_s: 1}\n"
            "load: {window_s: 10, settle_s: 20}\n"  # on a busy machine its 23 processes take that long to start
            "planner: {budget_s: 2}\n"
            "decide: {mode: act, consecutive_hits: 100, restart_s: 5, overload_s: 3600, payback_s: 3600}\n"
            "api: {enabled: false}\n"
        )
        scene.start_controller()
        until(scene.leads, "the controller to lead")
        options = {"topology.workers": 2, "wordcount.rate.tps": 20, "stormpilot.report.secs": 1}
        scene.topology_id = scene.submit(NAME, NAME, **options)
        yield scene


def say(scene: Scene, *words: str) -> tuple[int, str]:
    """The command line as an operator uses it: exit code, and all that it said."""
    command = [STORMPILOT, *words, "--zookeeper", scene.cluster.zookeeper_hosts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def done(scene: Scene, *words: str) -> str:
    code, said = say(scene, *words)
    assert code == 0, said
    return said


def refused(scene: Scene, *words: str) -> str:
    code, said = say(scene, *words)
    assert code == 1, said
    return " ".join(said.split())


def settled(scene: Scene, reason: str) -> None:
    """The newest plan was made for this reason, is in force, and its workers run."""
    until(lambda: scene.history()[-1].reason == reason and scene.applied(), f"a plan for {reason} to be applied")
    slots = set(scene.placed().values())
    until(lambda: set(scene.workers()) == slots, "its workers, and no others, to run")


def followed(scene: Scene) -> MoveState:
    found: MoveState = scene.message(PATHS.moves(scene.topology_id), MoveState)
    return found


def ever_used(scene: Scene) -> set[Slot]:
    """Slots in which a worker of the topology ever ran: Storm keeps a folder of logs for each."""
    folders = scene.cluster.layout.logs.glob(f"supervisor-*/workers-artifacts/{scene.topology_id}/*")
    return {(f.parents[2].name, int(f.name)) for f in folders}


def test_a_new_topology_first_starts_where_its_first_plan_says(scene: Scene) -> None:
    until(scene.applied, "the first plan to be applied")
    settled(scene, "FIRST_PLAN")
    plan = scene.plan()
    assert plan is not None
    assert plan.planner == "offline"
    assert len(plan.workers) == 2
    assert {e: (w.supervisor, w.port) for w in plan.workers for e, _ in w.executors} == scene.placed()
    assert ever_used(scene) == set(scene.placed().values())  # it never ran anywhere else


def test_a_drained_host_is_left_and_a_rollback_brings_back_what_ran_when_it_may(scene: Scene) -> None:
    settled(scene, scene.history()[-1].reason)
    first, workers = scene.placed(), scene.workers()
    leaves = min(s for s, _ in workers)
    host = scene.host_of(leaves)
    leaving = sum(s == leaves for s, _ in first.values())
    said = done(scene, "drain", host, "--dry-run")
    assert f"{leaving} executors ({leaving} of {NAME}) to be moved" in said
    assert scene.workers() == workers

    said = done(scene, "drain", host, "--yes", "--why", "new disk", "--wait", "--timeout", "120")
    assert f"{host}: is empty" in said
    settled(scene, "DRAIN")
    stay = {slot: pid for slot, pid in workers.items() if slot[0] != leaves}
    assert stay.items() <= scene.workers().items()  # the same processes
    assert {e: slot for e, slot in scene.placed().items() if slot in stay} == {
        e: slot for e, slot in first.items() if slot in stay
    }

    assert "does not fit any more: drain" in refused(scene, "rollback", NAME, "--yes")
    done(scene, "undrain", host)
    assert "published p-" in done(scene, "rollback", NAME, "--yes", "--why", "disk is in")
    settled(scene, "ROLLBACK")
    assert groups(scene.placed()) == groups(first)  # a port that was just left may be another one
    assert stay.items() <= scene.workers().items()
    until(lambda: scene.view().reason == "OPERATOR_HOLD", "the hold")
    assert "disk is in" in scene.view().text


def test_a_pause_holds_what_was_asked_for_and_a_pin_moves_its_executor_alone(scene: Scene) -> None:
    settled(scene, scene.history()[-1].reason)
    before = scene.placed()
    used = {s for s, _ in before.values()}
    target = min(set(scene.cluster.supervisor_ids) - used)
    task = next(e.start for t in scene.model().topologies for e in t.executors if e.component == "split")
    done(scene, "pause", NAME, "--why", "release night")
    assert "PAUSED" in refused(scene, "replan", NAME, "--yes")
    done(scene, "pin", NAME, f"split/{task}", target, "--yes")
    until(lambda: scene.view().reason == "PAUSED", "the pause to hold the pin")
    scene.cycles(2)
    assert scene.placed() == before
    # what restarted a moment ago counts as Storm declares it, with which a worker does not fit on one node
    until(lambda: scene.view().missing == 0, "every task to be measured")
    done(scene, "resume", NAME)
    settled(scene, "CONSTRAINT_VIOLATED")
    assert scene.placed()[task][0] == target
    (left,) = {before[task]}
    moved = {e for e, slot in scene.placed().items() if slot != before[e]}
    assert {before[e] for e in moved} == {left}  # only the worker that had the pinned executor changed
    done(scene, "unpin", NAME, f"split/{task}")


def test_an_approved_plan_is_applied_and_its_effect_measured(scene: Scene) -> None:
    settled(scene, scene.history()[-1].reason)
    done(scene, "mode", "advise", NAME, "--yes")
    workers = scene.workers()
    until(lambda: "advise" in say(scene, "replan", NAME, "--yes")[1], "the topology to be measured, planned")
    scene.cycles(2)
    assert scene.workers() == workers
    done(scene, "approve", NAME, "--yes", "--why", "looks right")
    settled(scene, "APPROVED")
    entry = scene.history()[-1]
    assert entry.approved_by
    until(lambda: followed(scene).verdict != "", "the move to be followed to its end")
    move = followed(scene)
    assert (move.plan_id, move.reason) == (entry.plan.plan_id, "APPROVED")
    assert move.verdict in ("DONE", "HELPED", "NO_GAIN"), move.text
    assert move.timed


def test_what_a_plan_would_break_is_left_to_storms_own_scheduler(scene: Scene) -> None:
    options = {"topology.workers": 1, "wordcount.rate.tps": 5, "topology.spread.components": ["count"]}
    apart = scene.submit(NAME, "apart", **options)

    def decided() -> str:
        state = scene.state()
        return next((v.reason for v in state.topologies if v.id == apart), "") if state else ""

    until(lambda: decided() == "UNSUPPORTED_SETTING", "the controller to leave it alone")
    until(lambda: len(scene.workers(apart)) == 1, "Storm's own scheduler to place it")
    scene.cycles(2)
    assert not scene.zookeeper.client.exists(PATHS.plan(apart))
    named = "topology.spread.components is ['count']"
    assert named in " ".join(done(scene, "explain", "apart").split())
    assert named in refused(scene, "replan", "apart", "--yes")
    nimbus = ("--nimbus", str(scene.cluster.nimbus_address))
    assert f"apart: {named}" in " ".join(say(scene, "doctor", *nimbus)[1].split())
    scene.kill_topology(apart)
