"""`stormpilot status`: tells who leads, what was refused and why, and what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from doubles.models import plan_message
from doubles.snapshots import T0_MS, cluster, everywhere, report, supervisor, topology
from stormpilot.cli import output
from stormpilot.cli import status as command
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import ExecutorPart, StatusMessage
from stormpilot.messages.load import LoadReport
from stormpilot.messages.settings import (
    ALL,
    DrainSetting,
    ModeSetting,
    PauseSetting,
)
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot
from stormpilot.observe.settings import Settings
from stormpilot.operate.shown_settings import settings_lines
from stormpilot.operate.status import gather
from stormpilot.zookeeper.paths import Paths

ID = "flights-1-1763690000"
NOW_MS = T0_MS + 100_000

Printed = Callable[[dict[str, Any]], str]
SENTENCE = "no change: reason=COOL_DOWN topology=flights took_ms=3"


def state(age_s: float = 5.0, **fields: Any) -> ControllerState:
    said = {"action": "skip", "reason": "COOL_DOWN", "text": "the last plan is 12 s old", "since_ms": NOW_MS - 7000}
    traffic = {"inter_node_tps": 1234.5, "inter_node_share": 0.25}
    view = TopologyView(id=ID, name="flights", mode="act", next_at_ms=NOW_MS + 168_000, **said, **traffic)
    who = {"controller": "n1:7", "version": "0.1.0", "epoch": 3, "started_at_ms": T0_MS, "planner": "best"}
    ran = {"written_at_ms": NOW_MS - int(age_s * 1000), "period_s": 10.0, "cycles": 9, "sentence": SENTENCE}
    return ControllerState(**(who | ran | {"topologies": [view]} | fields))


def shim_says(word: str, code: str = "OK", text: str = "") -> StatusMessage:
    said = {"state": word, "code": code, "text": text}
    return StatusMessage(topology_id=ID, plan_id="p-1", since_ms=NOW_MS, written_at_ms=NOW_MS, **said)  # type: ignore[arg-type]


def healthy(**fields: Any) -> StoreSnapshot:
    everything = StoreSnapshot(
        cluster=cluster("a", "b"),
        topologies={ID: topology(everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)}))},
        plans={ID: PublishedPlan(plan_message(topology_id=ID), 4, NOW_MS)},
        statuses={ID: shim_says("applied")},
        controller=state(),
        contenders=("n1:7",),
    )
    return replace(everything, **fields)


def gathered(seen: StoreSnapshot, *reports: LoadReport, problems: dict[str, str] | None = None) -> dict[str, Any]:
    return gather("zk:2181", Paths(), seen, list(reports), problems or {}, NOW_MS)


def row_of(seen: StoreSnapshot, *reports: LoadReport) -> dict[str, Any]:
    """What is told of the only topology."""
    (row,) = gathered(seen, *reports)["topologies"]
    return row


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    """What a wide and plain terminal shows, with single spaces."""
    monkeypatch.setattr(output, "console", Console(width=300, color_system=None, highlight=False))

    def show(shown: dict[str, Any]) -> str:
        command.show(shown)
        return " ".join(capsys.readouterr().out.split())

    return show


def test_a_report_of_a_worker_that_is_gone_is_not_the_age_of_the_reports() -> None:
    old = msgspec.structs.replace(report(20.0), reporter="gone")
    assert row_of(healthy(), old, report(97.0))["reportsAgeS"] == 3.0
    assert row_of(healthy(), report(20.0, tasks=(1,)), report(97.0, tasks=(2,)))["reportsAgeS"] == 80.0


def test_a_report_of_a_task_that_a_rebalance_took_away_is_not_the_age_of_the_reports() -> None:
    assert row_of(healthy(), report(20.0, tasks=(99,)), report(97.0))["reportsAgeS"] == 3.0


def test_everything_is_well() -> None:
    shown = gathered(healthy(), report(97.0))
    assert shown["controller"] | {"counters": {}} == {
        "up": True,
        "leader": "n1:7",
        "standby": [],
        "text": "up",
        "version": "0.1.0",
        "epoch": 3,
        "planner": "best",
        "cycles": 9,
        "lastCycleAgeS": 5.0,
        "sentence": SENTENCE,
        "counters": {},
    }
    (row,) = shown["topologies"]
    assert [row[key] for key in ("name", "mode", "plan", "state")] == ["flights", "act", "p-1", "applied"]
    assert row["code"] == "OK"
    assert (row["interNodeTps"], row["interNodeShare"], row["reportsAgeS"]) == (1234.5, 0.25, 3.0)
    assert (row["workers"], row["executors"], row["unplaced"]) == (2, 6, 0)
    assert row["decision"]["reason"] == "COOL_DOWN"
    assert row["decision"]["opensInS"] == 168.0


def test_a_pause_is_told_with_who_made_it_when_and_why(printed: Printed) -> None:
    """At night somebody asks who stopped the moves, and whether they may go on."""
    known = {ALL: PauseSetting(since_ms=NOW_MS - 60_000, by="olga", why="release day")}
    seen = healthy(paused=frozenset({ALL, "flights"}))
    shown = gather("zk:2181", Paths(), seen, [], {}, NOW_MS, known)
    assert shown["paused"] == ["_all", "flights"]
    assert settings_lines(shown["settings"]) == [
        ("paused", "everything (by olga 60 s ago: release day)"),
        ("paused", "flights (by unreadable setting)"),  # it holds all the same
    ]
    assert printed(shown).count("paused ") == 2


def test_the_reason_of_the_published_plan_is_told_with_its_age(printed: Printed) -> None:
    """It answers why the topology was moved; the line below answers why it is not moved now."""
    at_ms = NOW_MS - 720_000
    plan = plan_message(topology_id=ID, created_at_ms=at_ms, reason="GAIN: inter-node traffic falls by 40%")
    shown = gathered(healthy(plans={ID: PublishedPlan(plan, 4, at_ms)}))
    assert "plan: published 12 min ago: GAIN: inter-node traffic falls by 40%" in printed(shown)
    assert shown["topologies"][0]["planAgeS"] == 720.0


NOBODY, OTHER = {"contenders": ()}, {"contenders": ("n2:9",)}
NO_STATE = {"controller": None}
UNREADABLE = {"problems": {Paths().controller: "its access list does not let us read it"}}
LONG_AGO = "it holds the leadership, but its last cycle ended"


def leading(for_s: int) -> dict[str, Any]:
    return {"leading_since_ms": NOW_MS - 1000 * for_s}


@pytest.mark.parametrize(
    ("fields", "up", "text"),
    [
        (NOBODY, False, "DOWN since 2025-11-21 01:54:55 UTC: "),
        (NOBODY | NO_STATE, False, "no controller has run here yet: stormpilot run controller.yaml; one"),
        (NO_STATE, True, "starting"),
        (OTHER, True, "starting"),
        (OTHER | leading(119), True, "starting"),
        (OTHER | leading(121), False, "STUCK: it has led for 2 min and not"),
        (OTHER | leading(170) | {"controller": state(period_s=60.0)}, True, "starting"),
        (NO_STATE | leading(121), False, "STUCK: it has led for 2 min and not"),
        (NO_STATE | UNREADABLE, True, "leads; its state cannot be read: its access list"),
        ({"controller": state(age_s=31)}, False, f"STUCK: {LONG_AGO} 31 s ago"),
        (
            {"controller": state(age_s=31, sentence="cycle failed: ZooKeeper refuses /stormpilot/v1/plans to us")},
            False,
            f"STUCK: {LONG_AGO} 31 s ago: cycle failed: ZooKeeper refuses",
        ),
        ({"controller": state(age_s=29)}, True, "up"),
        ({"controller": state(age_s=100, period_s=60.0)}, True, "up"),
    ],
)
def test_controller_that_is_down_or_stuck_is_told(fields: dict[str, Any], up: bool, text: str) -> None:
    controller = gathered(healthy(**fields))["controller"]
    assert controller["up"] is up
    assert controller["text"].startswith(text)


def test_standby_controllers_are_listed() -> None:
    assert gathered(healthy(contenders=("n1:7", "n2:8")))["controller"]["standby"] == ["n2:8"]


def test_refused_plan_shows_code_and_text() -> None:
    row = row_of(healthy(statuses={ID: shim_says("rejected", "SLOT_OCCUPIED", "slot a:1 is held by x")}))
    assert (row["state"], row["code"], row["text"]) == ("rejected", "SLOT_OCCUPIED", "slot a:1 is held by x")


def test_cluster_without_topologies_is_told_and_a_missing_plug_in_with_its_line_of_storm_yaml(
    printed: Printed,
) -> None:
    assert "topologies none runs" in printed(gathered(healthy(topologies={}, plans={}, statuses={})))
    text = printed(gathered(StoreSnapshot()))
    assert "storm.scheduler: io.stormpilot.PilotScheduler" in text
    assert "none runs" not in text


def test_what_cannot_be_read_is_a_row_not_a_crash() -> None:
    paths = Paths()
    broken = {paths.plan(ID): "plans: the checksum does not fit", paths.topology("x-1"): "topologies/x-1: not valid"}
    seen = healthy(plans={ID: PublishedPlan(None, 5, NOW_MS)}, unreadable_topologies=frozenset({"x-1"}))
    shown = gathered(seen, problems=broken)
    flights, x = shown["topologies"]
    assert flights["plan"] == "UNREADABLE"
    assert flights["text"] == "plans: the checksum does not fit"
    assert (x["name"], x["text"]) == ("x-1", "topologies/x-1: not valid")
    assert [p["text"] for p in shown["problems"]] == [broken[paths.plan(ID)], broken[paths.topology("x-1")]]


def test_a_topology_without_any_plan_is_no_failure(printed: Printed) -> None:
    fresh = healthy(plans={}, statuses={ID: shim_says("fallback", "NO_PLAN", "no plan: fallback scheduler")})
    row = row_of(fresh)
    assert (row["state"], row["code"]) == ("fallback", "NO_PLAN")  # for programs as it is
    assert (row["stateText"], row["text"]) == ("no plan yet", "placed by Storm's own scheduler")
    text = printed(gathered(fresh))
    assert "no plan yet" in text
    assert "fallback" not in text
    assert "NO_PLAN" not in text


def test_executors_that_run_nowhere_are_told(printed: Printed) -> None:
    lost = {ID: topology(everywhere({("a", 6700): (1, 2, 5)}))}
    seen = healthy(topologies=lost, plans={}, statuses={ID: shim_says("fallback", "NO_PLAN")})
    assert "flights 3 of 6 executors run nowhere" in printed(gathered(seen))
    assert "run nowhere" not in printed(gathered(healthy()))


def test_a_topology_without_a_plan_that_needs_sites_is_not_placed_by_storm() -> None:
    text = "no plan; lost and new executors are placed by the sites of their components"
    row = row_of(healthy(plans={}, statuses={ID: shim_says("fallback", "NO_PLAN", text)}))
    assert row["text"] == "placed by the sites of its components"


def test_executors_are_counted_once_however_many_hosts_are_drained() -> None:
    """Hosts that an autoscaling group replaced stay drained: with 3,000 of them `status` took seconds."""
    looked = []

    class Executors(list[ExecutorPart]):
        def __iter__(self) -> Iterator[ExecutorPart]:
            looked.append(self)
            return super().__iter__()

    def looks(hosts: int) -> int:
        looked.clear()
        drains = {f"gone-{n}": DrainSetting(host=f"gone-{n}") for n in range(hosts)}
        own = topology(everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4), ("c", 6700): (6,)}))
        own = msgspec.structs.replace(own, executors=Executors(own.executors))
        shown = gathered(healthy(topologies={ID: own}, settings=Settings(drains=drains)))["settings"]["drains"]
        assert [d["remaining"] for d in shown] == [{"flights": 1}] * hosts, "c is gone, and its worker may run there"
        return len(looked)

    assert looks(10) == looks(1)


def test_hosts_are_listed_by_the_names_that_drain_takes(printed: Printed) -> None:
    own = cluster("a", "b")
    shared = msgspec.structs.replace(supervisor("c", blacklisted=True), host="host-a")
    drained = Settings(drains={"host-b": DrainSetting(host="host-b")})
    seen = healthy(cluster=msgspec.structs.replace(own, supervisors=[*own.supervisors, shared]), settings=drained)
    shown = gathered(seen)
    assert [(h["host"], h["drained"], [s["id"] for s in h["supervisors"]]) for h in shown["hosts"]] == [
        ("host-a", False, ["a", "c"]),
        ("host-b", True, ["b"]),
    ]
    a = {"id": "a", "blacklisted": False, "slots": 4, "usedSlots": 1, "executors": 3}
    assert shown["hosts"][0]["supervisors"][0] == a
    text = printed(shown)
    assert "host-a: supervisor a (1 of 4 slots used, 3 executors), supervisor c (0 of 4 slots used, 0 exec" in text
    assert "host-b: supervisor b (1 of 4 slots used, 3 executors)" in text


def test_of_many_hosts_people_see_some_and_how_to_see_all(printed: Printed) -> None:
    text = printed(gathered(healthy(cluster=cluster(*(f"s{i:03}" for i in range(200))))))
    assert "host-s009" in text
    assert "host-s010" not in text
    assert "and 190 more: `stormpilot status -f json` lists all" in text


def test_plug_in_that_wrote_nothing_is_told() -> None:
    scheduler = gathered(StoreSnapshot())["scheduler"]
    assert scheduler["seen"] is False
    assert "put `storm.scheduler: io.stormpilot.PilotScheduler` into storm.yaml" in scheduler["text"]


def test_operators_setting_wins_over_what_the_controller_last_saw() -> None:
    row = row_of(healthy(modes={"flights": ModeSetting(mode="off")}, paused=frozenset({"flights"})))
    assert (row["mode"], row["paused"]) == ("off", True)


def test_topology_that_no_controller_has_seen_has_dashes() -> None:
    row = row_of(healthy(controller=None, plans={}, statuses={}))
    assert (row["mode"], row["plan"], row["state"], row["decision"], row["interNodeTps"]) == (None,) * 5


@pytest.mark.parametrize(
    "seen",
    [
        StoreSnapshot(),
        healthy(),
        healthy(controller=None, contenders=()),
        healthy(statuses={ID: shim_says("rejected", "CHECKSUM", "[red] {brackets}")}, paused=frozenset({"_all"})),
        healthy(plans={ID: PublishedPlan(None, 5, NOW_MS)}, unreadable_topologies=frozenset({"x-1"})),
    ],
)
def test_table_says_what_the_json_says(seen: StoreSnapshot, printed: Printed) -> None:
    shown = gathered(seen, problems={"/stormpilot/v1/x": "/stormpilot/v1/x: not valid"})
    text = printed(shown)
    assert shown["controller"]["text"] in text
    assert "unreadable /stormpilot/v1/x: not valid" in text
    for row in shown["topologies"]:
        assert row["name"] in text
        if row["code"] == "CHECKSUM":
            assert "rejected CHECKSUM" in text
            assert "[red] {brackets}" in text


def test_memory_of_a_topology_is_told_with_its_source(printed: Printed) -> None:
    (view,) = state().topologies
    told = msgspec.structs.replace(view, memory="310 MB measured of 4 executors")
    assert "memory: 310 MB measured of 4 executors" in printed(gathered(healthy(controller=state(topologies=[told]))))
