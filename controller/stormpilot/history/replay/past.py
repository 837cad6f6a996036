"""The recorded past, by the figures that runs are judged by; and how far the flow model is from the measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec

from stormpilot.decide.budget import moved_executors
from stormpilot.decide.restarts import held_up_tps, restarting
from stormpilot.history.replay.confirm import DAY_MS
from stormpilot.history.replay.loads import loads
from stormpilot.history.replay.play import Rules
from stormpilot.history.replay.values import Move, Played, Step
from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.cost import metrics
from stormpilot.model.flow.model import flow_model
from stormpilot.model.subset import as_it_runs, isolated
from stormpilot.model.values import Topology, Value


def past(steps: Sequence[Step], topologies: Collection[str], rules: Rules) -> list[Played]:
    """The recorded run; a placement that is another than in the step before counts as a move at the end of that."""
    played: list[Played] = []
    last: dict[str, tuple[Topology, int]] = {}
    for step in steps:
        ratio, over = loads(step, step.model)
        for t in step.model.topologies:
            if t.id not in topologies or t.id in step.unmeasured:
                continue
            model = isolated(step.model, t.id)
            c = compile_model(model)
            if (c.current == NOWHERE).any():
                continue
            if t.id in last:
                _moved(last[t.id], t, step, rules, played)
            figures = metrics(c, c.current)
            at = {a.start: a.supervisor for a in t.assignment}
            used = sorted(set(at.values()))
            played.append(
                Played(
                    topology_id=t.id,
                    from_ms=step.from_ms,
                    length_s=step.length_s,
                    inter_node_tps=figures["inter_node_tps"],
                    network_cost_tps=figures["network_cost_tps"],
                    total_tps=figures["total_tps"],
                    busiest_load_ratio=max((ratio[s] for s in used), default=0.0),
                    overloaded_node_s=sum(over[s] for s in used) * step.length_s,
                    overloaded_tps=sum(e.rate * over[at[e.to]] for e in model.traffic if e.to in at),
                )
            )
            last[t.id] = (t, len(played) - 1)
    return played


def _moved(before: tuple[Topology, int], now: Topology, step: Step, rules: Rules, played: list[Played]) -> None:
    was, row = before
    if [(e.start, e.end) for e in was.executors] != [(e.start, e.end) for e in now.executors]:
        return
    plan = as_it_runs(now)
    workers = len(restarting(was, plan))
    if workers:
        held_up = held_up_tps(was, plan, step.model.traffic) * rules.stands_s(now)
        executors = len(moved_executors(was, plan))
        move = Move(reason="", executors=executors, workers=workers, held_up_tuples=held_up)
        played[row] = msgspec.structs.replace(played[row], move=move)


class Yardstick(Value, frozen=True, kw_only=True, rename="camel"):
    """Error of the flow model under the placements that ran.

    `error_ratio`: of inter-node tuples, all in all, as a part of them (null: nothing went between nodes). `cost`: of
    network cost, the mean over days of what a tuple's is off by, whether too much or too little. It is what a
    comparison of two placements can be wrong by.
    """

    error_ratio: float | None = None
    cost: float = 0.0


def yardstick(steps: Sequence[Step], topology_id: str, begin_ms: int = 0) -> Yardstick:
    """The yardstick on these steps; days are counted from `begin_ms`."""
    measured = predicted = 0.0
    by_day: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for step in steps:
        t = next((t for t in step.model.topologies if t.id == topology_id), None)
        if t is None or topology_id in step.unmeasured:
            continue
        flow = flow_model(isolated(step.model, t.id))
        c = flow.compiled
        if (c.current == NOWHERE).any():
            continue
        really, said = metrics(c, c.current), flow.predict(c.current)
        measured += really["inter_node_tps"] * step.length_s
        predicted += said.inter_node_tps * step.length_s
        day = by_day[(step.from_ms - begin_ms) // DAY_MS]
        day[0] += (said.network_cost_tps - really["network_cost_tps"]) * step.length_s
        day[1] += really["total_tps"] * step.length_s
    tuples = sum(t for _, t in by_day.values())
    return Yardstick(
        error_ratio=(predicted - measured) / measured if measured else None,
        cost=sum(abs(off) for off, _ in by_day.values()) / tuples if tuples else 0.0,
    )
