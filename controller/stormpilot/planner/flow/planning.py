"""Plans on flows: what `best` and `partition` minimise where shuffled traffic follows the placement.

Measured pairs say what Storm's shuffles made of the present placement; under another placement they are others. So the
planner's own plan is one start among several, all are judged by the flow model (`model/flow/model.py`), and a search
on that judgement (`flow/annealing.py`) goes on from them; of plans that cost next to the same `best` takes an even one
(`flow/evening.py`). The result is never worse, by that judgement, than the present placement, nor by more than `NEAR`
than the plan on measured pairs. See docs/decisions/0007-flow.md and 0022-even-nodes.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from stormpilot.model.compiled import Compiled, Ints
from stormpilot.model.flow.model import FlowModel, flow_model, follows_placement
from stormpilot.model.subset import only
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.violations import TOLERANCE, violations
from stormpilot.planner.budget import SMALL, Budget
from stormpilot.planner.flow.annealing import FlowSearch
from stormpilot.planner.flow.evening import NEAR, evened
from stormpilot.planner.flow.matched import matched
from stormpilot.planner.flow.places_check import OVERLOADED_RATIO, Key, PlacesCheck
from stormpilot.planner.flow.shares import large, matched_part, pairs_part
from stormpilot.planner.methods import candidates, partition
from stormpilot.planner.placement.count import placements
from stormpilot.planner.placement.layout import Frame, Layout, frame_of, layout_of, present_layout, relabel
from stormpilot.planner.placement.objective import objective_of
from stormpilot.planner.placement.problem import NO_VIOLATION, LeftS
from stormpilot.planner.placement.slots import to_slots
from stormpilot.planner.registry import Planner, run, without_given_up
from stormpilot.planner.search.parallel import at_once, cores

Traffic = Literal["measured", "flow"]
PREFIX = "flow_"
"""In `Plan.metrics`, of the figures that the flow model predicts."""
BY_FLOWS = "by its flows"
"""Notes on nodes that lack CPU begin so."""
WORK = 30_000_000  # tries x executors of a topology: some seconds
LEAST_TRIES, MOST_TRIES = 2_000, 400_000
BEST_TRIES = 4  # times as many for `best`
PER_PLACEMENT = 50  # tries are enough where a model has few placements
MOST_STARTS = 4  # the cheapest, with a price on overload, are searched from: as many as get `ENOUGH` tries each
ENOUGH = 400  # per executor
LAST = 0.2  # of the tries, that go on from the best found
PROBE = 50  # a run has so many times the tries that tell how fast the search is
AFFORDED = 0.9  # of the tries that the clock leaves: what they are for is to end cold
PARTITION_PART = 0.5  # of the time that pairs leave, which `partition` may take as a candidate of `best`
MORE_RUNS = 4  # at most, with all tries each, where what was found still overloads a node
TIGHTER = 1.05  # times what nodes lack by the CPU of places, which the search does not see, limits are lowered
CHECK_PART = 0.1  # of the time, that is kept to relieve nodes of CPU that follows from places
EVEN_PART = 0.1  # of the time, that is kept to make loads even
DENSE_PAIRS = 1_000_000  # of measured traffic: with more, the start of a partition takes seconds that no clock cuts
TRIES_PER_ITERATION = 0.02  # a try of this search costs as much as many of the search on pairs

Measured = Callable[[Model, LeftS], "Plan | Infeasible"]


def on_flows(
    model: Model, planner: Planner, params: Any, seed: int, left_s: LeftS, on_pairs: Measured
) -> Plan | Infeasible:
    """Plan with `on_pairs` (the planner on a model's measured pairs), then on flows where that can change anything.

    `params`: the planner's checked parameters. The plan's metrics get those predicted, named `flow_...`.
    """
    total_s = left_s()
    follows = planner.minimises_flow and follows_placement(model)
    executors = sum(len(t.executors) for t in model.topologies)
    kept_s = total_s * (1 - pairs_part(planner, executors)) if follows else 0.0
    plan = on_pairs(model, (lambda: left_s() - kept_s) if math.isfinite(total_s) else left_s)
    if isinstance(plan, Infeasible) and not plan.proved and math.isfinite(total_s) and left_s() > 0:
        plan = on_pairs(model, left_s)  # it had a part of the time: any plan comes before a search on flows
    if isinstance(plan, Infeasible):
        return plan
    planned = model
    if len(plan.topologies) < len(model.topologies):
        planned = only(model, {t.id for t in plan.topologies})
    pairs_s = total_s - left_s()
    flow = flow_model(planned, without_given_up(planned, plan))
    objective = getattr(params, "objective", "inter_node")
    if planner.minimises_flow and flow.shuffled_tps > 0 and objective != "ras" and flow.compiled.executors:
        others = _partition(planned, params, seed, left_s) if planner.composite else []
        planning = _Planning(flow, plan, params, seed, left_s, on_pairs, others if planner.composite else None)
        plan = planning.run(matched=planner.composite or not math.isfinite(total_s) or left_s() >= pairs_s)
        if isinstance(plan, Infeasible):
            return plan
    return with_predicted(plan, flow)


def with_predicted(plan: Plan, flow: FlowModel) -> Plan:
    """The plan with what its flows will be among its metrics, and a note where they overload a node."""
    predicted = flow.predict(flow.compiled.slots_of(plan)).metrics()
    notes = list(plan.notes)
    if predicted["max_load_ratio"] > OVERLOADED_RATIO:
        notes.append(f"{BY_FLOWS} a node needs {predicted['max_load_ratio']:.1%} of the CPU that may be filled")
    metrics = plan.metrics | {PREFIX + k: v for k, v in predicted.items()}
    return msgspec.structs.replace(plan, metrics=metrics, notes=notes)


def _partition(model: Model, params: Any, seed: int, left_s: LeftS) -> list[Plan]:
    """Answer of `partition` on flows: a candidate of `best`, which so does not lose to it.

    Small models gain nothing from it, and large or dense ones have no time for it where a clock runs.
    """
    executors = sum(len(t.executors) for t in model.topologies)
    kept_s = left_s() * (1 - PARTITION_PART)
    if executors < candidates.PARTITION_FROM or (
        (large(executors) or len(model.traffic) > DENSE_PAIRS) and math.isfinite(kept_s)
    ):
        return []
    asked = partition.Params(
        objective=params.objective, restart_tps=params.restart_tps, exact_workers=params.exact_workers, min_gain=0.0
    )
    planner = Planner("partition", "", "", partition.Params, partition.place, minimises_flow=True)
    given = dataclasses.asdict(asked)
    own_s = (lambda: left_s() - kept_s) if math.isfinite(kept_s) else left_s
    answer = on_flows(model, planner, asked, seed, own_s, lambda part, s: run(planner, part, given, seed, s))
    return [answer] if isinstance(answer, Plan) else []


@dataclass(frozen=True)
class _Candidate:
    layout: Layout
    violation: float
    cost: float

    @property
    def key(self) -> tuple[float, float]:
        """The smaller, the better."""
        return (self.violation if self.violation > NO_VIOLATION else 0.0, self.cost)


class _Planning:
    """One model: candidates, searches from them, the best."""

    def __init__(
        self,
        flow: FlowModel,
        plan: Plan,
        params: Any,
        seed: int,
        left_s: LeftS,
        on_pairs: Measured,
        others: list[Plan] | None,
    ) -> None:
        """`others`: plans that are candidates too, beside those of the greedy planners; None: neither."""
        self.flow, self.plan, self.params = flow, plan, params
        self.seed, self.others = seed, others
        self.evens = others is not None and not large(flow.compiled.executors)  # there a search adds little
        self.left_s, self.on_pairs = left_s, on_pairs
        self.compiled: Compiled = flow.compiled
        self.frame: Frame = frame_of(self.compiled)
        self.exact_workers = bool(getattr(params, "exact_workers", False))
        objective = objective_of(self.compiled, params.objective, params.restart_tps)
        self.search = FlowSearch(
            self.frame, flow, objective.distance, objective.restart_tps, exact_workers=self.exact_workers
        )
        self.places = PlacesCheck(
            flow, self.frame, self.search.judge, self._forbidden, exact_workers=self.exact_workers
        )
        self.lowered_mhz = np.zeros(self.compiled.nodes)  # by nodes of the same limit together
        self.seen: list[_Candidate] = []  # what searches could begin with, or ended with
        # what a plan costs that only restarts workers: that much decides between plans of the same traffic
        self.nothing = 0.0 if params.restart_tps else objective.restart_tps * self.frame.workers
        self.rng = np.random.default_rng([seed, 10])
        self.threads = getattr(params, "threads", None) or cores()

    def run(self, *, matched: bool) -> Plan | Infeasible:
        """The best plan; it says what was judged. None is found where the clock leaves only overloaded ones.

        `matched`: whether there is time for a plan on matched traffic.
        """
        c = self.compiled
        measured = self._candidate(c.slots_of(self.plan))
        present = present_layout(self.frame, np.full(c.topologies, self.exact_workers))
        now = None if present is None or self._forbidden(present) else self._judged(present)
        starts = [measured] + ([] if now is None else [now])
        if self.others is not None:
            starts += [self._candidate(c.slots_of(plan)) for plan in self.others]
            starts += self._of_greedy()
        if matched:
            starts += self._of_matched()
        best = min(starts, key=lambda s: s.key)
        starts.sort(key=lambda s: s.cost + self.search.price * s.violation)  # the best may be one that overloads nodes
        self.seen += starts
        best, cut = self._searched(best, starts)
        best = self._soundest(best)
        best = min(best, self._judged(relabel(self.frame, best.layout)), key=lambda x: x.key)
        notes = [n for n in self.plan.notes if "present placement stays" not in n]
        if now is not None and now.violation <= NO_VIOLATION:
            least = getattr(self.params, "min_gain", 1e-6) * abs(now.cost)
            if best.violation > NO_VIOLATION or best.cost >= now.cost - least:
                best = now
                notes.append("the present placement stays: by its flows nothing found is better by more than min_gain")
        if best is not now:
            best = self._evened(best, now)
        if cut:
            notes.append("the clock cut the search on flows short")
        if best.violation > NO_VIOLATION and self._refused(best):
            # fewer overloads on the whole, but one that no plan may have
            allowed = [s for s in starts if not self._refused(s)]
            if not allowed:
                return self._second_best(measured, now, "time was" if cut else "moves to try were")
            best = min(allowed, key=lambda x: x.key)
        return self._as_plan(best, notes)

    def _searched(self, best: _Candidate, starts: list[_Candidate]) -> tuple[_Candidate, bool]:
        """The best of what is found from the starts, cheapest first, and then from the best; whether the clock cut it.

        The runs share the cores. Without a number of tries a composite planner uses its time to the end, but for small
        models; of a larger one a plan that costs nothing needs no search.
        """
        small = int((~self.compiled.fixed).sum()) <= SMALL
        if not small and best.violation <= NO_VIOLATION and best.cost <= self.nothing:
            return best, False
        tries = self._tries()
        left_s = self.left_s()
        kept_s = (CHECK_PART * self.places.needed + EVEN_PART * self.evens) * left_s if math.isfinite(left_s) else 0.0
        budget = Budget(self.left_s, tries, kept_s=kept_s, by_clock=not small)
        best = self._improved(best, [best], tries // PROBE, budget)[0]  # without a clock too: it changes nothing
        if self.others is not None and self.params.iterations is None:
            budget.tries = None
        timed = budget.timed
        budget.runs_at_once = self.threads if timed else 1
        given = int(budget.affordable() if timed else min(tries, AFFORDED * budget.affordable()))
        cut = given < tries and not timed
        enough = max(min(given // (ENOUGH * self.compiled.executors), len(starts), MOST_STARTS), 1)
        heads = starts[:enough] if given > 0 else []
        if timed and heads:
            heads = (heads * self.threads)[: max(-(-len(heads) // self.threads), 1) * self.threads]
        wave = self.threads if timed else max(len(heads), 1)
        waves = -(-len(heads) // wave)
        span_s = budget.left_s()
        for i in range(waves):
            end_s = span_s * (1 - (1 - LAST) * (i + 1) / waves) if timed else 0.0
            each = int(given * (1 - LAST) / len(heads))
            best, was_cut = self._improved(best, heads[i * wave : (i + 1) * wave], each, budget, end_s)
            cut = cut or was_cut
        best = self._tightened(best) or best
        if heads:
            last = [best] * (self.threads if timed else 1)
            best, was_cut = self._improved(best, last, int(given * LAST / len(last)), budget)
            cut = cut or was_cut
        for i in range(MORE_RUNS if tries else 0):
            if cut or budget.left_s() <= 0:
                break
            tighter = self._tightened(best, alike=i > 0)
            best = tighter or best
            if best.violation <= NO_VIOLATION or (tighter is None and not self._refused(best)):
                break
            best, cut = self._improved(best, [best], tries, Budget(self.left_s, tries, kept_s=kept_s))
        return best, cut or (timed and budget.left_s() <= 0)

    def _improved(
        self, best: _Candidate, heads: list[_Candidate], tries: int, budget: Budget, end_s: float = 0.0
    ) -> tuple[_Candidate, bool]:
        """The best of these and of what is found from each of the heads at once; whether the clock cut a search."""
        before_s = self.left_s()
        seeds = [np.random.default_rng(int(s)) for s in self.rng.integers(1, 2**62, len(heads))]
        clock = budget.until(end_s)
        jobs = [
            lambda head=head, seed=seed: self.search.search(head.layout, seed, tries, clock, timed=budget.timed)
            for head, seed in zip(heads, seeds, strict=True)
        ]
        found = at_once(jobs, self.threads)
        budget.ran(sum(f.tries for f in found), before_s - self.left_s())
        candidates = [_Candidate(f.layout, f.violation, f.cost) for f in found]
        self.seen += candidates
        return min([best, *candidates], key=lambda x: x.key), any(f.cut for f in found)

    def _tightened(self, best: _Candidate, *, alike: bool = False) -> _Candidate | None:
        """The candidate judged anew by lower limits where nodes lack CPU by its places; None: none does.

        The search takes the CPU of places as it is now. What a placement changes of it is corrected here, between two
        searches: that costs nothing in the tries. `alike`: the limits of all nodes that have the same, for else the
        search may only change their names.
        """
        if not self.places.needed:
            return None
        lacks, limit = self.places.lacks_mhz(best.layout), self.compiled.node_limit_mhz
        if not (lacks > TOLERANCE * limit).any():
            return None
        rules = self.search.rules
        lowered = rules.limit_mhz - TIGHTER * lacks
        if alike:
            _, kind = np.unique(limit, return_inverse=True)
            most = np.zeros(kind.max() + 1)
            np.maximum.at(most, kind, lacks)
            self.lowered_mhz = self.lowered_mhz + TIGHTER * most[kind]
            lowered = limit - self.lowered_mhz
        self.search.rules = rules._replace(limit_mhz=np.maximum(lowered, 0.0))
        return self._judged(best.layout)

    def _soundest(self, best: _Candidate) -> _Candidate:
        """Of all that was seen the cheapest that overloads no node with the CPU of its places, or does so the least."""
        if not self.places.needed:
            return best
        self.search.rules = self.search.rules._replace(limit_mhz=self.compiled.node_limit_mhz)
        checked: list[tuple[Key, _Candidate]] = []
        for x in sorted((self._judged(x.layout) for x in [best, *self.seen]), key=lambda x: x.key):
            if checked and (x.key[0] > checked[0][0][0] or self.left_s() <= 0):
                break
            checked.append((self.places.key(x.layout, x.key), x))
            if checked[-1][0][1] == 0:
                return x  # the others are dearer, or break more
        rng = np.random.default_rng(self.seed)
        cheapest, soundest = checked[0][1], min(checked, key=lambda pair: pair[0])[1]
        for x in [cheapest] if soundest is cheapest else [cheapest, soundest]:
            relieved = self._judged(self.places.relieved(x.layout, rng, self.left_s))
            checked.append((self.places.key(relieved.layout, relieved.key), relieved))
        return min(checked, key=lambda pair: pair[0])[1]

    def _evened(self, best: _Candidate, now: _Candidate | None) -> _Candidate:
        """The best, or one with more even nodes and next to no more traffic, that still gains on what runs."""
        if not self.evens or best.violation > NO_VIOLATION:
            return best
        most_cost = best.cost + NEAR * abs(best.cost)
        if now is not None and now.violation <= NO_VIOLATION:
            most_cost = min(most_cost, (best.cost + now.cost) / 2)
        rng = np.random.default_rng([self.seed, 11])
        layout = evened(self.search, self.flow, best.layout, most_cost, self._tries(), rng, self.left_s, self.threads)
        return self._judged(layout)

    def _refused(self, candidate: _Candidate) -> bool:
        """Whether the plan breaks a hard constraint: not all that counts as a violation in the search is one."""
        return bool(violations(self.compiled.model, self._as_plan(candidate, []), exact_workers=self.exact_workers))

    def _of_greedy(self) -> list[_Candidate]:
        """The cheapest by its flows of what the greedy planners answer: it is never lost to."""
        layouts = candidates.greedy(
            self.frame, exact_workers=self.exact_workers, rng=np.random.default_rng(self.seed), left_s=self.left_s
        )
        judged = [self._judged(relabel(self.frame, layout)) for layout in layouts]
        self.seen += judged
        return [min(judged, key=lambda x: x.key)] if judged else []

    def _of_matched(self) -> list[_Candidate]:
        """Answer of the planner on pairs for traffic as it could be."""
        kept_s = self.left_s() * (1 - matched_part(self.compiled.executors))
        own_s = (lambda: self.left_s() - kept_s) if math.isfinite(kept_s) else self.left_s
        plan = self.on_pairs(matched(self.flow), own_s)
        if isinstance(plan, Infeasible) or len(plan.topologies) < self.compiled.topologies:
            return []
        return [self._candidate(self.compiled.slots_of(plan))]

    def _second_best(self, measured: _Candidate, now: _Candidate | None, spent: str) -> Plan | Infeasible:
        """Where all is overloaded and the least so even as measured: the plan on pairs, if that helps.

        It keeps every limit as measured; by its flows it must overload nodes no more than the present placement does,
        where there is a whole one.
        """
        if now is None or measured.violation <= now.violation:
            note = f"{BY_FLOWS} some node lacks CPU" + ("" if now is None else ", less than now")
            return self._as_plan(measured, [*self.plan.notes, note])
        return Infeasible(
            constraint="cpu",
            text=f"the {spent} spent before a placement was found in which every node has the CPU that its flows need",
        )

    def _tries(self) -> int:
        given = self.params.iterations
        if given is not None:
            return int(given * TRIES_PER_ITERATION)
        sizes = np.diff(self.compiled.first_executor).astype(np.float64)
        mean = float((sizes * sizes).sum() / max(sizes.sum(), 1.0))  # of the topology that a random executor is in
        tries = int(min(max(WORK / max(mean, 1.0), LEAST_TRIES), MOST_TRIES))
        tries = tries if self.others is None else BEST_TRIES * tries
        return int(min(tries, max(PER_PLACEMENT * placements(self.compiled), LEAST_TRIES)))

    def _candidate(self, placement: Ints) -> _Candidate:
        return self._judged(layout_of(self.frame, placement))

    def _forbidden(self, layout: Layout) -> bool:
        """Whether an executor is where a site, a pin, an exclusion or a rule keeps it from; fixed ones may be."""
        c = self.compiled
        node = layout.node_of_executors()
        bad = ~c.allowed[c.klass, node]
        if c.sharing.any:
            bad |= c.sharing.breakers(layout.worker, node, c.topology)
        return bool((bad & ~c.fixed).any())

    def _judged(self, layout: Layout) -> _Candidate:
        violation, cost = self.search.judge(layout)
        return _Candidate(layout, violation, cost)

    def _as_plan(self, best: _Candidate, notes: list[str]) -> Plan:
        from stormpilot.model.cost import metrics

        c = self.compiled
        placement = to_slots(self.frame, best.layout)
        return msgspec.structs.replace(
            self.plan, topologies=c.plan_of(placement).topologies, metrics=metrics(c, placement), notes=notes
        )
