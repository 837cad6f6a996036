"""`make bench-moves`: what a source wrote down into figures, and figures into rows, without a cluster."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.moves import otd, page
from benchmarks.moves.__main__ import ended, published
from benchmarks.moves.measured import Move, Second, read, summary
from inprocess_storm import load_topology
from multilang import handshake, run
from stormpilot.errors import UnreachableError
from stormpilot.instrument.partitions import partition_of
from stormpilot.messages.routes import first_route
from word_count.sentences import topic_name
from word_count.settings import Settings
from word_count.work import HotTopics

SOURCE = Path(__file__).resolve().parents[3] / "benchmarks" / "moves" / "project" / "src"


def seconds(*acked: int, begin: int = 100, failed: int = 0) -> dict[int, Second]:
    """Tuples acked in each second; 5 ms each, 50 ms where fewer than 100."""
    return {
        begin + i: Second(100, n, failed, (5.0,) * n if n >= 100 else (50.0,) * n) for i, n in enumerate(acked) if n
    }


def test_seconds_in_which_nothing_was_written_are_seconds_without_a_tuple() -> None:
    """10 calm seconds; then a move: 100, 75, 55, 0, 0, 100."""
    told = summary(seconds(*[100] * 10, 100, 75, 55, 0, 0, 100), [Move(110.2, 114.0, 4)], (100, 110), 116)
    assert told["normal_tps"] == 100
    assert told["seconds_down_by"] == {"20": 4, "40": 3, "60": 2, "80": 2, "100": 2}
    assert (told["lowest_ratio"], told["measured_s"], told["executors_per_move"]) == (0.0, 6, 4.0)
    assert (told["p99_calm_ms"], told["p99_ms"]) == (5.0, 50.0)


def test_failed_tuples_count_whenever_they_time_out() -> None:
    written = seconds(*[100] * 10) | {110: Second(100, 100), 130: Second(100, 100, 7)}
    assert summary(written, [Move(110.0, 111.0, 1)], (100, 110), 140)["failed"] == 7


def test_a_move_is_over_when_throughput_is_back() -> None:
    moves = ended([Move(100.0, 102.0, 4)], seconds(100, 100, 0, 0, 60, 100, 100, 100, 100), 100)
    assert moves[0].ended_s == 105.0


def test_a_half_written_line_is_left_out_and_two_processes_of_a_second_add_up(tmp_path: Path) -> None:
    file = tmp_path / "source.jsonl"
    line = {"second": 7, "emitted": 3, "acked": 2, "failed": 1, "latency_ms": [1.5], "failed_sent_s": [6.5]}
    file.write_text(json.dumps(line) + "\n" + json.dumps(line) + "\n" + '{"second": 8, "emi')
    assert read(file) == {7: Second(6, 4, 2, (1.5, 1.5), (6.5, 6.5))}
    assert read(tmp_path / "not there") == {}


def row(variant: str, down: int, moves: int = 3, failed: int = 0, p99_ms: float = 20.0) -> dict[str, Any]:
    return {
        "variant": variant,
        "title": variant,
        "targets": "java",
        "moves": moves,
        "measured_s": 60 * moves,
        "executors_per_move": 4.0,
        "seconds_down_by": dict.fromkeys(["20", "40", "60", "80", "100"], down),
        "failed": failed,
        "p99_calm_ms": 5.0,
        "p99_ms": p99_ms,
        "period_s": 60.0,
        "load_average": 3.5,
        "at": "2026-01-01 10:00",
        "cpu": "EPYC",
    }


def test_page_has_the_period_and_the_load_that_rows_were_measured_with() -> None:
    rows = [row("assignment", 60), row("rolling", 0), row("switch", 0) | {"period_s": 3.75}]
    text = " ".join("\n".join(published(rows, {}, argparse.Namespace(rate=100.0))).split())
    assert "2 cores (EPYC), load average 3.5 to 3.5" in text
    assert "100 tuples/s, a move every 60 s, as in the N-Storm paper, where a row says nothing else" in text
    assert "| switch, 16 a minute | java |" in text
    assert "[moves.json](moves.json)" in text


def test_what_was_wanted_is_judged_against_the_assignment_change_move_by_move() -> None:
    good = page.judged([row("assignment", 60), row("rolling", 0, moves=2)])
    assert not any("missed" in line for line in good)
    assert any("-100%" in line for line in good)
    bad = page.judged([row("assignment", 60), row("rolling", 10, failed=3, p99_ms=1_500.0)])
    assert [line.rpartition(", ")[2] for line in bad] == ["missed"] * 4
    assert page.judged([row("rebalance", 99)]) == []
    assert "| rolling | java | 3 in 180 s | 4 | 10 |" in "\n".join(page.markdown([row("rolling", 10)]))


def test_the_source_writes_down_what_became_of_its_tuples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SOURCE))
    moving = pytest.importorskip("moving")
    now_s = [1_000.0]
    monkeypatch.setattr(moving.time, "time", lambda: now_s[0])
    monkeypatch.setattr(moving.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(moving.time, "sleep", lambda s: None)

    class Source(moving.Source):  # type: ignore[misc, name-defined]
        def next_tuple(self) -> None:
            now_s[0] += 0.25
            super().next_tuple()

    conf = {"bench.rate.tps": 4, "bench.source.file": str(tmp_path / "source.jsonl")}
    command = {"command": "next", "id": ""}
    done, lost = ({"command": word, "id": f"1000000-{n}"} for n, word in enumerate(("ack", "fail")))
    messages = [command, done, command, lost, *[command] * 8]
    sent, _ = run(Source, handshake(tmp_path, conf, component="c_source"), messages)
    assert sum(m.get("command") == "emit" for m in sent) >= 8
    first = read(tmp_path / "source.jsonl")[1000]
    assert (first.emitted, first.acked, first.failed, first.failed_sent_s) == (3, 1, 1, (1000.5,))
    del sys.modules["moving"]


def step(number: int, share: float, throughput_tps: float = 100.0, mean_ms: float = 20.0, cpu: float = 50.0) -> Any:
    return {
        "step": number,
        "how": "OTD",
        "inter_node_share": share,
        "inter_node_tps": 100 * share,
        "throughput_tps": throughput_tps,
        "with_move_tps": throughput_tps,
        "failed": 0,
        "mean_ms": mean_ms,
        "p99_ms": None,
        "cpu_percent": [cpu, cpu + 10],
    }


def dealt(form: str) -> dict[str, list[tuple[int, bool]]]:
    """(Node, whether it works) of every task by component, as Storm deals them out: by number, round and round."""
    specs = {s.name: s.par["standby"] for s in load_topology(otd.FORMS[form].topology).specs}
    placed: dict[str, list[tuple[int, bool]]] = {}
    number = 0
    for component, working in sorted({"__acker": 1, **specs}.items()):
        for i in range(working + otd.SPARE.get(component, 0)):
            placed.setdefault(component, []).append((number % otd.NODES, i < working))
            number += 1
    return placed


@pytest.mark.parametrize("form", otd.FORMS)
def test_all_tasks_can_come_to_where_source_and_acker_are(form: str) -> None:
    placed = dealt(form)
    (source, _), (acker, _) = *placed["sentences"], *placed["__acker"]
    assert source == acker
    for component in ("split", "count"):
        elsewhere = sum(works and n != source for n, works in placed[component])
        assert placed[component].count((source, False)) >= elsewhere > 3
        assert sum(works for _, works in placed[component]) == otd.TASKS[component]


def test_hot_topics_come_to_tasks_of_one_node_at_first() -> None:
    options = otd.FORMS["computation"].options
    settings = Settings.from_storm_conf({**options, **otd.uneven(options)})
    topics, now_s = HotTopics(settings), time.time()
    names = [topic_name(n) for n in range(settings.topics)]
    hot = [name for name in names if topics.terms(name, now_s) > settings.harmonic_terms]
    nodes = [node for node, _ in dealt("computation")["split"]]
    partitions = first_route("split", range(len(nodes)), otd.SPARE["split"], keyed=True).partitions
    assert len(hot) == 4
    assert len({nodes[partitions[partition_of([name], len(partitions))]] for name in hot}) == 1


def test_otd_is_judged_by_what_the_paper_claims() -> None:
    good = {
        "form": "communication",
        "topology": "wordcount_comm",
        "rows": [step(0, 0.5), step(9, 0.05, 120.0, 17.0)],
    }
    assert len(otd.judged(good)) == 3
    assert not any("missed" in line for line in otd.judged(good))
    bad = {**good, "rows": [step(0, 0.5), step(1, 0.05, 120.0, 17.0), step(61, 0.06, 118.0, 17.3)]}
    assert [c.reached for c in otd.claims(bad)] == [False] * 3
    assert all(line.endswith(", missed") for line in otd.judged(bad))
    busier = {**good, "form": "computation", "rows": [step(0, 0.5), step(9, 0.19, 115.0, cpu=80.0)]}
    assert otd.judged(busier)[0] == (
        "otd, computation, mean CPU of the nodes: +55% (55% to 85%) (claimed +51% (51% to 77%))"
    )
    assert all(c.reached for c in otd.claims(busier))
    assert "| 61 | 6.0% | 6 | 118.0 | 118.0 | 0 | 17.3 ms |  | 50% and 60% | OTD |" in otd.markdown(
        {**bad, "load_average": 1, "cpu": "EPYC", "at": "today"}
    )
    with pytest.raises(UnreachableError, match="there are communication, computation"):
        otd.checked("wordcount")
