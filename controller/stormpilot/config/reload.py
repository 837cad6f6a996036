"""A configuration that is reloaded while the controller runs: what of it is used at once, and what needs a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from stormpilot.config import Config, describe

NEEDS_RESTART = ("zookeeper", "api", "publish", "planner.traffic", "traffic_log.dir", "log.format")
"""Sections and settings that a running controller cannot change: sessions, sockets, processes and open files."""


class Loaded(NamedTuple):
    """A checked configuration, and the planners that it means."""

    config: Config
    planner: str
    first_planner: str


class Reloaded(NamedTuple):
    """Dotted paths of the settings that changed: those that are used from the next cycle on, and those that wait."""

    used: list[str]
    need_restart: list[str]


Reload = Callable[[bool], Reloaded]
"""Reloads the configuration; with True it only reads, checks and compares."""
Read = Callable[[], Loaded]
"""Reads the file again and checks it as `config check` does; `UsageError` says what is wrong."""


def changed_keys(old: Config, new: Config) -> list[str]:
    """Dotted paths of the settings that differ, in the order of the sections."""
    before = dict(describe(old))
    return [key for key, value in describe(new) if value != before[key]]


def needs_restart(key: str) -> bool:
    """Whether a change of this setting waits for the next start."""
    return key in NEEDS_RESTART or key.partition(".")[0] in NEEDS_RESTART


def usable(old: Config, new: Config) -> Config:
    """The new configuration, with the old values where a restart is needed."""
    sections = {}
    for name in new.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        kept = {f: getattr(before, f) for f in after.__struct_fields__ if needs_restart(f"{name}.{f}")}
        sections[name] = msgspec.structs.replace(after, **kept)
    return Config(**sections)
