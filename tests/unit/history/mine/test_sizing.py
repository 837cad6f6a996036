"""What was mined of a topology as input of `stormpilot size`: complete and readable, or a sentence why not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stormpilot.history.mine.sizing import Sizing, sizing
from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import PerformancePoint, ThresholdEntry, Thresholds
from stormpilot.sizing.allocation import allocate
from stormpilot.sizing.problem import parse

NODE = {"supervisor": "a", "cores": 4.0, "mhz": 2000.0, "memory_mb": 8000.0, "slots": 4}
PEAKS = [{"component": "read", "rate_tps": 100.0}, {"component": "split", "rate_tps": 99.0}]


def point(component: str, threads: int, rate_tps: float, cpu_mhz: float) -> PerformancePoint:
    return PerformancePoint(component=component, threads=threads, rate_tps=rate_tps, cpu_mhz=cpu_mhz, memory_mb=200.0)


POINTS = [point("read", 1, 120.0, 500.0), point("split", 1, 50.0, 1000.0), point("split", 2, 80.0, 1900.0)]


def graph(grouping: str = "SHUFFLE") -> str:
    return msgspec.json.encode(
        [
            {"id": "read", "kind": "spout"},
            {"id": "split", "inputs": [{"component": "read", "grouping": grouping}]},
            {
                "id": "stormpilot-collector",
                "inputs": [
                    {"component": c, "stream": "stormpilot_load", "grouping": "GLOBAL"} for c in ("read", "split")
                ],
            },
            {"id": "__acker", "kind": "system", "inputs": [{"component": "split", "stream": "__ack_ack"}]},
        ]
    ).decode()


def mined(points: list[PerformancePoint] = POINTS, **entry: Any) -> Thresholds:
    found = ThresholdEntry(
        name=th.SELECTIVITY, scope="edge", of=["read", "default", "split"], **{"value": 3.0, **entry}
    )
    return Thresholds(
        topology_id="t-1-1", topology_name="t", mined_at_ms=0, from_ms=0, to_ms=0, entries=[found], performance=points
    )


def sized(text: str | None = None, what: Thresholds | None = None) -> Sizing:
    return sizing(what or mined(), text or graph(), PEAKS, [NODE])


def test_points_rates_and_nodes_become_what_size_reads() -> None:
    found = sized()
    assert found.problem is not None and found.notes == []
    problem = parse(msgspec.json.encode(found.problem).decode(), "t.json")
    assert problem == found.problem
    assert (problem.rate_tps, problem.slot.cpu_mhz, problem.slot.memory_mb) == (100.0, 2000.0, 2000.0)
    assert [(v.name, v.slots) for v in problem.vms] == [("node-4", 4)]
    assert [c.id for c in problem.components] == ["read", "split"]
    assert problem.components[1].inputs[0].selectivity == 3.0
    assert [(p.threads, p.cpu_share, p.memory_share) for p in problem.models[1].points] == [
        (1, 0.5, 0.1),
        (2, 0.95, 0.1),
    ]
    split = {a.component: a for a in allocate(problem, 100.0, "mba").allotments}["split"]
    assert (split.rate_tps, split.threads) == (300.0, 8)  # 3 x 2 threads sustain 240, two more the other 60


def test_component_never_seen_alone_is_divided_and_said() -> None:
    found = sized(what=mined([POINTS[0], point("split", 2, 80.0, 1900.0), point("split", 4, 150.0, 3600.0)]))
    assert found.problem is not None
    assert [(p.threads, p.rate_tps, p.cpu_share) for p in found.problem.models[1].points] == [
        (1, 40.0, 0.475),
        (2, 80.0, 0.95),
    ]
    assert [n.split(":")[0] for n in found.notes] == ["split", "split"]
    assert "taken as 1/2 of 2" in found.notes[0] and "4 threads used more than a core" in found.notes[1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"text": graph("ALL")}, "grouping ALL does not spread tuples evenly"),
        ({"what": mined(value=None, source="default", text="2 hours with traffic, 6 needed")}, "2 hours with traffic"),
        ({"what": mined(POINTS[:1])}, "split: too little was seen of it"),
    ],
)
def test_what_cannot_be_sized_says_why(change: dict[str, Any], why: str) -> None:
    found = sized(**change)
    assert found.problem is None
    assert why in found.notes[0]


def test_silent_source_is_named() -> None:
    found = sizing(mined(), graph(), PEAKS[1:], [NODE])
    assert (found.problem, found.notes) == (None, ["nothing was seen of the source read"])
