"""Evaluation of a plan for one topology: the triggers, the most urgent first, each with its number.

- FIRST_PLAN, REPAIR: executors run nowhere.
- OVERLOAD: a node has been over B(n) for longer than X(n), and the plan lowers its load [A13 3.3]; or a forecast
  predicts that it will be, where plans are made for the next hour (model/forecast.py).
- REPAIR: the plug-in placed lost executors; the running placement becomes the plan, and is improved after a cool-down.
- REBALANCED: a user changed it, or its plan was set aside in a pause: a better plan at once, else what runs becomes it.
- GAIN: inter-node traffic falls by R or more, N cycles in a row [A13 3.3], and that pays for the restarts. Ours: N
  grows with the number of plans that moved the topology within the hour.
- NEW_SUPERVISOR: a supervisor is new or returned, and stayed: less gain is enough, or relief of the busiest node.

Ours, for topologies that hold their own sources (model/closed_loop.py): a voluntary plan has to fit at the rate that
they may reach, moves are judged by throughput, and an overload that our own gain made is not relieved at its expense.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import msgspec

from stormpilot.decide.admit import TopologyState, cool_down_after_repair
from stormpilot.decide.closed_loop import LEAST_RISE, before_own_gain
from stormpilot.decide.criteria import Criteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import HOUR_MS, LEAST_SAMPLES, Promise, noise_ratio
from stormpilot.decide.memory import Memory
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.predict import Predictions
from stormpilot.decide.reasons import Reason
from stormpilot.decide.restarts import restart_time
from stormpilot.decide.returns import Returns, comes_back, coming_back
from stormpilot.decide.sequential import ENOUGH, evidence
from stormpilot.decide.trade_off import MoveCost, TradeOff, move_cost
from stormpilot.messages.moves import Metric
from stormpilot.messages.thresholds import GAIN_RATIO, OVERLOAD_S, RESTART_S
from stormpilot.model.closed_loop import grown
from stormpilot.model.load import node_load_mhz, own_load_ratio, planned_load_mhz
from stormpilot.printable import counted, tuples

LEAST_WINDOW = 0.01
"""Rates of a shorter part of a window are as uncertain as those of this part."""
HITS_KEPT = 20
"""Spacings of hits (ten cycles): looks that are further apart do not follow one another."""
KEPT_SHARE = 0.02
"""A plan that sends at most this part of all tuples more between nodes sends as much as now."""


def evaluate(
    subject: TopologyState, memory: Memory, criteria: Criteria, predictions: Predictions
) -> tuple[Decision, Memory]:
    """Decide for one topology by itself; `predictions` are those of the whole plan."""
    case = _Case(subject, memory, criteria, predictions)
    return case.unless_it_falls_short(*case.decide())


class _Case:
    def __init__(self, subject: TopologyState, memory: Memory, criteria: Criteria, predictions: Predictions):
        self.model, self.subject, self.memory, self.criteria = predictions.now, subject, memory, criteria
        self.topology = t = subject.topology
        self.own = criteria.of(t.id)
        self.overloaded = self.own.overloaded(memory.overloaded_since_ms, criteria.now_ms)
        self.strategy = criteria.strategies.get(t.id) or MoveStrategy("restart", "")
        self.plans, self.predictions = predictions.plans, predictions
        self.alone, self.then = predictions.alone[t.id], predictions.then
        own = predictions.by_topology[t.id]
        self.now_tps, self.new_tps = own.now_tps, own.new_tps
        self.total_tps, self.moved = own.total_tps, own.moved
        self.saved_tps = (self.now_tps or 0.0) - self.new_tps
        self.gain = self.saved_tps / self.now_tps if self.now_tps else 0.0

    def decide(self) -> tuple[Decision, Memory]:
        t, subject, config = self.topology, self.subject, self.own.decide
        if subject.new:
            executors = counted(len(t.executors), "executor")
            return self._act(Reason.FIRST_PLAN, f"first placement of {executors}"), self.memory
        if not subject.placed:
            lost = counted(len(t.executors) - len(t.assignment), "executor has", "executors have")
            return self._act(Reason.REPAIR, f"{lost} no slot on a live supervisor"), self.memory
        relieved = self._relieved()
        kept = None
        if relieved and self.moved and not subject.asked:  # relief that wins nothing in the end is held
            kept = self._throughput_kept(relieved) or self._to_and_fro(relieved)
        if relieved and self.moved and kept is None:
            return self._relief(relieved), self.memory
        if subject.degraded and not subject.rebalanced and not subject.asked and config.repair_cool_down_s != 0:
            return self._keep(), self.memory.missed(t.id)
        at_once = subject.degraded or subject.rebalanced
        fills = self._fills()
        threshold = self.criteria.new_supervisors.gain_threshold_ratio if fills else config.gain_threshold_ratio
        threshold = 0.0 if subject.asked else threshold
        better = bool(self.moved) and self.gain > 0
        if not (better and self.gain >= threshold):
            if at_once:
                return self._keep(), self.memory
            if kept is not None:
                return kept, self.memory.missed(t.id)
            if fills and self.moved and (balanced := self._balance(fills)) is not None:
                return self._lasting(balanced)
            if not better:
                text = "the planner finds no better placement"
                return self._skip(Reason.NO_BETTER_PLAN, text), self.memory.missed(t.id)
            text = f"{self._falls()}, less than {threshold:.0%}"
            below = self._skip(Reason.GAIN_BELOW_THRESHOLD, text, self.gain, threshold)
            return below if fills else self._from(GAIN_RATIO, below), self.memory.missed(t.id)
        if not (at_once or subject.asked):
            held = self._cost() or self._overfull_at_risen_rate()
            if held is not None:
                return held, self.memory.missed(t.id)
        reason, text = Reason.GAIN, self._falls()
        if subject.rebalanced:
            reason, text = Reason.REBALANCED, f"{subject.why_rebalanced}; {text}"
        elif fills and self.gain < config.gain_threshold_ratio:
            reason, text = Reason.NEW_SUPERVISOR, f"{', '.join(fills)} came and is used; {text}"
        act = self._act(reason, text, self.gain, threshold, self._promise("inter_node_share"))
        act = act if fills or subject.asked else self._from(GAIN_RATIO, act)
        return (act, self.memory) if at_once or subject.asked else self._lasting(act)

    def unless_it_falls_short(self, decision: Decision, memory: Memory) -> tuple[Decision, Memory]:
        """THROUGHPUT_WOULD_FALL instead of a voluntary plan that carries less than now, e.g. on slower cores."""
        t, reason = self.topology.id, decision.reason
        voluntary = decision.action != "skip" and reason.row.voluntary and decision.moved_executors
        if not (voluntary or reason is Reason.GAIN_NOT_SUSTAINED):
            return decision, memory
        expected = self.predictions.expectations[t]
        if not expected.shortfall:
            return decision, memory
        if self.subject.degraded or self.subject.rebalanced:
            return self._keep(), self.memory.missed(t)
        text = f"{decision.text}, but {expected.shortfall}"
        held = self._skip(Reason.THROUGHPUT_WOULD_FALL, text, expected.carried_tps[1], expected.now_tps)
        return held, self.memory.missed(t)

    def _relief(self, relieved: Sequence[str]) -> Decision:
        """OVERLOAD: with its duration or, where nothing is overloaded yet, with the predicted load."""
        promise = self._promise("load_ratio", relieved)
        since_ms = [self.memory.overloaded_since_ms[s] for s in relieved if s in self.overloaded]
        if not since_ms:
            highest = max(self.criteria.coming[s] for s in relieved)
            text = f"{', '.join(relieved)} will be overloaded: {highest:.0%} of B(n); the plan lowers the load"
            return self._act(Reason.OVERLOAD, text, highest, 1.0, promise)
        longest_ms = self.criteria.now_ms - min(since_ms)
        text = f"{', '.join(relieved)} overloaded for {longest_ms / 1000:.0f} s; the plan lowers the load"
        x_s = min(map(self.own.overload_s_of, relieved))
        return self._from(OVERLOAD_S, self._act(Reason.OVERLOAD, text, longest_ms / 1000, x_s, promise))

    def _to_and_fro(self, relieved: Sequence[str]) -> Decision | None:
        """HEADROOM when relief brings back what a node was relieved of within the hour, unless the overload lasts.

        That is X(n) once more for every plan that moved the topology within the hour: load that turns within minutes is
        not followed from node to node.
        """
        back = self._coming_back()
        if not back:
            return None
        now_ms, since_ms = self.criteria.now_ms, self.memory.overloaded_since_ms
        plans = self.criteria.plans_within_the_hour(self.topology.id)
        lasted_ms = {s: now_ms - since_ms.get(s, now_ms) for s in relieved}
        longest = max(relieved, key=lambda s: (lasted_ms[s], s))
        wanted_ms = int(self.own.overload_s_of(longest) * 1000) * (1 + plans)
        if lasted_ms[longest] >= wanted_ms:
            return None
        lasts = f"{longest} overloaded for {lasted_ms[longest] / 1000:.0f} s"
        until_ms: int | None = now_ms + wanted_ms - lasted_ms[longest]
        if longest not in since_ms:
            lasts, until_ms = f"{longest} will be overloaded", None
        text = (
            f"{lasts}; {comes_back(back, self.criteria.now_ms)}: not before {wanted_ms / 1000:.0f} s of overload "
            f"({counted(plans, 'plan')} moved it within the hour)"
        )
        held = self._skip(Reason.HEADROOM, text, lasted_ms[longest] / 1000, wanted_ms / 1000)
        return replace(held, until_ms=until_ms)

    def _throughput_kept(self, relieved: Sequence[str]) -> Decision | None:
        """THROUGHPUT_WOULD_FALL when relief would take back what the last move won; None: it may relieve.

        A rolling move that sends no more between nodes than now is no rollback.
        """
        now_tps = self.total_tps
        before_tps = before_own_gain(self.subject.move, self.subject.sources, now_tps)
        if before_tps is None:
            return None
        load_mhz, own_mhz = self.predictions.now_load_mhz, node_load_mhz(self.alone)
        came_mhz = {s: own_mhz[s] * (1 - before_tps / now_tps) for s in relieved}
        if any(load_mhz[s] - came_mhz[s] >= self.predictions.limit_mhz[s] for s in relieved):
            return None  # it would be overloaded at the rate before the move too
        rolling, more_tps = self.strategy.how == "rolling", -self.saved_tps
        if rolling and more_tps <= self.total_tps * KEPT_SHARE:
            return None
        how = f"sends {tuples(more_tps)} tuples/s more between nodes" if rolling else "restarts workers"
        text = (
            f"{', '.join(relieved)} overloaded because the last move made the topology faster ({tuples(before_tps)} -> "
            f"{tuples(now_tps)} tuples/s); the plan that relieves it {how}, so what runs is kept"
        )
        return self._skip(Reason.THROUGHPUT_WOULD_FALL, text, now_tps, before_tps)

    def _overfull_at_risen_rate(self) -> Decision | None:
        """RATE_WOULD_RISE when a node would be above B(n), at the rate that the held sources may reach by the plan."""
        by = self.criteria.growth.get(self.topology.id)
        if by is None:
            return None
        now_mhz = self.predictions.now_load_mhz
        then_mhz = planned_load_mhz(grown(self.then, self.criteria.growth), self.plans)
        limit_mhz = self.predictions.limit_mhz
        used = sorted({w.supervisor for w in self.plans[self.topology.id].workers})
        full = [s for s in used if then_mhz[s] > max(limit_mhz[s], now_mhz[s]) * (1 + 1e-9)]
        if not full:
            return None
        text = (
            f"{self._falls()}, but its sources are {self.subject.sources.text}; at {by:.1f} times the rate the plan "
            f"fills {full[0]} to {then_mhz[full[0]]:.0f} of {limit_mhz[full[0]]:.0f} MHz"
        )
        return self._skip(Reason.RATE_WOULD_RISE, text, then_mhz[full[0]], limit_mhz[full[0]])

    def _from(self, name: str, decision: Decision) -> Decision:
        """The decision with the source of its threshold."""
        return replace(decision, threshold_from=self.own.sources.get(name, ""))

    def _lasting(self, act: Decision) -> tuple[Decision, Memory]:
        """GAIN_NOT_SUSTAINED until N cycles in a row showed the gain; N more for every plan but the first of the hour.

        Traffic that changes faster is not followed: a gain of minutes is not worth the restarts. A plan without
        restarts waits for N cycles only, or until the gain is beyond the noise; so does one that answers a step, which
        two intervals have shown, where at most one plan moved the topology within the hour.
        """
        t, now_ms, config = self.topology.id, self.criteria.now_ms, self.own.decide
        rolling = self.strategy.how == "rolling"
        plans = self.criteria.plans_within_the_hour(self.topology.id)
        tested = rolling or (self.subject.changed and plans <= 1)
        spacing_s = self.criteria.changed_spacing_s if self.subject.changed else self.criteria.hit_spacing_s
        kept_s = HITS_KEPT * self.criteria.hit_spacing_s
        memory = self.memory.hit(t, now_ms, spacing_s, kept_s, self._evidence() if tested else 0.0)
        times = 1 if rolling else max(1, plans)
        hits, wanted = memory.hits[t].count, config.consecutive_hits * times
        if hits < wanted and not (tested and memory.hits[t].evidence >= ENOUGH):
            text = f"{act.text}; seen {hits} of {wanted} times in a row"
            text += f" ({plans} plans moved it within the hour)" if times > 1 else ""
            return self._skip(Reason.GAIN_NOT_SUSTAINED, text, hits, wanted), memory
        return self._back_again(act) or act, memory

    def _evidence(self) -> float:
        """Contribution of this cycle's gain to the sequential test; 0 while the noise is not known."""
        shares = self.memory.shares.get(self.topology.id)
        if shares is None or len(shares.values) < LEAST_SAMPLES:
            return 0.0
        return evidence(self.gain, self.own.decide.gain_threshold_ratio, self._noise(shares.values))

    def _noise(self, values: Sequence[float]) -> float:
        """The noise ratio of what is measured now: the values are of whole windows, this window may be shorter."""
        noise = noise_ratio(values, 0.0) / math.sqrt(max(self.subject.window_ratio, LEAST_WINDOW))
        return max(noise, self.own.verify.noise_floor_ratio)

    def _back_again(self, act: Decision) -> Decision | None:
        """HEADROOM when executors would return to a node that was overloaded with them within the hour."""
        back = self._coming_back()
        if not back:
            return None
        text = f"{act.text}, but {comes_back(back, self.criteria.now_ms)}: not within the hour"
        last_ms = max(at_ms for _, at_ms in back.values())
        return replace(self._skip(Reason.HEADROOM, text, len(back), 0), until_ms=last_ms + HOUR_MS)

    def _coming_back(self) -> Returns:
        return coming_back(self.topology, self.plans[self.topology.id], self.subject.move, self.criteria.now_ms)

    def _keep(self) -> Decision:
        """Make the running placement the plan."""
        subject = self.subject
        if subject.plan_problem is not None:
            text = "the published plan could not be used; what runs is published anew, nothing moves"
        elif subject.torn:
            text = "only a part of the last plan set was written; what runs is kept as the plan"
        elif subject.rebalanced:
            text = f"{subject.why_rebalanced}; what Storm made of it is kept as the plan, nothing moves"
        else:
            text = "what was repaired is kept as the plan; nothing moves"
            if self.moved and self.gain > 0 and (rest_s := cool_down_after_repair(self.own.decide)) > 0:
                text += f" ({self._falls()} under another plan: not within {rest_s:.0f} s, decide.repair_cool_down_s)"
        reason = Reason.REBALANCED if subject.rebalanced and not subject.degraded else Reason.REPAIR
        tps = (self.now_tps, self.now_tps)
        return Decision(self.topology.id, subject.action, reason, text, inter_node_tps=tps, restarted_workers=0)

    def _cost(self) -> Decision | None:
        """GAIN_BELOW_COST when the move holds up more tuples than it saves."""
        weighed = self._trade_off()
        if weighed.saved >= weighed.held_up:
            return None
        return self._skip(Reason.GAIN_BELOW_COST, f"{self._falls()}: {weighed.text}", weighed.saved, weighed.held_up)

    def _trade_off(self) -> TradeOff:
        cost = self._move_cost
        return TradeOff(self.saved_tps, self.criteria.expected_s(self.topology.id), sum(cost.held_up), cost.by)

    def _balance(self, fills: Sequence[str]) -> Decision | None:
        """NEW_SUPERVISOR for the sake of the busiest node."""
        new_supervisors = self.criteria.new_supervisors
        left_mhz = self.predictions.limit_mhz
        limit_mhz = {s: mhz for s, left in left_mhz.items() if (mhz := self.criteria.limit_mhz.get(s, left)) > 0}

        def filled(load_mhz: Mapping[str, float]) -> dict[str, float]:
            return {s: (load_mhz[s] + mhz - left_mhz[s]) / mhz for s, mhz in limit_mhz.items()}

        before, after = filled(self.predictions.now_load_mhz), filled(self.predictions.then_load_mhz)
        busiest = max(before, key=lambda s: (before[s], s), default=None)
        if busiest is None:
            return None
        was, becomes = before[busiest], max(after.values())
        rises = -self.saved_tps > self.total_tps * new_supervisors.traffic_rise_ratio
        if was < new_supervisors.busy_ratio or becomes > was * (1 - new_supervisors.relief_ratio) or rises:
            return None
        own_before, own_after = self._own_load_mhz()
        if self._throughput_kept([busiest]) is not None or own_after[busiest] >= own_before[busiest]:
            return None  # what others of the plan set relieve is not this one's gain
        text = f"{', '.join(fills)} came and is used; the busiest node falls from {was:.0%} to {becomes:.0%} of B(n)"
        return self._act(Reason.NEW_SUPERVISOR, text, becomes, was, self._promise("load_ratio", [busiest]))

    # --- parts --------------------------------------------------------------------------------------------------------

    def _act(
        self,
        reason: Reason,
        text: str,
        value: float | None = None,
        threshold: float | None = None,
        promise: Promise | None = None,
    ) -> Decision:
        return Decision(
            self.topology.id,
            self.subject.action,
            reason,
            text,
            value,
            threshold,
            moved_executors=self.moved,
            inter_node_tps=self.predictions.by_topology[self.topology.id].inter_node_tps,
            promise=promise,
            strategy=self.criteria.strategies.get(self.topology.id),
            held_up=self._move_cost.held_up,
            restarted_workers=self._move_cost.restarted_workers,
            trade_off=self._trade_off().text if self.moved and self.now_tps is not None else "",
        )

    def _skip(self, reason: Reason, text: str, value: float | None = None, threshold: float | None = None) -> Decision:
        return replace(self._act(reason, text, value, threshold), action="skip")

    def _falls(self) -> str:
        return f"inter-node traffic falls by {self.gain:.0%}"

    def _promise(self, metric: Metric, nodes: Sequence[str] = ()) -> Promise | None:
        t, floor = self.topology.id, self.own.verify.noise_floor_ratio
        if self.total_tps <= 0:
            return None
        shares = self.memory.shares.get(t)
        if self.subject.sources.held:
            before = 1e6 / self.total_tps
            by = max(self.criteria.growth.get(t, 1.0), 1 + LEAST_RISE)  # relief that makes nothing faster is no gain
            noise = self._noise(() if shares is None else shares.throughput_tps)
            return Promise("us_per_tuple", before, before / by, noise, self.total_tps, nodes)
        if metric == "load_ratio":
            before = own_load_ratio(self.model, t, nodes)
            predicted = own_load_ratio(self.then, t, nodes, self.plans)
            return Promise(metric, before, predicted, floor, self.total_tps, nodes)
        noise = self._noise(() if shares is None else shares.values)
        before, predicted = (self.now_tps or 0.0) / self.total_tps, self.new_tps / self.total_tps
        return Promise(metric, before, predicted, noise, self.total_tps)

    @cached_property
    def _move_cost(self) -> MoveCost:
        """The cost of the move; nothing where nothing that runs moves."""
        t, own = self.topology, self.own
        if not self.moved or self.subject.new:
            return MoveCost()
        source = own.sources.get(RESTART_S, "configured")
        restart = restart_time(self.criteria.restarts, t.name, own.decide.restart_s, source)
        return move_cost(t, self.plans[t.id], self.alone.traffic, self.strategy, restart)

    def _own_load_mhz(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        own = [t for t in self.then.topologies if t.id == self.topology.id]
        then = msgspec.structs.replace(self.then, topologies=own, traffic=[])
        return node_load_mhz(self.alone), planned_load_mhz(then, self.plans)

    def _fills(self) -> list[str]:
        """New supervisors that get executors by the plan."""
        if not self.criteria.new_supervisors.enabled or not self.criteria.arrived:
            return []
        used = {w.supervisor for w in self.plans[self.topology.id].workers}
        had = {a.supervisor for a in self.topology.assignment}
        return sorted(self.criteria.arrived & (used - had))

    def _relieved(self) -> list[str]:
        """Supervisors that are or will be overloaded on which the plan has less load, and less of this topology."""
        overloaded = self.overloaded | set(self.criteria.coming)
        if not overloaded:
            return []
        before, after = self.predictions.now_load_mhz, self.predictions.then_load_mhz
        own_before, own_after = self._own_load_mhz()
        return sorted(s for s in overloaded if after[s] < before[s] and own_after[s] < own_before[s])
