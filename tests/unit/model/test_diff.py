"""What changes between two placements."""

from __future__ import annotations

from doubles.models import HALF, PAIRED, SPREAD, model, plan, topology
from stormpilot.model.compiled import compile_model
from stormpilot.model.diff import Move, Restart, difference


def test_moves_restarts_and_metrics_between_two_plans() -> None:
    """HALF -> PAIRED: executor 2 joins 4; both workers change, so both restart. 200 tuples/s become local."""
    c = compile_model(model(topology(SPREAD)))
    found = difference(c, c.slots_of(plan(HALF)), c.slots_of(plan(PAIRED)))
    assert found.moves == [Move(topology="flights-1", component="x", start=2, end=2, before="a:1", after="b:1")]
    assert found.restarts == [
        Restart(topology="flights-1", supervisor="a", port=1, executors=2),
        Restart(topology="flights-1", supervisor="b", port=1, executors=2),
    ]
    assert found.stopped_workers == 0
    assert (found.before["inter_node_tps"], found.after["inter_node_tps"]) == (200.0, 0.0)


def test_a_worker_that_ends_is_counted() -> None:
    c = compile_model(model(topology(SPREAD)))
    found = difference(c, c.current, c.slots_of(plan({("a", 1): (1, 2, 3, 4)})))
    assert [m.start for m in found.moves] == [3, 4]
    assert [r.supervisor for r in found.restarts] == ["a"]
    assert found.stopped_workers == 1


def test_what_was_never_placed_starts() -> None:
    c = compile_model(model(topology({})))
    found = difference(c, c.current, c.slots_of(plan(PAIRED)))
    assert {m.before for m in found.moves} == {None}
    assert len(found.restarts) == 2
    assert found.before == {}


def test_nothing_changes_between_equals() -> None:
    c = compile_model(model(topology(SPREAD)))
    found = difference(c, c.current, c.current)
    assert (found.moves, found.restarts, found.stopped_workers) == ([], [], 0)
    assert found.before == found.after
