"""Where executors should run: one file per method, all behind `Planner`, listed in `PLANNERS`.

    answer = compute(model, "online", {"alpha": 0.2}, seed=1)      # Plan or Infeasible

- `methods/`: one file per planner, each with a page in docs/planners/; `candidates.py`: what others answer, for `best`
- `registry.py`: what a planner is; `admission.py`: which topologies come first, and which are left out
- `placement/`: placements in the making, how they become slots, what is minimised, what cannot be
- `search/`: the local search on measured pairs; `flow/`: plans on what shuffles will really send
- `least_latency.py`: plans between packed and spread out, judged by latency; objective `latency` of `best`.
  `latency_search.py`: single moves that lower it
- `shared_memory.py`, `wishes.py`, `saved_cpu.py`: plans that leave room for the memory that components share, that use
  favored nodes first, and that need the CPU that their places save
- `budget.py`, `search/rounds.py`, `search/parallel.py`: how long `best` searches, in which runs, on how many cores;
  `search/focus.py`: one topology after the other;
  `search/warm.py`: compiled code is loaded before a clock counts
- `bounds/`: how much any plan must leave, and proofs; `heuristics/`, `repair.py`: parts that methods share
- `explain/`: why an executor is where it is

Everything here is pure: no clock (what is left of the time is asked from the caller), no chance but the seeded
generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from stormpilot.errors import UsageError
from stormpilot.model.compiled import Compiled, compile_model
from stormpilot.model.cost import current_plan, evaluate
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.admission import admitted
from stormpilot.planner.flow.planning import PREFIX, Traffic, on_flows, with_predicted
from stormpilot.planner.least_latency import with_least_latency
from stormpilot.planner.methods import (
    best,
    default,
    dsm,
    exact,
    offline,
    online,
    otd,
    partition,
    ras_order,
    rsm,
    sam,
)
from stormpilot.planner.placement.objective import LATENCY
from stormpilot.planner.placement.problem import (
    LeftS,
)
from stormpilot.planner.registry import Planner, Value, broken_wishes, params_of, run
from stormpilot.planner.saved_cpu import with_saved_cpu
from stormpilot.planner.search.warm import warmed
from stormpilot.planner.shared_memory import with_shared_memory
from stormpilot.planner.wishes import with_wishes

KEPT = "the present placement stays: no other was found"
NO_DEARER = "the present placement stays: no plan with room for the memory that components share is cheaper"
COSTS = {"inter_node": "inter_node_tps", "network_cost": "network_cost_tps", "ras": "ras_network_metric"}
"""Metrics that planners minimise, by their objective."""

__all__ = ["PLANNERS", "Planner", "compute", "compute_on_flows", "planner_named"]

PLANNERS: dict[str, Planner] = {
    p.name: p
    for p in (
        Planner(
            "default",
            "Storm's own: executors round robin over workers, workers round robin over nodes",
            "EvenScheduler; A13 2.3",
            default.Params,
            default.place,
        ),
        Planner(
            "offline",
            "by the component graph alone: receivers near their senders; for what was never measured",
            "A13 3.1",
            offline.Params,
            offline.place,
            exact_workers=True,
        ),
        Planner(
            "online",
            "greedy by measured traffic: executors to workers, workers to nodes",
            "A13 3.2",
            online.Params,
            online.place,
            exact_workers=True,
        ),
        Planner(
            "otd",
            "one executor at a time: away from overloaded workers, else to where its traffic is",
            "N24 4",
            otd.Params,
            otd.place,
        ),
        Planner(
            "rsm",
            "R-Storm: each executor to the node whose free CPU and memory fit it best, near the last",
            "R-Storm; S17 7.3",
            rsm.Params,
            rsm.place,
        ),
        Planner(
            "ras-order",
            "Storm 2.x's resource-aware order of nodes, and of topologies across users",
            "RAS",
            ras_order.Params,
            ras_order.place,
        ),
        Planner(
            "partition",
            "graph partitioning (Mt-KaHyPar), then local search on the true objective",
            "stormpilot's own",
            partition.Params,
            partition.place,
            minimises_flow=True,
        ),
        Planner(
            "dsm",
            "executors round robin over the slots, node after node",
            "S17 7.2",
            dsm.Params,
            dsm.place,
        ),
        Planner(
            "sam",
            "full bundles of one component in slots of their own, the rest best fit",
            "S17 7.4",
            sam.Params,
            sam.place,
        ),
        Planner(
            "best",
            "cheapest plan of a portfolio, improved by annealing; never worse than the present placement",
            "stormpilot's own",
            best.Params,
            best.place,
            minimises_flow=True,
            composite=True,
        ),
        Planner(
            "exact",
            "proved optimum of small models (CP-SAT), or its bound",
            "stormpilot's own",
            exact.Params,
            exact.place,
        ),
    )
}


def planner_named(name: str) -> Planner:
    """The planner of that name; `UsageError` lists those there are."""
    if name not in PLANNERS:
        raise UsageError(f"there is no planner {name!r}; there are: {', '.join(PLANNERS)}")
    return PLANNERS[name]


def compute(
    model: Model,
    planner: str | Planner,
    params: Mapping[str, Value] | None = None,
    *,
    seed: int = 0,
    left_s: LeftS = lambda: math.inf,
    partial: bool = False,
    traffic: Traffic = "measured",
    compiled: Compiled | None = None,
) -> Plan | Infeasible:
    """Plan with a planner, or the one of that name. `left_s` says how many seconds are left (by the caller's clock).

    With `partial`, where not all topologies fit, those that run and as many of the others as fit are planned, in the
    order of users' guarantees and priorities; `Plan.left_out` names the rest (`admission.admitted`). Where nothing is
    found, and nothing proves that there is none, what runs is the answer if it breaks no rule. With `traffic`
    `flow` our planners minimise what shuffles will really send, and every plan's metrics say it (`flow/planning.py`).
    `compiled`, the arrays of the model, saves compiling it again.
    """
    chosen = planner if isinstance(planner, Planner) else planner_named(planner)
    given = params or {}
    own = params_of(chosen, given)
    exact_workers = bool(getattr(own, "exact_workers", False))
    left_s = warmed(f"{chosen.name} {traffic}", lambda tiny: _quickly(tiny, chosen, traffic), left_s)

    def on_pairs(whole: Model, left_s: LeftS) -> Plan | Infeasible:
        def plan(part: Model, left_s: LeftS) -> Plan | Infeasible:
            return run(chosen, part, given, seed, left_s, compiled)

        if not partial:
            return plan(whole, left_s)
        quick = PLANNERS["online" if chosen.exact_workers or exact_workers else "default"]
        return admitted(whole, plan, lambda part: run(quick, part, {}, seed, left_s), left_s)

    def plan_one(whole: Model, left_s: LeftS) -> Plan | Infeasible:
        if traffic == "measured":
            return on_pairs(whole, left_s)
        return on_flows(whole, chosen, own, seed, left_s, on_pairs)

    if chosen.composite and given.get("objective") == LATENCY:
        network = {**given, "objective": "network_cost"}

        def by_network(part: Model, left_s: LeftS) -> Plan | Infeasible:
            return compute(part, chosen, network, seed=seed, left_s=left_s, partial=partial, traffic=traffic)

        def by_latency(whole: Model, left_s: LeftS) -> Plan | Infeasible:
            return with_least_latency(
                whole, by_network, left_s, seed=seed, traffic=traffic, exact_workers=exact_workers
            )

        return with_wishes(model, by_latency, left_s)

    def present_of(whole: Model, note: str, *, workers_too: bool = False) -> Plan | None:
        """The present placement as an answer, where it keeps the constraints."""
        present = current_plan(whole)
        if present is None or violations(whole, present, exact_workers=workers_too and exact_workers):
            return None
        kept = msgspec.structs.replace(
            present, planner=chosen.name, seed=seed, metrics=evaluate(whole, present), notes=[note]
        )
        return kept if traffic == "measured" else with_predicted(kept, flow_model(whole))

    def or_present(whole: Model, plan: Plan) -> Plan:
        if not chosen.minimises_flow or plan.left_out:
            return plan
        arrays = compile_model(whole)
        kept = present_of(whole, NO_DEARER, workers_too=True)
        if kept is None or broken_wishes(arrays, kept) - broken_wishes(arrays, plan):
            return plan
        kept = msgspec.structs.replace(kept, params=plan.params)
        return kept if _minimised(kept, own) <= _minimised(plan, own) * (1 + 1e-9) else plan

    def with_rules(whole: Model, left_s: LeftS) -> Plan | Infeasible:
        def shared(tried: Model, left_s: LeftS) -> Plan | Infeasible:
            return with_shared_memory(tried, plan_one, left_s, or_present)

        return with_wishes(whole, shared, left_s)

    answer = with_saved_cpu(model, with_rules, left_s)
    if isinstance(answer, Plan) or answer.proved:
        return answer
    return present_of(model, KEPT) or answer


def _minimised(plan: Plan, own: Any) -> float:
    """Cost of a plan for a planner with these parameters: by its flows, where they are known, with its restarts."""
    name = COSTS[own.objective]
    by_pairs = plan.metrics[name]
    return plan.metrics.get(f"{PREFIX}{name}", by_pairs) + float(own.restart_tps * plan.metrics["restarted_workers"])


def _quickly(model: Model, planner: Planner, traffic: Traffic) -> None:
    """Plan a tiny model with few tries, so that all that is compiled is there."""
    given: dict[str, Value] = {"iterations": 100} if "iterations" in planner.params.__dataclass_fields__ else {}
    compute(model, planner, given, traffic=traffic)


def compute_on_flows(
    model: Model,
    planner: str,
    params: Mapping[str, Value] | None = None,
    *,
    seed: int = 0,
    left_s: LeftS = lambda: math.inf,
) -> Plan | Infeasible:
    """`compute` with `traffic` `flow`: what the controller's planner process runs."""
    return compute(model, planner, params, seed=seed, left_s=left_s, traffic="flow")
