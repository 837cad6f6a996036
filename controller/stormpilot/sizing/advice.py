"""Growing and shrinking: when the rate of a source leaves what the running threads support, the size that fits it.

A size is proposed for more than the rate, by `headroom_ratio`, so that what was just carried out is not proposed away
again: it is used to 1/(1 + headroom), between the two bounds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stormpilot.errors import RefusedError, UsageError
from stormpilot.model.values import Edge, Model, Topology
from stormpilot.sizing.allocation import Allocation, allocate
from stormpilot.sizing.carrying_out import like_the_measured_slot
from stormpilot.sizing.performance import rate_text
from stormpilot.sizing.placement import Placed, place
from stormpilot.sizing.prediction import Prediction, Threads, cores_of, predict
from stormpilot.sizing.problem import Problem
from stormpilot.sizing.switching import Executors, switched

Change = Literal["up", "down"]
PLANNER = "sam"
"""By which slots are counted, as `apply-size` places a size unless it is told otherwise."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of a size: another one is proposed above `up_ratio` of what is supported, or below `down_ratio`.

    It leaves `headroom_ratio` of the rate. Sources that are held back need more only where what comes is above
    `held_ratio` (at most `up_ratio`) of what is supported: else it is not the threads that hold them. They never need
    less: nobody knows what would come.
    """

    up_ratio: float = 0.9
    held_ratio: float = 0.75
    down_ratio: float = 0.5
    headroom_ratio: float = 0.25


@dataclass(frozen=True)
class Advice:
    """A size to carry out: for `target_tps` of each source, with the threads and slots now and then.

    `by_standby`: by executors on standby, in the slots where they are. `used_up`: what of CPU and memory limits the
    threads, and how, empty where that is neither. `refused`: why `apply-size` would refuse the size.
    """

    change: Change
    rate_tps: float
    supported_tps: float
    target_tps: float
    threads: Mapping[str, tuple[int, int]]
    slots: tuple[int, int]
    held: bool
    more_tasks: Mapping[str, int]
    by_standby: bool = False
    used_up: str = ""
    refused: str = ""

    @property
    def text(self) -> str:
        """The advice as a sentence; what cannot be done without a new submission, now, or by no size, is said."""
        changed = [f"{c} {now} to {then} threads" for c, (now, then) in self.threads.items() if now != then]
        slots = f"slots {self.slots[0]} to {self.slots[1]}" if self.slots[0] != self.slots[1] else ""
        if self.more_tasks:
            few = ", ".join(f"{c} of {n}" for c, n in self.more_tasks.items())
            first = f"submit it anew with topology.tasks for {few}: Storm never adds tasks"
        elif self.refused:
            first = f"cannot be carried out: {self.refused}"
        elif changed or slots:
            how = ", by executors on standby: nothing restarts" if self.by_standby else ""
            first = f"stormpilot apply-size with --rate {self.target_tps:g} carries it out{how}"
        elif self.by_standby:
            first = "no executor on standby helps: submit it anew with more tasks on standby, or other workers"
        else:
            first = (
                "threads and slots are enough for that rate, so that no more of them change it: what limits is where "
                "they are, what else runs there, or how shuffles split (stormpilot predict)"
            )
        return f"{self._found}: {', '.join([*changed, *filter(None, [slots])]) or 'other places'}; {first}"

    @property
    def _found(self) -> str:
        come = f"{rate_text(self.rate_tps)}/s come"
        if self.held:
            come += ", and more is held back"
        elif self.supported_tps > 0:
            come += f", {self.rate_tps / self.supported_tps:.0%} of that"
        how = f" ({self.used_up})" if self.used_up else ""
        return f"its threads support {rate_text(self.supported_tps)}/s of each source{how}, {come}"


def source_rate_tps(problem: Problem, topology: Topology, traffic: list[Edge]) -> float | None:
    """Tuples/s of each source by what is measured, the highest of them; None where none sends to a component.

    A stream that several components take counts once for each of them, so the rate is that of one receiver. Traffic
    of an unknown stream is taken to be of the one that the receiver takes.
    """
    component = {e.start: e.component for e in topology.executors}
    between: defaultdict[tuple[str, str, str | None], float] = defaultdict(float)
    for edge in traffic:
        between[component.get(edge.from_, ""), component.get(edge.to, ""), edge.stream] += edge.rate
    shares = {c.id: c.source_share for c in problem.components if not c.inputs}
    rates = [
        (between[s.component, c.id, s.stream] + between[s.component, c.id, None]) / s.selectivity / shares[s.component]
        for c in problem.components
        for s in c.inputs
        if shares.get(s.component, 0.0) > 0 and s.selectivity > 0
    ]
    return max(rates, default=None)


def check_components(problem: Problem, topology: Topology) -> None:
    """`UsageError` where file and topology have other components: its size cannot be told, nor carried out."""
    sized, there = {c.id for c in problem.components}, {c.id for c in topology.components}
    if missing := sorted(sized - there):
        raise UsageError(f"the running topology has no component {', '.join(missing)}, which its file has")
    if unknown := sorted(c.id for c in topology.components if not c.auxiliary and c.id not in sized):
        raise UsageError(f"the file has no component {', '.join(unknown)}, which the running topology has")


def threads_in_slots(problem: Problem, topology: Topology) -> dict[tuple[str, int], Counter[str]]:
    """Sized threads of the running topology by slot; executors on standby do nothing and do not count."""
    sized = {c.id for c in problem.components}
    component = {e.start: e.component for e in topology.executors if e.start not in topology.standby}
    found: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for a in topology.assignment:
        if component.get(a.start) in sized:
            found[a.supervisor, a.port][component[a.start]] += 1
    return dict(found)


def advise(problem: Problem, model: Model, topology: Topology, *, held: bool, bounds: Bounds) -> Advice | None:
    """The size that a running topology needs, or None where the one it has is right or cannot be judged.

    Parameters
    ----------
    model
        With the topology's traffic and its nodes; `topology` is its entry.
    held
        Whether its sources would send more: then more than is supported is needed, and nobody knows how much.

    Raises
    ------
    UsageError
        File and topology have other components.
    """
    check_components(problem, topology)
    running = threads_in_slots(problem, topology)
    now = Counter[str]()
    for held_there in running.values():
        now.update(held_there)
    rate_tps = source_rate_tps(problem, topology, [e for e in model.traffic if e.topology == topology.id])
    if rate_tps is None or rate_tps <= 0 or any(not now[c.id] for c in problem.components):
        return None
    cores = cores_of(problem, model, topology.id)
    found = predict(problem, running, cores)
    supported_tps = _supported(found)
    if supported_tps is None:
        return None
    up_ratio = min(bounds.held_ratio, bounds.up_ratio) if held else bounds.up_ratio
    need_tps = max(rate_tps, supported_tps) if held and rate_tps > up_ratio * supported_tps else rate_tps
    target_tps = float(f"{need_tps * (1 + bounds.headroom_ratio):.3g}")
    change: Change = "up" if rate_tps > up_ratio * supported_tps else "down"
    if change == "down" and (held or rate_tps >= bounds.down_ratio * supported_tps):
        return None
    refused = ""
    by_standby = bool(topology.standby or topology.standby_components)
    if by_standby:
        then = switched(problem, _executors(problem, topology), target_tps, cores)
        if change == "down" and then.threads == dict(now):
            return None
        threads, slots, more_tasks = then.threads, (len(running), len(running)), {}
    else:
        size = allocate(problem, target_tps, "mba")
        if change == "down" and (size.slots >= len(running) or slots_of(problem, size) >= len(running)):
            return None
        threads, slots = {a.component: a.threads for a in size.allotments}, (len(running), slots_of(problem, size))
        if change == "up" and slots[1] <= slots[0] and all(n <= now[c] for c, n in threads.items()):
            threads, slots = dict(now), (len(running), len(running))  # fewer would not make it more
        more_tasks = _more_tasks(topology, threads)
        if threads != dict(now) or slots[1] != slots[0]:
            refused = _refused(problem, model, topology, slots[1])
    return Advice(
        change=change,
        rate_tps=rate_tps,
        supported_tps=supported_tps,
        target_tps=target_tps,
        threads={c: (now[c], n) for c, n in threads.items()},
        slots=slots,
        held=held,
        more_tasks=more_tasks,
        by_standby=by_standby,
        used_up=_used_up(problem, model, running, found),
        refused=refused,
    )


def _executors(problem: Problem, topology: Topology) -> dict[str, Executors]:
    """The executors of each component of the file; where some are or may be on standby, others can begin and end."""
    slot = {a.start: (a.supervisor, a.port) for a in topology.assignment}
    found = {}
    for c in problem.components:
        own = [e.start for e in topology.executors if e.component == c.id and e.start in slot]
        active = [start for start in own if start not in topology.standby]
        routable = len(active) < len(own) or c.id in topology.standby_components
        found[c.id] = Executors({start: slot[start] for start in own}, active, routable)
    return found


def _more_tasks(topology: Topology, threads: Mapping[str, int]) -> dict[str, int]:
    """Threads of the components that have fewer tasks."""
    tasks: Counter[str] = Counter()
    for e in topology.executors:
        tasks[e.component] += e.end - e.start + 1
    return {c: n for c, n in threads.items() if n > tasks[c]}


def slots_of(problem: Problem, size: Allocation) -> int:
    """Slots until everything fits: bundles may need more than what CPU and memory add up to."""
    answer = place(problem, size, PLANNER)
    if not isinstance(answer, Placed):
        raise RefusedError(f"a size for {size.rate_tps:g}/s fits in no number of slots: {answer.text}")
    return answer.slots


def _supported(found: Prediction) -> float | None:
    """The rate of a source that threads support, by skew or by what is used up first; None: no limit."""
    return min((tps for tps in (found.supported_tps, found.resources_tps) if tps is not None), default=None)


def _used_up(problem: Problem, model: Model, running: Threads, found: Prediction) -> str:
    """The CPU or memory that is used up at the rate that is supported, where that limits; where nothing is, by whom."""
    if found.resources_tps is None or found.resources_tps > 0:
        return "" if found.resources is None else f"{found.resources} is used up then"
    whole = {s.id: s.cpu_mhz / problem.slot.cpu_mhz for s in model.supervisors}
    alone = predict(problem, running, whole).resources_tps == 0
    return f"{found.resources} is used up by {'its workers alone' if alone else 'its workers and what else runs there'}"


def _refused(problem: Problem, model: Model, topology: Topology, slots: int) -> str:
    """The reason why `apply-size` would refuse a size of so many slots: unlike nodes, or too few free slots."""
    taken = {(a.supervisor, a.port) for t in model.topologies if t.id != topology.id for a in t.assignment}
    barred = {x.supervisor for x in model.exclusions if x.component is None and x.topology in (None, topology.id)}
    free = {s.id: sum((s.id, p) not in taken for p in s.slots) for s in model.supervisors if s.id not in barred}
    try:
        like_the_measured_slot(problem, [s for s in model.supervisors if free.get(s.id)])
    except RefusedError as e:
        return str(e)
    has = sum(free.values())
    return f"{slots} slots are needed, {has} are free or its own" if slots > has else ""
