"""Load reports of a collector: which process of a task is believed, and texts that fit into a znode."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormpilot.instrument.reports import MAX_BYTES, LoadBook, encode_reports
from stormpilot.messages import core
from stormpilot.messages.core import decode
from stormpilot.messages.limits import LOAD
from stormpilot.messages.load import LoadReport


def load(task: int, start_ms: int = 1000, seq: int = 1, **more: object) -> str:
    return json.dumps(
        {
            "task": task,
            "component": "parse",
            "host": "node-1",
            "mhz": None,
            "pid": 4711,
            "startMs": start_ms,
            "seq": seq,
            "atMs": start_ms + seq * 1000,
            "cpuS": 0.5,
            **more,
        }
    )


def noise(seed: int, entries: int) -> dict[str, list[list[int]]]:
    """Counters that do not compress well."""
    rng = random.Random(seed)
    return {f"{rng.getrandbits(64):x}": [[rng.randrange(2**31)], [rng.getrandbits(60)]] for _ in range(entries)}


# --- the newest of each task ----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.permutations([(start, seq) for start in (1000, 2000) for seq in (1, 2, 3)]))
def test_the_later_process_wins_then_the_higher_number_in_any_order(
    order: list[tuple[int, int]],
) -> None:
    book = LoadBook([3])
    for start_ms, seq in order:
        book.add(load(3, start_ms, seq))
    (kept,) = map(json.loads, book.loads())
    assert (kept["startMs"], kept["seq"]) == (2000, 3)


def test_a_report_of_a_dead_process_is_refused() -> None:
    book = LoadBook([3])
    assert book.add(load(3, start_ms=2000, seq=1))
    assert not book.add(load(3, start_ms=1000, seq=99))


def test_a_process_on_a_host_whose_clock_is_behind_is_heard_once_the_one_before_is_silent() -> None:
    now_s = [0.0]
    book = LoadBook([3], clock=lambda: now_s[0])
    ahead_ms, behind_ms = 300_000, 120_000
    heard = []
    for at_s, start_ms, seq in ((0, ahead_ms, 1), (20, ahead_ms, 2), (49, behind_ms, 1), (50, behind_ms, 2)):
        now_s[0] = at_s
        heard.append(book.add(load(3, start_ms, seq)))
    assert heard == [True, True, False, True]
    now_s[0] = 90.0
    assert not book.add(load(3, behind_ms, seq=2)), "the same again is nothing new, however late"


def test_a_process_that_reports_once_a_minute_is_not_silent_between_two_reports() -> None:
    now_s = [0.0]
    book = LoadBook([3], period_s=60.0, clock=lambda: now_s[0])
    assert book.add(load(3, start_ms=2000, seq=1))
    now_s[0] = 50.0
    assert not book.add(load(3, start_ms=1000, seq=99)), "of the process before"
    now_s[0] = 180.0
    assert book.add(load(3, start_ms=1000, seq=100))


def test_a_task_that_the_topology_does_not_have_is_refused() -> None:
    book = LoadBook([3])
    assert not book.add(load(4))
    assert book.loads() == []


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "7", "null", '{"task": 3}', '{"task": [3], "startMs": 1, "seq": 1}']
)
def test_what_is_no_load_is_refused_aloud(text: str) -> None:
    with pytest.raises(ValueError, match="not a load"):
        LoadBook([3]).add(text)


def test_a_value_that_is_no_text_is_refused_aloud() -> None:
    with pytest.raises(ValueError, match="not a load"):
        LoadBook([3]).add(None)  # type: ignore[arg-type]


def test_loads_stand_in_the_order_of_their_tasks() -> None:
    book = LoadBook([10, 2, 3])
    for task in (10, 3, 2):
        book.add(load(task))
    assert [json.loads(text)["task"] for text in book.loads()] == [2, 3, 10]


# --- messages -------------------------------------------------------------------------------------------------------


def test_a_report_decodes_as_the_contract_says() -> None:
    received = {"default": [[1], [8]]}
    encoded = encode_reports("flights-1-1", "collector-9", 12, 5000, [load(3, received=received), load(4)])
    report = decode(encoded["collector-9"], LoadReport, "test")
    assert (report.schema, report.topology_id, report.reporter, report.seq, report.written_at_ms) == (
        LoadReport.newest_schema,
        "flights-1-1",
        "collector-9",
        12,
        5000,
    )
    assert [t.task for t in report.tasks] == [3, 4]
    assert report.tasks[0].received == {"default": ([1], [8])}


def test_a_report_without_tasks_decodes_too() -> None:
    report = decode(encode_reports("t", "collector-9", 1, 1, [])["collector-9"], LoadReport, "test")
    assert report.tasks == []


def test_limits_are_those_of_the_messages() -> None:
    from stormpilot.instrument import reports

    of_reports = (reports.SCHEMA, reports.GZIP_ABOVE_BYTES, reports.MAX_BYTES)
    assert of_reports == (LoadReport.newest_schema, LOAD.gzip_above_bytes, core.MAX_BYTES)
    assert LOAD.unpacked_bytes > reports.MAX_PLAIN_BYTES
    assert LOAD.values > reports.MAX_VALUES


def test_a_report_above_1_kib_is_compressed_and_the_same_bytes_every_time() -> None:
    loads = [load(task) for task in range(10)]
    (first,) = encode_reports("t", "collector-9", 1, 1, loads).values()
    (again,) = encode_reports("t", "collector-9", 1, 1, loads).values()
    assert first == again
    assert first[:2] == b"\x1f\x8b"
    assert len(decode(first, LoadReport, "test").tasks) == 10


def test_a_report_above_the_limit_of_a_znode_is_split_and_loses_no_task() -> None:
    loads = [load(task, received=noise(task, 4000)) for task in range(14)]
    encoded = encode_reports("t", "collector-9", 1, 1, loads)
    assert len(encoded) > 1
    assert list(encoded) == [f"collector-9-{k}" for k in range(len(encoded))]
    assert all(len(data) <= MAX_BYTES for data in encoded.values())
    reports = {name: decode(data, LoadReport, name) for name, data in encoded.items()}
    assert all(report.reporter == name for name, report in reports.items())
    assert [t.task for report in reports.values() for t in report.tasks] == list(range(14))


@pytest.mark.parametrize(
    "received",
    [
        {"a": [list(range(8_000)), [1] * 8_000]},
        {f"{k}{'s' * 300}": [list(range(5)), [1] * 5] for k in range(700)},
    ],
    ids=["values", "bytes"],
)
def test_no_znode_has_more_than_the_controller_reads_however_well_it_packs(
    received: dict[str, list[list[int]]],
) -> None:
    loads = [load(task, received=received) for task in range(70)]
    encoded = encode_reports("t", "collector-9", 1, 1, loads)
    reports = [decode(data, LoadReport, name) for name, data in encoded.items()]
    assert [t.task for report in reports for t in report.tasks] == list(range(70))


def test_a_load_too_large_for_a_znode_is_left_out_and_the_others_stay() -> None:
    loads = [load(1), load(2, received=noise(2, 45_000)), load(3)]
    assert len(gzip.compress(loads[1].encode())) > MAX_BYTES
    encoded = encode_reports("t", "collector-9", 1, 1, loads)
    assert [t.task for data in encoded.values() for t in decode(data, LoadReport, "test").tasks] == [1, 3]
