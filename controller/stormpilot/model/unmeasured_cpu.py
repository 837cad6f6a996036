"""CPU that was not measured, or too short, is a guess: it may weigh executors, not forbid what would run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import msgspec

from stormpilot.model.constraints import misplaced
from stormpilot.model.subset import with_cpu
from stormpilot.model.values import Model, Topology

FILLED_RATIO = 0.8
"""The part of the room that guesses may fill: whole workers have to fit into it."""

Guesses = Mapping[str, Mapping[int, float]]
"""By topology id and start task: guessed MHz."""


def with_guesses_that_fit(model: Model, unsure: Collection[str] = ()) -> Model:
    """The model with less guessed CPU where the cluster has no room for it; what was measured stays as it is.

    Storm declares 10% of a core for every executor that nobody said anything about, and its own scheduler never asks;
    the first seconds of a Python process cost many times what it costs later. Taken at their word, these refuse most
    first plans, and drains of what has just begun to run. A guess is the CPU of an executor that was not measured, and
    all CPU of the topologies `unsure` (ids).

    Guesses of a topology shrink, all by the same ratio, to what its workers can reach on supervisors that it may use,
    and until a worker that must leave fits on another one as a whole (else more than that worker would have to move);
    then those of all topologies to what the cluster has left beside what was measured (`FILLED_RATIO` of it). The same
    object when all of them fit.
    """
    guesses = {
        t.id: {e.start: e.cpu_mhz for e in t.executors if t.id in unsure or not e.measured} for t in model.topologies
    }
    left_mhz = {s.id: s.limit_mhz for s in model.supervisors}
    for t in model.topologies:
        for supervisor, mhz in _measured_mhz(t, guesses).items():
            left_mhz[supervisor] = left_mhz.get(supervisor, 0.0) - mhz
    leaving = misplaced(model)
    ratios = {t.id: _ratio(t, model, guesses, left_mhz, leaving.get(t.id, ())) for t in model.topologies}
    total_mhz = sum(sum(guesses[t].values()) * ratio for t, ratio in ratios.items())
    room_mhz = FILLED_RATIO * sum(max(0.0, left_mhz[s]) for s in _open(model, None))
    together = min(1.0, room_mhz / total_mhz) if total_mhz else 1.0
    ratios = {t: ratio * together for t, ratio in ratios.items()}
    if all(ratio == 1.0 for ratio in ratios.values()):
        return model
    topologies = [
        with_cpu(t, {start: mhz * ratios[t.id] for start, mhz in guesses[t.id].items()}) for t in model.topologies
    ]
    return msgspec.structs.replace(model, topologies=topologies)


def _ratio(
    t: Topology, model: Model, guesses: Guesses, left_mhz: Mapping[str, float], leaving: Collection[int]
) -> float:
    """By how much the guesses of one topology must shrink for its workers to find room beside the others.

    `leaving` are the executors (start tasks) that run where they may not.
    """
    guessed_mhz = sum(guesses[t.id].values())
    if not guessed_mhz:
        return 1.0
    own = _measured_mhz(t, guesses)
    room = sorted((max(0.0, left_mhz[s] + own.get(s, 0.0)) for s in _open(model, t.id)), reverse=True)
    reach = sum(room[: t.workers]) - sum(e.cpu_mhz for e in t.executors if e.start not in guesses[t.id])
    ratio = min(1.0, max(0.0, FILLED_RATIO * reach / guessed_mhz))
    return min([ratio, *_whole_workers(t, _open(model, t.id), guesses[t.id], left_mhz, leaving)])


def _whole_workers(
    t: Topology,
    open_to_it: Collection[str],
    guesses: Mapping[int, float],
    left_mhz: Mapping[str, float],
    leaving: Collection[int],
) -> list[float]:
    """For each worker that must leave and could: the ratio at which it fits as a whole beside what runs there."""
    pins = {e.start: e.pin for e in t.executors}
    cpu_mhz = {e.start: e.cpu_mhz for e in t.executors}
    guessed: defaultdict[str, float] = defaultdict(float)
    members: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for a in t.assignment:
        guessed[a.supervisor] += guesses.get(a.start, 0.0)
        members[a.supervisor, a.port].append(a.start)
    found = []
    for slot in {(a.supervisor, a.port) for a in t.assignment if a.start in leaving}:
        mine = members[slot]
        guess = sum(guesses.get(s, 0.0) for s in mine)
        sure = sum(cpu_mhz.get(s, 0.0) for s in mine if s not in guesses)
        pinned = {pins.get(s) for s in mine} - {None}
        there = [s for s in open_to_it if s != slot[0] and pinned <= {s}]
        if guess:
            best = max(((FILLED_RATIO * left_mhz[s] - sure) / (guess + guessed[s]) for s in there), default=0.0)
            found += [best] if best > 0 else []
    return found


def _measured_mhz(t: Topology, guesses: Guesses) -> dict[str, float]:
    """By supervisor: what the executors that are no guesses use there."""
    sure = {e.start: e.cpu_mhz for e in t.executors if e.start not in guesses[t.id]}
    used: defaultdict[str, float] = defaultdict(float)
    for a in t.assignment:
        used[a.supervisor] += sure.get(a.start, 0.0)
    return used


def _open(model: Model, topology_id: str | None) -> list[str]:
    """Supervisors with slots that are not closed to all, or to the whole of this topology."""
    closed = {x.supervisor for x in model.exclusions if x.topology in (None, topology_id) and x.component is None}
    return [s.id for s in model.supervisors if s.slots and s.id not in closed]
