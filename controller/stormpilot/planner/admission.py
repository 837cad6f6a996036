"""Which topologies come first, and which are left out where not all of them fit.

The order is that of Storm's resource-aware scheduler (docs/planners/README.md): users that are furthest below
what is guaranteed to them first, each user's topologies by priority. Where Storm evicts running topologies of lower
rank, we never do: what runs stays, and of the new ones those that still fit are taken in that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from stormpilot.errors import UsageError
from stormpilot.model.subset import subset
from stormpilot.model.values import RESERVED_CPU, Guarantee, Infeasible, Model, Plan, Topology

LeftS = Callable[[], float]
PlanModel = Callable[[Model, LeftS], Plan | Infeasible]
Probe = Callable[[Model], Plan | Infeasible]
WHOLE, TURN = 0.5, 0.25
"""Of the time that is left: for all topologies together, and for those whose turn it is beside the ones before."""


@dataclass(frozen=True)
class Turn:
    """A topology (id) whose turn it is, with its user's score at that moment: above 0 is more than guaranteed."""

    topology: str
    user: str
    score: float


def topology_order(model: Model) -> list[Turn]:
    """All topologies in the order across users.

    score = max over CPU and memory of (requested + assigned - guaranteed) / available, the lowest first, where
    `requested` is the user's next topology, `assigned` what had its turn before, and `available` what those of all
    users left. Ties go to the lower user name. A user's own: lower priority number, then older ones (running ones where
    no time is known), then lower id. CPU counts as reserved where every supervisor offers reserved CPU, else in MHz.
    Memory without a limit is no measure.
    """
    guaranteed = _guarantees(model)
    queues: dict[str, list[Topology]] = {}
    for topology in sorted(model.topologies, key=_within_user):
        queues.setdefault(topology.owner or "", []).append(topology)
    reserved = bool(model.supervisors) and all(RESERVED_CPU in s.resources for s in model.supervisors)
    free_cpu = sum(s.resources[RESERVED_CPU] if reserved else s.limit_mhz for s in model.supervisors)
    memory_mb = sum(s.memory_mb if s.memory_mb else math.inf for s in model.supervisors)
    assigned = dict.fromkeys(queues, (0.0, 0.0))
    needs = {t.id: _needs(t, reserved) for t in model.topologies}
    turns = []
    while queues:
        scores = {
            user: _score(needs[own[0].id], assigned[user], _guaranteed(guaranteed, user, reserved), free_cpu, memory_mb)
            for user, own in queues.items()
        }
        user = min(queues, key=lambda u: (scores[u], u))
        topology = queues[user].pop(0)
        if not queues[user]:
            del queues[user]
        cpu, memory = needs[topology.id]
        assigned[user] = assigned[user][0] + cpu, assigned[user][1] + memory
        free_cpu -= cpu
        memory_mb -= memory
        turns.append(Turn(topology.id, user, scores[user]))
    return turns


def _guarantees(model: Model) -> dict[str, Guarantee]:
    """By user; `UsageError` names the one that makes no sense."""
    found: dict[str, Guarantee] = {}
    for g in model.guarantees:
        if g.user in found:
            raise UsageError(f"guarantees: user {g.user!r} is there twice")
        if not all(0 <= number < math.inf for number in (g.cpu_mhz, g.memory_mb, g.cpu_points)):
            raise UsageError(f"guarantees: user {g.user!r}: expected finite cpu_mhz, memory_mb and cpu_points >= 0")
        found[g.user] = g
    return found


def _within_user(t: Topology) -> tuple[int, int, bool, str]:
    return t.priority, t.launched_at_ms, not t.assignment, t.id


def _guaranteed(guarantees: Mapping[str, Guarantee], user: str, reserved: bool) -> tuple[float, float]:
    """CPU and memory that the user is guaranteed."""
    g = guarantees.get(user)
    return (0.0, 0.0) if g is None else (g.cpu_points if reserved else g.cpu_mhz, g.memory_mb)


