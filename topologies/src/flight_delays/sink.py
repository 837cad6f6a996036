"""The end of the stream: counts everything that arrives, with checksums, and says so in the log."""

from __future__ import annotations

import json
import zlib
from collections import Counter

from streamparse import Bolt

from flight_delays.alerts import Alert
from flight_delays.delay_windows import WindowResult


class Ledger:
    """Ledger of arrivals: rejected flights by reason, windows and their flights by kind, alerts by state.

    `checksums` (per stream) do not depend on the order of arrival: two runs over the same flights that saw nothing
    twice end with the same ones if the same windows closed.
    """

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self.windows: Counter[str] = Counter()
        self.window_flights: Counter[str] = Counter()
        self.alerts: Counter[str] = Counter()
        self.checksums: Counter[str] = Counter()

    def add(self, stream: str, values: list) -> None:
        """Enter one tuple of the stream `rejected`, `windows` or `alerts`."""
        if stream == "rejected":
            _, reason = values
            self.rejected[reason] += 1
        elif stream == "windows":
            window = WindowResult._make(values)
            self.windows[window.kind] += 1
            self.window_flights[window.kind] += window.flights
        else:
            self.alerts[Alert._make(values).state] += 1
        self.checksums[stream] = (self.checksums[stream] + zlib.crc32(json.dumps(values).encode())) & 0xFFFFFFFF

    def sentence(self) -> str:
        """Return the ledger as one line for the log."""
        parts = {
            "rejected": self.rejected,
            "windows": self.windows,
            "window_flights": self.window_flights,
            "alerts": self.alerts,
        }
        counts = [f"{name}.{key}={n}" for name, counter in parts.items() for key, n in sorted(counter.items())]
        return " ".join(counts + [f"checksum.{name}={value:08x}" for name, value in sorted(self.checksums.items())])


class DelaySink(Bolt):
    """Enters rejected flights, window results and alerts in a ledger and logs it every `LOG_EVERY_TICKS` ticks."""

    LOG_EVERY_TICKS = 6

    def initialize(self, storm_conf, context):
        """Begin with an empty ledger."""
        self.ledger = Ledger()
        self._ticks = 0

    def process(self, tup):
        """Enter one tuple under the stream that it came by."""
        self.ledger.add(tup.stream, list(tup.values))

    def process_tick(self, tup):
        """Log the ledger from time to time."""
        self._ticks += 1
        if self._ticks % self.LOG_EVERY_TICKS == 0:
            self.logger.info("%s", self.ledger.sentence())
