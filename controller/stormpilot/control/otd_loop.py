"""`otd` as a loop of its own [N24 4]: every few seconds at most one executor moves, through the gates of every move.

Of the topologies that it owns, the main loop only makes first plans, repairs, and what operators ask for.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from stormpilot.config import DecideSection
from stormpilot.config.deciding import OtdSection
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.plan_evaluation import PlanEvaluator
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, admit
from stormpilot.decide.budget import hold_what_is_over_budget
from stormpilot.decide.effect import switched
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.judge import Verdict
from stormpilot.decide.predict import predict
from stormpilot.decide.reasons import Decision, Reason, skip
from stormpilot.model.compiled import Compiled, Ints, compile_model
from stormpilot.model.subset import plan_of, subset
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.methods import otd
from stormpilot.planner.placement.layout import Layout, frame_of, running_layout


@dataclass
class OtdLoop:
    """One per leadership; `insufficient` are the topologies of which it was reported that resources do not suffice."""

    current: CurrentConfig
    insufficient: set[str] = field(default_factory=set)

    def has(self, state: TopologyState) -> bool:
        """Whether this loop moves the topology's executors, and the main loop leaves them alone."""
        section = self.current.config.otd
        if not section.enabled or state.new or state.degraded or state.rebalanced or state.asked:
            return False
        name = state.topology.name
        return not section.include or any(fnmatch.fnmatchcase(name, p) for p in section.include)

    def owned_by_otd(self, state: TopologyState) -> Decision:
        """Decision of the main loop for a topology that this one has."""
        text = f"otd moves one executor at a time, every {self.current.config.otd.period_s:g} s where one is worth it"
        return skip(state.topology.id, Reason.OTD, text)

    def step(self, states: Mapping[str, TopologyState], situation: Situation) -> tuple[Verdict | None, list[Event]]:
        """The next move of one executor: to a standby, else out of workers that can be emptied, else any."""
        strategy, evaluator = situation.config.decide.move_strategy, PlanEvaluator(situation)
        model = situation.cluster_for(states)
        if strategy != "restart":
            switch, _ = self._step(states, model, situation, by="switch")
            if switch is not None and evaluator.switches(switch):
                return switch, []
        closed = evaluator.closed(model, states)
        if closed is not model:
            verdict, _ = self._step(states, closed, situation)
            if verdict is not None or strategy == "rolling":
                return verdict, []
        verdict, answer = self._step(states, model, situation)
        return verdict, self._events(answer, self._ready(states, situation), situation.now_ms)

    def _ready(self, states: Mapping[str, TopologyState], situation: Situation) -> dict[str, TopologyState]:
        lost, now_ms = situation.lost, situation.now_ms
        return {t: s for t, s in states.items() if self.has(s) and admit(s, *lost, self._gates(s), now_ms) is None}

    def _step(
        self,
        states: Mapping[str, TopologyState],
        model: Model,
        situation: Situation,
        *,
        by: Literal["move", "switch"] = "move",
    ) -> tuple[Verdict | None, otd.Step | otd.Switch | None]:
        """The next move of all topologies of this loop, if there is one and it is allowed; the planner's answer.

        Of sections of their own the most careful numbers hold for all. A `switch` gives the tuples of an executor to
        one that stands by: in the plan these two change places.
        """
        ready = self._ready(states, situation)
        if not ready:
            return None, None
        config, in_use = situation.config, situation.observation.in_use
        standing = subset(model, ready)
        compiled = compile_model(standing)
        frame = frame_of(compiled)
        layout = running_layout(frame)
        thresholds = self._thresholds([in_use.section(t, "otd", config.otd) for t in ready])
        answer: otd.Step | otd.Switch | None
        answer = (otd.switch_step if by == "switch" else otd.step)(frame, layout, thresholds)
        if not isinstance(answer, otd.Move | otd.Switch):
            return None, answer
        slots = _slots_after(compiled, layout, answer)
        plan = msgspec.structs.replace(compiled.plan_of(slots), planner="otd", params={"steps": 1})
        running = compiled.plan_of(compiled.current)
        t, start = compiled.name(answer.executor)
        if _breaks_more(standing, plan, running, (t, start)):
            return None, answer
        to = compiled.name(answer.standby)[1] if isinstance(answer, otd.Switch) else None
        decision = self._decision(t, (start, to), ready[t], standing, plan, answer, thresholds)
        plans = {tp.id: tp for tp in plan.topologies if tp.id == t}
        restarted = {tp.id: tp for tp in (plan if to is None else running).topologies}
        spent = {i: m.spent for i, m in situation.moves.items()}
        now_ms = situation.now_ms
        allowed = hold_what_is_over_budget(standing, {t: decision}, restarted, spent, config.budget, now_ms)
        published = plans if allowed[t].action != "skip" else {}
        models = dict.fromkeys(published, model)
        return Verdict(allowed, published, plan, situation.memory, models), answer

    def _gates(self, state: TopologyState) -> DecideSection:
        """The gates, with the time that a topology rests after what was done last."""
        section, plan = self.current.config.otd, state.plan
        rest_s = section.cool_down_s
        if plan is not None and state.move is not None and switched(state.move, plan.plan_id):
            rest_s = section.switch_cool_down_s
        return msgspec.structs.replace(self.current.config.decide, cool_down_s=rest_s)

    def _decision(
        self,
        topology_id: str,
        moved: tuple[int, int | None],
        state: TopologyState,
        model: Model,
        plan: Plan,
        move: otd.Move | otd.Switch,
        thresholds: otd.Thresholds,
    ) -> Decision:
        """Why `moved` moves: the executor, and the one that gets its tuples where it stays itself."""
        seen = predict(subset(model, {topology_id}), plan_of(plan, topology_id), self.current.config.planner.traffic)
        why = (
            "it relieves an overloaded worker" if move.case == 1 else f"{move.asc_tps:.0f} tuples/s less between nodes"
        )
        start, to = moved
        what = (
            f"executor {start} moves" if to is None else f"executor {start} gives its tuples to {to}, which stands by"
        )
        return Decision(
            topology_id,
            "publish" if state.mode == "act" else "advise",
            Reason.OTD,
            f"case {move.case}: {what}; {why}",
            move.asc_tps,
            thresholds.threshold_asc_tps if move.case == 3 else None,
            moved_executors=1,
            inter_node_tps=seen.inter_node_tps,
        )

    def _thresholds(self, sections: Sequence[OtdSection]) -> otd.Thresholds:
        """One set for all, since the step looks at workers of all: act on a load that is high for one of them."""
        return otd.Thresholds(
            cpu_high=min(s.cpu_high for s in sections),
            cpu_low=min(s.cpu_low for s in sections),
            queue_high_tuples=min(s.queue_high_tuples for s in sections),
            queue_low_tuples=min(s.queue_low_tuples for s in sections),
            threshold_asc_tps=max(s.threshold_asc_tps for s in sections),
        )

    def _events(
        self, answer: otd.Step | otd.Switch | None, ready: Mapping[str, TopologyState], now_ms: int
    ) -> list[Event]:
        """RESOURCES_INSUFFICIENT when that begins, RESOURCES_SUFFICIENT when it ends: each once."""
        if isinstance(answer, otd.Lacking):
            begins = set(ready) - self.insufficient
            self.insufficient |= begins
            kind, text, whom = EventKind.RESOURCES_INSUFFICIENT, answer.text, begins
        else:
            whom = set(ready) & self.insufficient
            self.insufficient -= whom
            kind, text = EventKind.RESOURCES_SUFFICIENT, "no worker is too loaded, or one can take its load"
        return [Event(kind, t, ready[t].topology.name, text, now_ms) for t in sorted(whom)]


def _slots_after(compiled: Compiled, layout: Layout, step: otd.Move | otd.Switch) -> Ints:
    """Slots of all executors after a step: an executor joins a worker, or changes places with one that stands by."""
    slots = compiled.current.copy()
    if isinstance(step, otd.Switch):
        pair = [step.executor, step.standby]
        slots[pair] = slots[pair[::-1]]
    else:
        slots[step.executor] = compiled.current[layout.worker == step.worker][0]
    return slots


def _breaks_more(model: Model, plan: Plan, running: Plan, moved: tuple[str, int]) -> bool:
    """Whether a step breaks a constraint: by what it moves, or one that what runs keeps.

    What runs may break some: Storm's own scheduler knows no sites, and an overloaded node is relieved step by step.
    """
    before = violations(model, running)
    return any(moved in v.executors or (not v.executors and v not in before) for v in violations(model, plan))
