"""Plans that a story wants: topologies in slots that it names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from stormpilot.model.values import Infeasible, Model, Plan, TopologyPlan, Worker
from stormpilot.model.violations import violations

Slots = Mapping[tuple[str, int], tuple[int, ...]]
"""First tasks of executors, by supervisor and port."""


def plan_in(model: Model, wanted: Mapping[str, Slots]) -> Plan:
    """A plan with these topologies (by id) in these slots, the others as they run."""
    plans = []
    for t in model.topologies:
        slots: dict[tuple[str, int], list[int]] = defaultdict(list)
        if t.id in wanted:
            slots |= {slot: list(tasks) for slot, tasks in wanted[t.id].items()}
        else:
            for a in t.assignment:
                slots[a.supervisor, a.port].append(a.start)
        workers = [Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in slots.items()]
        plans.append(TopologyPlan(id=t.id, workers=workers))
    return Plan(planner="story", topologies=plans)


def allowed(model: Model, wanted: Mapping[str, Slots]) -> Plan | Infeasible:
    """The plan with these topologies in these slots, where the model allows it, as a planner answers."""
    plan = plan_in(model, wanted)
    wrong = violations(model, plan)
    if not wrong:
        return plan
    return Infeasible(constraint=wrong[0].constraint, text=wrong[0].text, executors=wrong[0].executors)
