"""What can go wrong in a planner, as functions with the signature of `stormpilot.planner.compute`.

A test chooses one by the name of its planner: they run in a process of their own, which knows nothing of the test.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping

from stormpilot.model.values import Infeasible, Model, Plan, TopologyPlan, Worker
from stormpilot.planner import compute


def misbehave(
    model: Model,
    planner: str,
    params: Mapping[str, float | int | str | bool | None],
    *,
    seed: int,
    left_s: Callable[[], float],
) -> Plan | Infeasible:
    """`raises`, `hangs`, `is slow`, `crashes`, `nonsense`; any other name is a real planner."""
    if planner == "raises":
        raise ZeroDivisionError("no traffic at all")
    if planner == "hangs":
        while True:
            time.sleep(3600)
    if planner == "is slow":
        time.sleep(0.5)
        return Infeasible(constraint="process", text="at last")
    if planner == "crashes":
        ctypes.string_at(0)
    if planner == "tells its process":
        return Infeasible(constraint="process", text=str(os.getpid()))
    if planner == "nonsense":
        return Plan(planner=planner, topologies=[_all_on_one_port(t.id, model) for t in model.topologies])
    return compute(model, planner, params, seed=seed, left_s=left_s)


def misbehaving(
    kind: str,
    model: Model,
    planner: str,
    params: Mapping[str, float | int | str | bool | None],
    *,
    seed: int,
    left_s: Callable[[], float],
) -> Plan | Infeasible:
    """Misbehave in this way, whatever planner is asked for."""
    return misbehave(model, kind, params, seed=seed, left_s=left_s)


def _all_on_one_port(topology_id: str, model: Model) -> TopologyPlan:
    """Half of the executors, on a port that does not exist."""
    topology = next(t for t in model.topologies if t.id == topology_id)
    executors = [(e.start, e.end) for e in topology.executors][::2]
    supervisor = model.supervisors[0].id if model.supervisors else "nowhere"
    return TopologyPlan(id=topology_id, workers=[Worker(supervisor=supervisor, port=1, executors=executors)])
