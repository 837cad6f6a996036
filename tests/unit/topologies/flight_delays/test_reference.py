"""Tables that flights are joined with."""

import tracemalloc

import pytest

from flight_delays.archive import data_dir
from flight_delays.records import parse
from flight_delays.reference import UNKNOWN_WEATHER, Reference, Weather


@pytest.fixture(scope="module")
def reference():
    return Reference(data_dir())


def test_names_of_airlines_and_airports_are_the_real_ones(reference):
    assert len(reference.airlines) == 16
    assert reference.airlines["B6"] == "JetBlue Airways"
    assert len(reference.airports) == 1458
    assert reference.airports["LAX"] == "Los Angeles Intl"


def test_weather_is_that_of_the_origin_and_the_hour(reference):
    """weather.csv: EWR,2013,1,1,5 has wind 12.65858 mph, visibility 10 mi, no rain; LGA is windier in that hour."""
    assert reference.weather("EWR", "2013-01-01T10:00:00Z") == Weather(12.66, 10.0, 0.0)
    assert reference.weather("LGA", "2013-01-01T10:00:00Z").wind_mph != 12.66


@pytest.mark.parametrize(
    ("origin", "hour"),
    [
        ("EWR", "2013-01-01T05:00:00Z"),  # before the first record
        ("JFK", "2014-01-01T04:00:00Z"),  # after the last one, in the evening of New Year's Eve
        ("JFK", "2019-07-01T04:00:00Z"),
        ("JFK", "2012-07-01T04:00:00Z"),
        ("LAX", "2013-07-01T04:00:00Z"),
    ],
)
def test_an_hour_without_a_record_has_no_weather(reference, origin, hour):
    assert reference.weather(origin, hour) == UNKNOWN_WEATHER


def test_the_weather_of_the_year_is_small_in_memory():
    tracemalloc.start()
    try:
        reference = Reference(data_dir())
        reference.weather("EWR", "2013-01-01T10:00:00Z")
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 1_000_000


def test_a_flight_is_joined_with_all_tables(reference):
    line = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
    enriched = reference.enrich(parse(7, line))
    assert enriched._asdict() == {
        "flight": 7,
        "route": "EWR-IAH",
        "carrier": "UA",
        "airline": "United Air Lines Inc.",
        "dest_name": "George Bush Intercontinental",
        "dep_delay_min": 2,
        "arr_delay_min": 11,
        "distance_mi": 1400,
        "wind_mph": 12.66,
        "visibility_mi": 10.0,
        "precipitation_in": 0.0,
    }


def test_an_airport_that_is_in_no_table_keeps_its_code(reference):
    line = "2013,1,1,1,1,1,1,1,1,B6,1,N1,JFK,SJU,1,1598,5,15,2013-01-01T10:00:00Z"
    assert reference.enrich(parse(0, line)).dest_name == "SJU"


def test_a_cancelled_flight_cannot_be_joined(reference):
    line = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z"
    with pytest.raises(ValueError, match="to be filtered first"):
        reference.enrich(parse(0, line))
