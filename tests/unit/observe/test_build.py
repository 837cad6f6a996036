"""Snapshots and rates become the model that planners see, and what is missing is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.snapshots import T0_MS, cluster, everywhere, report, supervisor, task_load, topology
from stormpilot.config import LoadSection
from stormpilot.messages.core import ClusterSnapshot, ComponentPart, ExecutorPart, TopologySnapshot
from stormpilot.messages.load import LoadReport
from stormpilot.model.values import Executor
from stormpilot.observe.build import ModelWithReadiness, build
from stormpilot.observe.load import LoadHistory

TOPOLOGY = "flights-1-1763690000"
PLACE = everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)})
BARE = LoadSection(window_s=60, jvm_us_per_tuple=0, jvm_idle_cores=0, cpu_by_place=False)


def believe(
    cluster_: ClusterSnapshot,
    snapshot: TopologySnapshot,
    reports: dict[float, LoadReport] | None = None,
    *,
    load: LoadSection = BARE,
    now_s: float = 100.0,
    since_s: float = 0.0,
) -> ModelWithReadiness:
    """Build from what was read at these seconds."""
    history = LoadHistory(load.window_s)
    for seen_s, r in sorted((reports or {s: report(s) for s in (60, 100)}).items()):
        history.take([r], T0_MS + int(seen_s * 1000))
    now_ms = T0_MS + int(now_s * 1000)
    rates = {TOPOLOGY: history.rates(TOPOLOGY, T0_MS + int(since_s * 1000), now_ms)}
    return build(cluster_, {TOPOLOGY: snapshot}, rates, load, 0.8, now_ms)


def executors(belief: ModelWithReadiness) -> dict[int, Executor]:
    return {e.start: e for e in belief.model.topologies[0].executors}


def traffic(belief: ModelWithReadiness) -> dict[tuple[int, int, str | None], float]:
    return {(e.from_, e.to, e.stream): e.rate for e in belief.model.traffic}


def test_measured_traffic_is_that_of_receivers_plus_what_ackers_must_see() -> None:
    belief = believe(cluster("a", "b"), topology(PLACE))
    assert traffic(belief) == {
        (1, 2, "default"): 50.0,
        (1, 3, "default"): 50.0,
        (2, 4, "default"): 50.0,
        (3, 4, "default"): 50.0,
        (1, 5, "__ack_init"): 100.0,
        (2, 5, "__ack_ack"): 50.0,
        (3, 5, "__ack_ack"): 50.0,
        (4, 5, "__ack_ack"): 100.0,
        (5, 1, "__ack_ack"): 100.0,
    }


def test_tasks_of_one_executor_have_their_traffic_together() -> None:
    own = [e for e in topology(PLACE).executors if e.start != 3]
    own[1] = msgspec.structs.replace(own[1], end=3)
    belief = believe(cluster("a", "b"), topology(PLACE, executors=own))
    assert [traffic(belief)[a, b, "default"] for a, b in ((1, 2), (2, 4))] == [100.0, 100.0]


def test_acker_traffic_is_spread_over_acker_tasks() -> None:
    snapshot = topology(PLACE)
    parts = [*snapshot.executors, ExecutorPart(start=7, end=9, component="__acker", supervisor="a", port=6700)]
    belief = believe(cluster("a", "b"), topology(PLACE, executors=parts))
    assert traffic(belief)[1, 5, "__ack_init"] == 25.0
    assert traffic(belief)[1, 7, "__ack_init"] == 75.0


def test_topology_without_ackers_has_no_acker_traffic() -> None:
    snapshot = topology(PLACE)
    parts = [e for e in snapshot.executors if e.component != "__acker"]
    belief = believe(cluster("a", "b"), topology(PLACE, executors=parts))
    assert {stream for _, _, stream in traffic(belief)} == {"default"}


def test_load_stream_is_no_traffic_and_its_collector_is_still_placed() -> None:
    noisy = {
        s: msgspec.structs.replace(
            report(s),
            tasks=[
                *report(s).tasks,
                task_load(6, s, received=[(1, "stormpilot_load", int(5 * s)), (2, "stormpilot_load", int(5 * s))]),
            ],
        )
        for s in (60.0, 100.0)
    }
    belief = believe(cluster("a", "b"), topology(PLACE), noisy)
    assert not [1 for _, to, _ in traffic(belief) if to == 6]
    assert executors(belief)[6].measured
    assert 6 in executors(believe(cluster("a", "b"), topology(PLACE)))


def test_cpu_is_in_mhz_of_the_node_where_it_was_measured() -> None:
    nodes = ClusterSnapshot(
        written_at_ms=T0_MS,
        shim=cluster("a").shim,
        supervisors=[supervisor("a", meta={"cpu.mhz": "3000"}), supervisor("b", meta={"cpu.mhz": "1500"})],
    )
    e = executors(believe(nodes, topology(PLACE)))
    assert e[2].cpu_mhz == pytest.approx(0.1 * 3000)
    assert e[3].cpu_mhz == pytest.approx(0.1 * 1500)
    assert e[2].measured


def test_jvm_share_counts_tuples_in_and_out_and_idle_threads() -> None:
    load = LoadSection(jvm_us_per_tuple=3.0, jvm_idle_cores=0.01, cpu_by_place=False)
    e = executors(believe(cluster("a", "b"), topology(PLACE), load=load))
    # sink: 100 in, 100 acks out; source: 100 out, 100 to the acker, 100 back
    assert e[4].cpu_mhz == pytest.approx(2000 * (0.1 + 0.01 + 200 * 3e-6))
    assert e[1].cpu_mhz == pytest.approx(2000 * (0.1 + 0.01 + 300 * 3e-6))
    # the acker: 300 in, 100 out, no Python
    assert e[5].cpu_mhz == pytest.approx(2000 * (0.01 + 400 * 3e-6))
    assert e[5].measured


def test_by_default_a_part_of_the_cpu_follows_from_places() -> None:
    by_default = believe(cluster("a", "b"), topology(PLACE), load=LoadSection(window_s=60))
    assert by_default.model.topologies[0].cpu_law is not None
    assert believe(cluster("a", "b"), topology(PLACE)).model.topologies[0].cpu_law is None


def reports_with_jvm(cores: float, tasks: tuple[int, ...] = (1, 2, 3, 4)) -> dict[float, LoadReport]:
    """Of tasks whose workers' JVMs use so much."""

    def whole(s: float) -> LoadReport:
        loads = [task_load(t, s, jvm_cpu_s=cores * s) for t in tasks]
        return msgspec.structs.replace(report(s), tasks=loads)

    return {s: whole(s) for s in (60.0, 100.0)}


