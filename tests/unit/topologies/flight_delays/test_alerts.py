"""Alerts on windows of delays."""

from flight_delays.alerts import Alert, Thresholds
from flight_delays.delay_windows import WindowResult


def window(mean_min: float, key: str = "UA", flights: int = 50, kind: str = "carrier") -> WindowResult:
    return WindowResult(kind, key, "United", flights, mean_min, mean_min, 99, 0.5, 0.0, "full")


def test_an_alert_is_raised_once_and_cleared_once():
    thresholds = Thresholds(raise_min=30.0, clear_min=15.0, min_flights=10)
    states = []
    for mean_min in (29.99, 30.0, 80.0, 15.0, 14.99, 14.0, 31.0):
        alert = thresholds.judge(window(mean_min))
        states.append(alert.state if alert else None)
    assert states == [None, "raised", None, None, "cleared", None, "raised"]


def test_an_alert_says_who_is_late_and_by_how_much():
    assert Thresholds(30.0, 15.0, 10).judge(window(45.5)) == Alert("carrier", "UA", "United", "raised", 45.5, 0.5)


def test_small_windows_are_not_judged():
    thresholds = Thresholds(30.0, 15.0, min_flights=10)
    assert thresholds.judge(window(300.0, flights=9)) is None
    assert thresholds.judge(window(300.0, flights=10)).state == "raised"
    assert thresholds.judge(window(-5.0, flights=9)) is None


def test_a_route_and_a_carrier_of_the_same_name_have_alerts_of_their_own():
    thresholds = Thresholds(30.0, 15.0, 10)
    assert thresholds.judge(window(40.0, kind="carrier")).state == "raised"
    assert thresholds.judge(window(40.0, kind="route")).state == "raised"
