"""Parts of the measurement. `quick` is a small version of each, to see that everything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from benchmarks.planners import unlike
from benchmarks.planners.baselines import BASELINES, BY_FLOWS
from benchmarks.planners.bench import Bench, plan_of
from benchmarks.planners.contestants import Ours, best, best_by_flows, best_for, best_moving, exact, heuristics
from benchmarks.planners.instances import CLUSTERS, Instance

# What the restart of a worker costs, in units of the traffic of a mean executor.
RESTARTS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)
BUDGETS_S = (1.0, 2.0, 5.0, 10.0, 20.0, 60.0)


def small(bench: Bench) -> None:
    """Random instances whose optimum is proved: how far is everybody from it?"""
    instances = [bench.instances.small(i) for i in range(12 if bench.quick else 200)]
    proof_s = 20.0 if bench.quick else 120.0
    for instance in instances:
        bench.ours("small", instance, exact(proof_s))
        bench.ours("small", instance, best(2.0))
        for planner in heuristics(2.0):
            bench.ours("small", instance, planner)
        bench.ours("small", instance, exact(proof_s, objective="ras"))
        bench.ours("small", instance, best(2.0, objective="ras"))
    bench.storm("small", instances, rounds=2, timeout_s=10, budget_s=5)


def medium_instances(bench: Bench) -> list[Instance]:
    """Loaded clusters of 200 to 2,000 executors."""
    if bench.quick:
        return [bench.instances.loaded(200, 3, 0.7, 0), bench.instances.loaded(500, 20, 0.85, 0)]
    sizes = (
        *((200, 3, 0.6), (200, 8, 0.85), (500, 5, 0.7), (500, 20, 0.85)),
        *((1000, 6, 0.6), (1000, 40, 0.85), (2000, 8, 0.7), (2000, 80, 0.8)),
    )
    return [bench.instances.loaded(*size, seed) for size in sizes for seed in range(min(2, bench.seeds))]


def medium(bench: Bench) -> None:
    """Everybody on loaded clusters, one after the other: what is interrupted has whole instances."""
    rounds = 1 if bench.quick or bench.seeds == 1 else 5
    for instance in medium_instances(bench):
        _everybody(bench, "medium", instance, best(10.0), BASELINES)
        bench.storm("medium", [instance], rounds=rounds, timeout_s=60, budget_s=4 * rounds)
    for instance in medium_instances(bench):
        bench.ours("medium", instance, best_for(60.0, instance.executors))


def flows(bench: Bench) -> None:
    """The same clusters by what shuffles will really send, which `plan compute` minimises by default."""
    for instance in medium_instances(bench):
        _everybody(bench, "flows", instance, best_by_flows(10.0), BY_FLOWS)


def _everybody(bench: Bench, part: str, instance: Instance, portfolio: Ours, baselines: Iterable[str]) -> None:
    """The portfolio, partitioners and all other planners of ours; with every seed where it makes a difference."""
    seeds = range(1 if bench.quick else bench.seeds)
    for seed in seeds:
        bench.ours(part, instance, portfolio, seed)
        for name in baselines:
            bench.baseline(part, instance, name, seed)
    for planner in heuristics(10.0):
        for seed in seeds if planner.planner == "partition" else (0,):
            bench.ours(part, instance, replace(planner, traffic=portfolio.traffic), seed)


def bound(bench: Bench) -> None:
    """Lower bounds on the loaded clusters: how much there is to win at all."""
    for instance in medium_instances(bench):
        bench.bound("bound", instance)


def planted(bench: Bench) -> None:
    """Up to 20,000 executors with a hidden placement, each plan a whole process; 100,000 once."""
    sizes = (1000, 2000) if bench.quick else (1000, 2000, 5000, 10_000, 20_000)
    for executors in sizes:
        for seed in range(1 if bench.quick else bench.seeds):
            instance = bench.instances.planted(executors, seed)
            bench.hidden(instance)
            for contestant in (Ours("online", "online"), Ours("partition", "partition"), best(10.0)):
                bench.whole_process("planted", instance, contestant, seed)
            for scheduler in ("default", "ras-default", "ras-default-old"):
                bench.storm_process("planted", instance, scheduler)
    if not bench.quick:
        instance = bench.instances.planted(100_000, 0)
        bench.hidden(instance)
        bench.whole_process("planted", instance, Ours("partition", "partition"))


def production(bench: Bench) -> None:
    """The three clusters of Storm's test jar, with synthetic traffic, each plan a whole process."""
    for cluster in CLUSTERS[2:] if bench.quick else CLUSTERS:
        for seed in range(1 if bench.quick else bench.seeds):
            instance = bench.instances.production(cluster, seed)
            for contestant in (Ours("online", "online"), Ours("partition", "partition"), best(8.0)):
                bench.whole_process("production", instance, contestant, seed)
        instance = bench.instances.production(cluster, 0)
        for scheduler in ("default", "ras-default", "ras-default-old", "ras-generic-old", "ras-constraint"):
            bench.storm_process("production", instance, scheduler)


def budget(bench: Bench) -> None:
    """Quality against time: what more seconds buy."""
    chosen = medium_instances(bench)[:1] if bench.quick else medium_instances(bench)[4::4]
    for instance in chosen:
        for budget_s in BUDGETS_S[:3] if bench.quick else BUDGETS_S:
            bench.ours("budget", instance, best_for(budget_s, instance.executors))
        for planner in heuristics(60.0):
            bench.ours("budget", instance, planner)


def moves(bench: Bench) -> None:
    """Rollout-aware plans of running topologies: restarts against the traffic that is left."""
    chosen = medium_instances(bench)[:1] if bench.quick else medium_instances(bench)[4::4]
    for base in chosen:
        running = bench.instances.running(base, "running", lambda base=base: plan_of(bench, base.model, "online"))
        mean_tps = sum(e.rate for e in base.model.traffic) / base.executors
        for restart in RESTARTS[::5] if bench.quick else RESTARTS:
            bench.ours("moves", running, best_moving(5.0 if bench.quick else 10.0, restart, mean_tps))


PARTS: dict[str, Callable[[Bench], None]] = {
    "small": small,
    "medium": medium,
    "flows": flows,
    "bound": bound,
    "planted": planted,
    "production": production,
    "budget": budget,
    "moves": moves,
    "unlike": unlike.unlike,
    "set": unlike.given,
    "set-flows": unlike.by_flows,
    "set-bounds": unlike.bounds,
    "set-groups": unlike.group_bounds,
    "anytime": unlike.anytime,
    "replan": unlike.replan,
    "speed": unlike.speed,
}
