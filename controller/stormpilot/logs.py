"""The log: one line per event on stderr, `time level event: key=value key=value`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog


def line(event: str, fields: Mapping[str, Any]) -> str:
    """`event: key=value ...`; values with blanks in quotes, None left out."""
    words = [f"{k}={_value(v)}" for k, v in fields.items() if v is not None]
    return f"{event}: {' '.join(words)}" if words else event


def configure(level: str) -> None:
    """Set up structlog for this process; other libraries speak up at level error."""
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        stream=sys.stderr, level=max(number, logging.ERROR), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )


def _render(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    time, level, text = event.pop("timestamp"), event.pop("level"), event.pop("event")
    trace = _trace(event)
    return f"{time} {level.upper()} {line(text, event)}{trace}"


def _trace(event: MutableMapping[str, Any]) -> str:
    error = event.pop("exc_info", None)
    if not error:
        return ""
    rendered = structlog.processors.ExceptionRenderer()(None, "", {"exc_info": error})
    return f"\n{rendered['exception']}".rstrip()


def _value(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if not text or any(c in text for c in " \t\n\"'="):
        return '"' + text.replace('"', "'").replace("\n", " | ") + '"'
    return text
