"""Settings of operators as `status` and the HTTP API show them: who set them, why, and which have no effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from doubles.snapshots import T0_MS, cluster, everywhere, topology
from stormpilot.messages.settings import (
    ALL,
    NO_END_MS,
    DrainSetting,
    ExcludeSetting,
    Hold,
    ModeSetting,
    PinSetting,
)
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.observe.settings import Pending, Settings
from stormpilot.operate.shown_settings import settings_lines, shown_settings

ID = "flights-1-1763690000"
NOW_MS = T0_MS + 100_000


def seen(**fields: Any) -> StoreSnapshot:
    """Two hosts with three executors each."""
    own = topology(everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)}))
    return replace(StoreSnapshot(cluster=cluster("a", "b"), topologies={ID: own}), **fields)


def lines_of(settings: Settings, **fields: Any) -> list[tuple[str, str]]:
    """The lines that tell of these settings."""
    return settings_lines(shown_settings(seen(settings=settings, **fields), NOW_MS, {}))


@pytest.mark.parametrize(
    ("since_ms", "until_ms", "text"),
    [
        (NOW_MS - 60_000, NOW_MS + 720_000, "flights for 12 min more: discard p-1 (by olga 60 s ago)"),
        # the clock was set back by a day since
        (NOW_MS + 86_400_000, NOW_MS + 87_120_000, "flights for 12 min more: discard p-1 (by olga 0 s ago)"),
        (0, NO_END_MS, "flights until `stormpilot replan flights`: (by olga)"),  # it cannot be read
    ],
)
def test_a_hold_is_shown_by_its_rest(since_ms: int, until_ms: int, text: str) -> None:
    hold = Hold(topology_id=ID, since_ms=since_ms, until_ms=until_ms, cause="discard", plan_id="p-1", by="olga")
    assert lines_of(Settings(holds={ID: hold})) == [("on hold", text)]


def test_a_setting_without_a_time_is_not_of_1970() -> None:
    drain = DrainSetting(host="a", by="unreadable setting")
    missing = "no supervisor is on a host of that name now"  # renamed since then, perhaps
    told = lines_of(Settings(drains={"a": drain}))
    assert told == [("drained", f"a: empty, {missing} (by unreadable setting)")]


def test_what_operators_set_is_told_with_who_why_and_what_is_left_to_do() -> None:
    hold = Hold(topology_id=ID, since_ms=NOW_MS, until_ms=NOW_MS + 60_000, cause="rollback", plan_id="p-1", by="x")
    settings = Settings(
        drains={"host-a": DrainSetting(host="host-a", since_ms=NOW_MS - 90_000, by="ops", why="new disk")},
        pins=(PinSetting(topology="flights", component="parse", task=2, supervisor="gone", since_ms=NOW_MS, by="ops"),),
        exclusions=(ExcludeSetting(host="host-b", topology="flights", since_ms=NOW_MS, by="ops"),),
        holds={ID: hold, "old": Hold(topology_id="old", since_ms=0, until_ms=NOW_MS - 1, cause="discard")},
        requests={ID: Pending(None, 0)},
        frozen={"flights": "a pin cannot be read (/x)"},
    )
    modes = {ALL: ModeSetting(mode="advise", by="ops", since_ms=NOW_MS)}
    assert lines_of(settings, modes=modes) == [
        ("mode", "everything: advise (by ops 0 s ago)"),
        ("drained", "host-a: 3 of flights to be moved (by ops 90 s ago: new disk)"),
        ("pinned", "flights/parse/2 to gone, which is gone: no effect (by ops 0 s ago)"),
        ("excluded", "flights from host-b (by ops 0 s ago)"),
        ("on hold", "flights for 60 s more: rollback p-1 (by x 0 s ago)"),
        ("pending", "flights: a request that cannot be read; waits for the leading controller"),
        ("unreadable", "a pin cannot be read (/x): nothing of flights moves"),
    ]


def test_hosts_and_supervisors_are_not_called_gone_where_no_snapshot_tells_of_any() -> None:
    pin = PinSetting(topology="flights", component="parse", supervisor="a", since_ms=NOW_MS, by="ops")
    settings = Settings(
        drains={"host-a": DrainSetting(host="host-a", since_ms=NOW_MS, by="ops")},
        pins=(pin,),
        exclusions=(ExcludeSetting(host="host-a", by="ops"),),
    )
    (_, drained), (_, pinned), (_, excluded) = lines_of(settings, cluster=None)
    assert drained.startswith("host-a: not known to be empty, there is no cluster snapshot (by ops"), drained
    assert "gone" not in pinned + excluded


@pytest.mark.parametrize(
    ("component", "task", "effect"),
    [("parse", 2, ""), ("parse", None, ""), ("gone", None, "no"), ("sink", 2, "no"), ("parse", 77, "no")],
)
def test_a_pin_of_what_its_topology_has_no_more_is_told_as_one_without_effect(
    component: str, task: int | None, effect: str
) -> None:
    """It was submitted again with other components: the pin seemed to hold."""
    pins = tuple(
        PinSetting(topology=t, component=component, task=task, supervisor="a", since_ms=NOW_MS, by="ops")
        for t in ("flights", "to-come")
    )
    (_, here), (_, to_come) = lines_of(Settings(pins=pins))
    assert ("but flights has no such executor: no effect" in here) == bool(effect)
    assert "no effect" not in to_come


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"host": "host-a"}, "everything from host-a (by ops)"),
        ({"supervisor": "a", "topology": "flights", "component": "parse"}, "flights/parse from a (by ops)"),
        ({"supervisor": "retired"}, "everything from retired, which is gone: no effect (by ops)"),
        ({"host": "a"}, "everything from a, which is gone: no effect (by ops)"),  # of a supervisor, not of a host
        (
            {"host": "host-a", "topology": "flights", "component": "prase"},
            "flights/prase from host-a, but flights has no such executor: no effect (by ops)",
        ),
        ({"host": "host-a", "topology": "to-come", "component": "x"}, "to-come/x from host-a (by ops)"),
    ],
)
def test_an_exclusion_of_what_is_gone_is_told_as_one_without_effect(fields: dict[str, str], told: str) -> None:
    """Machines were replaced: what was kept off the old ones came to the new ones, and its exclusion seemed to hold."""
    settings = Settings(exclusions=(ExcludeSetting(**fields, by="ops"),))
    assert lines_of(settings) == [("excluded", told)]
