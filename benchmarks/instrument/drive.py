"""Storm's side of the pipe: feeds a component process slice by slice and reads what it answers."""

from __future__ import annotations

import json
import queue
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
    """One slice: CPU and wall clock per tuple, microseconds; resident memory after it, KiB."""

    cpu_us: float
    wall_us: float
    rss_kib: int


def frame(message: Any) -> bytes:
    """A message as it stands on the pipe."""
    return json.dumps(message).encode() + b"\nend\n"


def bolt_slice(first: int, tuples: int) -> bytes:
    """Tuples number `first` and following, then a mark to be answered (and a tick, which batches wait for)."""
    one = {"comp": "source", "stream": "default", "tuple": [_WORD]}
    body = b"".join(frame({"id": str(n), "task": 1 + n % SOURCES, **one}) for n in range(first, first + tuples))
    ask = {"id": "mark", "comp": "source", "stream": "mark", "task": 1, "tuple": [0]}
    tick = {"id": "tick", "comp": "__system", "stream": "__tick", "task": -1, "tuple": [1]}
    return body + frame(ask) + frame(tick)


def spout_slice(first: int, tuples: int) -> bytes:
    """Next and ack in turn, acks 100 tuples behind, then what makes the spout answer."""
    commands = []
    for n in range(first, first + tuples):
        commands.append(frame({"command": "next", "id": ""}))
        if n > 100:
            commands.append(frame({"command": "ack", "id": str(n - 100)}))
    return b"".join(commands) + frame({"command": "deactivate", "id": ""})


class Running:
    """A component process that is fed slice by slice.

    Parameters
    ----------
    kind
        `plain` or `reporting`.
    component
        A class of `components`.
    report_s
        Seconds between reports.
    """

    def __init__(self, kind: str, component: str, report_s: float):
        self.reports = 0
        self._pid_dir = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [BIN / RUNNERS[kind], f"-s json components.{component}"],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._answers: queue.SimpleQueue[tuple[float, float, int]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._write(frame(_handshake(self._pid_dir.name, report_s)))

    def cost(self, body: bytes, tuples: int) -> Cost:
        """Feed a slice and wait for its answer."""
        began = time.perf_counter()
        self._write(body)
        ended, cpu_s, rss = self._answers.get(timeout=300)
        return Cost(cpu_s / tuples * 1e6, (ended - began) / tuples * 1e6, rss)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join()
        self._process.wait()
        self._pid_dir.cleanup()

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if b"stormpilot_load" in line:
                self.reports += 1
            elif line.startswith(b'{"command": "emit"') and b'"tuple": ["' not in line:
                cpu_s, rss = json.loads(line)["tuple"]
                self._answers.put((time.perf_counter(), cpu_s, rss))


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
