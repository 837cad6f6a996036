"""Load of nodes in a step, and the part of it in which they are overloaded."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from stormpilot.history.replay.values import PACES, Step
from stormpilot.model.values import Model


def loads(step: Step, model: Model) -> tuple[dict[str, float], dict[str, float]]:
    """By supervisor: mean load / B(n), and the part of the step in which the load is B(n) or more.

    `model` has the placement and the CPU that count; within the step every topology keeps the pace that was measured.
    """
    steady = np.ones(PACES)
    load_mhz: defaultdict[str, npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(PACES))
    for t in model.topologies:
        pace = np.array(step.pace[t.id]) if t.id in step.pace else steady
        cpu_mhz = {e.start: e.cpu_mhz for e in t.executors}
        own: defaultdict[str, float] = defaultdict(float)
        for a in t.assignment:
            own[a.supervisor] += cpu_mhz.get(a.start, 0.0)
        for s, mhz in own.items():
            load_mhz[s] += mhz * pace
    limit_mhz = {s.id: s.limit_mhz for s in model.supervisors}
    ratio = {s: float(load_mhz[s].mean()) / limit if limit > 0 else 0.0 for s, limit in limit_mhz.items()}
    over = {s: float((load_mhz[s] >= limit).mean()) if limit > 0 else 0.0 for s, limit in limit_mhz.items()}
    return ratio, over