@pytest.mark.parametrize("cores", [0.05, 0.5])
def test_executors_together_have_what_their_worker_used(cores: float) -> None:
    place = everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4)})
    snapshot = topology(place)
    snapshot = msgspec.structs.replace(snapshot, executors=[e for e in snapshot.executors if e.start in place])
    e = executors(believe(cluster("a", "b"), snapshot, reports_with_jvm(cores), load=LoadSection(window_s=60)))
    assert e[1].cpu_mhz + e[2].cpu_mhz + e[5].cpu_mhz == pytest.approx(2000 * (2 * 0.1 + cores))
    assert e[3].cpu_mhz + e[4].cpu_mhz == pytest.approx(2000 * (2 * 0.1 + cores))
    assert e[5].cpu_mhz > 0


def test_jvm_with_something_unmeasured_in_it_is_what_the_constants_say() -> None:
    snapshot, load = topology(PLACE), LoadSection(window_s=60)  # task 6, in b, tells nothing

    def mhz(reports: dict[float, LoadReport] | None) -> float:
        return executors(believe(cluster("a", "b"), snapshot, reports, load=load))[3].cpu_mhz

    assert mhz(reports_with_jvm(5.0)) == mhz(None)


def test_executor_that_never_reported_counts_with_what_its_topology_declares() -> None:
    e = executors(believe(cluster("a", "b"), topology(PLACE)))
    assert e[6].cpu_mhz == pytest.approx(0.1 * 2000)
    assert not e[6].measured


RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"


