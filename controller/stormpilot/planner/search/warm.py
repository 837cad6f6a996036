"""Compiled code is loaded before a clock counts.

The first plan of a process loads (or compiles) the machine code of its planner, which can take longer than the plan.
Under a time budget that would be taken from the search: a budget of 3 s once ended with nothing tried. So the planner
plans a tiny model first, and the caller's clock is set back by what that took beyond a tenth of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from stormpilot.model.values import Component, Edge, Executor, Input, Model, Supervisor, Topology

TINY = Model(
    supervisors=[Supervisor(id=s, host=s, slots=[1], cores=1.0, mhz=1000.0, memory_mb=0.0) for s in ("a", "b")],
    topologies=[
        Topology(
            id="tiny",
            name="tiny",
            workers=2,
            components=[Component(id="a", kind="spout"), Component(id="b", inputs=[Input(component="a")])],
            executors=[Executor(start=i, end=i, component="a" if i < 3 else "b", cpu_mhz=400.0) for i in range(1, 5)],
        )
    ],
    traffic=[Edge(topology="tiny", from_=i, to=i + 2, rate=1.0, stream="default") for i in (1, 2)],
)
"""The least that every planner has something to do on."""
ROOMY = msgspec.structs.replace(TINY, supervisors=[msgspec.structs.replace(s, mhz=2 * s.mhz) for s in TINY.supervisors])
"""The same where no node is half full: `otd` looks for transfers only where a worker has little to do."""
COUNTED = 0.1  # of a budget, that may go to loading
_warm: set[str] = set()


def warmed(name: str, plan: Callable[[Model], object], left_s: Callable[[], float]) -> Callable[[], float]:
    """The clock `left_s`, of which the first plan of this name in the process took at most a tenth."""
    if name in _warm or math.isinf(before_s := left_s()):
        return left_s
    _warm.add(name)
    plan(TINY)
    took_s = before_s - left_s()
    given_back_s = max(took_s - COUNTED * before_s, 0.0)
    return lambda: left_s() + given_back_s
