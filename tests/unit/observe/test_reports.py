"""Load reports of somebody who may write anything: refused, counted, named, and never at the cost of another."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import LOAD, T0_MS, cluster, everywhere, report, schema_1, task_load, topology
from stormpilot.messages.core import InputPart, TopologySnapshot, encode
from stormpilot.messages.load import JvmPart, LoadReport
from stormpilot.observe.reader import Reader
from stormpilot.observe.reports import NAMED, Bounds, Reports
from stormpilot.zookeeper.paths import Paths

PLACE = everywhere({("a", 6700): (1, 2, 5), ("b", 6701): (3, 4, 6)})
VICTIM = "flights-1-1763690000"
OTHER = "other-1-1763690000"
LATE_MS = T0_MS + 600_000


class Store:
    """A cluster of two topologies, written at T0; what comes later is written ten minutes after it."""

    def __init__(self, *, collector: bool = True) -> None:
        self.now_ms = T0_MS
        self.paths = Paths()
        self.zookeeper = MemoryZooKeeper(lambda: self.now_ms)
        self.zookeeper.put(self.paths.cluster, encode(cluster("a", "b", "c")))
        for name in ("flights", "other"):
            self.place(PLACE, name=name, collector=collector)
        self.reader = Reader(self.zookeeper, self.paths)  # type: ignore[arg-type]
        self.reader.read()
        self.now_ms = LATE_MS

    def place(self, place: Any, *, name: str = "flights", collector: bool = True) -> TopologySnapshot:
        snapshot = topology(place, name=name)
        if collector:
            hears = [InputPart(component="parse", stream=LOAD, grouping="GLOBAL")]
            parts = [
                msgspec.structs.replace(c, inputs=hears) if c.id == "collector" else c for c in snapshot.components
            ]
            snapshot = msgspec.structs.replace(snapshot, components=parts)
        self.zookeeper.put(self.paths.topology(snapshot.id), encode(snapshot))
        return snapshot

    def write(self, at: str, name: str, message: LoadReport | bytes) -> str:
        path = self.paths.load(at, name)
        self.zookeeper.put(path, message if isinstance(message, bytes) else encode(message))
        return path

    def read(self) -> tuple[list[LoadReport], dict[str, str]]:
        return self.reader.read_loads([VICTIM, OTHER])


def worker(host: str, port: int, tasks: tuple[int, ...], *, name: str = "flights", **fields: Any) -> LoadReport:
    return LoadReport(
        topology_id=f"{name}-1-1763690000",
        reporter=f"{host}-{port}",
        seq=1,
        written_at_ms=T0_MS,
        worker=JvmPart(port=port),
        tasks=[task_load(t, 10, **{"host": host, **fields}) for t in tasks],
    )


def test_a_report_in_the_name_of_another_topology_is_refused_and_named() -> None:
    store = Store()
    path = store.write(OTHER, "collector-6", report(10))
    reports, problems = store.read()
    assert reports == []
    assert problems == {path: f"{path}: it reports in the name of another topology: that is not believed"}
    assert store.reader.refused == {"other_topology": 1}


def test_a_report_in_the_name_of_another_reporter_is_refused() -> None:
    store = Store()
    path = store.write(VICTIM, "collector-7", report(10))
    assert store.read()[0] == []
    assert "in the name of another reporter" in store.read()[1][path]
    assert store.reader.refused == {"other_name": 1}, "what is not written anew is counted once"


def test_honest_reports_of_collector_and_workers_are_believed_as_they_are() -> None:
    store = Store()
    honest = [report(10), worker("host-a", 6700, (1, 2, 5)), worker("host-b", 6701, (3, 4, 6))]
    for r in honest:
        store.write(VICTIM, r.reporter, r)
    reports, problems = store.read()
    assert sorted(reports, key=lambda r: r.reporter) == sorted(honest, key=lambda r: r.reporter)
    assert problems == {}
    assert all(a is b for a, b in zip(reports, store.read()[0], strict=True)), "not decoded anew"


@pytest.mark.parametrize(
    ("host", "port", "believed"),
    [
        ("host-a", 6700, True),
        ("HOST-A.example.org", 6700, True),
        ("10.0.0.7", 6700, True),  # a name that nobody else uses: its supervisor calls the host otherwise
        ("host-a", 6701, False),
        ("host-b", 6700, False),
        ("host-c", 6700, False),
    ],
)
def test_a_worker_is_believed_of_the_tasks_that_nimbus_assigned_to_its_slot(
    host: str, port: int, believed: bool
) -> None:
    store = Store()
    r = worker(host, port, (1, 2))
    path = store.write(VICTIM, r.reporter, r)
    reports, problems = store.read()
    assert bool(reports) is believed
    assert problems == (
        {} if believed else {path: f"{path}: 2 tasks of it are assigned to another slot: that is not believed"}
    )


def test_of_a_worker_that_claims_more_than_its_slot_the_rest_is_believed() -> None:
    store = Store()
    store.write(VICTIM, "host-a-6700", worker("host-a", 6700, (1, 2, 3)))
    reports, _ = store.read()
    assert [t.task for r in reports for t in r.tasks] == [1, 2]


def test_of_two_hosts_that_claim_one_slot_the_one_that_nimbus_knows_is_believed() -> None:
    store = Store()
    store.write(VICTIM, "host-a-6700", worker("host-a", 6700, (1, 2)))
    store.now_ms += 5_000
    path = store.write(VICTIM, "elsewhere-6700", worker("elsewhere", 6700, (1, 2)))
    reports, problems = store.read()
    assert [r.reporter for r in reports] == ["host-a-6700"]
    assert list(problems) == [path]
    store.read()
    assert store.reader.refused["second_reporter"] == 1
    store.zookeeper.delete(path)
    store.read()
    store.write(VICTIM, "elsewhere-6700", worker("elsewhere", 6700, (1, 2)))
    store.read()
    assert store.reader.refused["second_reporter"] == 2, "one that was gone is not remembered"


def test_what_a_worker_that_ended_left_behind_is_left_out_without_a_word() -> None:
    store = Store()
    store.now_ms = T0_MS - 600_000
    store.write(VICTIM, "host-c-6700", worker("host-c", 6700, (1, 2)))
    assert store.read() == ([], {})
    assert not any(store.reader.refused.values())


def test_a_worker_of_the_placement_before_is_believed_for_a_while_after_the_move() -> None:
    """What it counted last is what a restart is measured from."""
    store = Store()
    store.place(everywhere({("c", 6700): (1, 2, 5), ("b", 6701): (3, 4, 6)}))
    store.reader.read()
    store.now_ms += 10_000
    former, stranger = worker("host-a", 6700, (1, 2)), worker("host-b", 6700, (1, 2))
    for r in (former, stranger):
        store.write(VICTIM, r.reporter, r)
    assert [r.reporter for r in store.read()[0]] == ["host-a-6700"]
    store.now_ms += 120_000
    store.write(VICTIM, "host-a-6700", msgspec.structs.replace(former, seq=2))
    reports, problems = store.read()
    assert reports == []
    assert "assigned to another slot" in problems[store.paths.load(VICTIM, "host-a-6700")]


def test_tasks_that_do_not_exist_are_not_kept() -> None:
    store = Store()
    strange = [task_load(t, 10) for t in range(1_000, 1_500)]
    honest = task_load(4, 10, received=[(2, "default", 5), (777, "x", 5), (3, "default", 5)])
    r = msgspec.structs.replace(report(10), tasks=[honest, *strange])
    path = store.write(VICTIM, r.reporter, r)
    reports, problems = store.read()
    assert [(t.task, t.received) for t in reports[0].tasks] == [(4, {"default": ([2, 3], [5, 5])})]
    assert problems[path].startswith(
        f"{path}: 501 tasks or counters of it are of tasks that the topology does not have"
    )
    assert store.reader.refused == {"unknown_task": 501}


LISTED = st.lists(
    st.tuples(st.sampled_from([-2, -1, 1, 2, 3, 777]), st.sampled_from(["default", "x", ""]), st.integers(-1, 9)),
    max_size=6,
)


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 888]), LISTED, LISTED), max_size=4),
    st.sampled_from(["collector-6", "host-a-6700"]),
)
def test_of_both_schemas_the_same_is_believed_and_refused(
    told: list[tuple[int, list[tuple[int, str, int]], list[tuple[int, str, int]]]], reporter: str
) -> None:
    tasks = [task_load(t, 10, host="host-a", received=received, sent=sent) for t, received, sent in told]
    by = JvmPart(port=6700) if reporter == "host-a-6700" else None
    r = msgspec.structs.replace(report(10), reporter=reporter, worker=by, tasks=tasks)
    stores = Store(), Store()
    for store, written in zip(stores, (schema_1(r), encode(r)), strict=True):
        store.write(VICTIM, reporter, written)
    (former, problems), now = stores[0].read(), stores[1].read()
    assert ([msgspec.structs.replace(x, schema=2) for x in former], problems) == now
    assert stores[0].reader.refused == stores[1].reader.refused


@pytest.mark.parametrize(
    ("received", "why"),
    [
        ({"default": [[1, 2], [5]]}, "received: 2 tasks and 1 counts of stream 'default'"),
        ({"default": [[], []]}, "received: 0 tasks and 0 counts"),
        ({"default": [1, 5]}, "Expected `array`, got `int`"),
        ({"default": [["1"], [5]]}, "Expected `int`, got `str`"),
        ({"default": [[1], [5], [7]]}, "Expected `array` of length 2"),
        ({"default": [[1], [2**63]]}, "a whole number of 19 digits"),
        ({"default": [[1] * 500_000, [5] * 500_000]}, "values, at most 1000000 are read"),
        (lambda: {str(n): [[1], [5]] for n in range(200_000)}, "values, at most 1000000 are read"),
        ("default", "Expected `object | array`, got `str`"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_report_whose_pairs_are_no_pairs_is_named_and_costs_no_other(received: object, why: str) -> None:
    store = Store()
    value = json.loads(encode(report(10, tasks=(4,))))
    value["tasks"][0]["received"] = received() if callable(received) else received
    path = store.write(VICTIM, "collector-6", gzip.compress(json.dumps(value).encode(), mtime=0))
    store.write(OTHER, "collector-6", report(10, name="other"))
    reports, problems = store.read()
    assert [r.topology_id for r in reports] == [OTHER]
    assert why in problems[path]


def test_only_collectors_of_the_topology_report_for_others_where_it_has_some() -> None:
    store = Store()
    for name in ("collector-4", "collector-6-0", "mine"):
        store.write(VICTIM, name, msgspec.structs.replace(report(10), reporter=name))
    reports, problems = store.read()
    assert [r.reporter for r in reports] == ["collector-6-0"]
    assert sorted(problems) == [store.paths.load(VICTIM, n) for n in ("collector-4", "mine")]
    without = Store(collector=False)
    without.write(VICTIM, "mine", msgspec.structs.replace(report(10), reporter="mine"))
    assert len(without.read()[0]) == 1


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (Bounds(reporters=2), "3 reporters, at most 2 are read"),
        (Bounds(packed_bytes=500), "bytes of load reports, at most 500 are read"),
        (Bounds(pairs=5), "counters of pairs of tasks, at most 5 are kept"),
        (Bounds(entries_per_task=0), "reports of tasks, at most 0 are kept"),
    ],
)
def test_a_topology_beyond_a_bound_is_left_out_and_the_other_goes_on(bounds: Bounds, why: str) -> None:
    store = Store()
    reports = Reports(store.zookeeper, store.paths, bounds)  # type: ignore[arg-type]
    seen = store.reader.read()
    reports.know({VICTIM: seen.topologies[VICTIM]}, seen.cluster, {VICTIM: T0_MS})
    for r in (report(10), worker("host-a", 6700, (1, 2, 5)), worker("host-b", 6701, (3, 4, 6))):
        store.write(VICTIM, r.reporter, r)
    good = LoadReport(topology_id=OTHER, reporter="r", seq=1, written_at_ms=1, tasks=[])
    store.write(OTHER, "r", good)
    found = reports.read([VICTIM, OTHER])
    assert found.reports == [good]
    assert why in found.over_limit[VICTIM]
    assert list(found.problems) == [store.paths.load(VICTIM)]


def test_of_many_bad_reports_a_few_are_named_and_the_rest_is_counted() -> None:
    store = Store()
    for n in range(40):
        store.write(VICTIM, f"bad-{n:02d}", b"\x1f\x8b broken")
    store.write(OTHER, "collector-6", report(10, name="other"))
    reports, problems = store.read()
    assert [r.topology_id for r in reports] == [OTHER]
    assert len(problems) == NAMED + 1
    assert problems[f"{store.paths.load(VICTIM)}/..."].endswith(f"{40 - NAMED} more load reports that cannot be used")


def test_reports_that_we_may_not_read_cost_their_own_topology_alone() -> None:
    """ZooKeeper tells nothing of them: the reading ended there, and with it every cycle."""
    store = Store()
    store.write(VICTIM, "collector-6", report(10))
    store.write(OTHER, "collector-6", report(10, name="other"))
    hidden = store.write(VICTIM, "x", b"")
    store.zookeeper.denied.add(hidden)
    reports, problems = store.read()
    assert [r.topology_id for r in reports] == [VICTIM, OTHER]
    assert problems == {hidden: f"{hidden}: its access list does not let us read it"}
    folder = store.paths.load(VICTIM)
    store.zookeeper.denied.add(folder)
    reports, problems = store.read()
    assert [r.topology_id for r in reports] == [OTHER]
    assert problems == {folder: f"{folder}: its access list does not let us read it: the topology is left as it is"}
    store.zookeeper.denied.clear()
    assert [r.topology_id for r in store.read()[0]] == [VICTIM, OTHER]


def test_a_snapshot_of_another_topology_or_with_numbers_beyond_any_cluster_is_not_believed() -> None:
    store = Store()
    good = store.place(PLACE)
    path = store.paths.topology(VICTIM)
    endless = [msgspec.structs.replace(e, end=10**9) if e.start == 6 else e for e in good.executors]
    twice = [*good.executors, msgspec.structs.replace(good.executors[0], end=2)]
    beyond = msgspec.structs.replace(good.executors[0], start=2**31, end=2**31)
    thirsty = msgspec.structs.replace(good.components[0], cpu_pcore_percent=1e12)
    for bad, why in (
        (msgspec.structs.replace(good, id=OTHER), "it names the topology"),
        (msgspec.structs.replace(good, executors=endless), "at most 500000 are read"),
        (msgspec.structs.replace(good, executors=twice), "of two executors"),
        (msgspec.structs.replace(good, executors=[beyond]), "executors[0]: tasks 2147483648 to 2147483648"),
        (msgspec.structs.replace(good, components=good.components * 2), "components: one is there twice"),
        (msgspec.structs.replace(good, components=[thirsty]), "components[0]: CPU 1e+12"),
        (msgspec.structs.replace(good, priority=2**63 - 1), "priority: is 9223372036854775807"),
        (msgspec.structs.replace(good, workers=2**40), "workers: is 1099511627776"),
    ):
        store.zookeeper.put(path, encode(bad))
        seen = store.reader.read()
        assert why in seen.problems[path]
        assert seen.topologies[VICTIM] == good, "what was readable stays believed"
