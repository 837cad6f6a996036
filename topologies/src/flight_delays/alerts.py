"""Alerts on windows of delays: raised at one threshold, cleared at a lower one, so that they do not flutter."""

from __future__ import annotations

from typing import NamedTuple

from streamparse import Bolt, Stream

from flight_delays.delay_windows import WindowResult
from flight_delays.settings import Settings


class Alert(NamedTuple):
    """A route or carrier began (`raised`) or ceased (`cleared`) to be late; delay in minutes."""

    kind: str
    key: str
    name: str
    state: str
    mean_arr_delay_min: float
    late_share: float


class Thresholds:
    """Which keys are on alert, judged window by window.

    Parameters
    ----------
    raise_min, clear_min : float
        Mean arrival delay, minutes: on alert at or above the first, off again below the second.
    min_flights : int
        Smaller windows are not judged.
    """

    def __init__(self, raise_min: float, clear_min: float, min_flights: int) -> None:
        self.raise_min = raise_min
        self.clear_min = clear_min
        self.min_flights = min_flights
        self._raised: set[tuple[str, str]] = set()

    def judge(self, window: WindowResult) -> Alert | None:
        """Return the alert that this window changes, if it changes one."""
        if window.flights < self.min_flights:
            return None
        who = (window.kind, window.key)
        if who not in self._raised and window.mean_arr_delay_min >= self.raise_min:
            self._raised.add(who)
            state = "raised"
        elif who in self._raised and window.mean_arr_delay_min < self.clear_min:
            self._raised.discard(who)
            state = "cleared"
        else:
            return None
        return Alert(*who, window.name, state, window.mean_arr_delay_min, window.late_share)


class DelayAlerts(Bolt):
    """Judges the windows of the keys that the fields grouping sends here."""

    outputs = [Stream(name="alerts", fields=list(Alert._fields))]

    def initialize(self, storm_conf, context):
        """Begin with no key on alert."""
        settings = Settings.from_storm_conf(storm_conf)
        self._thresholds = Thresholds(settings.alert_raise_min, settings.alert_clear_min, settings.alert_min_flights)

    def process(self, tup):
        """Judge one window."""
        alert = self._thresholds.judge(WindowResult._make(tup.values))
        if alert:
            self.emit(list(alert), stream="alerts")
