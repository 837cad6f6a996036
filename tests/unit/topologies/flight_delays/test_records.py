"""Parsing and filtering, checked against the published totals of the flights of 2013."""

from collections import Counter

import pytest

from flight_delays.archive import data_dir, rows
from flight_delays.records import CANCELLED, DIVERTED, Flight, parse, why_filtered

FIRST = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
NEVER_LEFT = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z"
LANDED_ELSEWHERE = "2013,1,1,1525,1530,-5,1934,1805,NA,MQ,4525,N719MQ,LGA,XNA,NA,1147,15,30,2013-01-01T20:00:00Z"


@pytest.fixture(scope="module")
def flights():
    """Every flight of the real data."""
    return [parse(i, line.decode()) for i, line in enumerate(rows(data_dir()))]


def test_a_line_becomes_a_flight_with_units():
    assert parse(7, FIRST) == Flight(
        flight=7,
        carrier="UA",
        number=1545,
        origin="EWR",
        dest="IAH",
        time_hour="2013-01-01T10:00:00Z",
        dep_delay_min=2,
        arr_delay_min=11,
        air_time_min=227,
        distance_mi=1400,
    )


def test_a_flight_that_arrived_is_not_filtered():
    assert why_filtered(parse(0, FIRST)) is None


def test_a_flight_that_never_left_is_cancelled():
    flight = parse(0, NEVER_LEFT)
    assert (flight.dep_delay_min, flight.arr_delay_min, flight.air_time_min) == (None, None, None)
    assert why_filtered(flight) == CANCELLED


def test_a_flight_that_left_and_did_not_arrive_is_diverted():
    assert why_filtered(parse(0, LANDED_ELSEWHERE)) == DIVERTED


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "flight 3: expected 19 columns, got 0"),
        ("2013,1,1", "flight 3: expected 19 columns, got 3"),
        (FIRST + ",extra", "flight 3: expected 19 columns, got 20"),
        (FIRST.replace("1545", "UA1545"), "UA1545"),
        (FIRST.replace("1400", "NA"), "NA"),
    ],
)
def test_a_line_that_is_no_flight_is_refused(line, says):
    with pytest.raises(ValueError, match=says):
        parse(3, line)


def test_every_real_flight_is_read(flights):
    assert len(flights) == 336_776


def test_the_real_flights_split_into_cancelled_diverted_and_arrived(flights):
    assert Counter(map(why_filtered, flights)) == {CANCELLED: 8_255, DIVERTED: 1_175, None: 327_346}


def test_the_real_flights_have_the_published_carriers_and_routes(flights):
    carriers = Counter(flight.carrier for flight in flights)
    assert len(carriers) == 16
    assert carriers.most_common(3) == [("UA", 58_665), ("B6", 54_635), ("EV", 54_173)]
    assert carriers["OO"] == 32
    routes = Counter((flight.origin, flight.dest) for flight in flights)
    assert len(routes) == 224
    assert routes.most_common(1) == [(("JFK", "LAX"), 11_262)]


def test_the_real_delays_have_the_published_means(flights):
    arrived = [flight for flight in flights if why_filtered(flight) is None]
    departed = [flight.dep_delay_min for flight in flights if flight.dep_delay_min is not None]
    assert sum(departed) / len(departed) == pytest.approx(12.639, abs=5e-4)
    assert sum(flight.arr_delay_min for flight in arrived) / len(arrived) == pytest.approx(6.895, abs=5e-4)
    assert max(departed) == 1301
