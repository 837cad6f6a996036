"""Storm's side of the multilang protocol: what a worker writes to a component and reads from it, as JSON frames."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from stormpilot.instrument.reporting import LOAD_STREAM

Message = dict[str, Any]


def frame(message: Any) -> bytes:
    """One message as it stands on the pipe."""
    return json.dumps(message).encode() + b"\nend\n"


def messages_of(output: bytes) -> list[Any]:
    """The messages on a pipe."""
    return [json.loads(text) for text in output.decode().split("\nend\n") if text.strip()]


def handshake(
    pid_dir: Path,
    conf: Mapping[str, Any] | None = None,
    task: int = 3,
    component: str = "parse",
    streams: Iterable[str] = ("default", LOAD_STREAM),
    tasks: Mapping[int, str] | None = None,
) -> Message:
    """The first message of a worker. Reports are due at once unless `conf` says otherwise."""
    return {
        "pidDir": str(pid_dir),
        "conf": {"topology.name": "flights", "stormpilot.report.secs": 1e-9, **(conf or {})},
        "context": {
            "taskid": task,
            "componentid": component,
            "task->component": {str(t): c for t, c in (tasks or {1: "source", 2: "source", task: component}).items()},
            "streams": list(streams),
            "source->stream->fields": {"source": {"default": ["line"]}},
        },
    }


def tuple_message(tuple_id: str, values: list[Any], task: int = 1, stream: str = "default") -> Message:
    """A tuple to a bolt."""
    return {"id": tuple_id, "comp": "source", "stream": stream, "task": task, "tuple": values}


def heartbeat() -> Message:
    """What a bolt gets every second."""
    return {"id": "hb", "comp": None, "stream": "__heartbeat", "task": -1, "tuple": []}


def tick(tuple_id: str = "tick") -> Message:
    """A tick tuple."""
    return {"id": tuple_id, "comp": "__system", "stream": "__tick", "task": -1, "tuple": [1]}


def run(component_class: type, first: Message, messages: Iterable[Any]) -> tuple[list[Any], int]:
    """Run a component in this process until its input ends; what it sent, and its exit code."""
    output = BytesIO()
    source = BytesIO(b"".join(frame(m) for m in [first, *messages]))
    component = component_class(input_stream=source, output_stream=output, rdb_signal=None)
    component._exit = sys.exit  # its own ends the whole process at once where there are threads
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        with pytest.raises(SystemExit) as ended:
            component.run()
    finally:
        root.handlers[:] = handlers
    return messages_of(component.serializer.output_stream.buffer.getvalue()), int(ended.value.code or 0)


def loads(sent: Iterable[Any]) -> list[dict[str, Any]]:
    """The loads among what a component sent."""
    return [json.loads(m["tuple"][0]) for m in sent if m.get("stream") == LOAD_STREAM]


def without_ours(sent: Iterable[Any]) -> list[Any]:
    """What a component sent of its own: no process id, no log line, no load."""
    return [m for m in sent if "pid" not in m and m.get("command") != "log" and m.get("stream") != LOAD_STREAM]


def log_lines(sent: Iterable[Any]) -> list[str]:
    """The log lines of ours among what a component sent."""
    return [m["msg"] for m in sent if m.get("command") == "log" and "stormpilot: " in m["msg"]]
