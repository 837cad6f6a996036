"""The log as people and as programs read it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from stormpilot import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The process's own set-up comes back."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_text_is_one_line_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    structlog.get_logger().info("published plan", topology="flights", text="two words", nothing=None)
    line = capsys.readouterr().err
    assert line.endswith(' INFO published plan: topology=flights text="two words"\n')


def test_text_of_others_begins_no_line_and_sends_the_terminal_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers[:] = []  # pytest's own
    logs.configure("info")
    forged = "a\r\n2026-01-01T00:00:00Z INFO forged: \x1b[2J\u202e\x85\udc80"
    log = structlog.get_logger()
    log.info("published plan", topology=forged)
    log.info(f"read {forged}")
    logging.getLogger("kazoo").error("lost %s", forged)
    for logger in (log, logging.getLogger("kazoo")):
        try:
            raise ValueError(forged)
        except ValueError:
            logger.exception("cycle failed")
    err = capsys.readouterr().err
    assert all(c.isprintable() or c == "\n" for c in err)
    first = [line for line in err.split("\n") if line and not line.startswith(" ")]
    assert len(first) == 5
    assert all(r"forged: \x1b[2J\u202e\x85\udc80" in line for line in first[:3])
    assert "  ValueError: a\\r\n  2026-01-01" in err


def test_json_is_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    log = structlog.get_logger()
    log.debug("unheard")
    log.warning("held", value=0.25, moves=3, late=True, why=ValueError("a\nb"), nan=float("nan"), nothing=None)
    (event,) = said(capsys)
    time = event.pop("timestamp")
    assert time.endswith("Z")
    assert event == {
        "level": "warning",
        "event": "held",
        "value": 0.25,
        "moves": 3,
        "late": True,
        "why": "a\nb",
        "nan": "nan",
    }


def test_json_holds_the_trace_and_what_libraries_say(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers[:] = []  # pytest's own
    logs.configure("info", "json")
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger().exception("cycle failed")
        logging.getLogger("kazoo").exception("lost %s", "it")
    ours, theirs = said(capsys)
    assert "ValueError: broken" in ours["exception"]
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("lost it", "kazoo", "error")
    assert "ValueError: broken" in theirs["exception"]
