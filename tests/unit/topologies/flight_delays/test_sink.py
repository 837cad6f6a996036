"""Counts and checksums of the sink."""

from flight_delays.sink import Ledger

ROUTE = ["route", "JFK-LAX", "Los Angeles", 50, 1.0, 2.0, 30, 0.2, 0.0, "full"]
CARRIER = ["carrier", "UA", "United", 20, 1.0, 2.0, 30, 0.2, 0.0, "age"]
ALERT = ["route", "JFK-LAX", "Los Angeles", "raised", 31.0, 0.5]


def test_counts_every_stream():
    ledger = Ledger()
    ledger.add("rejected", [1, "cancelled"])
    ledger.add("rejected", [2, "cancelled"])
    ledger.add("rejected", [3, "diverted"])
    for _ in range(3):
        ledger.add("windows", ROUTE)
    ledger.add("windows", CARRIER)
    ledger.add("alerts", ALERT)
    assert ledger.rejected == {"cancelled": 2, "diverted": 1}
    assert ledger.windows == {"route": 3, "carrier": 1}
    assert ledger.window_flights == {"route": 150, "carrier": 20}
    assert ledger.alerts == {"raised": 1}
    assert ledger.sentence().startswith(
        "rejected.cancelled=2 rejected.diverted=1 windows.carrier=1 windows.route=3 "
        "window_flights.carrier=20 window_flights.route=150 alerts.raised=1 checksum.alerts="
    )


def test_checksums_tell_the_content_and_not_the_order():
    forth, back, other = Ledger(), Ledger(), Ledger()
    entries = [[n, "cancelled"] for n in range(100)]
    for entry in entries:
        forth.add("rejected", entry)
    for entry in reversed(entries):
        back.add("rejected", entry)
    for entry in [*entries[:-1], [100, "cancelled"]]:
        other.add("rejected", entry)
    assert forth.checksums == back.checksums
    assert forth.checksums != other.checksums
