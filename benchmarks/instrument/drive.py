"""Storm's side of the pipe: feeds one component process and reads what it answers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
HERE = Path(__file__).parent
RUNNERS = {"plain": "streamparse_run", "reporting": "stormpilot_run"}
SOURCES = 8
"""Tasks that send to the measured one."""
_WORD = "x" * 20


@dataclass(frozen=True)
class Cost:
    """One run: CPU and wall clock per tuple, microseconds; resident memory, KiB; reports seen."""

    cpu_us: float
    wall_us: float
    rss_kib: int
    reports: int


def frame(message: Any) -> bytes:
    """A message as it stands on the pipe."""
    return json.dumps(message).encode() + b"\nend\n"


def bolt_input(tuples: int) -> tuple[bytes, bytes]:
    """The tuples, then what makes the component answer (a mark, and a tick for batches)."""
    one = {"comp": "source", "stream": "default", "tuple": [_WORD]}
    body = b"".join(frame({"id": str(n), "task": 1 + n % SOURCES, **one}) for n in range(tuples))
    return body, mark()


def mark() -> bytes:
    """Makes a bolt answer with the CPU that it used since the last mark."""
    ask = {"id": "mark", "comp": "source", "stream": "mark", "task": 1, "tuple": [0]}
    tick = {"id": "tick", "comp": "__system", "stream": "__tick", "task": -1, "tuple": [1]}
    return frame(ask) + frame(tick)


def spout_input(tuples: int) -> tuple[bytes, bytes]:
    """Next and ack in turn, 100 tuples behind, then what makes the spout answer."""
    commands = []
    for n in range(1, tuples + 1):
        commands.append(frame({"command": "next", "id": ""}))
        if n > 100:
            commands.append(frame({"command": "ack", "id": str(n - 100)}))
    return b"".join(commands), frame({"command": "deactivate", "id": ""})


def measure(kind: str, component: str, body: bytes, ask: bytes, tuples: int, report_s: float) -> Cost:
    """Run a component over `body` once."""
    with tempfile.TemporaryDirectory() as pid_dir:
        process = subprocess.Popen(
            [BIN / RUNNERS[kind], f"-s json components.{component}"],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        answers: list[tuple[float, float, int]] = []
        reports = [0]
        answered = threading.Semaphore(0)

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if b"stormpilot_load" in line:
                    reports[0] += 1
                elif line.startswith(b'{"command": "emit"') and b'"tuple": ["' not in line:
                    cpu_s, rss = json.loads(line)["tuple"]
                    answers.append((time.perf_counter(), cpu_s, rss))
                    answered.release()

        reader = threading.Thread(target=read)
        reader.start()
        process.stdin.write(frame(_handshake(pid_dir, report_s)) + ask)
        process.stdin.flush()
        answered.acquire()  # it runs, and its clock was read
        began = time.perf_counter()
        process.stdin.write(body + ask)
        process.stdin.close()
        reader.join()
        process.wait()
    ended, cpu_s, rss = answers[-1]
    return Cost(cpu_s / tuples * 1e6, (ended - began) / tuples * 1e6, rss, reports[0])


def _handshake(pid_dir: str, report_s: float) -> dict[str, Any]:
    tasks = {str(n): "source" for n in range(1, SOURCES + 1)}
    return {
        "pidDir": pid_dir,
        "conf": {"topology.name": "bench", "stormpilot.report.secs": report_s, "pystorm.log.level": "error"},
        "context": {
            "taskid": 99,
            "componentid": "measured",
            "task->component": {**tasks, "99": "measured"},
            "streams": ["default", "stormpilot_load"],
            "source->stream->fields": {"source": {"default": ["word"], "mark": ["n"]}},
        },
    }
