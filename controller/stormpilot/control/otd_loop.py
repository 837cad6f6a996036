"""`otd` as a loop of its own [N24 4]: every few seconds at most one executor moves, through the gates of every move.

Of the topologies that it has, the main loop only makes first plans, repairs, and what operators ask for.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from stormpilot.config import Config, DecideSection
from stormpilot.config.deciding import OtdSection
from stormpilot.decide.admit import TopologyState, admit
from stormpilot.decide.budget import hold_what_is_over_budget
from stormpilot.decide.effect import switched
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.judge import Verdict
from stormpilot.decide.memory import Memory
from stormpilot.decide.predict import predict
from stormpilot.decide.reasons import Decision, Reason, skip
from stormpilot.messages.moves import MoveState
from stormpilot.model.compiled import Compiled, Ints, compile_model
from stormpilot.model.subset import plan_of, subset
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.methods import otd
from stormpilot.planner.placement.layout import Layout, frame_of, running_layout


@dataclass
class OtdLoop:
    """One per leadership; remembers for which topologies it was said that resources lack."""

    config: Config
    lacking: set[str] = field(default_factory=set)

    def has(self, subject: TopologyState) -> bool:
        """Whether this loop moves the topology's executors, and the main loop leaves them alone."""
        section = self.config.otd
        if not section.enabled or subject.new or subject.degraded or subject.rebalanced or subject.asked:
            return False
        name = subject.topology.name
        return not section.include or any(fnmatch.fnmatchcase(name, p) for p in section.include)

    def owned_by_otd(self, subject: TopologyState) -> Decision:
        """What the main loop says of a topology that this one has."""
        text = f"otd moves one executor at a time, every {self.config.otd.period_s:g} s where one is worth it"
        return skip(subject.topology.id, Reason.OTD, text)

    def step(
        self,
        states: Mapping[str, TopologyState],
        model: Model,
        lost: tuple[list[str], int],
        moves: Mapping[str, MoveState],
        memory: Memory,
        now_ms: int,
        own: Mapping[str, OtdSection] | None = None,
        *,
        by: Literal["move", "switch"] = "move",
    ) -> tuple[Verdict | None, list[Event]]:
        """The next move of all topologies of this loop, if there is one and it is allowed; what begins or ends.

        `own` has the section as it holds for a topology; for all together the most careful numbers hold. A `switch`
        gives the tuples of an executor to one that stands by: in the plan these two change places.
        """
        ready = {t: s for t, s in states.items() if self.has(s) and admit(s, *lost, self._gates(s), now_ms) is None}
        if not ready:
            return None, []
        standing = subset(model, ready)
        compiled = compile_model(standing)
        frame = frame_of(compiled)
        layout = running_layout(frame)
        thresholds = self._thresholds([(own or {}).get(t, self.config.otd) for t in ready])
        events: list[Event] = []
        answer: otd.Step | otd.Switch | None
        if by == "switch":
            answer = otd.switch_step(frame, layout, thresholds)
        else:
            answer = otd.step(frame, layout, thresholds)
            events = self._events(answer, ready, now_ms)
        if not isinstance(answer, otd.Move | otd.Switch):
            return None, events
        slots = _slots_after(compiled, layout, answer)
        plan = msgspec.structs.replace(compiled.plan_of(slots), planner="otd", params={"steps": 1})
        running = compiled.plan_of(compiled.current)
        t, start = compiled.name(answer.executor)
        if _breaks_more(standing, plan, running, (t, start)):
            return None, events
        to = compiled.name(answer.standby)[1] if isinstance(answer, otd.Switch) else None
        decision = self._decision(t, (start, to), ready[t], standing, plan, answer, thresholds)
        plans = {tp.id: tp for tp in plan.topologies if tp.id == t}
        restarted = {tp.id: tp for tp in (plan if to is None else running).topologies}
        spent = {i: m.spent for i, m in moves.items()}
        allowed = hold_what_is_over_budget(standing, {t: decision}, restarted, spent, self.config.budget, now_ms)
        published = plans if allowed[t].action != "skip" else {}
        return Verdict(allowed, published, plan, memory), events

    def _gates(self, subject: TopologyState) -> DecideSection:
        """The gates, with the time that a topology rests after what was done last."""
        section, plan = self.config.otd, subject.plan
        rest_s = section.cool_down_s
        if plan is not None and subject.move is not None and switched(subject.move, plan.plan_id):
            rest_s = section.switch_cool_down_s
        return msgspec.structs.replace(self.config.decide, cool_down_s=rest_s)

    def _decision(
        self,
        topology_id: str,
        moved: tuple[int, int | None],
        subject: TopologyState,
        model: Model,
        plan: Plan,
        move: otd.Move | otd.Switch,
        thresholds: otd.Thresholds,
    ) -> Decision:
        """Why `moved` moves: the executor, and the one that gets its tuples where it stays itself."""
        seen = predict(subset(model, {topology_id}), plan_of(plan, topology_id), self.config.planner.traffic)
        why = (
            "it relieves an overloaded worker" if move.case == 1 else f"{move.asc_tps:.0f} tuples/s less between nodes"
        )
        start, to = moved
        what = (
            f"executor {start} moves" if to is None else f"executor {start} gives its tuples to {to}, which stands by"
        )
        return Decision(
            topology_id,
            "publish" if subject.mode == "act" else "advise",
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

    def _events(self, answer: otd.Step, ready: Mapping[str, TopologyState], now_ms: int) -> list[Event]:
        """RESOURCES_INSUFFICIENT when that begins, RESOURCES_SUFFICIENT when it ends: each once."""
        if isinstance(answer, otd.Lacking):
            begins = set(ready) - self.lacking
            self.lacking |= begins
            kind, text, whom = EventKind.RESOURCES_INSUFFICIENT, answer.text, begins
        else:
            whom = set(ready) & self.lacking
            self.lacking -= whom
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
