"""What workers' JVMs report: read, merged with what tasks report of themselves, and believed without guesses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.snapshots import COMPONENT_OF, REPORTING, T0_MS, cluster, everywhere, report, task_load, topology
from stormpilot.config import LoadSection
from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.load import JvmPart, LoadReport
from stormpilot.observe.build import ModelWithReadiness, build
from stormpilot.observe.load import LoadHistory
from stormpilot.observe.task_rates import TaskRates

TOPOLOGY = "flights-1-1763690000"
PLACE = everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)})
LOAD = LoadSection(window_s=60)


def jvm_report(seconds: float, tasks: tuple[int, ...] = tuple(COMPONENT_OF), **fields: Any) -> LoadReport:
    """All tasks as a worker's JVM sees them: more CPU than a task sees of itself, ackers too."""
    acker = {
        5: {
            "received": [(1, "__ack_init", int(90 * seconds)), (4, "__ack_ack", int(110 * seconds))],
            "sent": [(1, "__ack_ack", int(80 * seconds))],
        }
    }
    values: dict[str, Any] = {"pid": 9, "cpu_s": 0.3 * seconds, "shared_cpu_s": 0.05 * seconds}
    return LoadReport(
        topology_id=TOPOLOGY,
        reporter="node-6700",
        seq=int(seconds),
        written_at_ms=T0_MS,
        worker=JvmPart(port=6700, cpu_s=4 * seconds),
        tasks=[task_load(t, seconds, **{**values, **acker.get(t, {}), **fields}) for t in tasks],
    )


def history_of(*reports: tuple[float, LoadReport]) -> LoadHistory:
    history = LoadHistory(60)
    for seen_s, r in reports:
        history.take([r], T0_MS + int(seen_s * 1000))
    return history


def rates(history: LoadHistory, now_s: float, task: int = 4) -> TaskRates:
    return history.rates(TOPOLOGY, T0_MS, T0_MS + int(now_s * 1000))[task]


def believe(history: LoadHistory, now_s: float = 40, snapshot: TopologySnapshot | None = None) -> ModelWithReadiness:
    now_ms = T0_MS + int(now_s * 1000)
    found = {TOPOLOGY: history.rates(TOPOLOGY, T0_MS, now_ms)}
    return build(cluster("a", "b"), {TOPOLOGY: snapshot or topology(PLACE)}, found, LOAD, 0.8, now_ms)


def both(**fields: Any) -> LoadHistory:
    """Reports of tasks and of their workers; a field may be a function of the seconds."""
    told = {s: {k: v(s) if callable(v) else v for k, v in fields.items()} for s in (10, 40)}
    return history_of(*((s, r) for s in (10, 40) for r in (report(s), jvm_report(s, **told[s]))))


