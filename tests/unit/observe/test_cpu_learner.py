"""Windows of workers become evidence once each, and the next leader begins with what the last one kept."""

from __future__ import annotations

from doubles.snapshots import COMPONENT_OF, T0_MS, cluster, everywhere, topology
from stormpilot.config import LoadSection
from stormpilot.messages.moves import MoveState
from stormpilot.observe.build import build
from stormpilot.observe.cpu_law import sums_of
from stormpilot.observe.cpu_learner import CpuLearner
from stormpilot.observe.task_rates import TaskRates

SNAPSHOT = topology(everywhere({("a", 6700): (1, 2, 5, 6), ("b", 6700): (3, 4)}))


def rates(*, in_jvm: bool = True) -> dict[int, TaskRates]:
    return {
        t: TaskRates(
            task=t,
            component=c,
            host="",
            mhz=1000.0,
            covered_s=60.0,
            age_s=1.0,
            cpu_cores=0.03,
            in_jvm=in_jvm,
            shared_cores=0.01 if in_jvm else None,
        )
        for t, c in COMPONENT_OF.items()
    }


def taken(learner: CpuLearner, now_s: int, since_s: int = 0, *, in_jvm: bool = True) -> int:
    """How many workers' windows are known after a look."""
    own = {SNAPSHOT.id: rates(in_jvm=in_jvm)}
    model = build(cluster("a", "b"), {SNAPSHOT.id: SNAPSHOT}, own, LoadSection(cpu_by_place=True), 0.8, T0_MS).model
    since_ms = {SNAPSHOT.id: T0_MS + since_s * 1000}
    learner.take(model, {SNAPSHOT.id: SNAPSHOT}, own, since_ms, 60.0, T0_MS + now_s * 1000)
    known = learner.evidence.get(SNAPSHOT.id)
    return 0 if known is None else known.seen


def test_window_counts_when_it_is_full_and_once() -> None:
    learner = CpuLearner()
    assert [taken(learner, s) for s in (30, 60, 61, 119, 120)] == [0, 2, 2, 2, 4]


def test_window_after_a_move_begins_anew() -> None:
    learner = CpuLearner()
    assert [taken(learner, s, since_s=50) for s in (60, 109, 110)] == [0, 0, 2]


def test_tasks_that_measure_themselves_tell_nothing_of_their_jvm() -> None:
    assert taken(CpuLearner(), 60, in_jvm=False) == 0


def test_next_leader_begins_with_what_was_kept_and_goes_on_with_its_own() -> None:
    before, after = CpuLearner(), CpuLearner()
    taken(before, 60)
    kept = MoveState(topology_id=SNAPSHOT.id, cpu=sums_of(before.evidence[SNAPSHOT.id]))
    after.remember({SNAPSHOT.id: kept})
    assert taken(after, 60) == 4
    after.remember({SNAPSHOT.id: kept})
    assert after.evidence[SNAPSHOT.id].seen == 4


def test_topology_that_is_gone_is_forgotten() -> None:
    learner = CpuLearner()
    taken(learner, 60)
    learner.keep_only(set())
    assert not learner.evidence
