"""The steps of a rollout: what is emptied with what, what has to be taken apart, and why there may be none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import supervisor, topology
from stormpilot.config.rollout import RolloutSection
from stormpilot.messages.rollouts import RolloutStepPart, workers_of
from stormpilot.model.values import Assigned, Model, TopologyPlan, Worker
from stormpilot.rollout.feasibility import with_closed_workers
from stormpilot.rollout.peer_capacity import PeerCapacity, Routable
from stormpilot.rollout.steps import closed_workers, sequence
from stormpilot.rollout.switches import switches

Places = Mapping[tuple[str, int], Sequence[int]]
"""First tasks by slot."""
CORE_MHZ = 10_000.0
A, B, C = "a", "b", "c"


def model_of(
    now: Places,
    *,
    work: int = 4,
    slots: int = 4,
    cpu_mhz: float = 100.0,
    limit_mhz: float | None = None,
    workers: int = 3,
) -> Model:
    """spout (task 1), `work` (tasks 2, 3, ...), which runs as `now` says."""
    t = topology("t", {"spout": 1, "work": work}, workers=workers, streams=[("spout", "work")], cpu_mhz=cpu_mhz)
    assignment = [Assigned(start=s, supervisor=node, port=port) for (node, port), starts in now.items() for s in starts]
    nodes = [supervisor(n, slots, mhz=CORE_MHZ) for n in (A, B, C)]
    if limit_mhz is not None:
        nodes = [msgspec.structs.replace(n, cpu_limit_mhz=limit_mhz) for n in nodes]
    return Model(supervisors=nodes, topologies=[msgspec.structs.replace(t, assignment=assignment)])


def target(then: Places) -> TopologyPlan:
    workers = [Worker(supervisor=n, port=p, executors=[(s, s) for s in starts]) for (n, p), starts in then.items()]
    return TopologyPlan(id="t", workers=workers)


def spare(model: Model, active: set[int] | None = None, peer_limit_ratio: float = 1.0, **why_not: str) -> PeerCapacity:
    tasks = {e.start for e in model.topologies[0].executors if e.component == "work"}
    can = Routable({"spout": "it is a spout", **why_not}, {} if why_not else {"work": frozenset(active or tasks)})
    return PeerCapacity(model, can, peer_limit_ratio)


def after(now: Places, steps: Sequence[RolloutStepPart]) -> set[tuple[str, frozenset[int]]]:
    """The placement that the steps lead to; each takes the place of whole workers."""
    placed = {(node, frozenset(starts)) for (node, _), starts in now.items()}
    for step in steps:
        arriving = workers_of(step.workers)
        starts = frozenset().union(*(w[1] for w in arriving))
        gone = {w for w in placed if w[1] & starts}
        assert all(w[1] <= starts for w in gone)
        assert frozenset().union(*(w[1] for w in gone)) == starts
        placed = (placed - gone) | arriving
    return placed


def goal(then: Places) -> set[tuple[str, frozenset[int]]]:
    return {(node, frozenset(starts)) for (node, _), starts in then.items()}


def test_workers_that_only_change_their_node_go_one_by_one() -> None:
    now: Places = {(A, 6700): [1], (B, 6700): [2, 3], (C, 6700): [4, 5]}
    then: Places = {(A, 6700): [1], (C, 6701): [2, 3], (B, 6701): [4, 5]}
    found = sequence(spare(model_of(now)), target(then), 0)
    assert [s.away for s in found.steps] == [[2, 3], [4, 5]]
    assert after(now, found.steps) == goal(then)


def test_an_exchange_restarts_both_workers_and_no_other() -> None:
    """2 and 4 change places: all four are in workers that change, but two at a time are enough."""
    now: Places = {(A, 6700): [1, 6], (B, 6700): [2, 3], (C, 6700): [4, 5]}
    then: Places = {(A, 6700): [1, 6], (B, 6700): [4, 3], (C, 6700): [2, 5]}
    found = sequence(spare(model_of(now, work=5)), target(then), 2)
    assert after(now, found.steps) == goal(then)
    assert all(set(s.away) <= {2, 3, 4, 5} for s in found.steps)


def test_what_would_be_too_much_at_once_is_taken_apart() -> None:
    """At 4,500 of 10,000 MHz a peer can take one more beside its own: three cannot do the work of all five.

    So workers of two are emptied one after the other.
    """
    now: Places = {(A, 6700): [1, 6], (B, 6700): [2, 3], (C, 6700): [4, 5]}
    then: Places = {(A, 6700): [1, 6], (B, 6700): [2, 4], (C, 6700): [3, 5]}
    heavy = model_of(now, work=5, cpu_mhz=4_500.0, workers=4)
    heavy = msgspec.structs.replace(
        heavy, supervisors=[msgspec.structs.replace(s, cores=4.0, cpu_limit_mhz=None) for s in heavy.supervisors]
    )
    found = sequence(spare(heavy), target(then), 2)
    assert found.possible, found.why_not
    assert max(len(s.away) for s in found.steps) == 2
    assert after(now, found.steps) == goal(then)
    short = sequence(spare(heavy), target(then), 0)
    assert len(found.steps) >= 3
    assert short.possible == (max(len(after(now, found.steps[: i + 1])) for i in range(len(found.steps))) <= 4)


def test_what_nobody_can_carry_is_refused_with_the_number() -> None:
    now: Places = {(A, 6700): [1], (B, 6700): [2], (C, 6700): [3]}
    then: Places = {(A, 6700): [1], (C, 6701): [2], (C, 6700): [3]}
    found = sequence(spare(model_of(now, work=2, cpu_mhz=6_000.0)), target(then), 2)
    assert not found.possible
    assert "work [3, 3] would need 12000 MHz" in found.why_not[0]
    assert sequence(spare(model_of(now, work=2, cpu_mhz=4_900.0)), target(then), 2).possible


def test_a_node_that_peers_would_fill_is_refused() -> None:
    """One core would do, B(n) of the node does not."""
    now: Places = {(A, 6700): [1], (B, 6700): [2], (C, 6700): [3]}
    then: Places = {(A, 6700): [1], (B, 6700): [2], (A, 6701): [3]}
    roomy = model_of(now, work=2, cpu_mhz=2_000.0, limit_mhz=4_000.0)
    assert sequence(spare(roomy), target(then), 2).possible
    found = sequence(spare(model_of(now, work=2, cpu_mhz=2_000.0, limit_mhz=3_999.0)), target(then), 2)
    assert found.why_not == ("b would be used with 4000 MHz of 3999 MHz meanwhile",)


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ({(B, 6700): [1], (A, 6700): [2, 3], (C, 6700): [4, 5]}, "spout [1, 1]: it is a spout"),
        ({(A, 6700): [1, 2], (B, 6700): [3], (C, 6700): [4, 5]}, "spout [1, 1]: it is a spout"),
    ],
)
def test_a_worker_with_an_executor_that_cannot_be_routed_is_not_emptied(then: Places, why: str) -> None:
    now: Places = {(A, 6700): [1], (B, 6700): [2, 3], (C, 6700): [4, 5]}
    found = sequence(spare(model_of(now)), target(then), 2)
    assert found.why_not == (why,)


def test_the_only_executor_of_a_component_cannot_be_routed_around() -> None:
    now: Places = {(A, 6700): [1], (B, 6700): [2]}
    found = sequence(spare(model_of(now, work=1)), target({(A, 6700): [1], (C, 6700): [2]}), 2)
    assert found.why_not == ("work [2, 2]: no other executor of work is there to do its work",)


def test_all_executors_of_a_component_in_one_worker_are_split_first() -> None:
    now: Places = {(A, 6700): [1], (B, 6700): [2, 3]}
    found = sequence(spare(model_of(now, work=2)), target({(A, 6700): [1], (C, 6700): [2, 3]}), 2)
    assert not found.possible
    assert "all 2 executors of work would be routed around at once" in found.why_not


def test_tuples_go_to_the_task_that_stands_by_in_the_worker_of_the_plan() -> None:
    """2 is to be where 4 is, on the same node as 3: else the text of the plan would name another than gets them."""
    now: Places = {(A, 6700): [1, 3], (A, 6701): [4], (B, 6700): [2]}
    then: Places = {(A, 6700): [1, 3], (A, 6701): [2], (B, 6700): [4]}
    found = switches(spare(model_of(now, work=3), {2}), target(then))
    assert found is not None
    assert found.switches == [(2, 4)]


def test_tasks_that_stand_by_stand_in() -> None:
    """2 alone works, 3 stands by elsewhere: it gets the tuples while 2 moves."""
    now: Places = {(A, 6700): [1], (B, 6700): [2], (C, 6700): [3]}
    then: Places = {(A, 6700): [1], (A, 6701): [2], (C, 6700): [3]}
    (step,) = sequence(spare(model_of(now, work=2), active={2}), target(then), 2).steps
    assert (step.away, step.stand_ins) == ([2], [3])


def test_tasks_that_get_nothing_are_moved_without_ado() -> None:
    now: Places = {(A, 6700): [1], (B, 6700): [2], (C, 6700): [3]}
    then: Places = {(A, 6700): [1], (B, 6700): [2], (A, 6701): [3]}
    (step,) = sequence(spare(model_of(now, work=2), active={2}), target(then), 2).steps
    assert (step.away, step.stand_ins) == ([], [])


def test_full_nodes_exchange_workers_together() -> None:
    """No slot is free for one of them to go first."""
    now: Places = {(A, 6700): [1], (B, 6700): [2], (C, 6700): [3], (A, 6701): [4, 5]}
    then: Places = {(A, 6700): [1], (C, 6700): [2], (B, 6700): [3], (A, 6701): [4, 5]}
    model = model_of(now, slots=2, workers=4)
    nodes = [msgspec.structs.replace(s, slots=[6700] if s.id != A else [6700, 6701]) for s in model.supervisors]
    found = sequence(spare(msgspec.structs.replace(model, supervisors=nodes)), target(then), 0)
    assert [s.away for s in found.steps] == [[2, 3]]


def test_more_workers_than_allowed_between_two_steps_are_refused() -> None:
    now: Places = {(A, 6700): [1], (B, 6700): [2, 3, 4, 5]}
    then: Places = {(A, 6700): [1], (B, 6700): [2, 3], (C, 6700): [4, 5]}
    model = model_of(now, cpu_mhz=100.0)
    assert not sequence(spare(model), target(then), 2).possible  # all of `work` in one worker
    wide: Places = {(A, 6700): [1, 6], (B, 6700): [2, 3, 4, 5]}
    then = {(A, 6700): [1, 6], (B, 6700): [2, 3], (C, 6700): [4, 5]}
    (step,) = sequence(spare(model_of(wide, work=5)), target(then), 0).steps
    assert len(step.workers) == 2


def test_nodes_have_room_between_two_steps() -> None:
    """2 and 3 fill their nodes: neither can come before the other has left, so they go together."""
    now: Places = {(A, 6700): [1, 4, 5], (B, 6700): [2], (C, 6700): [3]}
    then: Places = {(A, 6700): [1, 4, 5], (C, 6701): [2], (B, 6701): [3]}
    model = model_of(now)
    apart = sequence(spare(model), target(then), 2)
    assert [s.away for s in apart.steps] == [[2], [3]]
    (t,) = model.topologies
    heavy = [msgspec.structs.replace(e, memory_mb=60.0 if e.start in (2, 3) else 1.0) for e in t.executors]
    nodes = [msgspec.structs.replace(s, memory_mb=100.0) for s in model.supervisors]
    full = Model(supervisors=nodes, topologies=[msgspec.structs.replace(t, executors=heavy)])
    assert [s.away for s in sequence(spare(full), target(then), 2).steps] == [[2, 3]]


def test_closed_workers_are_named_with_what_closes_them() -> None:
    now: Places = {(A, 6700): [1, 2], (B, 6700): [3], (C, 6700): [4, 5]}
    assert closed_workers(spare(model_of(now))) == {(A, 6700): "spout [1, 1]: it is a spout"}
    heavy = closed_workers(spare(model_of(now, cpu_mhz=7_000.0)))
    assert set(heavy) == {(A, 6700), (B, 6700), (C, 6700)}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_sequence_ends_at_the_plan_and_takes_away_no_more_than_can_be_spared(data: st.DataObject) -> None:
    """Random placements; each step is replayed, and every promise is checked anew."""
    work = data.draw(st.integers(2, 8))
    tasks = list(range(2, 2 + work))
    slots = [(n, 6700 + i) for n in (A, B, C) for i in range(4)]

    def places() -> Places:
        found: dict[tuple[str, int], list[int]] = {(A, 6700): [1]}
        for t in tasks:
            found.setdefault(data.draw(st.sampled_from(slots[1:])), []).append(t)
        return found

    now, then = places(), places()
    cpu_mhz = data.draw(st.sampled_from([10.0, 1_500.0, 3_000.0, 5_000.0]))
    interim = data.draw(st.integers(0, 3))
    model = model_of(now, work=work, cpu_mhz=cpu_mhz, workers=len(slots))
    found = sequence(spare(model), target(then), interim)
    if not found.possible:
        assert found.steps == ()
        return
    assert after(now, found.steps) == goal(then)
    for step in found.steps:
        left = work - len(step.away)
        assert left >= 1
        assert cpu_mhz * work / left <= CORE_MHZ * 1.000001
        assert {s for w in step.workers for s, _ in w.executors} == set(step.away)
        assert 1 not in step.away
    assert len({(w.supervisor, w.port) for w in _last(now, found.steps)}) == len(goal(then))


def _last(now: Places, steps: Sequence[RolloutStepPart]) -> list[Worker]:
    parts = [Worker(supervisor=n, port=p, executors=[(s, s) for s in starts]) for (n, p), starts in now.items()]
    for step in steps:
        arriving = {s for w in step.workers for s, _ in w.executors}
        parts = [w for w in parts if not arriving & {s for s, _ in w.executors}] + list(step.workers)
    return parts


def test_a_topology_with_executors_that_have_no_place_closes_no_workers() -> None:
    """Nothing of it can be emptied, and the plans of all others are not to end with it."""
    whole = model_of({(A, 1): [1], (B, 1): [2, 3], (C, 1): [4, 5]})
    can = {"t": Routable({"spout": "it is a spout"}, {"work": frozenset({2, 3, 4, 5})})}
    assert with_closed_workers(whole, can, RolloutSection())[1] == {"t": ("a:1: spout [1, 1]: it is a spout",)}
    torn = model_of({(A, 1): [1], (B, 1): [2, 3], (C, 1): [4]})
    assert with_closed_workers(torn, can, RolloutSection()) == (torn, {})
