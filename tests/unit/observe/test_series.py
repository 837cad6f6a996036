"""Reports as columns say the same as reports that are taken in task by task, whatever arrives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles.snapshots import T0_MS, schema_1, task_load
from stormpilot.messages.core import decode, encode
from stormpilot.messages.load import JvmPart, LoadReport
from stormpilot.observe.load import LoadHistory

TOPOLOGY = "flights-1-1763690000"


class TaskByTask(LoadHistory):
    """Makes no columns."""

    def _begin(self, *_: object) -> None:
        pass


def a_report(
    s: int,
    tasks: dict[int, dict[str, Any]],
    reporter: str = "r",
    *,
    began: dict[int, tuple[int, int]] | None = None,
    jvm: bool = False,
) -> LoadReport:
    """Of these tasks, with what each says otherwise; `began`: number and start (s) of later processes."""
    loads = []
    for t, fields in tasks.items():
        number, start_s = (began or {}).get(t, (0, 0))
        process: dict[str, Any] = {
            "pid": 100 * number + t,
            "start_ms": T0_MS + start_s * 1000,
            "at_ms": T0_MS + s * 1000,
        }
        process["jvm_cpu_s"] = 0.25 * (s - start_s)
        loads.append(task_load(t, max(1, s - start_s), **process | fields))
    return LoadReport(
        topology_id=TOPOLOGY,
        reporter=reporter,
        seq=s,
        written_at_ms=T0_MS + s * 1000,
        worker=JvmPart(port=6700) if jvm else None,
        tasks=loads,
    )


def told(history: LoadHistory, since_ms: int, now_ms: int) -> list[object]:
    """All that it can be asked."""
    return [
        history.rates(TOPOLOGY, since_ms, now_ms),
        history.tasks(TOPOLOGY),
        history.counted(TOPOLOGY),
        history.newest(TOPOLOGY),
        history.returns(TOPOLOGY, since_ms),
        history.rejected,
    ]


@st.composite
def days(draw: Any) -> list[tuple[float, list[LoadReport]]]:
    """Reports of a few workers: most go on as before; some restart, move, lack a task, or say what cannot be."""
    found, s = [], 0
    slot, elsewhere = (1, 2, 3, 4), (5, 6)
    began = dict.fromkeys((*slot, *elsewhere), (0, 0))
    for _ in range(draw(st.integers(5, 40))):
        s += draw(st.sampled_from([2, 5, 5, 5, 5, 5, 5, 30, 90]))
        event = draw(
            st.sampled_from(
                ["goes on"] * 12
                + ["restart", "absurd", "decrease", "lack", "other", "late", "orphan", "changes hands"]
                + ["pair", "pair twice", "pair of Storm"]
            )
        )
        if event == "changes hands":
            slot, elsewhere = elsewhere, slot
        struck = draw(st.sampled_from(slot))
        fields: dict[int, dict[str, Any]] = {t: {} for t in slot}
        reporter = "r"
        match event:
            case "restart":
                began[struck] = (began[struck][0] + 1, s - 1)
            case "absurd":
                counter = draw(st.sampled_from(["acked", "queue", "timed_ms"]))
                fields[struck][counter] = draw(st.sampled_from([-1, 2**60, 10**12]))
            case "decrease":
                fields[struck]["cpu_s"] = 0.0
            case "orphan":
                fields[struck]["jvm_cpu_s"] = None
            case "lack":
                del fields[struck]
            case "other":
                reporter = "q"
            case "pair":
                fields[struck]["received"] = [(2, "default", 10**6), (3, "default", 10**6), (7, "other", s)]
            case "pair twice":
                fields[struck]["received"] = [(2, "default", 10**6), (3, "default", 10**6), (2, "default", s)]
            case "pair of Storm":
                fields[struck]["received"] = [(2, "default", 10**6), (-1, "__tick", s)]
            case "late":
                fields[struck]["at_ms"] = T0_MS + (s - 100) * 1000
        reports = [a_report(s, fields, reporter, began=began)]
        if draw(st.booleans()):
            reports.append(a_report(s, {t: fields.get(t, {}) for t in (1, 4)}, "worker", began=began, jvm=True))
        found.append((T0_MS + s * 1000 + draw(st.sampled_from([0, 0, 500])), reports))
    return found


@given(days(), st.integers(0, 400), st.none() | st.integers(0, 200))
def test_columns_say_what_tasks_one_by_one_say(
    arrivals: list[tuple[int, list[LoadReport]]], since_s: int, apart_s: int | None
) -> None:
    columns, one_by_one = LoadHistory(60), TaskByTask(60)
    for now_ms, reports in arrivals:
        for history in (columns, one_by_one):
            history.take(reports, now_ms)
            if apart_s is not None:
                history.keep_apart(TOPOLOGY, T0_MS + apart_s * 1000)
        since_ms = max(now_ms - 60_000, T0_MS + since_s * 1000)
        assert told(columns, since_ms, now_ms) == told(one_by_one, since_ms, now_ms)


@settings(max_examples=40)
@given(days())
def test_both_schemas_lead_to_the_same(arrivals: list[tuple[int, list[LoadReport]]]) -> None:
    former, now = LoadHistory(60), LoadHistory(60)
    for now_ms, reports in arrivals:
        former.take([decode(schema_1(r), LoadReport, "load") for r in reports], now_ms)
        now.take([decode(encode(r), LoadReport, "load") for r in reports], now_ms)
        assert told(former, now_ms - 60_000, now_ms) == told(now, now_ms - 60_000, now_ms)


def test_reports_that_go_on_are_not_taken_in_task_by_task(monkeypatch: Any) -> None:
    """Work is counted, not time: tasks that go on cost no sample of their own."""
    history, counted, take = LoadHistory(60), [], LoadHistory._take

    def counting(self: LoadHistory, *arguments: Any) -> None:
        counted.append(arguments[2])
        take(self, *arguments)

    monkeypatch.setattr(LoadHistory, "_take", counting)
    for s in range(10, 200, 10):
        history.take([a_report(s, {t: {} for t in (1, 2, 3, 4)})], T0_MS + s * 1000)
    assert len(counted) == 4, "the first report alone"
    assert history.rates(TOPOLOGY, T0_MS, T0_MS + 200_000)[4].acked_tps == 100.0


def test_new_process_of_one_task_ends_the_columns_of_its_reporter_and_they_begin_again() -> None:
    history = LoadHistory(60)
    for s in range(10, 60, 10):
        history.take([a_report(s, {1: {}, 4: {}})], T0_MS + s * 1000)
    for s in range(60, 120, 10):
        history.take([a_report(s, {1: {}, 4: {}}, began={4: (1, 55)})], T0_MS + s * 1000)
    assert set(history.returns(TOPOLOGY, T0_MS)) == {4}
    assert history.rates(TOPOLOGY, T0_MS, T0_MS + 120_000)[1].covered_s == 100.0


@pytest.mark.parametrize("kind", [LoadHistory, TaskByTask])
def test_processes_that_started_before_their_clock_was_set_back_are_heard(kind: type[LoadHistory]) -> None:
    history, ahead = kind(60), {"start_ms": T0_MS + 7_200_000}
    for s in range(10, 70, 10):
        history.take([a_report(s, {1: ahead, 4: ahead})], T0_MS + s * 1000)
    found = history.rates(TOPOLOGY, T0_MS, T0_MS + 60_000)[4]
    assert (found.covered_s, found.up_s, found.acked_tps) == (50.0, 0.0, 100.0)
    assert not history.rejected


def test_slot_that_gets_other_tasks_begins_anew_and_leaves_the_former_ones_what_they_had() -> None:
    history = LoadHistory(60)
    for s in range(10, 60, 10):
        history.take([a_report(s, {1: {}, 4: {}})], T0_MS + s * 1000)
    for s in range(60, 120, 10):
        reports = [a_report(s, {5: {}, 6: {}}, began={5: (1, 55), 6: (1, 55)})]
        if s >= 80:
            reports.append(a_report(s, {1: {}, 4: {}}, "elsewhere", began={1: (1, 75), 4: (1, 75)}))
        history.take(reports, T0_MS + s * 1000)
        found = history.rates(TOPOLOGY, T0_MS, T0_MS + s * 1000)
        assert {t: r.task for t, r in found.items()} == {t: t for t in (1, 4, 5, 6)}
    assert found[4].acked_tps == 100.0
    assert {t: r.covered_s for t, r in found.items()} == {1: 70.0, 4: 70.0, 5: 50.0, 6: 50.0}


def test_message_that_differs_in_its_host_alone_is_no_continuation() -> None:
    history = LoadHistory(60)
    for s in range(10, 40, 10):
        history.take([a_report(s, {1: {}, 4: {}})], T0_MS + s * 1000)
    report = a_report(40, {1: {}, 4: {}})
    moved = [msgspec.structs.replace(x, host="elsewhere") for x in report.tasks]
    history.take([msgspec.structs.replace(report, tasks=moved)], T0_MS + 40_000)
    assert history.rates(TOPOLOGY, T0_MS, T0_MS + 40_000)[4].host == "elsewhere"
