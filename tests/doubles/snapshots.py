"""Small snapshots and load reports, as the scheduler plug-in and topologies would write them.

The job: spout `source` (task 1), bolts `parse` (tasks 2, 3, fields grouping) and `sink` (task 4), acker (task 5),
collector (task 6). Everything at 100 tuples/s unless told otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from stormpilot.messages.core import (
    ClusterSnapshot,
    ComponentPart,
    ExecutorPart,
    InputPart,
    ShimPart,
    SupervisorPart,
    TopologySnapshot,
)
from stormpilot.messages.load import LoadReport, TaskLoad

T0_MS = 1_763_690_000_000
LOAD = "stormpilot_load"
COMPONENT_OF = {1: "source", 2: "parse", 3: "parse", 4: "sink", 5: "__acker", 6: "collector"}
REPORTING = (1, 2, 3, 4)
RECEIVED = {2: {(1, "default"): 50.0}, 3: {(1, "default"): 50.0}, 4: {(2, "default"): 50.0, (3, "default"): 50.0}}
Place = Mapping[int, tuple[str, int] | None]


def cluster(*supervisors: str, **fields: Any) -> ClusterSnapshot:
    """Supervisors with four slots (6700 to 6703) and two cores each, in the order given."""
    return ClusterSnapshot(
        written_at_ms=T0_MS,
        shim=ShimPart(version="0.1.0", storm_version="2.8.3", nimbus="nimbus-1"),
        supervisors=[supervisor(s, **fields) for s in supervisors],
    )


def supervisor(supervisor_id: str, **fields: Any) -> SupervisorPart:
    """One supervisor; `fields` override."""
    return SupervisorPart(
        **{
            "id": supervisor_id,
            "host": f"host-{supervisor_id}",
            "ports": [6700, 6701, 6702, 6703],
            "cpu_pcore_percent": 200.0,
            "memory_mb": 8192.0,
            **fields,
        }
    )


def topology(place: Place | None = None, *, name: str = "flights", workers: int = 2, **fields: Any) -> TopologySnapshot:
    """The job; `place` maps a task to (supervisor, port), tasks without an entry have no slot."""
    place = place or {}

    def bolt(component: str, *sources: str, reports: bool = True, **more: Any) -> ComponentPart:
        return ComponentPart(
            id=component,
            kind="bolt",
            cpu_pcore_percent=10.0,
            memory_mb=128.0,
            inputs=[InputPart(component=s, grouping="FIELDS", fields=["key"]) for s in sources],
            streams=["default", LOAD] if reports else [],
            **more,
        )

    def at(task: int) -> tuple[str | None, int | None]:
        return place.get(task) or (None, None)

    return TopologySnapshot(
        **{
            "version": 1,
            "written_at_ms": T0_MS,
            "id": f"{name}-1-1763690000",
            "name": name,
            "owner": "ops",
            "workers": workers,
            "launched_at_ms": T0_MS,
            "assigned_since_ms": T0_MS if place else 0,
            "components": [
                ComponentPart(
                    id="source", kind="spout", cpu_pcore_percent=10.0, memory_mb=128.0, streams=["default", LOAD]
                ),
                bolt("parse", "source"),
                bolt("sink", "parse"),
                ComponentPart(id="__acker", kind="system", cpu_pcore_percent=10.0, memory_mb=128.0),
                bolt("collector", "source", "parse", "sink", reports=False, config={"stormpilot.role": "collector"}),
            ],
            "executors": [
                ExecutorPart(start=t, end=t, component=c, supervisor=at(t)[0], port=at(t)[1])
                for t, c in COMPONENT_OF.items()
            ],
            **fields,
        }
    )


def everywhere(slots: Mapping[tuple[str, int], tuple[int, ...]]) -> dict[int, tuple[str, int]]:
    """Turn slot -> tasks around."""
    return {task: slot for slot, tasks in slots.items() for task in tasks}


def task_load(task: int, seconds: float, *, process: int = 0, **fields: Any) -> TaskLoad:
    """Counters of a task whose process `process` (each starts 1000 s after the one before) has run for `seconds`."""
    start_ms = T0_MS + process * 1_000_000
    acked = sum(RECEIVED.get(task, {}).values())
    spout = COMPONENT_OF.get(task) == "source"
    return TaskLoad(
        **{
            "task": task,
            "component": COMPONENT_OF.get(task, "other"),
            "host": "worker-host",
            "mhz": 2000.0,
            "pid": 100 + task + 1000 * process,
            "start_ms": start_ms,
            "seq": int(seconds * 10) + 1,
            "at_ms": start_ms + int(seconds * 1000),
            "cpu_s": 0.1 * seconds,
            "received": [(s, stream, int(tps * seconds)) for (s, stream), tps in RECEIVED.get(task, {}).items()],
            "acked": int(acked * seconds),
            "emitted": int(100 * seconds) if spout else 0,
            "completed": int(100 * seconds) if spout else 0,
            "latency_ms": [(10.0, int(90 * seconds)), (-1.0, int(10 * seconds))] if spout else [],
            **fields,
        }
    )


def schema_1(report: LoadReport) -> bytes:
    """A report as versions wrote it that did not know schema 2: a triple for each pair."""
    value = json.loads(msgspec.json.encode(report))
    for load in value["tasks"]:
        for name in ("received", "sent"):
            told = load[name].items()
            load[name] = [[t, stream, n] for stream, pairs in told for t, n in zip(*pairs, strict=True)]
    return json.dumps({**value, "schema": 1}).encode()


def report(seconds: float, *, name: str = "flights", tasks: tuple[int, ...] = REPORTING, **fields: Any) -> LoadReport:
    """The report of all tasks `seconds` after their start."""
    return LoadReport(
        topology_id=f"{name}-1-1763690000",
        reporter="collector-6",
        seq=int(seconds * 10) + 1,
        written_at_ms=T0_MS + int(seconds * 1000),
        tasks=[task_load(t, seconds, **fields) for t in tasks],
    )
