"""Windows of delays, by route or carrier."""

from itertools import islice

from flight_delays.archive import data_dir, rows
from flight_delays.delay_windows import DelayWindows, WindowResult
from flight_delays.records import EnrichedFlight, parse, why_filtered
from flight_delays.reference import Reference


def arrival(delay: int, route: str = "JFK-LAX", **weather: float | None) -> EnrichedFlight:
    return EnrichedFlight(
        flight=0,
        route=route,
        carrier="UA",
        airline="United",
        dest_name="Los Angeles",
        dep_delay_min=delay + 1,
        arr_delay_min=delay,
        distance_mi=2475,
        wind_mph=weather.get("wind_mph"),
        visibility_mi=weather.get("visibility_mi", 10.0),
        precipitation_in=weather.get("precipitation_in", 0.0),
    )


def by_route(flights: int = 10, max_age_s: float = 60.0) -> DelayWindows:
    return DelayWindows("route", "dest_name", flights, max_age_s)


def test_a_full_window_has_the_statistics_of_its_flights():
    windows = by_route(flights=10)
    delays = [-20, 0, 5, 14, 15, 16, 30, 60, 90, 300]
    results = [windows.add(arrival(delay), now=0.0) for delay in delays]
    assert results[:-1] == [None] * 9
    assert results[-1] == WindowResult(
        kind="route",
        key="JFK-LAX",
        name="Los Angeles",
        flights=10,
        mean_dep_delay_min=52.0,
        mean_arr_delay_min=51.0,
        p90_arr_delay_min=90,
        late_share=0.6,
        bad_weather_share=0.0,
        closed_by="full",
    )


def test_the_next_window_begins_empty():
    windows = by_route(flights=2)
    windows.add(arrival(100), 0.0)
    windows.add(arrival(100), 0.0)
    assert windows.open_flights == 0
    windows.add(arrival(0), 0.0)
    assert windows.add(arrival(2), 0.0).mean_arr_delay_min == 1.0


def test_keys_have_windows_of_their_own():
    windows = by_route(flights=2)
    assert windows.add(arrival(1, "JFK-LAX"), 0.0) is None
    assert windows.add(arrival(2, "LGA-ATL"), 0.0) is None
    assert windows.add(arrival(4, "LGA-ATL"), 0.0).mean_arr_delay_min == 3.0
    assert windows.open_flights == 1


def test_a_window_closes_when_it_is_old_counted_from_its_first_flight():
    windows = by_route(max_age_s=60.0)
    windows.add(arrival(10, "JFK-LAX"), now=0.0)
    windows.add(arrival(30, "JFK-LAX"), now=59.0)
    windows.add(arrival(7, "LGA-ATL"), now=30.0)
    assert list(windows.close_old(59.9)) == []
    (closed,) = windows.close_old(60.0)
    assert (closed.key, closed.flights, closed.mean_arr_delay_min, closed.closed_by) == ("JFK-LAX", 2, 20.0, "age")
    assert list(windows.close_old(60.0)) == []
    assert [window.key for window in windows.close_old(90.0)] == ["LGA-ATL"]


def test_the_90th_percentile_is_the_smallest_delay_that_nine_of_ten_do_not_exceed():
    windows = by_route(flights=20)
    results = [windows.add(arrival(delay), 0.0) for delay in range(20, 0, -1)]
    assert results[-1].p90_arr_delay_min == 18


def test_the_window_of_one_flight_is_that_flight():
    result = by_route(flights=1).add(arrival(15), 0.0)
    assert (result.mean_arr_delay_min, result.p90_arr_delay_min, result.late_share) == (15.0, 15, 1.0)


def test_bad_weather_is_rain_or_poor_visibility_and_never_a_missing_record():
    windows = by_route(flights=5)
    windows.add(arrival(0, precipitation_in=0.01), 0.0)
    windows.add(arrival(0, visibility_mi=2.5), 0.0)
    windows.add(arrival(0, precipitation_in=0.2, visibility_mi=1.0), 0.0)
    windows.add(arrival(0, precipitation_in=None, visibility_mi=None), 0.0)
    assert windows.add(arrival(0), 0.0).bad_weather_share == 0.6


def test_the_first_real_united_flights_have_the_delays_that_the_file_says():
    """First five arrivals of UA on 1 January 2013: 11, 20, 12, 7 and -14 minutes late (flights.csv, by hand)."""
    reference = Reference(data_dir())
    windows = DelayWindows("carrier", "airline", 5, 60.0)
    results = []
    for i, line in islice(enumerate(rows(data_dir())), 100):
        flight = parse(i, line.decode())
        if flight.carrier == "UA" and why_filtered(flight) is None:
            results.append(windows.add(reference.enrich(flight), 0.0))
    first = next(result for result in results if result)
    assert (first.name, first.flights, first.mean_arr_delay_min) == ("United Air Lines Inc.", 5, 7.2)
    assert (first.p90_arr_delay_min, first.late_share) == (20, 0.2)
