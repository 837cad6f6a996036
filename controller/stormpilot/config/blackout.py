"""Blackout windows: times of the week in which nothing that runs is moved. Pure but for the time zone data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from stormpilot.config import BlackoutWindow

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True)
class Blackout:
    """A window that is open now: what it is called, and when it ends."""

    text: str
    until_ms: int


def blackout(windows: Sequence[BlackoutWindow], now_ms: int) -> Blackout | None:
    """The window in which `now_ms` lies, the one that ends last; None outside of all.

    `from` is in, `to` is out, in the wall clock of the window's zone; one that ends before it begins lasts over
    midnight and belongs to the day on which it begins. Equal times are the whole day.
    """
    found = [Blackout(_text(w), until) for w in windows if (until := _until_ms(w, now_ms)) is not None]
    return max(found, key=lambda b: b.until_ms, default=None)


def _until_ms(window: BlackoutWindow, now_ms: int) -> int | None:
    zone = ZoneInfo(window.timezone)
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    for back in (0, 1):
        day = (now - timedelta(days=back)).date()
        if window.days and DAYS[day.weekday()] not in window.days:
            continue
        begin = _at(day.year, day.month, day.day, window.from_, zone)
        last = day if window.to > window.from_ else day + timedelta(days=1)
        end = _at(last.year, last.month, last.day, window.to, zone)
        if begin.timestamp() * 1000 <= now_ms < end.timestamp() * 1000:
            return int(end.timestamp() * 1000)
    return None


def _at(year: int, month: int, day: int, clock: str, zone: tzinfo) -> datetime:
    hour, minute = (int(x) for x in clock.split(":"))
    return datetime(year, month, day, hour, minute, tzinfo=zone)


def _text(window: BlackoutWindow) -> str:
    days = ",".join(window.days) or "every day"
    return f"{days} {window.from_}-{window.to} {window.timezone}"