@pytest.mark.parametrize(
    ("config", "fallback", "memory_mb"),
    [
        ({}, "org.apache.storm.scheduler.DefaultScheduler", 0.0),
        (
            {"topology.component.resources.onheap.memory.mb": 128.0},
            "org.apache.storm.scheduler.DefaultScheduler",
            128.0,
        ),
        ({}, RAS, 128.0),
    ],
)
def test_memory_that_nobody_declared_limits_nothing(config: dict[str, Any], fallback: str, memory_mb: float) -> None:
    nodes = cluster("a", "b")
    nodes = msgspec.structs.replace(nodes, shim=msgspec.structs.replace(nodes.shim, fallback=fallback))
    e = executors(believe(nodes, topology(PLACE, config=config)))
    assert {x.memory_mb for x in e.values()} == {memory_mb}


def test_memory_that_one_component_declares_counts_for_that_one() -> None:
    job = topology(PLACE)
    config = {"topology.component.resources.offheap.memory.mb": 64.0}
    components = [msgspec.structs.replace(c, config=config) if c.id == "parse" else c for c in job.components]
    e = executors(believe(cluster("a", "b"), msgspec.structs.replace(job, components=components)))
    assert {x.component for x in e.values() if x.memory_mb} == {"parse"}


def held(task_mb: float, but: int | None = None) -> dict[float, LoadReport]:
    """Reports in which every task but one says how much memory it holds."""

    def telling(r: LoadReport) -> LoadReport:
        tasks = [t if t.task == but else msgspec.structs.replace(t, memory_mb=task_mb) for t in r.tasks]
        return msgspec.structs.replace(r, tasks=tasks)

    return {s: telling(report(s)) for s in (60, 100)}


def test_measured_memory_counts_where_nobody_declared_any() -> None:
    silent = 3
    believed = believe(cluster("a", "b"), topology(PLACE), held(50.0, but=silent))
    e = executors(believed)
    told = {t.task for t in report(60).tasks} - {silent}
    assert {x.start for x in e.values() if x.memory_mb == 50.0} == told
    assert e[silent].memory_mb == 0.0
    assert believed.readiness[TOPOLOGY].memory == f"{50 * len(told)} MB measured of {len(told)} executors"


def test_declared_memory_wins_over_measured_and_measured_can_be_turned_off() -> None:
    declaring = topology(PLACE, config={"topology.component.resources.onheap.memory.mb": 128.0})
    believed = believe(cluster("a", "b"), declaring, held(50.0))
    assert {x.memory_mb for x in executors(believed).values()} == {128.0}
    assert "declared" in believed.readiness[TOPOLOGY].memory
    off = msgspec.structs.replace(BARE, capacity="declared")
    assert {
        x.memory_mb for x in executors(believe(cluster("a", "b"), topology(PLACE), held(50.0), load=off)).values()
    } == {0.0}


def test_the_resource_aware_scheduler_makes_the_workers_that_a_plan_may_have() -> None:
    nodes = cluster("a", "b")
    ras = msgspec.structs.replace(nodes, shim=msgspec.structs.replace(nodes.shim, fallback=RAS))
    place = {task: ("a", 6700 + task % 3) for task in PLACE}
    assert believe(nodes, topology(place, workers=1)).model.topologies[0].workers == 1
    assert believe(ras, topology(place, workers=1)).model.topologies[0].workers == 3
    assert believe(ras, topology({}, workers=2)).model.topologies[0].workers == 2


@pytest.mark.parametrize(
    ("meta", "mhz"),
    [({"cpu.mhz": "2500"}, 2500.0), ({}, 2000.0), ({"cpu.mhz": "fast"}, 2000.0), ({"cpu.mhz": "-1"}, 2000.0)],
)
def test_mhz_is_declared_or_what_reports_from_there_say(meta: dict[str, str], mhz: float) -> None:
    nodes = ClusterSnapshot(written_at_ms=T0_MS, shim=cluster("a").shim, supervisors=[supervisor("a", meta=meta)])
    place = dict.fromkeys(range(1, 7), ("a", 6700))
    assert believe(nodes, topology(place)).model.supervisors[0].mhz == mhz


def test_nobody_tells_the_clock_of_a_host_on_which_it_does_not_run() -> None:
    """The reports name host-a and 2,000 MHz; by Nimbus all tasks run on b: they are of where these ran before."""
    reports = {seen_s: report(seen_s, host="host-a") for seen_s in (60.0, 100.0)}
    nodes = [supervisor("a"), supervisor("b"), supervisor("c", meta={"cpu.mhz": "4000"})]
    snapshot = ClusterSnapshot(written_at_ms=T0_MS, shim=cluster("a").shim, supervisors=nodes)
    belief = believe(snapshot, topology(dict.fromkeys(range(1, 7), ("b", 6700))), reports)
    assert [s.mhz for s in belief.model.supervisors] == [4000.0] * 3, "as the one that is known"
    here = {seen_s: report(seen_s, host="host-b") for seen_s in (60.0, 100.0)}
    belief = believe(snapshot, topology(dict.fromkeys(range(1, 7), ("b", 6700))), here)
    assert [s.mhz for s in belief.model.supervisors] == [3000.0, 2000.0, 4000.0], "a: the median of the others"


