"""The log: one line per event on stderr, `time level event: key=value key=value`, or one JSON object per line.

Text of others (names of topologies, paths, errors) begins no line and sends a terminal nothing: characters that cannot
be printed are escaped, and the lines of a trace are indented.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from stormpilot.printable import printable


def line(event: str, fields: Mapping[str, Any]) -> str:
    """`event: key=value ...`; values with blanks in quotes, None left out."""
    words = [f"{k}={_value(v)}" for k, v in fields.items() if v is not None]
    return printable(f"{event}: {' '.join(words)}" if words else event)


def configure(level: str, format: Literal["text", "json"] = "text") -> None:
    """Set up structlog for this process; other libraries speak up at level error."""
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _render_json if format == "json" else _render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if format == "json" else _TextFormatter())
    logging.basicConfig(handlers=[handler], level=max(number, logging.ERROR))


class _TextFormatter(logging.Formatter):
    """Log record of another library, as text."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 (logging's name)
        return _indented(super().formatException(ei))


class _JsonFormatter(logging.Formatter):
    """Log record of another library, as an object of the same shape as ours."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)


def _render(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    time, level, text = event.pop("timestamp"), event.pop("level"), event.pop("event")
    trace = _trace(event)
    return f"{time} {level.upper()} {line(text, event)}" + (f"\n{_indented(trace)}" if trace else "")


def _render_json(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    trace = _trace(event)
    head = {"timestamp": event.pop("timestamp"), "level": event.pop("level"), "event": event.pop("event")}
    return json.dumps(
        head | {k: _plain(v) for k, v in event.items() if v is not None} | ({"exception": trace} if trace else {}),
    )


def _plain(value: Any) -> Any:
    """Value as JSON has it: numbers that are none (nan, inf) and objects as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, bool | int) else str(value)


def _trace(event: MutableMapping[str, Any]) -> str:
    error = event.pop("exc_info", None)
    if not error:
        return ""
    rendered = structlog.processors.ExceptionRenderer()(None, "", {"exc_info": error})
    return str(rendered["exception"]).strip()


def _indented(trace: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in trace.split("\n"))


def _value(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if not text or any(c in text for c in " \t\n\"'="):
        return '"' + text.replace('"', "'").replace("\n", " | ") + '"'
    return text
