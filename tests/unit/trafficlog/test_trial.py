"""What a trial run makes of the rows of a traffic log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stormpilot.trafficlog import trial as trial_of
from stormpilot.trafficlog.place import LogPlace, place_of
from stormpilot.trafficlog.reading import LogRows
from stormpilot.trafficlog.retention import Housekeeping
from stormpilot.trafficlog.trial import TopologyTrial, topology_trial, trial_run
from stormpilot.trafficlog.trial_text import certainty_lines, lasting, total_line
from stormpilot.trafficlog.writer import TrafficLog

T0 = 1_767_000_000_000
PERIOD_MS = 10_000
APART_S = 60.0


def decision(cycle: int, action: str = "skip", **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "at": T0 + cycle * PERIOD_MS,
        "topology_name": "flights",
        "mode": "advise",
        "action": action,
        "reason": "GAIN" if action == "advise" else "GAIN_BELOW_THRESHOLD",
        "text": f"cycle {cycle}",
        "moved_executors": 3 if action == "advise" else 0,
        "inter_node_tps": 600.0 if action == "advise" else None,
        "planned_inter_node_tps": 200.0 if action == "advise" else None,
        "total_tps": 1000.0,
        "restarted_workers": 2 if action == "advise" else None,
        "held_up_tuples": 500.0 if action == "advise" else None,
    }
    return {**row, **fields}


def window(cycle: int, share: float = 0.6, **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "window_from": datetime.fromtimestamp((T0 + (cycle - 1) * PERIOD_MS) / 1000, UTC),
        "window_to": T0 + cycle * PERIOD_MS,
        "topology_name": "flights",
        "measured": True,
        "total_tps": 1000.0,
        "inter_node_tps": 1000.0 * share,
    }
    return {**row, **fields}


def trial(
    decisions: list[dict[str, Any]],
    outcomes: list[dict[str, Any]] | None = None,
    windows: list[dict[str, Any]] | None = None,
) -> TopologyTrial:
    return topology_trial("flights", ["flights-1"], decisions, outcomes or [], windows or [], APART_S)


def test_proposal_that_stands_is_one_move_and_saves_for_as_long_as_it_stands() -> None:
    """Its cost is that of its first cycle, what it saves is counted at the rates of each cycle."""
    rows = [decision(0), *(decision(i, "advise") for i in range(1, 6)), decision(6)]
    rows[3] |= {"inter_node_tps": 700.0, "planned_inter_node_tps": 100.0, "moved_executors": 9}
    (p,) = trial(rows).proposals
    assert (p.cycles, p.proposed_s, p.from_ms, p.to_ms) == (5, 50.0, T0 + PERIOD_MS, T0 + 6 * PERIOD_MS)
    assert (p.moved_executors, p.restarted_workers, p.held_up_tuples) == (3, 2, 500.0)
    assert p.saved_tuples == pytest.approx(4 * 400 * 10 + 600 * 10)
    assert p.inter_node_tps == pytest.approx(620.0)
    assert p.inter_node_share == pytest.approx(0.62)
    assert p.planned_inter_node_share == pytest.approx(0.18)
    assert p.text == "cycle 5"


def test_proposals_within_the_cool_down_are_one_and_later_ones_another() -> None:
    rows = [decision(i, "advise" if i in (0, 4, 20) else "skip") for i in range(25)]
    rows[4]["reason"] = "OVERLOAD"
    first, second = trial(rows).proposals
    assert (first.reasons, first.cycles, first.proposed_s) == (["GAIN", "OVERLOAD"], 2, 20.0)
    assert (second.from_ms, second.cycles) == (T0 + 20 * PERIOD_MS, 1)
    assert trial(rows).moved_executors == 6


def test_share_over_the_period_as_it_ran_and_had_each_proposal_been_in_place() -> None:
    rows = [decision(i, "advise" if i < 5 else "skip") for i in range(10)]
    t = trial(rows, windows=[window(i + 1) for i in range(10)])
    assert t.inter_node_share == pytest.approx(0.6)
    assert t.followed_inter_node_share == pytest.approx(0.4)
    assert (t.total_tps, t.inter_node_tps) == (pytest.approx(1000.0), pytest.approx(600.0))


def test_windows_that_were_not_logged_save_nothing() -> None:
    """Of every third window nothing is known: a proposal that halves the traffic halves that of the others."""
    rows = [decision(i, "advise", inter_node_tps=600.0, planned_inter_node_tps=300.0) for i in range(30)]
    t = trial(rows, windows=[window(i + 1) for i in range(30) if i % 3])
    assert t.followed_inter_node_share == pytest.approx(0.3)


def test_reasons_for_which_nothing_was_proposed_stand_with_their_time() -> None:
    rows = [decision(i, reason="COOL_DOWN" if i < 2 else "GAIN_BELOW_THRESHOLD") for i in range(8)]
    rows.append(decision(8, "advise", moved_executors=0, reason="REPAIR"))
    found = {s.reason: (s.cycles, s.lasted_s, s.text) for s in trial(rows).skipped}
    assert found["GAIN_BELOW_THRESHOLD"] == (6, 60.0, "cycle 7")
    assert found["COOL_DOWN"] == (2, 20.0, "cycle 1")
    assert found["REPAIR"] == (1, 10.0, "cycle 8")
    assert next(s.reason for s in trial(rows).skipped) == "GAIN_BELOW_THRESHOLD"


def test_time_without_a_controller_saves_nothing_and_is_told() -> None:
    rows = [*(decision(i, "advise") for i in range(10)), *(decision(i, "advise") for i in range(110, 120))]
    t = trial(rows)
    assert t.observed_s == pytest.approx(19 * 10 + 30)
    assert t.saved_tuples == pytest.approx(400 * t.observed_s)
    assert any("no controller decided" in line for line in certainty_lines(t))


def test_prediction_error_of_moves_that_were_made() -> None:
    moves = [
        {"metric": "inter_node_share", "predicted": 0.2, "measured": m, "verdict": "HELPED", "downtime_s": 8.0}
        for m in (0.21, 0.25, 0.26)
    ]
    moves.append({"metric": "load_ratio", "predicted": 0.2, "measured": 0.9, "verdict": "WORSE", "downtime_s": None})
    t = trial([decision(0)], outcomes=moves)
    assert (t.certainty.moves, t.certainty.checked) == (4, 3)
    assert t.certainty.error_share == pytest.approx(0.05)
    assert t.certainty.verdicts == {"HELPED": 3, "WORSE": 1}
    assert "3 moves checked: the share between nodes was off by 5.0%" in certainty_lines(t)[1]


def test_without_moves_it_says_that_no_prediction_was_checked() -> None:
    t = trial([decision(0), decision(1)])
    lines = " ".join(certainty_lines(t))
    assert "no prediction was checked" in lines
    assert "no restart was measured" in lines
    assert "not known" in lines


def test_cost_that_an_older_log_does_not_have_is_unknown_and_not_zero() -> None:
    t = trial([decision(0, "advise", restarted_workers=None, held_up_tuples=None)])
    assert t.restarted_workers is None
    assert t.held_up_tuples is None
    assert "holds up" not in total_line([t])


def test_first_plan_without_a_placement_before_has_no_rates() -> None:
    (p,) = trial([decision(0, "advise", reason="FIRST_PLAN", inter_node_tps=None)]).proposals
    assert (p.inter_node_tps, p.inter_node_share, p.saved_tuples) == (None, None, 0.0)


def test_log_is_read_in_its_period_and_a_broken_file_is_named(tmp_path: Path) -> None:
    log = TrafficLog(tmp_path)
    for i in range(20):
        log.add("decisions", [decision(i, "advise") | {"topology_id": "flights-1"}], "flights-1")
        log.add("decisions", [decision(i) | {"topology_id": "other-2", "topology_name": "other"}], "other-2")
        log.add("windows", [window(i + 1) | {"topology_id": "flights-1"}], "flights-1")
    log.flush(T0 + 20 * PERIOD_MS)
    folder = next(tmp_path.glob("decisions/*/topology=other-2"))
    (folder / "20251229T09-1-broken.parquet").write_bytes(b"PAR1 no")
    left_out: list[str] = []
    found = trial_run(
        log.place, T0 + 5 * PERIOD_MS, T0 + 15 * PERIOD_MS, APART_S, lambda path, cause: left_out.append(path)
    )
    assert [(t.name, t.cycles, len(t.proposals)) for t in found] == [("flights", 10, 1), ("other", 10, 0)]
    assert found[0].certainty.windows == 10
    assert ["broken" in path for path in left_out] == [True]
    only = trial_run(log.place, T0, T0 + PERIOD_MS, APART_S, lambda path, cause: None, ["other"])
    assert [t.name for t in only] == ["other"]


def test_rows_of_one_topology_at_a_time_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A month of a cluster does not fit; and only what is asked for is read."""
    log = TrafficLog(tmp_path)
    long = "流" * 40
    ids = ["flights-1-17", "flights-2-18", "other-3-17", f"{long}-4-17"]
    for i, topology_id in enumerate(ids):
        name = topology_id.rsplit("-", 2)[0]
        log.add("decisions", [decision(i) | {"topology_id": topology_id, "topology_name": name}], topology_id)
    log.flush(T0)
    made, asked = list[tuple[str, list[str]]](), list[str]()
    of, reduce = LogRows.of, trial_of.topology_trial

    def reading(self: LogRows, table: str, moment: str, topology_id: str, columns: Any) -> Any:
        asked.append(topology_id)
        return of(self, table, moment, topology_id, columns)

    def reducing(name: str, ids: Any, *rest: Any) -> TopologyTrial:
        made.append((name, list(dict.fromkeys(asked))))
        asked.clear()
        return reduce(name, ids, *rest)

    monkeypatch.setattr(LogRows, "of", reading)
    monkeypatch.setattr(trial_of, "topology_trial", reducing)
    found = trial_run(log.place, T0, T0 + 3_600_000, APART_S, lambda path, cause: None)
    assert made == [("flights", ids[:2]), ("other", ids[2:3]), (long, ids[3:])]
    assert [(t.name, t.cycles) for t in found] == [("flights", 2), ("other", 1), (long, 1)]
    made.clear()
    trial_run(log.place, T0, T0 + 3_600_000, APART_S, lambda path, cause: None, ["other"])
    assert (made, asked) == ([("other", ids[2:3])], [])


def test_files_that_a_controller_merges_while_they_are_read_cost_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TrafficLog(tmp_path)
    for i in range(5):
        log.add("decisions", [decision(i) | {"topology_id": "flights-1"}], "flights-1")
        log.flush(T0 + i * PERIOD_MS)
    read, controllers_turn = LogPlace.read, [True, False]

    def after_the_controller(self: LogPlace, path: str) -> Any:
        if controllers_turn and controllers_turn.pop():
            Housekeeping(place_of(tmp_path)).merge(T0 + 3_600_000, lambda: False)
        return read(self, path)

    monkeypatch.setattr(LogPlace, "read", after_the_controller)
    left_out: list[str] = []
    (found,) = trial_run(log.place, T0, T0 + 3_600_000, APART_S, lambda path, cause: left_out.append(path))
    assert (found.cycles, left_out) == (5, [])
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (90, "1 min 30 s"), (7200, "2 h"), (608_400, "7 d 1 h")]
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert lasting(seconds) == text
