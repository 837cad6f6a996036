"""Evidence of a healthy installation, for the doctor; fields can be replaced."""

from __future__ import annotations

from typing import Any

import stormpilot
from doubles import snapshots
from stormpilot.doctor import Evidence, Finding, Level, examine
from stormpilot.doctor.ensemble import Server
from stormpilot.doctor.evidence import Access, NimbusSaid, Written
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import PlanMessage, StatusMessage, Worker
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot

NOW_MS = snapshots.T0_MS + 60_000


OPEN = [("world", "anyone", "rwcda")]


SLOTS = snapshots.everywhere({("a", 6700): (1, 2, 3), ("b", 6700): (4, 5, 6)})


FLIGHTS = snapshots.topology(SLOTS)


PLAN = PlanMessage(
    plan_id="p-1",
    plan_set="r-1",
    topology_id=FLIGHTS.id,
    epoch=1,
    created_at_ms=NOW_MS,
    planner="best",
    workers=[Worker(supervisor="a", port=6700, executors=[(1, 1)])],
    checksum="",
)


CONF = {"storm.scheduler": "io.stormpilot.PilotScheduler", "storm.zookeeper.retry.times": 60}


def state(**fields: Any) -> ControllerState:
    view = TopologyView(id=FLIGHTS.id, name="flights", mode="act", action="skip", reason="COOL_DOWN")
    return ControllerState(
        **{
            "controller": "c:1",
            "version": stormpilot.__version__,
            "epoch": 1,
            "started_at_ms": NOW_MS - 50_000,
            "written_at_ms": NOW_MS - 5_000,
            "period_s": 30.0,
            "cycles": 3,
            "planner": "best",
            "sentence": "no change",
            "topologies": [view],
            **fields,
        }
    )


def seen(**fields: Any) -> StoreSnapshot:
    status = StatusMessage(
        topology_id=FLIGHTS.id, plan_id="p-1", state="applied", code="OK", since_ms=0, written_at_ms=NOW_MS
    )
    return StoreSnapshot(
        **{
            "cluster": snapshots.cluster("a", "b"),
            "topologies": {FLIGHTS.id: FLIGHTS},
            "plans": {FLIGHTS.id: PublishedPlan(PLAN, 0, NOW_MS - 1000)},
            "statuses": {FLIGHTS.id: status},
            "controller": state(),
            "contenders": ("c:1",),
            **fields,
        }
    )


def evidence(**fields: Any) -> Evidence:
    return Evidence(
        **{
            "now_ms": NOW_MS,
            "hosts": "zk:2181",
            "servers": [Server("zk:2181", "3.9.5", "standalone")],
            "seen": seen(),
            "access": [Access(path="/stormpilot", entries=OPEN)],
            "written": [Written(who="the Nimbus host", wrote_at_ms=NOW_MS, arrived_at_ms=NOW_MS + 3)],
            "reports": {FLIGHTS.id: 4.0},
            "nimbus": NimbusSaid(
                address="n:6627", conf=CONF, leader="n", supervisors=["a", "b"], topologies=[FLIGHTS.id]
            ),
            **fields,
        }
    )


def bad(e: Evidence) -> list[Finding]:
    return [f for f in examine(e) if f.level in (Level.warn, Level.fail)]


def conf(**changed: Any) -> dict[str, Any]:
    return {
        "nimbus": NimbusSaid(address="n:6627", conf=CONF | changed, supervisors=["a", "b"], topologies=[FLIGHTS.id])
    }
