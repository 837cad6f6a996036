"""Windows of flights and their delay statistics: values only, the caller brings the time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from flight_delays.records import EnrichedFlight

LATE_MIN = 15  # the U.S. Department of Transportation counts a flight as late from 15 minutes on
POOR_VISIBILITY_MI = 3.0  # below this, visual flight rules are left


class WindowResult(NamedTuple):
    """Statistics of a closed window. Delays in minutes, shares from 0 to 1, `kind` is what `key` is: route, carrier."""

    kind: str
    key: str
    name: str
    flights: int
    mean_dep_delay_min: float
    mean_arr_delay_min: float
    p90_arr_delay_min: int
    late_share: float
    bad_weather_share: float
    closed_by: str


class DelayWindows:
    """One open window per key; a window closes when it is full or old.

    Parameters
    ----------
    kind : str
        Field of the flight that is the key: ``route`` or ``carrier``.
    name : str
        Field of the flight that names the key for people.
    flights : int
        A window with so many flights is full.
    max_age_s : float
        A window that was opened so many seconds ago is old.
    """

    def __init__(self, kind: str, name: str, flights: int, max_age_s: float) -> None:
        self.kind = kind
        self.name = name
        self.flights = flights
        self.max_age_s = max_age_s
        self._open: dict[str, tuple[float, list[EnrichedFlight]]] = {}

    def add(self, flight: EnrichedFlight, now: float) -> WindowResult | None:
        """Put a flight into the window of its key; return the result if that filled it."""
        key = getattr(flight, self.kind)
        _, members = self._open.setdefault(key, (now, []))
        members.append(flight)
        if len(members) < self.flights:
            return None
        del self._open[key]
        return self._result(key, members, "full")

    def close_old(self, now: float) -> Iterator[WindowResult]:
        """Close and yield the windows that are old at `now`."""
        for key in [key for key, (opened, _) in self._open.items() if now - opened >= self.max_age_s]:
            _, members = self._open.pop(key)
            yield self._result(key, members, "age")

    @property
    def open_flights(self) -> int:
        """Flights in windows that are still open."""
        return sum(len(members) for _, members in self._open.values())

    def _result(self, key: str, members: list[EnrichedFlight], closed_by: str) -> WindowResult:
        arrivals = sorted(flight.arr_delay_min for flight in members)
        count = len(members)
        return WindowResult(
            kind=self.kind,
            key=key,
            name=getattr(members[0], self.name),
            flights=count,
            mean_dep_delay_min=round(sum(flight.dep_delay_min for flight in members) / count, 2),
            mean_arr_delay_min=round(sum(arrivals) / count, 2),
            p90_arr_delay_min=arrivals[math.ceil(0.9 * count) - 1],
            late_share=round(sum(delay >= LATE_MIN for delay in arrivals) / count, 3),
            bad_weather_share=round(sum(map(_bad_weather, members)) / count, 3),
            closed_by=closed_by,
        )


def _bad_weather(flight: EnrichedFlight) -> bool:
    wet = flight.precipitation_in is not None and flight.precipitation_in > 0
    return wet or (flight.visibility_mi is not None and flight.visibility_mi < POOR_VISIBILITY_MI)
