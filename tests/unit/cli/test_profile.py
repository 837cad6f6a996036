"""A profile that is interrupted: what is known is not measured again, and no trial begins when the time is over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stormpilot.cli.profile import _Kept, _TimeUpError, _Told
from stormpilot.cli.progress import Progress
from stormpilot.sizing.profiling import RateGrid, Rules, Trial, search
from stormpilot.trials.record import Record
from stormpilot.trials.slot import SlotSize

GRID = RateGrid(10.0, 0.1, True, 10_000.0)
OF = {"component": "tasks:Pi"}


class Bench:
    """Sustains 100 tuples/s; `ends` says after how many trials and starts it is too late."""

    slot = SlotSize(cores=1.0, mhz=1000.0, memory_mb=100.0)
    node = "host-a"

    def __init__(self) -> None:
        self.trials: list[tuple[int, int]] = []
        self.starts: list[int] = []

    def __call__(self, threads: int, step: int, attempt: int) -> Trial:
        self.trials.append((threads, step))
        rate_tps = GRID.rate(step)
        return Trial(threads=threads, step=step, rate_tps=rate_tps, stable=rate_tps <= 100.0)

    def guess(self, threads: int) -> int:
        self.starts.append(threads)
        return GRID.step_at(120.0)


def searched(file: Path, bench: Bench, ends_s: float = float("inf")) -> tuple[list[Trial], _Told]:
    record = Record(file, OF)
    told = _Told(Progress("profile"), record)
    kept = _Kept(bench, record, told, ends_s)  # type: ignore[arg-type]
    try:
        return search(kept.run, GRID, Rules(repeats=0), told.standing, kept.guess), told
    except _TimeUpError:
        return told.peaks, told


def test_a_second_run_measures_nothing_again(tmp_path: Path) -> None:
    first, second = Bench(), Bench()
    peaks, told = searched(tmp_path / "record", first)
    assert told.complete
    assert first.starts == [1, 2, 3]
    assert searched(tmp_path / "record", second)[0] == peaks
    assert (second.trials, second.starts) == ([], [])


def test_no_start_and_no_trial_when_the_time_is_over(tmp_path: Path) -> None:
    bench = Bench()
    peaks, told = searched(tmp_path / "record", bench, time.monotonic() - 1)
    assert (peaks, told.complete, bench.trials, bench.starts) == ([], False, [], [])


@pytest.mark.parametrize("lines", [3, 6, 9])
def test_an_interrupted_run_goes_on_with_the_next_trial(tmp_path: Path, lines: int) -> None:
    whole, rest = Bench(), Bench()
    expected, _ = searched(tmp_path / "whole", whole)
    kept = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
    (tmp_path / "part").write_bytes(b"".join(kept[:lines]))
    assert searched(tmp_path / "part", rest)[0] == expected
    assert len(rest.trials) + len(rest.starts) == len(whole.trials) + len(whole.starts) - (lines - 1)
