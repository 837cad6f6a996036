"""Plans with less CPU than executors are measured to use: only where there is no plan with all of it.

Planners know one CPU of an executor: what it uses where it is. In fewer workers it may need less (docs/decisions/
0018-cpu-by-places.md), and on a full node it looks for tuples less often (0023-polling.md). So where nothing fits, the
planner plans again as if every executor needed as little as in one worker with all of its topology, then, if that was
too little, with what it needs in the places of that plan, and so on. What a plan needs is judged as in `violations`:
with no more of what is saved than was learned of its topologies.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from stormpilot.model.compiled import NOWHERE, Compiled, Floats, compile_model
from stormpilot.model.cost import evaluate
from stormpilot.model.flow.model import flow_model
from stormpilot.model.flow.places_cpu import given_up_mhz, may_need_less, proved_mhz
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.flow.planning import PREFIX, with_predicted
from stormpilot.planner.placement.problem import LeftS

TRIES = 8
"""Plans that are made at most; each of them may take half of the time that is left."""
TIGHT_RATIO, KEPT_PART = 0.95, 0.3
"""From so much of all CPU that may be filled, a part of the time is kept for another plan."""
PlanOne = Callable[[Model, LeftS], "Plan | Infeasible"]


def with_saved_cpu(model: Model, plan_one: PlanOne, left_s: LeftS) -> Plan | Infeasible:
    """Plan with `plan_one`; where that finds no place, with less CPU, as far as it is known that less will do.

    `left_s`: seconds that are left. The answer of the first attempt stands where no other plan is found, but it is no
    proof that there is none, unless that is proved with the least that executors need, too.
    """
    if not may_need_less(model):
        return plan_one(model, left_s)
    compiled = compile_model(model)
    kept_s = KEPT_PART * left_s() if _tight(compiled) and math.isfinite(left_s()) else 0.0
    answer = plan_one(model, lambda: left_s() - kept_s)
    if isinstance(answer, Plan):
        return answer
    needed = least = _least_mhz(compiled)
    if float(least.sum()) >= float(compiled.cpu_mhz.sum()):
        return answer
    for n in range(TRIES):
        after_s = left_s() / 2 if n < TRIES - 1 and math.isfinite(left_s()) else 0.0
        if left_s() <= 0:
            break
        tried = plan_one(_needing(compiled, needed), lambda after_s=after_s: left_s() - after_s)  # type: ignore[misc]
        if isinstance(tried, Infeasible) or tried.left_out:
            if n == 0:
                if isinstance(tried, Infeasible) and tried.proved:
                    return answer
                break
            needed = (needed + least) / 2
            continue
        if not violations(model, tried):
            return _judged(model, compiled, tried)
        needed = (needed + proved_mhz(compiled, compiled.slots_of(tried))) / 2
    return msgspec.structs.replace(answer, proved=False)


def _tight(compiled: Compiled) -> bool:
    """Whether the nodes that may be used are nearly full."""
    usable = compiled.allowed.any(axis=0)
    return float(compiled.cpu_mhz.sum()) > TIGHT_RATIO * float(compiled.node_limit_mhz[usable].sum())


def _least_mhz(compiled: Compiled) -> Floats:
    """CPU of every executor if all of a topology shared one worker, wherever that is."""
    first = compiled.current[compiled.first_executor[compiled.topology]]
    together = np.where(first == NOWHERE, 0, first)
    return np.minimum(proved_mhz(compiled, together), compiled.cpu_mhz) if compiled.slots else compiled.cpu_mhz


def _needing(compiled: Compiled, needed: Floats) -> Model:
    """The model with this CPU of its executors, wherever they are."""
    topologies = []
    for i, t in enumerate(compiled.model.topologies):
        lo, hi = int(compiled.first_executor[i]), int(compiled.first_executor[i + 1])
        mhz = dict(zip(compiled.start[lo:hi].tolist(), needed[lo:hi].tolist(), strict=True))
        executors = [msgspec.structs.replace(e, cpu_mhz=mhz[e.start], polling_mhz=0.0) for e in t.executors]
        topologies.append(msgspec.structs.replace(t, executors=executors, cpu_law=None))
    return msgspec.structs.replace(compiled.model, topologies=topologies)


def _judged(model: Model, compiled: Compiled, plan: Plan) -> Plan:
    """The plan with its metrics in the model itself, and what it relies on."""
    saved = compiled.cpu_mhz - proved_mhz(compiled, compiled.slots_of(plan))
    if any(name.startswith(PREFIX) for name in plan.metrics):
        plan = with_predicted(plan, flow_model(model))
    polling_mhz = float(np.minimum(given_up_mhz(compiled), saved).sum())
    parts = {"that its places save": float(saved.sum()) - polling_mhz, "of looking for tuples": polling_mhz}
    told = " and ".join(f"{mhz:.0f} MHz {what}" for what, mhz in parts.items() if round(mhz))
    note = (
        f"it relies on {saved.sum():.0f} MHz less CPU than is measured now, {told}: what is said of bounds holds within"
    )
    note += " that"
    return msgspec.structs.replace(plan, metrics=plan.metrics | evaluate(model, plan), notes=[*plan.notes, note])
