"""A size by executors on standby: which tasks get tuples then, and what is refused before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from doubles.models import plan_message
from doubles.sized_world import PATHS, PI, PROBLEM, World
from doubles.snapshots import T0_MS, topology
from sizing_problems import problem
from stormpilot.cli.apply_size import _show
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import ComponentPart, ExecutorPart, HistoryEntry, InputPart, Worker, decode
from stormpilot.messages.rollouts import Rollout, RolloutStepPart
from stormpilot.messages.routes import STANDBY_KEY, Routes
from stormpilot.messages.settings import AuditRecord, PauseSetting
from stormpilot.operate.operator import Operator
from stormpilot.operate.routes import routes
from stormpilot.operate.switching import Switching, _executors, switching
from stormpilot.sizing.problem import Problem

PLACES = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c", 7: "c", 8: "a"}
COMPONENTS = {1: "source", **dict.fromkeys(range(2, 8), "pi"), 8: "__acker"}


def world(standby: int = 4, grouping: str = "SHUFFLE", *, routed: bool = True) -> World:
    """source(1) -> pi(2 to 7, the last ones on standby), two on each of three nodes."""
    inputs = [InputPart(component="source", grouping=grouping, routed=routed)]
    config: Mapping[str, object] = {STANDBY_KEY: standby} if standby else {}
    return World(
        reports=range(2, 8),
        components=[
            ComponentPart(id="source", kind="spout"),
            ComponentPart(id="pi", kind="bolt", inputs=inputs, config=config),
            ComponentPart(id="__acker", kind="system"),
        ],
        executors=[
            ExecutorPart(start=t, end=t, component=c, supervisor=PLACES[t], port=6700) for t, c in COMPONENTS.items()
        ],
    )


def sized(at: World, rate_tps: float, of: Problem = PROBLEM, *, dry_run: bool = False) -> Switching | None:
    operator = Operator(at.zookeeper, PATHS, "ann", "sized", dry_run, now_ms=T0_MS)
    return switching(operator, of, rate_tps, "t")


def carried_out(at: World, rate_tps: float) -> Switching:
    change = sized(at, rate_tps)
    assert change is not None
    change.carry_out()
    return change


def table(at: World) -> Routes:
    (node,) = at.zookeeper.read([PATHS.routes(at.id)])
    assert node is not None
    return decode(node.data, Routes, "routes")


@pytest.mark.parametrize("grouping", ["SHUFFLE", "FIELDS"])
def test_executors_on_standby_get_tuples_and_get_none_again(grouping: str) -> None:
    """Two threads of a slot do 110/s together: each of two more is in a slot of its own."""
    at = world(grouping=grouping)
    change = carried_out(at, 205.0)
    assert (change.before, change.threads) == ({"source": 1, "pi": 2}, {"source": 1, "pi": 3})
    (route,) = table(at).components
    assert (route.component, route.active) == ("pi", [2, 4, 6])
    assert [d.task for d in route.draining] == [3]
    assert set(route.partitions) == (set(route.active) if grouping == "FIELDS" else set())
    assert at.rebalanced == []
    change = carried_out(at, 105.0)
    assert (change.before["pi"], change.threads["pi"]) == (3, 2)
    assert table(at).components[0].active == [2, 4]
    (node,) = at.zookeeper.read([f"{PATHS.audit()}/{at.zookeeper.children([PATHS.audit()])[0][-1]}"])
    assert node is not None
    record = decode(node.data, AuditRecord, "audit")
    assert (record.verb, record.target, record.why) == ("apply-size", "t", "sized")


def test_what_supports_the_rate_already_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    at = world(standby=5)
    change = carried_out(at, 95.0)
    assert at.zookeeper.read([PATHS.routes(at.id)]) == [None]
    _show(change, None, dry_run=False)
    said = capsys.readouterr().out
    assert "pi 1, source 1" in said  # and not those on standby
    assert "note: these support 100/s of each source" in said
    assert f"nothing was changed: {at.id} has these threads already" in said


def test_cpu_that_other_topologies_use_on_the_nodes_is_said_not_to_count() -> None:
    """A proposal counts it: it may name other threads."""
    at = world()
    for name, node in (("near", "a"), ("far", "d")):
        executors = [ExecutorPart(start=1, end=1, component="x", supervisor=node, port=6701)]
        at.put(PATHS.topology(f"{name}-1-1"), topology(id=f"{name}-1-1", name=name, executors=executors))
    change = sized(at, 205.0)
    assert change is not None
    assert list(change.notes)[1:] == ["CPU of near on the same nodes is not measured here, and not counted"]


def test_a_component_without_standbys_keeps_its_tuples_though_it_can_be_routed() -> None:
    """As the proposal says: only components with executors on standby change."""
    at = world(standby=4)
    at.put(PATHS.topology(at.id), at.snapshot)
    snapshot = at.snapshot
    parts = [msgspec.structs.replace(c, config={}) for c in snapshot.components]
    without = msgspec.structs.replace(snapshot, components=parts)
    view = next(v for v in routes(Operator(at.zookeeper, PATHS, "ann", "", now_ms=T0_MS), at.id) if v.component == "pi")
    everyone = msgspec.structs.replace(view, active=list(range(2, 8)))
    live = {e.supervisor for e in snapshot.executors if e.supervisor is not None}
    assert not _executors(without, "pi", everyone, live).routable
    assert _executors(snapshot, "pi", everyone, live).routable, "declared: some of it stood by"
    assert _executors(without, "pi", view, live).routable
    assert not _executors(snapshot, "pi", None, live).routable


def test_an_executor_on_a_supervisor_that_is_gone_is_named() -> None:
    at = world(standby=4)
    (view,) = (v for v in routes(Operator(at.zookeeper, PATHS, "ann", "", now_ms=T0_MS), at.id) if v.component == "pi")
    with pytest.raises(RefusedError, match=r"task .* of pi is on supervisor .*, which is gone or on Storm's blacklist"):
        _executors(at.snapshot, "pi", view, {"another"})


def test_a_dry_run_writes_nothing() -> None:
    at = world()
    change = sized(at, 205.0, dry_run=True)
    assert change is not None and change.carry_out().changed
    assert at.zookeeper.read([PATHS.routes(at.id)]) == [None]
    assert [(w.supervisor, w.executors) for w in change.workers] == [
        ("a", [(1, 1), (2, 2)]),
        ("b", [(4, 4)]),
        ("c", [(6, 6)]),
    ]


def test_without_executors_on_standby_it_is_nobodys_business_here() -> None:
    assert sized(world(standby=0), 205.0) is None
    assert sized(world(routed=False), 205.0) is None  # declared, and not routable


def test_a_rate_that_all_do_not_support_is_told_with_what_is_full() -> None:
    change = sized(world(), 1000.0)
    assert change is not None
    assert change.threads["pi"] == 6
    (note,) = change.notes
    assert "these support 330/s of each source, not 1,000/s: pi is full then" in note


def test_a_rollout_in_progress_is_waited_for() -> None:
    """The tasks that it routes around are not on standby."""
    at = world()
    workers = [Worker(supervisor="a", port=6700, executors=[(1, 1)])]
    plan = plan_message(0.0, topology_id=at.id, workers=workers)
    entry = HistoryEntry(plan=plan, reason="GAIN", text="falls", moved_executors=1)
    steps = [RolloutStepPart(workers=workers)]
    at.put(PATHS.rollout(at.id), Rollout(topology_id=at.id, entry=entry, steps=steps, since_ms=1, started_at_ms=1))
    with pytest.raises(RefusedError, match="a rollout is in progress, step 1 of 1: wait for its end"):
        sized(at, 205.0)


def test_no_tuples_go_elsewhere_in_a_pause() -> None:
    at = world()
    at.put(PATHS.pause("t"), PauseSetting(by="ann"))
    with pytest.raises(RefusedError, match="t: PAUSED"):
        sized(at, 205.0)


def test_another_file_is_refused() -> None:
    of = problem([msgspec.structs.replace(PI, name="tau")], [("source", "tau", 1.0)])
    with pytest.raises(UsageError, match="the running topology has no component tau"):
        sized(world(), 105.0, of)
