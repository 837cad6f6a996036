"""The file of an unfinished profile: what it is of, and every trial so far, a line each.

A line is written when its trial is over, so that a profile which was interrupted goes on with the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from stormpilot.errors import UsageError
from stormpilot.sizing.profiling import Trial
from stormpilot.trials.slot import SlotSize
from stormpilot.user_files import LARGE_BYTES, read_bytes


class Guess(msgspec.Struct, frozen=True, kw_only=True, tag="guess"):
    """A line: where the search of the peak with `threads` begins."""

    threads: int
    step: int


class Attempt(msgspec.Struct, frozen=True, kw_only=True, tag="trial"):
    """A line: the `attempt`-th trial of its threads and rate, and the slot it was measured on, on the host `node`.

    `node` is empty in lines of earlier versions.
    """

    attempt: int
    trial: Trial
    slot: SlotSize
    node: str = ""


class Record:
    """The trials that are known.

    Parameters
    ----------
    file
        Made where it is not there.
    of
        What the trials depend on: component, rates, times. Trials of something else are refused; a file that has none
        yet is begun anew.

    Raises
    ------
    UsageError
        The file is of another profile, or cannot be read or written.
    """

    def __init__(self, file: Path, of: dict[str, Any]) -> None:
        self.file = file
        self._known: dict[tuple[int, int, int], Attempt] = {}
        self._guesses: dict[int, int] = {}
        try:
            lines = read_bytes(file, LARGE_BYTES).splitlines() if file.exists() else []
            head = msgspec.json.encode(of)
            if not lines or (lines[0] != head and _is_head(lines[0], of) and all(map(_is_guess, lines[1:]))):
                file.write_bytes(head + b"\n")
                lines = []
        except OSError as e:
            raise UsageError(f"{file}: cannot keep the trials here: {e.strerror}") from e
        if lines:
            self._check(lines[0], of)
        for number, line in enumerate(lines[1:], 2):
            try:
                found = msgspec.json.decode(line, type=Attempt | Guess)
            except msgspec.DecodeError as e:
                if number == len(lines):  # the line that was being written when the profile was interrupted
                    file.write_bytes(b"\n".join(lines[:-1]) + b"\n")
                    break
                raise UsageError(f"{file}:{number}: not a trial: {e}") from e
            self._keep(found)

    def _check(self, line: bytes, of: dict[str, Any]) -> None:
        try:
            found = msgspec.json.decode(line)
        except msgspec.DecodeError as e:
            raise UsageError(f"{self.file}:1: no record of trials: {e}") from e
        wanted = msgspec.json.decode(msgspec.json.encode(of))
        different = [k for k in wanted if not isinstance(found, dict) or found.get(k) != wanted[k]]
        if different:
            raise UsageError(
                f"{self.file} has trials that differ in {', '.join(different)}: give --restart to begin anew, or "
                "another --state"
            )

    def __len__(self) -> int:
        return len(self._known)

    @property
    def slot(self) -> SlotSize | None:
        """The slot of the newest trial."""
        return next((a.slot for a in reversed(self._known.values())), None)

    @property
    def node(self) -> str:
        """The host of the newest trial of which it is known; empty without such."""
        return next((a.node for a in reversed(self._known.values()) if a.node), "")

    @property
    def trials(self) -> list[Trial]:
        """All of them, in the order of their making."""
        return [a.trial for a in self._known.values()]

    def find(self, threads: int, step: int, attempt: int) -> Trial | None:
        """A trial that is known."""
        found = self._known.get((threads, step, attempt))
        return None if found is None else found.trial

    def add(self, attempt: int, trial: Trial, slot: SlotSize, node: str) -> None:
        """Keep a trial; `UsageError` on another node than those before, or on a slot of another size.

        The clock of a core changes from moment to moment: that of another node cannot be told by it.
        """
        if self.node and node != self.node:
            raise UsageError(f"{self.file}: its trials ran on {self.node}, not on {node}; name that node (--on)")
        if self.slot is not None and not _alike(self.slot, slot):
            raise UsageError(f"{self.file}: its trials ran on a slot of another size; name the same node (--on)")
        self._write(Attempt(attempt=attempt, trial=trial, slot=slot, node=node))

    def guess(self, threads: int, make: Callable[[int], int]) -> int:
        """Where the search with so many threads begins: as it is known, else made now and kept."""
        if threads not in self._guesses:
            self._write(Guess(threads=threads, step=make(threads)))
        return self._guesses[threads]

    def _write(self, line: Attempt | Guess) -> None:
        self._keep(line)
        try:
            with self.file.open("ab") as out:
                out.write(msgspec.json.encode(line) + b"\n")
        except OSError as e:
            raise UsageError(f"{self.file}: cannot keep this trial: {e.strerror}") from e

    def _keep(self, line: Attempt | Guess) -> None:
        if isinstance(line, Guess):
            self._guesses[line.threads] = line.step
        else:
            self._known[line.trial.threads, line.trial.step, line.attempt] = line


def _is_head(line: bytes, of: dict[str, Any]) -> bool:
    """Whether it is the first line of a record: the same conditions, with any values."""
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return isinstance(found, dict) and found.keys() == of.keys()


def _is_guess(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line, type=Attempt | Guess), Guess)
    except msgspec.DecodeError:
        return False


def _alike(a: SlotSize, b: SlotSize) -> bool:
    return math.isclose(a.cores, b.cores, rel_tol=0.01) and math.isclose(a.memory_mb, b.memory_mb, rel_tol=0.01)
