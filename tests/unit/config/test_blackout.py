"""Blackout windows: days, midnight, time zones, summer time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stormpilot.config import BlackoutWindow, parse
from stormpilot.config.blackout import blackout
from stormpilot.errors import UsageError


def window(text: str) -> BlackoutWindow:
    return parse(f"decide: {{blackouts: [{text}]}}", "c.yaml").decide.blackouts[0]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


OFFICE = window('{days: [mon, fri], from: "08:00", to: "18:30"}')
NIGHT = window('{days: [fri], from: "22:00", to: "06:00"}')
BERLIN = window('{from: "01:00", to: "04:00", timezone: Europe/Berlin}')
EARLY = window('{from: "02:30", to: "03:30", timezone: Europe/Berlin}')
LATE = window('{from: "22:00", to: "02:30", timezone: Europe/Berlin}')
ALL_DAY = window('{days: [sun], from: "00:00", to: "00:00"}')


@pytest.mark.parametrize(
    ("which", "at", "until"),
    [
        (OFFICE, "2026-11-20T07:59:59+00:00", None),
        (OFFICE, "2026-11-20T08:00:00+00:00", "2026-11-20T18:30:00+00:00"),
        (OFFICE, "2026-11-20T18:29:59+00:00", "2026-11-20T18:30:00+00:00"),
        (OFFICE, "2026-11-20T18:30:00+00:00", None),
        (OFFICE, "2026-11-21T12:00:00+00:00", None),  # a Saturday
        (NIGHT, "2026-11-20T23:00:00+00:00", "2026-11-21T06:00:00+00:00"),
        (NIGHT, "2026-11-21T05:59:00+00:00", "2026-11-21T06:00:00+00:00"),
        (NIGHT, "2026-11-21T23:00:00+00:00", None),
        (NIGHT, "2026-11-20T05:00:00+00:00", None),
        (BERLIN, "2026-01-15T00:30:00+00:00", "2026-01-15T03:00:00+00:00"),
        (BERLIN, "2026-07-15T00:30:00+00:00", "2026-07-15T02:00:00+00:00"),
        (BERLIN, "2026-03-29T00:30:00+00:00", "2026-03-29T02:00:00+00:00"),  # an hour is left out that night
        (EARLY, "2026-03-29T00:59:00+00:00", None),  # 01:59, and then it is 03:00
        (EARLY, "2026-03-29T01:00:00+00:00", "2026-03-29T01:30:00+00:00"),
        (EARLY, "2026-03-29T01:30:00+00:00", None),
        (EARLY, "2026-10-25T00:29:00+00:00", None),
        (EARLY, "2026-10-25T00:30:00+00:00", "2026-10-25T02:30:00+00:00"),  # 02:30 for the first time
        (EARLY, "2026-10-25T01:15:00+00:00", "2026-10-25T02:30:00+00:00"),  # 02:15 for the second time
        (LATE, "2026-03-28T22:00:00+00:00", "2026-03-29T01:00:00+00:00"),  # 02:30 is left out: 01:59, and then 03:00
        (LATE, "2026-03-29T00:59:00+00:00", "2026-03-29T01:00:00+00:00"),
        (LATE, "2026-03-29T01:00:00+00:00", None),
        (LATE, "2026-10-25T00:45:00+00:00", "2026-10-25T01:30:00+00:00"),  # 02:45 for the first time
        (LATE, "2026-10-25T01:29:00+00:00", "2026-10-25T01:30:00+00:00"),
        (LATE, "2026-10-25T01:30:00+00:00", None),
        (ALL_DAY, "2026-11-22T00:00:00+00:00", "2026-11-23T00:00:00+00:00"),
        (ALL_DAY, "2026-11-23T00:00:00+00:00", None),
    ],
)
def test_window_is_open_from_its_begin_to_before_its_end(which: BlackoutWindow, at: str, until: str | None) -> None:
    found = blackout([which], ms(at))
    assert (None if found is None else found.until_ms) == (None if until is None else ms(until))


def test_of_several_open_windows_the_one_that_ends_last_counts() -> None:
    found = blackout([NIGHT, window('{from: "00:00", to: "09:00"}')], ms("2026-11-21T05:00:00+00:00"))
    assert found is not None
    assert found.until_ms == ms("2026-11-21T09:00:00+00:00")
    assert found.text == "every day 00:00-09:00 UTC"
    assert blackout([], 0) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{from: "8:00", to: "18:00"}', "decide.blackouts[0].from: expected HH:MM, 00:00 to 23:59"),
        ('{from: "08:00", to: "24:00"}', "decide.blackouts[0].to: expected HH:MM, 00:00 to 23:59"),
        ('{from: "08:00"}', "missing required field `to`"),
        ('{from: "08:00", to: "09:00", timezone: Mars/Olympus}', "timezone is 'Mars/Olympus', expected a name such as"),
        ('{from: "08:00", to: "09:00", days: [monday]}', "decide.blackouts[0].days[0]: 'monday', expected one of mon,"),
    ],
)
def test_what_is_wrong_with_a_window_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as e:
        window(text)
    assert said in str(e.value)
