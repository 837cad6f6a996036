"""The record of trials: what is kept, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormpilot.errors import UsageError
from stormpilot.sizing.profiling import Trial
from stormpilot.trials.record import Record
from stormpilot.trials.slot import SlotSize

OF = {"component": "tasks:Pi", "grid": [10.0, 0.1, True, 1e5]}
SLOT = SlotSize(cores=0.5, mhz=2000.0, memory_mb=512.0)


def trial(step: int, stable: bool = True) -> Trial:
    return Trial(threads=1, step=step, rate_tps=10.0 + step, stable=stable)


def filled(file: Path) -> Record:
    record = Record(file, OF)
    record.guess(1, lambda threads: 4)
    record.add(0, trial(4), SLOT, "host-a")
    record.add(0, trial(5, stable=False), SLOT, "host-a")
    record.add(1, trial(5), SLOT, "host-a")
    return record


def test_a_new_record_of_the_same_file_knows_everything(tmp_path: Path) -> None:
    file = tmp_path / "pi.trials.jsonl"
    before, after = filled(file), Record(file, OF)
    assert after.trials == before.trials == [trial(4), trial(5, stable=False), trial(5)]
    assert after.find(1, 5, 0) == trial(5, stable=False)
    assert after.find(1, 5, 1) == trial(5)
    assert after.find(2, 5, 0) is None
    assert after.slot == SLOT

    def again(threads: int) -> int:
        raise AssertionError("the guess is known")

    assert after.guess(1, again) == 4


def test_a_disk_that_is_full_is_told_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "pi.trials.jsonl"
    record = filled(file)
    file.unlink()
    file.symlink_to("/dev/full")
    with pytest.raises(UsageError, match="cannot keep this trial: No space left on device"):
        record.add(0, trial(6), SLOT, "host-a")


def test_the_line_that_was_being_written_is_made_again(tmp_path: Path) -> None:
    file = tmp_path / "pi.trials.jsonl"
    filled(file)
    file.write_bytes(file.read_bytes()[:-30])
    after = Record(file, OF)
    assert len(after) == 2
    after.add(1, trial(5), SLOT, "host-a")
    assert Record(file, OF).trials == [trial(4), trial(5, stable=False), trial(5)]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pi.trials.jsonl"
    filled(file)
    lines = file.read_bytes().splitlines()
    lines[2] = b"{"
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(UsageError, match=rf"{file}:3: not a trial"):
        Record(file, OF)


def test_trials_of_something_else_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "pi.trials.jsonl"
    filled(file)
    with pytest.raises(UsageError, match="trials that differ in grid: give --restart"):
        Record(file, OF | {"grid": [1.0, 0.1, True, 1e5]})
    file.write_text("no record\n")
    with pytest.raises(UsageError, match="no record of trials"):
        Record(file, OF)


def test_a_record_without_a_trial_holds_nobody_up(tmp_path: Path) -> None:
    """A profile that ZooKeeper did not answer had one: the next, with the class spelt right, was refused."""
    file = tmp_path / "pi.trials.jsonl"
    Record(file, OF | {"component": "tasks:Pie"})
    filled(file)
    assert len(Record(file, OF)) == 3


def test_a_guess_alone_holds_nobody_up(tmp_path: Path) -> None:
    """A profile that was interrupted in its first trial has one: it is kept for the same profile alone."""
    file = tmp_path / "pi.trials.jsonl"
    Record(file, OF | {"component": "tasks:Pie"}).guess(1, lambda threads: 7)
    other = Record(file, OF)
    assert other.guess(1, lambda threads: 4) == 4
    assert Record(file, OF).guess(1, lambda threads: 9) == 4


def test_a_slot_of_another_size_is_refused(tmp_path: Path) -> None:
    record = filled(tmp_path / "pi.trials.jsonl")
    with pytest.raises(UsageError, match="a slot of another size"):
        record.add(0, trial(6), SlotSize(cores=0.5, mhz=2000.0, memory_mb=1024.0), "host-a")
    with pytest.raises(UsageError, match="a slot of another size"):
        record.add(0, trial(6), SlotSize(cores=0.3, mhz=2000.0, memory_mb=512.0), "host-a")


def test_another_node_is_refused_though_its_slots_are_as_large(tmp_path: Path) -> None:
    """A profile that went on mixed trials of 3,500 and of 2,000 MHz."""
    file = tmp_path / "pi.trials.jsonl"
    filled(file)
    record = Record(file, OF)
    other = SlotSize(cores=0.5, mhz=1200.0, memory_mb=512.0)
    with pytest.raises(UsageError, match=r"its trials ran on host-a, not on host-b; name that node \(--on\)"):
        record.add(0, trial(6), other, "host-b")
    record.add(0, trial(6), other, "host-a")  # the clock of one node changes
    assert Record(file, OF).trials[-1] == trial(6)


def test_a_record_of_before_nodes_were_kept_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "pi.trials.jsonl"
    filled(file)
    file.write_bytes(file.read_bytes().replace(b',"node":"host-a"', b""))
    record = Record(file, OF)
    assert (len(record), record.node) == (3, "")
    record.add(0, trial(6), SLOT, "host-b")
    assert Record(file, OF).node == "host-b"


def test_a_device_is_no_record(tmp_path: Path) -> None:
    """`/dev/zero` would fill the memory."""
    (tmp_path / "record").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="record: cannot keep the trials here: is a device, expected a file"):
        Record(tmp_path / "record", OF)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot keep the trials here"):
        Record(tmp_path / "missing" / "pi.trials.jsonl", OF)