@pytest.mark.parametrize("period_s", [20, 60])
def test_two_measurements_count_together_whatever_lies_between_their_reports(period_s: int) -> None:
    """With a minute between reports the worker's seemed to have stopped for a part of each minute."""
    snapshot = topology(PLACE, config={"stormpilot.report.secs": period_s})
    history = LoadHistory(300)
    history.know({TOPOLOGY: snapshot})
    at = {k * period_s: report for k in range(1, 8)} | {(k + 2 / 3) * period_s: jvm_report for k in range(1, 8)}
    together = []
    for now_s in range(3 * period_s, 7 * period_s, period_s // 12):
        for seen_s in sorted(s for s in at if s <= now_s):
            history.take([at.pop(seen_s)(seen_s)], T0_MS + int(seen_s * 1000))
        together.append((rates(history, now_s).in_jvm, len(history.counted(TOPOLOGY))))
    assert set(together) == {(True, len(REPORTING) + len(COMPONENT_OF))}


def test_cpu_of_looking_for_tuples_reaches_the_model() -> None:
    """A tenth of a core, of which a twentieth of the time is spent on tuples: 100 of 0.5 ms each second."""
    told = both(
        polling_cpu_s=lambda s: 0.1 * s,
        timed=lambda s: int(5 * s),
        timed_ms=lambda s: 2.5 * s,
        child_cpu_s=lambda s: 0.1 * s,
    )
    assert rates(told, 40).polling_cores == pytest.approx(0.1)
    assert rates(both(), 40).polling_cores is None
    (t,) = believe(told).model.topologies
    assert [e.polling_mhz for e in t.executors if e.start == 4] == [pytest.approx(0.095 * 2000)]
    assert all(e.polling_mhz <= e.cpu_mhz for e in t.executors)
    (t,) = believe(both()).model.topologies
    assert {e.polling_mhz for e in t.executors} == {0.0}


def test_tuple_that_both_counted_is_counted_once() -> None:
    sink = rates(both(), 40)
    assert sink.received_tps == {(2, "default"): 50.0, (3, "default"): 50.0}
    assert sink.acked_tps == 100.0
    assert sink.in_jvm


def test_neither_report_looks_like_a_restart_of_the_other() -> None:
    history = both()
    assert rates(history, 40).covered_s == 30
    assert history.returns(TOPOLOGY, T0_MS) == {}
    assert history.tasks(TOPOLOGY) == set(COMPONENT_OF)
    assert not history.rejected


def test_memory_of_the_python_process_is_counted_once_whoever_saw_it() -> None:
    def held_mb(child_cpu_s: float | None) -> float | None:
        def own(s: float) -> LoadReport:
            tasks = [msgspec.structs.replace(t, memory_mb=30.0) for t in report(s).tasks]
            return msgspec.structs.replace(report(s), tasks=tasks)

        jvm = {"child_cpu_s": child_cpu_s, "memory_mb": 70.0}
        return rates(history_of(*((s, r) for s in (10, 40) for r in (own(s), jvm_report(s, **jvm)))), 40).memory_mb

    assert held_mb(1.0) == 70.0
    assert held_mb(None) == 100.0


def test_cpu_of_the_python_process_is_counted_once_whoever_saw_it() -> None:
    seen = rates(both(child_cpu_s=lambda s: 0.08 * s), 40)
    unseen = rates(both(child_cpu_s=None), 40)
    assert seen.cpu_cores == pytest.approx(0.3)
    assert unseen.cpu_cores == pytest.approx(0.3 + 0.1)
    assert unseen.child_cores == pytest.approx(rates(history_of((10, report(10)), (40, report(40))), 40).cpu_cores), (
        "it is told apart from the JVM, by what the task says of itself"
    )


def test_cpu_of_a_process_behind_a_shell_is_what_the_task_tells() -> None:
    """`sh -c "python ..."`: the worker sees the shell, which uses nothing and holds 72 MB with the JVM's share."""
    history = LoadHistory(60)
    for s in (10, 40):
        tasks = [msgspec.structs.replace(t, memory_mb=300.0) for t in report(s).tasks]
        own = msgspec.structs.replace(report(s), tasks=tasks)
        history.take([own, jvm_report(s, child_cpu_s=0.003, memory_mb=72.0)], T0_MS + s * 1000)
    found = rates(history, 40)
    assert (found.cpu_cores, found.child_cores) == (pytest.approx(0.3 + 0.1), pytest.approx(0.1))
    assert found.memory_mb == 372.0, "the JVM's share too"


def test_latency_is_that_of_the_spout_which_times_every_tuple() -> None:
    sampled = both(latency_ms=[(5.0, 3)])
    assert rates(sampled, 40, task=1).latency_ms == ((10.0, 2700), (-1.0, 300))
    alone = history_of(*((s, jvm_report(s, latency_ms=[(5.0, int(s))])) for s in (10, 40)))
    assert rates(alone, 40, task=1).latency_ms == ((5.0, 30),)


@pytest.mark.parametrize("silent", ["hook", "task"])
def test_measurement_that_stopped_does_not_stand_against_one_that_goes_on(silent: str) -> None:
    goes_on, stopped = (report, jvm_report) if silent == "hook" else (jvm_report, report)
    history = history_of((10, stopped(10)), (20, stopped(20)), *((s, goes_on(s)) for s in (10, 20, 30, 40, 50)))
    assert rates(history, 50).in_jvm is (silent == "task")
    assert rates(history, 50).age_s == 0


@pytest.mark.parametrize("goes_on", [True, False], ids=["in the JVM", "by itself"])
def test_measurement_that_stopped_is_not_waited_for_when_changes_of_the_traffic_are_looked_for(goes_on: bool) -> None:
    """A change is told when nine of ten have reported anew: what stopped for good would keep it back for ever."""
    history = LoadHistory(60)
    for s in range(10, 110, 10):
        told = [own for own in (report(s), jvm_report(s)) if s <= 20 or (own.worker is not None) == goes_on]
        history.take(told, T0_MS + s * 1000)
    alone = {(5, True), (6, True)}  # nothing else measures these
    assert set(history.counted(TOPOLOGY)) == {(task, goes_on) for task in (1, 2, 3, 4)} | alone


def test_worker_that_starts_again_costs_the_time_between_and_no_more() -> None:
    history = LoadHistory(2000)
    for seen_s, seconds, process in ((10, 10, 0), (20, 20, 0), (1001, 1, 1), (1011, 11, 1)):
        load = task_load(4, seconds, process=process, pid=9 + process)
        message = LoadReport(
            topology_id=TOPOLOGY, reporter="n", seq=1, written_at_ms=0, worker=JvmPart(port=1), tasks=[load]
        )
        history.take([message], T0_MS + seen_s * 1000)
    assert rates(history, 1011).covered_s == 20
    assert rates(history, 1011).acked_tps == 100.0
    assert set(history.returns(TOPOLOGY, T0_MS)) == {4}


def test_report_that_a_moved_worker_left_behind_does_not_stand_in_for_one_that_falls_silent() -> None:
    def left(reporter: str, seconds: float, process: int) -> LoadReport:
        load = task_load(4, seconds, process=process, pid=9 + process)
        return LoadReport(
            topology_id=TOPOLOGY, reporter=reporter, seq=1, written_at_ms=0, worker=JvmPart(port=1), tasks=[load]
        )

    history = LoadHistory(2000)
    behind = left("node-1-6700", 10, 0)
    history.take([behind], T0_MS + 10_000)
    for seconds in (1, 11):
        history.take([behind, left("node-2-6700", seconds, 1)], T0_MS + 1_000_000 + seconds * 1000)
    history.take([behind, left("node-2-6700", 11, 1)], T0_MS + 1_100_000)
    assert rates(history, 1100).age_s == 89


def test_time_per_tuple_is_that_of_the_window() -> None:
    first = jvm_report(10, timed=1000, timed_ms=50_000.0)
    history = history_of((10, first), (40, jvm_report(40, timed=1100, timed_ms=50_400.0)))
    assert rates(history, 40).execute_ms == 4.0


def test_ackers_that_were_counted_are_not_derived_too() -> None:
    traffic = {(e.from_, e.to, e.stream): e.rate for e in believe(both()).model.traffic}
    at_acker = {pair: tps for pair, tps in traffic.items() if 5 in pair[:2]}
    assert at_acker == {
        (1, 5, "__ack_init"): pytest.approx(90),
        (4, 5, "__ack_ack"): pytest.approx(110),
        (5, 1, "__ack_ack"): pytest.approx(80),
    }


def test_cpu_that_was_measured_is_not_guessed() -> None:
    """No constants per tuple on top: threads, child and shares of the JVM add up to what its worker used."""
    (found,) = believe(both(child_cpu_s=lambda s: 0.08 * s)).model.topologies
    executors = {e.start: e for e in found.executors}
    for worker in ("a", "b"):
        own = [executors[a.start].cpu_mhz for a in found.assignment if a.supervisor == worker]
        assert sum(own) == pytest.approx(len(own) * 0.35 * 2000)
    assert all(e.measured for e in executors.values())


def test_topology_that_only_its_workers_measure_is_planned_like_any_other() -> None:
    """Java components declare no load stream."""
    java = topology(PLACE)
    bare = [c.__class__(id=c.id, kind=c.kind, inputs=c.inputs) for c in java.components]
    snapshot = topology(PLACE, components=bare)
    history = history_of(*((s, jvm_report(s)) for s in (10, 40)))
    readiness = believe(history, snapshot=snapshot).readiness[TOPOLOGY]
    assert (readiness.ready, readiness.instrumented) == (True, True)
    assert not believe(LoadHistory(60), snapshot=snapshot).readiness[TOPOLOGY].instrumented


@pytest.mark.parametrize(("now_s", "text"), [(40, "no worker has reported yet"), (61, "nothing measures it")])
def test_workers_get_a_minute_to_report_before_the_hook_is_said_to_be_missing(now_s: float, text: str) -> None:
    bare = [c.__class__(id=c.id, kind=c.kind, inputs=c.inputs) for c in topology(PLACE).components]
    readiness = believe(LoadHistory(60), now_s, topology(PLACE, components=bare)).readiness[TOPOLOGY]
    assert (readiness.ready, readiness.instrumented) == (False, False)
    assert readiness.text.startswith(text)
    assert readiness.expected_at_ms == (T0_MS + 60_000 if now_s < 60 else None)


def test_a_topology_is_not_planned_without_what_its_java_bolts_get() -> None:
    """Streams to them are in no report: a plan would take senders away from them, and promise a gain."""
    python = topology(PLACE)
    sink = python.components[2]
    assert sink.id == "sink"
    parts = [msgspec.structs.replace(sink, streams=["default"]) if c is sink else c for c in python.components]
    snapshot = topology(PLACE, components=parts)
    told = history_of(*((s, report(s)) for s in (10, 40)))
    readiness = believe(told, snapshot=snapshot).readiness[TOPOLOGY]
    assert (readiness.ready, readiness.instrumented) == (False, False)
    assert readiness.text.startswith("what sink gets is not measured: install the hook")
    hooked = history_of(*((s, r) for s in (10, 40) for r in (report(s), jvm_report(s))))
    assert believe(hooked, snapshot=snapshot).readiness[TOPOLOGY].ready


def test_worker_that_does_not_report_is_waited_for() -> None:
    history = history_of(*((s, jvm_report(s, tasks=(1, 2, 5))) for s in (10, 40)))
    readiness = believe(history).readiness[TOPOLOGY]
    assert not readiness.ready
    assert readiness.missing == (3, 4, 6)


@pytest.mark.parametrize(("hooked", "until_s"), [(tuple(COMPONENT_OF), 20), ((1, 2, 5), 100)])
def test_topology_that_measures_itself_is_planned_while_workers_are_without_the_hook(
    hooked: tuple[int, ...], until_s: int
) -> None:
    """It is in none any more, or not in all yet: nobody waits for what does not measure itself."""
    history = LoadHistory(60)
    for s in range(10, 110, 10):
        told = [report(s), jvm_report(s, tasks=hooked)] if s <= until_s else [report(s)]
        history.take(told, T0_MS + s * 1000)
    readiness = believe(history, now_s=100).readiness[TOPOLOGY]
    assert (readiness.ready, readiness.missing) == (True, ())


def test_reading_that_cannot_be_is_not_believed() -> None:
    for field, value in {
        "sent": [(-1, "x", 1)],
        "shared_cpu_s": -1.0,
        "jvm_cpu_s": float("inf"),
        "timed": -5,
        "child_cpu_s": float("nan"),
    }.items():
        history = history_of((10, jvm_report(10, **{field: value})))
        assert history.rejected.total() == len(COMPONENT_OF), field
