"""A flight as the components pass it on: parsing of a CSV line, and which flights have no delay to speak of."""

from __future__ import annotations

import csv
from typing import NamedTuple

COLUMNS = 19
MISSING = "NA"

MALFORMED = "malformed"
CANCELLED = "cancelled"
DIVERTED = "diverted"


class Flight(NamedTuple):
    """A scheduled departure from New York City. Delays and air time in minutes, distance in miles, None = not known."""

    flight: int
    carrier: str
    number: int
    origin: str
    dest: str
    time_hour: str
    dep_delay_min: int | None
    arr_delay_min: int | None
    air_time_min: int | None
    distance_mi: int


class EnrichedFlight(NamedTuple):
    """A flight that arrived, joined with its route, airline and the weather at its origin in the hour it was due."""

    flight: int
    route: str
    carrier: str
    airline: str
    dest_name: str
    dep_delay_min: int
    arr_delay_min: int
    distance_mi: int
    wind_mph: float | None
    visibility_mi: float | None
    precipitation_in: float | None


def parse(flight: int, line: str) -> Flight:
    """Read one line of flights.csv.

    Raises
    ------
    ValueError
        Not 19 columns, or a number that is none.
    """
    columns = next(csv.reader([line]), [])
    if len(columns) != COLUMNS:
        raise ValueError(f"flight {flight}: expected {COLUMNS} columns, got {len(columns)}")
    return Flight(
        flight=flight,
        carrier=columns[9],
        number=int(columns[10]),
        origin=columns[12],
        dest=columns[13],
        time_hour=columns[18],
        dep_delay_min=_number(columns[5]),
        arr_delay_min=_number(columns[8]),
        air_time_min=_number(columns[14]),
        distance_mi=int(columns[15]),
    )


def why_filtered(flight: Flight) -> str | None:
    """Return why a flight has no delay statistics (it never left, or did not land where it was due), or None."""
    if flight.dep_delay_min is None:
        return CANCELLED
    if flight.arr_delay_min is None:
        return DIVERTED
    return None


def _number(text: str) -> int | None:
    return None if text == MISSING else int(text)
