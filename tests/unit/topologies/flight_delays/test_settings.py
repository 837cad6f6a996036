"""Settings of the topology `flights`."""

import pytest

from flight_delays.settings import Settings


def test_defaults_hold_where_nothing_is_set():
    assert Settings.from_storm_conf({"topology.workers": 8, "flights.limit": None}) == Settings()


def test_reads_the_keys_of_the_topology_configuration():
    settings = Settings.from_storm_conf(
        {"flights.rate.tps": 250, "flights.loop": False, "flights.limit": 1000.0, "flights.data.dir": "here"}
    )
    assert settings == Settings(rate_tps=250.0, loop=False, limit=1000, data_dir="here")
    assert isinstance(settings.rate_tps, float)
    assert isinstance(settings.limit, int)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("flights.rate.tps", "fast", "expected a number, got 'fast'"),
        ("flights.rate.schedule", "fast", "expected rates and seconds such as 60x120,20x30, got 'fast'"),
        ("flights.rate.tps", True, "expected a number, got True"),
        ("flights.rate.tps", 0, "expected at least 0.001"),
        ("flights.loop", 1, "expected true or false, got 1"),
        ("flights.limit", 1.5, "expected a whole number, got 1.5"),
        ("flights.limit", -1, "expected at least 0"),
        ("flights.window.flights", 0, "expected at least 1"),
        ("flights.progress.root", "flights", "expected an absolute path"),
        ("flights.alert.clear.mins", 31, "expected at most flights.alert.raise.mins"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_key(key, value, expected):
    with pytest.raises(ValueError, match=f"{key}: {expected}"):
        Settings.from_storm_conf({key: value})
