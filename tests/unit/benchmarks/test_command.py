"""How a benchmark ends: what it started ends with it, whoever interrupts it and how often."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
from benchmarks.command import exit_with

def main():
    try:
        print("runs", flush=True)
        input()
    finally:
        print("cleaning up", flush=True)
        input()
        print("cleaned up", flush=True)

exit_with("bench-test", main)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_does_not_interrupt_cleaning_up(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "runs\n"
        child.send_signal(number)
        assert child.stdout.readline() == "cleaning up\n"
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGTERM)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "cleaned up\n"
    assert child.returncode == 128 + number
