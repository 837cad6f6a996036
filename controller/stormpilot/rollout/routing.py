"""Routing tables under a rollout: tasks put aside and given back, what drains, what others did to them."""

from __future__ import annotations

from collections.abc import Collection

from stormpilot.config.rollout import RolloutSection
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routable import route_in_force, tasks_of
from stormpilot.messages.routes import Routes, handed_on, rest_all, settled, switch, take_up_all
from stormpilot.rollout.facts import Facts, worker_tasks


def _by_component(tasks: Collection[int], facts: Facts) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for e in facts.snapshot.executors:
        own = [t for t in range(e.start, e.end + 1) if t in tasks]
        if own:
            found.setdefault(e.component, []).extend(own)
    return found


def put_aside(m: Rollout, facts: Facts) -> Routes | None:
    """The table in which the tasks of the present step get no tuples; None: none of them does anyway."""
    table = facts.routes or Routes(topology_id=m.topology_id)
    for component, tasks in sorted(_by_component({*m.stage.away, *m.stage.stand_ins}, facts).items()):
        route = route_in_force(facts.snapshot, component, table)
        known = tasks_of(facts.snapshot, component)
        for from_, to in m.stage.switches:
            if from_ in tasks:
                route = switch(route, known, from_, to, facts.now_ms)
        stand_ins = set(tasks) & set(m.stage.stand_ins) - set(route.active)
        route = take_up_all(route, known, stand_ins, facts.now_ms)
        if away := sorted(set(tasks) & set(m.stage.away) & set(route.active)):
            route = rest_all(route, away, facts.now_ms)
        table = table.with_route(route)
    return table if m.stage.away else None


def takers(m: Rollout, table: Routes) -> set[int]:
    """The tasks that get what those of the present step got, by the table in which these are put aside."""
    away = set(m.stage.away)
    return {t for route in table.components if away & {d.task for d in route.draining} for t in route.active}


def with_back(m: Rollout, facts: Facts, tasks: Collection[int]) -> Routes | None:
    """The table in which these tasks get tuples; None: it is so already.

    Those that stood in rest once all of the component are back for which they did; by a switch, the one.
    """
    if facts.routes is None:
        return None  # nobody is put aside without a table
    table, stood_in_for = facts.routes, {to: {from_} for from_, to in m.stage.switches}
    for component, own in sorted(_by_component({*tasks, *m.stage.away, *m.stage.stand_ins}, facts).items()):
        route = table.of(component)
        if route is None:
            continue
        known = tasks_of(facts.snapshot, component)
        route = take_up_all(route, known, set(own) & set(tasks) - set(route.active), facts.now_ms)
        away, active = set(own) & set(m.stage.away), set(route.active)
        resting = [t for t in sorted(set(own) & set(m.stage.stand_ins) & active) if stood_in_for.get(t, away) <= active]
        if resting and set(route.active) - set(resting):
            route = rest_all(route, resting, facts.now_ms)
        table = table.with_route(route)
    return table if table != facts.routes else None


def settled_table(facts: Facts, config: RolloutSection) -> tuple[Routes | None, frozenset[int], tuple[str, ...]]:
    """The table without what has drained, and with hand-overs of keyed state one step on.

    Also the tasks that were to save such state and did not, and what to say.
    """
    table, unsaved, messages = facts.routes, set[int](), []
    if table is None:
        return None, frozenset(), ()
    at_most_ms = int(config.drain_timeout_s * 1000)
    for route in table.components:
        after = settled(route, facts.idle, facts.now_ms, at_most_ms)
        own = {t: facts.keyed[t] for t in tasks_of(facts.snapshot, route.component) if t in facts.keyed}
        after, problems = handed_on(after, own, facts.now_ms)
        left = {h.key for h in after.handovers}
        unsaved |= {h.from_ for h in route.handovers if h.phase == "save" and h.key not in left}
        messages += problems
        table = table.with_route(after) if after != route else table
    return table, frozenset(unsaved), tuple(messages)


def step_tasks(m: Rollout) -> set[int]:
    """Tasks that get no tuples in the present step, and all others of the workers that restart with it."""
    return {*m.stage.away, *worker_tasks(m)}


def drains(m: Rollout, facts: Facts) -> bool:
    """Whether a task of the step still has tuples, or state to hand over: also one that stands by since a while ago."""
    tasks = step_tasks(m)
    routes = facts.routes.components if facts.routes else []
    return any(
        tasks & ({d.task for d in r.draining} | {t for h in r.handovers for t in (h.from_, h.to)}) for r in routes
    )


def touched(m: Rollout, facts: Facts) -> str:
    """Change by somebody else to the tasks that are put aside."""
    if not m.stage.away:
        return ""
    if facts.routes is None:
        return "the routes were taken away meanwhile"
    active = {t for route in facts.routes.components for t in route.active} & set(m.stage.away)
    return f"task {min(active)} was brought back meanwhile" if active else ""
