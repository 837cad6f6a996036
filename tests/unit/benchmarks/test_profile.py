"""The page of profiles: repetitions beside each other, also as they would be on a machine of one speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.profile import page, speed
from support.waiting import until


def repetition(*peaks: tuple[int, float, float | None]) -> dict[str, Any]:
    """Peaks of one, two, ... threads: the step of the rate, the rate, and the machine's speed."""
    points = [
        {
            "threads": threads,
            "step": step,
            "rate_tps": rate_tps,
            "cpu_share": 0.95,
            "memory_mb": 200.0,
            "heap_mb": None,
            **({} if probe_tps is None else {"probe_tps": probe_tps}),
        }
        for threads, (step, rate_tps, probe_tps) in enumerate(peaks, 1)
    ]
    return {"points": points}


def test_a_machine_that_was_half_as_fast_explains_half_the_rate() -> None:
    found = {"cores": 2, "profiles": {"pi": [repetition((33, 232.3, 800.0)), repetition((26, 116.2, 400.0))]}}
    assert page.apart(found, "pi") == {1: 7}
    assert page.apart_at_one_speed(found, "pi") == {1: 0}
    assert page.good(found)
    assert page._rows(found)[0][-3:] == ["133% / 67%", "7", "0"]


def test_where_the_speed_is_not_known_the_steps_count() -> None:
    found = {"cores": 2, "profiles": {"pi": [repetition((33, 232.3, None)), repetition((26, 116.2, 400.0))]}}
    assert page.apart_at_one_speed(found, "pi") == {}
    assert not page.good(found)
    assert page._rows(found)[0][-3:] == ["- / 100%", "7", "-"]


def test_each_line_of_the_trials_has_a_speed(tmp_path: Path) -> None:
    trials, out = tmp_path / "pi-1.trials.jsonl", tmp_path / "pi-1.speed.jsonl"
    trials.write_text('{"of": "pi"}\n{"trial": 1}\n')  # a profile that was interrupted
    with speed.Speeds(trials, out):
        with trials.open("a") as file:
            file.write('{"trial": 2}\n')
        until(out.exists, "the new line has a speed")
    (line, probe_tps), *others = speed.read(out).items()
    assert line == 3
    assert probe_tps > 0
    assert not others


def test_without_notes_no_speed_is_known(tmp_path: Path) -> None:
    assert speed.read(tmp_path / "none.jsonl") == {}
    assert speed.steps_apart([{"rate_tps": 1.0, "probe_tps": 1.0}]) is None


@pytest.mark.parametrize(("rates", "steps"), [((100.0, 100.0), 0), ((100.0, 110.0), 1), ((121.0, 100.0), 2)])
def test_steps_are_of_ten_percent(rates: tuple[float, float], steps: int) -> None:
    assert speed.steps_apart([{"rate_tps": r, "probe_tps": 700.0} for r in rates]) == steps


def test_a_new_repetition_stands_beside_the_published_one(tmp_path: Path) -> None:
    out, published = tmp_path / "out", tmp_path / "profile.json"
    out.mkdir()
    measured(out, "blob-1", mhz=2300.0)
    old = repetition((24, 23.2, None)) | {"slot": {"cores": 0.4, "mhz": 2600.0, "memory_mb": 1024.0}}
    published.write_text(json.dumps({"profiles": {"blob": [old], "pi": [old]}}))
    found = page.collect(out, ["blob", "pi"], 2, published)
    assert [r["slot"]["mhz"] for r in found["profiles"]["blob"]] == [2300.0]
    assert found["profiles"]["pi"] == [old]
    found = page.collect(out, ["blob", "pi"], 2, published, beside=True)
    assert [r["slot"]["mhz"] for r in found["profiles"]["blob"]] == [2600.0, 2300.0]
    assert page._unlike(found) == " Blob download ran on cores of 2,600, then 2,300 MHz."
    assert "Peaks of blob download are the same; pi was measured once" in page._agreement(found)
    published.write_text(json.dumps(found))
    assert page.collect(out, ["blob", "pi"], 2, published, beside=True) == found


def measured(out: Path, name: str, mhz: float) -> None:
    """A profile of one trial that is complete."""
    trial = {"threads": 1, "step": 24, "rate_tps": 23.2, "stable": True}
    (out / f"{name}.json").write_text(json.dumps({"models": [{"points": [trial]}]}))
    lines = [{"of": name}, {"trial": trial}, {"slot": {"cores": 0.4, "mhz": mhz, "memory_mb": 1024.0}}]
    (out / f"{name}.trials.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