def test_mhz_of_a_node_without_reports_is_the_median_of_the_others_and_1000_where_nothing_tells() -> None:
    nodes = [
        supervisor("a", meta={"cpu.mhz": "1000"}),
        supervisor("b", meta={"cpu.mhz": "3000"}),
        supervisor("c", meta={"cpu.mhz": "2000"}),
        supervisor("d"),
    ]
    snapshot = ClusterSnapshot(written_at_ms=T0_MS, shim=cluster("a").shim, supervisors=nodes)
    assert believe(snapshot, topology()).model.supervisors[3].mhz == 2000.0
    silent = believe(cluster("a"), topology(), {1.0: report(1, tasks=())})
    assert silent.model.supervisors[0].mhz == 1000.0


def test_supervisor_becomes_a_node_with_the_part_of_its_cpu_that_planning_may_fill() -> None:
    node = cluster("a", cpu_pcore_percent=50.0, meta={"site": "east", "cpu.mhz": "2000"}, rack="/r1", ports=[2, 1, 1])
    (s,) = believe(node, topology()).model.supervisors
    assert (s.site, s.rack, s.slots, s.memory_mb) == ("east", "/r1", [1, 2], 8192.0)
    assert s.cpu_mhz == 1000.0
    assert s.limit_mhz == pytest.approx(800.0)


def test_rack_of_the_tags_counts_where_storm_knows_none_and_not_for_its_shuffles() -> None:
    tagged = believe(cluster("a", meta={"rack": "/b-12"}), topology()).model.supervisors
    known = believe(cluster("a", meta={"rack": "/b-12"}, rack="/r1"), topology()).model.supervisors
    racks = [(s.rack, s.storm_rack) for s in (*tagged, *known)]
    assert racks == [("/b-12", "/default-rack"), ("/r1", "/r1")]


def test_blacklisted_supervisor_is_left_out_and_what_it_holds_counts_as_not_placed() -> None:
    nodes = ClusterSnapshot(
        written_at_ms=T0_MS, shim=cluster("a").shim, supervisors=[supervisor("a"), supervisor("b", blacklisted=True)]
    )
    model = believe(nodes, topology(PLACE)).model
    assert [s.id for s in model.supervisors] == ["a"]
    assert {a.start for a in model.topologies[0].assignment} == {1, 2, 5}


def test_site_and_its_strictness_come_from_the_component() -> None:
    parts = [
        ComponentPart(id="source", kind="spout", config={"site": "east"}),
        ComponentPart(id="parse", kind="bolt", config={"site": "west", "site.required": False}),
    ]
    components = {c.id: c for c in believe(cluster("a"), topology(components=parts)).model.topologies[0].components}
    assert (components["source"].site, components["source"].site_required) == ("east", True)
    assert (components["parse"].site, components["parse"].site_required) == ("west", False)
    assert components["__acker"].kind == "system"  # not listed, but it has an executor


def test_report_of_tasks_that_the_topology_does_not_have_is_ignored_with_a_count() -> None:
    strange = {s: report(s, tasks=(4,), received=[(77, "default", int(9 * s))]) for s in (60.0, 100.0)}
    belief = believe(cluster("a", "b"), topology(PLACE), strange)
    assert belief.ignored == {"unknown_task": 1}
    assert not [1 for a, _, _ in traffic(belief) if a == 77]


# --- completeness -----------------------------------------------------------------------------------------------------


def test_ready_when_every_reporting_task_covers_enough_of_the_window() -> None:
    readiness = believe(cluster("a", "b"), topology(PLACE)).readiness[TOPOLOGY]
    assert readiness.ready
    assert readiness.reports_age_s == 0


