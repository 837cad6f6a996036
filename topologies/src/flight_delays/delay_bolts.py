"""The bolts that keep windows of delays: one class for what they do, a subclass per key."""

from __future__ import annotations

import time

from streamparse import Bolt, Stream

from flight_delays.delay_windows import DelayWindows, WindowResult
from flight_delays.records import EnrichedFlight
from flight_delays.settings import Settings


class DelayStatistics(Bolt):
    """Keeps the open windows of the keys that the fields grouping sends here, and emits the closed ones.

    A flight is acknowledged when it is in a window. The open windows live in memory: those of a task whose worker
    restarts begin anew with the flights that come next.
    """

    outputs = [Stream(name="windows", fields=list(WindowResult._fields))]
    kind: str
    name: str
    clock = staticmethod(time.monotonic)

    def initialize(self, storm_conf, context):
        """Begin without windows."""
        settings = Settings.from_storm_conf(storm_conf)
        self.windows = DelayWindows(self.kind, self.name, settings.window_flights, settings.window_max_age_s)

    def process(self, tup):
        """Add a flight; the result of the window that it fills is anchored to it."""
        result = self.windows.add(EnrichedFlight._make(tup.values), self.clock())
        if result:
            self.emit(list(result), stream="windows")

    def process_tick(self, tup):
        """Emit the windows that have become old."""
        for result in self.windows.close_old(self.clock()):
            self.emit(list(result), stream="windows", anchors=[])


class RouteStatistics(DelayStatistics):
    """Delays per route, such as JFK-LAX; goes with a fields grouping on `route`."""

    kind = "route"
    name = "dest_name"


class CarrierStatistics(DelayStatistics):
    """Delays per carrier, such as UA; goes with a fields grouping on `carrier`."""

    kind = "carrier"
    name = "airline"
