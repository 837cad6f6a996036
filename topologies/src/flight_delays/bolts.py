"""The bolts that every flight passes: parse -> filter -> enrich.

Named tuples are turned into lists when they are emitted: the JSON library would make objects of them.
"""

from __future__ import annotations

from streamparse import Bolt, Stream

from flight_delays.archive import data_dir
from flight_delays.records import MALFORMED, EnrichedFlight, Flight, parse, why_filtered
from flight_delays.reference import Reference
from flight_delays.settings import Settings

REJECTED = Stream(name="rejected", fields=["flight", "reason"])


class ParseFlight(Bolt):
    """CSV line -> flight; a line that is no flight goes to `rejected` instead of taking the worker down."""

    outputs = [Stream(fields=list(Flight._fields)), REJECTED]

    def process(self, tup):
        """Parse one line."""
        number, line = tup.values
        try:
            flight = parse(number, line)
        except ValueError as e:
            self.logger.warning("rejected: %s", e)
            self.emit([number, MALFORMED], stream="rejected")
        else:
            self.emit(list(flight))


class FilterFlight(Bolt):
    """Flights that arrived go on; cancelled and diverted ones go to `rejected`."""

    outputs = [Stream(fields=list(Flight._fields)), REJECTED]

    def process(self, tup):
        """Send one flight one way or the other."""
        flight = Flight._make(tup.values)
        reason = why_filtered(flight)
        if reason:
            self.emit([flight.flight, reason], stream="rejected")
        else:
            self.emit(list(flight))


class EnrichFlight(Bolt):
    """Adds route, names of airline and airport, and the weather at the origin."""

    outputs = [Stream(fields=list(EnrichedFlight._fields))]

    def initialize(self, storm_conf, context):
        """Find the tables; they are read when the first flight is joined with them."""
        self._reference = Reference(data_dir(Settings.from_storm_conf(storm_conf).data_dir))

    def process(self, tup):
        """Join one flight."""
        self.emit(list(self._reference.enrich(Flight._make(tup.values))))
