"""A component finds the JVM of its worker among its ancestors, and what that used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stormpilot.instrument.worker_jvm import WorkerJvm

TICKS = os.sysconf("SC_CLK_TCK")


def process(proc: Path, pid: int, parent: int, name: str, *, user: int = 0, system: int = 0, started: int = 7) -> None:
    """As the kernel tells of one: fields 14 and 15 of `stat` are CPU, 22 is the start, in ticks."""
    fields = ["S", str(parent), *["0"] * 9, str(user), str(system), *["0"] * 6, str(started), "0"]
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_the_parent_that_is_a_jvm_is_the_worker(tmp_path: Path) -> None:
    process(tmp_path, 5, 4, "python3")
    process(tmp_path, 4, 1, "java", user=3 * TICKS, system=TICKS // 2)
    assert WorkerJvm(5, tmp_path).cpu_s() == 3.5


def test_a_shell_between_the_two_is_passed_over(tmp_path: Path) -> None:
    process(tmp_path, 5, 4, "a (strange) name")
    process(tmp_path, 4, 3, "sh")
    process(tmp_path, 3, 1, "java", user=TICKS)
    assert WorkerJvm(5, tmp_path).cpu_s() == 1.0


def test_without_a_jvm_nothing_is_known(tmp_path: Path) -> None:
    process(tmp_path, 5, 4, "python3")
    process(tmp_path, 4, 1, "pytest")
    process(tmp_path, 1, 0, "init")
    assert WorkerJvm(5, tmp_path).cpu_s() is None
    assert WorkerJvm(5, tmp_path / "absent").cpu_s() is None


def test_a_proc_that_tells_something_else_is_none(tmp_path: Path) -> None:
    process(tmp_path, 5, 4, "python3")
    process(tmp_path, 4, 1, "java")
    for strange in ("", "4 (java) S 1", "4 (java) S one 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"):
        (tmp_path / "4" / "stat").write_text(strange)
        assert WorkerJvm(5, tmp_path).cpu_s() is None


@pytest.mark.parametrize("then", ["gone", "another process"])
def test_a_jvm_that_ended_is_not_known_again(tmp_path: Path, then: str) -> None:
    process(tmp_path, 5, 4, "python3")
    process(tmp_path, 4, 1, "java", user=TICKS)
    jvm = WorkerJvm(5, tmp_path)
    assert jvm.cpu_s() == 1.0
    if then == "gone":
        shutil.rmtree(tmp_path / "4")
    else:
        process(tmp_path, 4, 1, "java", user=TICKS, started=8)
    assert jvm.cpu_s() is None
    process(tmp_path, 4, 1, "java", user=TICKS)
    assert jvm.cpu_s() is None


def test_the_kernel_is_read_as_it_is(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.symlink_to(sys.executable)  # the name of a process is that of the file it began as
    asks = "from stormpilot.instrument.worker_jvm import WorkerJvm; print(WorkerJvm().cpu_s())"
    starts = f"import subprocess, sys; sys.exit(subprocess.run([{sys.executable!r}, '-c', {asks!r}]).returncode)"
    answer = subprocess.run([str(java), "-c", starts], capture_output=True, text=True, check=True, timeout=60)
    assert float(answer.stdout) >= 0