def test_not_ready_names_silent_tasks_by_component_and_when_they_are_due() -> None:
    some = {s: report(s, tasks=(1, 2)) for s in (20.0, 40.0)}
    readiness = believe(cluster("a", "b"), topology(PLACE), some, now_s=40).readiness[TOPOLOGY]
    assert not readiness.ready
    assert readiness.missing == (3, 4)
    assert readiness.text == "2 of 4 tasks have no recent report (parse 1, sink 1)"
    assert readiness.expected_at_ms == T0_MS + 60_000


def test_not_ready_says_when_silent_tasks_are_overdue() -> None:
    some = {s: report(s, tasks=(1, 2, 3)) for s in (60.0, 100.0)}
    readiness = believe(cluster("a", "b"), topology(PLACE), some).readiness[TOPOLOGY]
    assert readiness.text == "1 of 4 tasks has no recent report (sink 1), overdue for 40 s"
    assert readiness.expected_at_ms is None


@pytest.mark.parametrize(("period_s", "seldom"), [(5, False), (20, False), (25, True), (60, True), (300, True)])
def test_not_ready_says_where_a_topology_reports_too_seldom_for_the_window(period_s: float, seldom: bool) -> None:
    """No worker's log tells that: its reports come as often as they are to."""
    some = {s: report(s) for s in (10.0, 60.0)}
    placed = msgspec.structs.replace(topology(PLACE), config={"stormpilot.report.secs": period_s})
    readiness = believe(cluster("a", "b"), placed, some).readiness[TOPOLOGY]
    assert not readiness.ready
    told = f"; they report every {period_s} s (stormpilot.report.secs): too seldom for load.window_s 60 and"
    assert (told in readiness.text) == seldom


def test_old_report_counts_as_none() -> None:
    old = {s: report(s) for s in (10.0, 60.0)}
    belief = believe(cluster("a", "b"), topology(PLACE), old)
    assert belief.readiness[TOPOLOGY].missing == (1, 2, 3, 4)
    assert belief.readiness[TOPOLOGY].reports_age_s == 40.0
    assert belief.model.traffic == []


def test_not_ready_while_too_little_of_the_window_is_measured_and_says_when_it_will_be() -> None:
    short = {s: report(s) for s in (88.0, 100.0)}
    readiness = believe(cluster("a", "b"), topology(PLACE), short).readiness[TOPOLOGY]
    assert not readiness.ready
    assert readiness.text.startswith("12.0 s of the 30.0 s that are needed are measured")
    assert readiness.expected_at_ms == T0_MS + 118_000


@pytest.mark.parametrize(("started_s", "said"), [(0, False), (59, False), (88, True)])
def test_processes_that_started_long_after_they_were_placed_are_said_to_have_ended_before(
    started_s: int, said: bool
) -> None:
    """A topology whose workers crashed every ten seconds was only "short of measurements", for ever."""
    start_ms = T0_MS + started_s * 1000
    young = {s: report(s, start_ms=start_ms, at_ms=int(T0_MS + s * 1000)) for s in (90.0, 100.0)}
    text = believe(cluster("a", "b"), topology(PLACE), young).readiness[TOPOLOGY].text
    assert text.startswith("10.0 s of the 30.0 s that are needed are measured (4 tasks are short)")
    assert ("the newest process started 12 s ago, 88 s after it was placed there" in text) == said


def test_topology_without_instruments_says_how_to_get_them() -> None:
    plain: list[Any] = [ComponentPart(id=c, kind="bolt", streams=["default"]) for c in ("source", "parse", "sink")]
    readiness = believe(cluster("a", "b"), topology(PLACE, components=plain)).readiness[TOPOLOGY]
    assert not readiness.ready
    assert not readiness.instrumented
    assert "stormpilot submit" in readiness.text


def test_receive_queues_reach_the_model() -> None:
    """What a worker's JVM measured of them: `otd` classes workers by their length."""
    waiting = {s: report(s) for s in (60, 100)}
    waiting = {
        s: msgspec.structs.replace(r, tasks=[msgspec.structs.replace(x, queue=12_000 + x.task) for x in r.tasks])
        for s, r in waiting.items()
    }
    found = executors(believe(cluster("a", "b"), topology(PLACE), waiting))
    assert found[4].queue_tuples == 12_004
    assert {e.queue_tuples for e in executors(believe(cluster("a", "b"), topology(PLACE))).values()} == {None}