def _needs(topology: Topology, reserved: bool) -> tuple[float, float]:
    """CPU (points where it is reserved, else MHz), memory in MB."""
    points = {c.id: c.resources.get(RESERVED_CPU, 0.0) for c in topology.components}
    cpu = sum(points.get(e.component, 0.0) if reserved else e.cpu_mhz for e in topology.executors)
    return cpu, sum(e.memory_mb for e in topology.executors)


def _score(
    need: tuple[float, float], assigned: tuple[float, float], guaranteed: tuple[float, float], cpu: float, memory: float
) -> float:
    if cpu <= 0 or memory <= 0:
        return math.inf
    by_cpu = (assigned[0] + need[0] - guaranteed[0]) / cpu
    if math.isinf(memory):
        return by_cpu
    return max(by_cpu, (assigned[1] + need[1] - guaranteed[1]) / memory)


def admitted(model: Model, plan: PlanModel, probe: Probe, left_s: LeftS = lambda: math.inf) -> Plan | Infeasible:
    """Plan everything, or as many of the waiting topologies as fit beside those that run.

    Parameters
    ----------
    plan : the planner that makes the plan; half of the time is for all topologies, the rest for those that fit.
    probe : a fast one, asked first whether a set of topologies fits; `plan` is asked where it does not know.

    Returns
    -------
    A plan whose `left_out` names each topology without a place and why (so do its notes; empty when all fit), or
    Infeasible where not even the running topologies fit.
    """

    def part(of: float) -> LeftS:
        """A clock with such a part of the time that is left now."""
        kept_s = (1.0 - of) * left_s() if math.isfinite(left_s()) else 0.0
        return lambda: left_s() - kept_s

    answer = plan(model, part(WHOLE))
    if isinstance(answer, Plan):
        return answer
    order = topology_order(model)
    waits = {t.id for t in model.topologies if not t.assignment}
    taken = [turn.topology for turn in order if turn.topology not in waits]
    best: Plan | Infeasible | None = None
    if taken:
        best = _either(subset(model, taken), probe, plan, part(TURN))
        if isinstance(best, Infeasible):
            if not waits:
                return answer
            return msgspec.structs.replace(best, text=f"{best.text} (even without the topologies that wait)")
    left_out: dict[str, str] = {}
    for turn in order:
        if turn.topology not in waits:
            continue
        if left_s() <= 0:
            left_out[turn.topology] = "no time was left to see whether it fits"
            continue
        found = _either(subset(model, [*taken, turn.topology]), probe, plan, part(TURN))
        if isinstance(found, Infeasible):
            left_out[turn.topology] = f"{found.constraint}: {found.text}"
        else:
            taken.append(turn.topology)
            best = found
    if best is None:
        return answer
    final = plan(subset(model, taken), left_s)
    notes = []
    if isinstance(final, Infeasible):  # a weaker planner than the one that found room for them
        assert isinstance(best, Plan)
        notes.append(f"planned by {best.planner}: {final.text}")
        final = best
    notes += _notes(model, order, left_out)
    return msgspec.structs.replace(final, notes=[*final.notes, *notes], left_out=left_out)


def _either(model: Model, probe: Probe, plan: PlanModel, left_s: LeftS) -> Plan | Infeasible:
    answer = probe(model)
    return plan(model, left_s) if isinstance(answer, Infeasible) and not answer.proved else answer


def _notes(model: Model, order: Sequence[Turn], left_out: dict[str, str]) -> list[str]:
    """One line for each topology that is left out, in the order of turns."""
    names = {t.id: t.name for t in model.topologies}
    return [
        f"left out: {names[turn.topology]}"
        + (f" of {turn.user}" if turn.user else "")
        + f" (turn {i} of {len(order)}, score {turn.score:.3g}): {left_out[turn.topology]}"
        for i, turn in enumerate(order, start=1)
        if turn.topology in left_out
    ]
