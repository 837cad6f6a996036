"""Moving traffic between running tasks: what is written, what is refused, what two at once see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.rolling import begun
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.messages.core import (
    ComponentPart,
    ExecutorPart,
    InputPart,
    TopologySnapshot,
    decode,
    encode,
)
from stormpilot.messages.handover import HANDOVER_KEY, KeyedTask
from stormpilot.messages.load import LoadReport, TaskLoad, by_pair
from stormpilot.messages.routes import STANDBY_KEY, DrainingTask, Routes
from stormpilot.messages.settings import AuditRecord
from stormpilot.operate import Operator
from stormpilot.zookeeper.paths import Paths

ID = "tally-1-1700000000"
PATHS = Paths()
Act = Callable[..., Operator]


def bolt(name: str, *inputs: InputPart, **config: object) -> ComponentPart:
    return ComponentPart(id=name, kind="bolt", inputs=list(inputs), config=config)


def snapshot() -> TopologySnapshot:
    """words(1) -> count(4, 5, and 6 on standby), keys routed; words -> all(7), which cannot be."""
    by_word = InputPart(component="words", grouping="FIELDS", fields=["word"], routed=True)
    tasks = {1: "words", 4: "count", 5: "count", 6: "count", 7: "all"}
    return TopologySnapshot(
        written_at_ms=1,
        id=ID,
        name="tally",
        workers=2,
        components=[
            ComponentPart(id="words", kind="spout"),
            bolt("count", by_word, **{STANDBY_KEY: 1}),
            bolt("all", InputPart(component="words", grouping="ALL")),
        ],
        executors=[ExecutorPart(start=t, end=t, component=c, supervisor="a", port=6700 + t) for t, c in tasks.items()],
    )


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    store = MemoryZooKeeper(lambda: 1_000)
    store.ensure([PATHS.topology(ID)])
    store.put(PATHS.topology(ID), encode(snapshot()))
    return store


@pytest.fixture
def act(zookeeper: MemoryZooKeeper) -> Act:
    def make(now_ms: int = 5_000, **options: Any) -> Operator:
        return Operator(zookeeper, PATHS, "anna", now_ms=now_ms, **options)  # type: ignore[arg-type]

    return make


def table(zookeeper: MemoryZooKeeper) -> Routes:
    (node,) = zookeeper.read([PATHS.routes(ID)])
    assert node is not None
    return decode(node.data, Routes, "routes")


def report(
    zookeeper: MemoryZooKeeper, tasks: dict[int, int], seq: int = 1, at_ms: int = 0, reporter: str = "r"
) -> None:
    """Tuples that each task received so far."""
    loads = [
        TaskLoad(
            task=t,
            component="count",
            host="a",
            pid=t,
            start_ms=0,
            seq=seq,
            at_ms=at_ms or seq,
            cpu_s=0.0,
            received={"": ([1], [n])},
        )
        for t, n in tasks.items()
    ]
    path = PATHS.load(ID, reporter)
    zookeeper.ensure([path])
    zookeeper.put(path, encode(LoadReport(topology_id=ID, reporter=reporter, seq=seq, written_at_ms=seq, tasks=loads)))


def test_a_move_writes_who_gets_tuples_and_leaves_an_audit_record(act: Act, zookeeper: MemoryZooKeeper) -> None:
    change = operate.shift_route(act(why="worker is hot"), "tally", "count", 5, 6)
    assert change.changed and "what task 5 got goes to task 6" in change.text
    written = table(zookeeper)
    (route,) = written.components
    assert (written.version, written.by, written.why) == (1, "anna", "worker is hot")
    assert route.active == [4, 6] and set(route.partitions) == {4, 6}
    assert [(d.task, d.since_ms) for d in route.draining] == [(5, 5_000)]
    (name,) = zookeeper.children([PATHS.audit()])[0]
    record = decode(zookeeper.read([PATHS.audit(name)])[0].data, AuditRecord, name)  # type: ignore[union-attr]
    assert (record.verb, record.who, record.target) == ("routes shift", "anna", "tally")
    assert record.after == {"count": {"active": [4, 6], "draining": [5], "partitions": {"4": 64, "6": 64}}}


def test_a_dry_run_writes_nothing(act: Act, zookeeper: MemoryZooKeeper) -> None:
    assert operate.shift_route(act(dry_run=True), "tally", "count", 5, 6).dry_run
    assert zookeeper.read([PATHS.routes(ID)]) == [None]
    assert zookeeper.children([PATHS.audit()]) == [[]]


@pytest.mark.parametrize(
    ("component", "from_", "to", "message"),
    [
        ("all", 7, 7, r"all cannot be routed: words:default \(ALL\) does not follow routes$"),
        ("words", 1, 1, "it is a spout"),
        ("sum", 1, 2, "no component 'sum'; its bolts: count, all"),
        ("count", 6, 5, "task 6 of count gets no tuples now: active are 4, 5"),
    ],
)
def test_what_cannot_be_moved_is_refused(act: Act, component: str, from_: int, to: int, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        operate.shift_route(act(), "tally", component, from_, to)


def test_a_stream_that_could_follow_routes_says_how(act: Act, zookeeper: MemoryZooKeeper) -> None:
    plain = bolt("count", InputPart(component="words", grouping="FIELDS"))
    components = [plain if c.id == "count" else c for c in snapshot().components]
    zookeeper.put(PATHS.topology(ID), encode(msgspec.structs.replace(snapshot(), components=components)))
    with pytest.raises(RefusedError, match="submit with --routable"):
        operate.shift_route(act(), "tally", "count", 5, 6)


def test_a_task_that_has_not_reported_beside_others_that_have_is_not_up(act: Act, zookeeper: MemoryZooKeeper) -> None:
    report(zookeeper, {4: 10, 5: 10})
    with pytest.raises(RefusedError, match="task 6 of count has not reported yet"):
        operate.shift_route(act(), "tally", "count", 5, 6)
    report(zookeeper, {4: 10, 5: 10, 6: 0}, seq=2)
    assert operate.shift_route(act(), "tally", "count", 5, 6).changed


@pytest.mark.parametrize("verb", ["shift", "activate"])
def test_a_task_whose_worker_left_only_an_old_report_is_not_up(act: Act, zookeeper: MemoryZooKeeper, verb: str) -> None:
    def tried(now_ms: int) -> bool:
        if verb == "shift":
            return operate.shift_route(act(now_ms=now_ms, dry_run=True), "tally", "count", 5, 6).changed
        return operate.activate_task(act(now_ms=now_ms, dry_run=True), "tally", "count", 6).changed

    report(zookeeper, {6: 0}, at_ms=100_000, reporter="of-6")
    report(zookeeper, {4: 10, 5: 10}, at_ms=140_000)
    with pytest.raises(RefusedError, match="task 6 of count may be down: its worker has not reported for 40 s"):
        tried(now_ms=141_000)
    assert tried(now_ms=101_000), "a worker with a fast clock says nothing of the others"
    report(zookeeper, {6: 0}, at_ms=130_000, reporter="of-6")
    assert tried(now_ms=141_000)
    report(zookeeper, {4: 10, 5: 10}, at_ms=130_000)
    assert tried(now_ms=900_000), "nobody reports any more"


def test_of_two_who_move_at_once_one_is_told(act: Act, zookeeper: MemoryZooKeeper) -> None:
    operate.shift_route(act(), "tally", "count", 5, 6)
    read = zookeeper.read

    def and_somebody_writes(paths: Any, watch: object = None, **options: Any) -> Any:
        found = read(paths, **options)
        if paths == [PATHS.routes(ID)]:
            zookeeper.put(PATHS.routes(ID), found[0].data)  # type: ignore[union-attr]
        return found

    zookeeper.read = and_somebody_writes  # type: ignore[method-assign]
    with pytest.raises(RefusedError, match="somebody else changed the routes"):
        operate.shift_route(act(), "tally", "count", 6, 5)


def test_a_task_that_was_left_stands_by_when_it_is_idle(act: Act, zookeeper: MemoryZooKeeper) -> None:
    operate.shift_route(act(now_ms=5_000), "tally", "count", 5, 6)
    assert not operate.settle(act(now_ms=6_000), "tally", [5], 10_000).changed, "too early"
    assert "still drain: 5" not in operate.settle(act(now_ms=8_000), "tally", [5], 10_000).text
    view = next(v for v in operate.routes(act(), "tally") if v.component == "count")
    assert (view.active, view.draining, view.standby) == ([4, 6], [], [5])


def test_a_move_that_was_cut_off_is_settled_by_whoever_comes_next(act: Act, zookeeper: MemoryZooKeeper) -> None:
    operate.shift_route(act(now_ms=5_000), "tally", "count", 5, 6)
    assert operate.settle(act(now_ms=15_000), "tally", [], 10_000).text == "standby: 5"
    assert not table(zookeeper).components[0].draining


def test_a_task_set_aside_and_brought_back(act: Act, zookeeper: MemoryZooKeeper) -> None:
    operate.deactivate_task(act(), "tally", "count", 4)
    assert table(zookeeper).components[0].active == [5]
    operate.activate_task(act(), "tally", "count", 4)
    (route,) = table(zookeeper).components
    assert route.active == [4, 5] and route.partitions.count(4) == 64 and not route.draining


def test_the_time_that_a_task_has_to_drain_is_in_the_table(act: Act, zookeeper: MemoryZooKeeper) -> None:
    operate.shift_route(act(now_ms=5_000), "tally", "count", 5, 6, drain_timeout_s=60)
    operate.deactivate_task(act(now_ms=6_000), "tally", "count", 4, drain_timeout_s=2.5)
    assert [(d.task, d.until_ms) for d in table(zookeeper).components[0].draining] == [(5, 65_000), (4, 8_500)]


def test_without_a_table_the_view_is_what_workers_do(act: Act) -> None:
    views = {v.component: v for v in operate.routes(act(), "tally")}
    assert (views["count"].active, views["count"].standby) == ([4, 5], [6])
    assert views["all"].active == [7] and "does not follow routes" in views["all"].why_not


def test_a_table_that_cannot_be_read_is_named_and_can_be_taken_away(act: Act, zookeeper: MemoryZooKeeper) -> None:
    zookeeper.ensure([PATHS.routes(ID)])
    zookeeper.put(PATHS.routes(ID), b"{")
    with pytest.raises(RefusedError, match="stormpilot routes reset tally"):
        operate.shift_route(act(), "tally", "count", 5, 6)
    operate.reset_routes(act(), "tally")
    assert zookeeper.read([PATHS.routes(ID)]) == [None]


def test_idle_is_two_reports_of_one_process_without_a_tuple_between(act: Act, zookeeper: MemoryZooKeeper) -> None:
    report(zookeeper, {5: 10}, seq=1)
    first = operate.loads(act(), "tally")[5]
    assert not operate.idle(first, first), "the same report again says nothing"
    report(zookeeper, {5: 12}, seq=2)
    second = operate.loads(act(), "tally")[5]
    assert not operate.idle(first, second)
    report(zookeeper, {5: 12}, seq=3)
    third = operate.loads(act(), "tally")[5]
    assert operate.idle(second, third)
    assert not operate.idle(second, msgspec.structs.replace(third, queue=3))
    assert not operate.idle(second, msgspec.structs.replace(third, pid=99))
    got = sum(by_pair(third.received).values())
    before, now = (msgspec.structs.replace(x, acked=got - 1) for x in (second, third))
    assert not operate.idle(before, now), "the last tuple is still in its hands"
    assert not operate.idle(before, msgspec.structs.replace(third, acked=got)), "it was acked just now"
    assert operate.idle(msgspec.structs.replace(second, acked=got), msgspec.structs.replace(third, acked=got))


def test_what_a_rollout_put_aside_is_left_to_the_controller(act: Act, zookeeper: MemoryZooKeeper) -> None:
    """The time of the command counted for its tasks too, and its worker was restarted with tuples in their hands."""
    operate.deactivate_task(act(now_ms=5_000), "tally", "count", 4, drain_timeout_s=2)
    set_aside, path = DrainingTask(task=6, since_ms=5_000), PATHS.routes(ID)
    (route,) = table(zookeeper).components
    both = msgspec.structs.replace(route, draining=[*route.draining, set_aside])
    zookeeper.put(path, encode(msgspec.structs.replace(table(zookeeper), components=[both])))
    rollout = msgspec.structs.replace(begun(), topology_id=ID)
    zookeeper.put(PATHS.rollout(ID), encode(rollout))
    operate.settle(act(now_ms=600_000), "tally", [], 2_000)
    assert table(zookeeper).components[0].draining == [set_aside]
    assert operate.unfinished(act(), "tally") == []
    zookeeper.put(PATHS.rollout(ID), encode(msgspec.structs.replace(rollout, phase="ended")))
    assert operate.unfinished(act(), "tally") == ["task 6 of count drains"]
    operate.settle(act(now_ms=600_000), "tally", [], 2_000)
    assert table(zookeeper).components[0].draining == []


def test_keyed_state_is_handed_over_step_by_step_and_shown(act: Act, zookeeper: MemoryZooKeeper) -> None:
    hands_over = [
        msgspec.structs.replace(c, config=c.config | {HANDOVER_KEY: True}) if c.id == "count" else c
        for c in snapshot().components
    ]
    zookeeper.put(PATHS.topology(ID), encode(msgspec.structs.replace(snapshot(), components=hands_over)))

    def did(task: int, **what: list[str]) -> None:
        path = PATHS.keyed(ID, "tasks", str(task))
        zookeeper.ensure([path])
        zookeeper.put(path, encode(KeyedTask(topology_id=ID, task=task, **what)))

    def shown() -> list[str]:
        return next(v.handovers for v in operate.routes(act(), "tally") if v.component == "count")

    operate.shift_route(act(now_ms=5_000), "tally", "count", 5, 6)
    assert shown() == ["5 -> 6: 64 partitions (drain)"]
    with pytest.raises(RefusedError, match="state of 64 partitions is still on its way"):
        operate.shift_route(act(now_ms=6_000), "tally", "count", 6, 4)
    operate.settle(act(now_ms=8_000), "tally", [5], 10_000)
    assert shown() == ["5 -> 6: 64 partitions (save)"]
    zookeeper.put(PATHS.keyed(ID, "tasks", "5"), b"{")
    assert not operate.settle(act(now_ms=9_000), "tally", [], 10_000).changed, "an answer that cannot be read is none"
    did(5, saved=["5-6-5000"])
    change = operate.settle(act(now_ms=9_000), "tally", [], 10_000)
    assert change.text == "still open: state of 64 partitions of count, task 5 -> 6 (load)"
    did(6, loaded=["5-6-5000"])
    operate.settle(act(now_ms=10_000), "tally", [], 10_000)
    assert shown() == [] and operate.unfinished(act(), "tally") == []
