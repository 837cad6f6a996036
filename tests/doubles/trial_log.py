"""A traffic log of ten minutes in mode advise, written by the controller's own writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stormpilot.trafficlog.writer import TrafficLog

MINUTES = 10
PERIOD_S = 10
CYCLES = MINUTES * 60 // PERIOD_S
PROPOSED = range(10, 40)
SAVED_TUPLES = len(PROPOSED) * PERIOD_S * 400


def write_trial_log(folder: Path, from_ms: int) -> Path:
    """`flights` (1,000 tuples/s, 600 between nodes) has a proposal for 200 in half of the cycles; `quiet` has none."""
    log = TrafficLog(folder)
    for i in range(CYCLES):
        at_ms = from_ms + i * PERIOD_S * 1000
        log.add("decisions", [_decision(at_ms, "flights-1", i in PROPOSED)], "flights-1")
        quiet = _decision(at_ms, "quiet-2", False) | {"reason": "NOT_INSTRUMENTED", "text": "no reports"}
        log.add("decisions", [quiet], "quiet-2")
        log.add("windows", [_window(at_ms)], "flights-1")
    log.flush(from_ms + MINUTES * 60_000)
    return folder


def _decision(at_ms: int, topology_id: str, proposes: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "at": at_ms,
        "topology_id": topology_id,
        "topology_name": topology_id.partition("-")[0],
        "mode": "advise",
        "action": "advise" if proposes else "skip",
        "reason": "GAIN" if proposes else "GAIN_NOT_SUSTAINED",
        "text": "inter-node traffic falls by 67%",
        "moved_executors": 0,
        "total_tps": 1000.0,
    }
    if proposes:
        row |= {"moved_executors": 6, "inter_node_tps": 600.0, "planned_inter_node_tps": 200.0}
        row |= {"restarted_workers": 3, "held_up_tuples": 900.0}
    return row


def _window(to_ms: int) -> dict[str, Any]:
    return {
        "window_from": to_ms - PERIOD_S * 1000,
        "window_to": to_ms,
        "topology_id": "flights-1",
        "topology_name": "flights",
        "measured": True,
        "total_tps": 1000.0,
        "inter_node_tps": 600.0,
    }
