"""Blackout windows: times of the week in which nothing that runs is moved. Pure but for the time zone data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
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
    midnight and belongs to the day on which it begins. Equal times are the whole day. Of a time that clocks show twice,
    as summer time ends, the first one begins a window, and the second one ends it.
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
        begin = datetime.combine(day, time.fromisoformat(window.from_))
        last = day if window.to > window.from_ else day + timedelta(days=1)
        end = datetime.combine(last, time.fromisoformat(window.to))
        until_ms = _until_clocks_show(end, zone)
        whole = _ms(begin, zone, 0) <= now_ms < until_ms
        if whole or begin <= now.replace(tzinfo=None) < end:  # its first minutes may be among those that are left out
            return until_ms
    return None


def _until_clocks_show(end: datetime, zone: tzinfo) -> int:
    """The moment from which clocks show `end` or later for good; of an `end` that they leave out, as they do that."""
    earliest, latest = _ms(end, zone, 1), _ms(end, zone, 0)
    minutes = range(earliest, latest + 1, 60_000)  # empty for a time that is shown twice: then the second one counts
    shown = (m for m in minutes if datetime.fromtimestamp(m / 1000, zone).replace(tzinfo=None) >= end)
    return next(shown, earliest)


def _ms(at: datetime, zone: tzinfo, fold: int) -> int:
    """The moment at which clocks show that time, for the first time (`fold` 0) or the last."""
    return int(at.replace(tzinfo=zone, fold=fold).timestamp() * 1000)


def _text(window: BlackoutWindow) -> str:
    days = ",".join(window.days) or "every day"
    return f"{days} {window.from_}-{window.to} {window.timezone}"
