"""One setting played over past steps, in time order: what its placements would have cost, and what it would have moved.

Per step: the traffic and CPU that the flow model foresees under the placement held until then, from what was measured
in that step; then, at its end, what `decide/` makes of the planner's plan. So a plan is made from one step and paid for
in those after it, as in production. Unlike there a move takes effect at once, is never refused, and its effect is not
checked, as it is what the model says; what operators set meanwhile is not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from stormpilot.config import Config, DecideSection
from stormpilot.decide.admit import TopologyState, admit
from stormpilot.decide.budget import moved_executors
from stormpilot.decide.criteria import Criteria
from stormpilot.decide.judge import judge
from stormpilot.decide.memory import LostSupervisors, Memory
from stormpilot.decide.reasons import Reason
from stormpilot.decide.restarts import held_up_tps, restarting
from stormpilot.errors import UsageError
from stormpilot.history.replay.loads import loads
from stormpilot.history.replay.values import Move, Played, Run, Setting, Step
from stormpilot.messages.core import PlanMessage, StatusMessage
from stormpilot.messages.moves import Spent
from stormpilot.model.flow.model import flow_model
from stormpilot.model.forecast import Forecast
from stormpilot.model.subset import (
    as_it_runs,
    isolated,
    subset,
    with_headroom,
    with_plans,
    with_survivors_fixed,
)
from stormpilot.model.values import Edge, Infeasible, Model, Plan, Topology, TopologyPlan
from stormpilot.model.violations import violations
from stormpilot.planner import compute

Coming = Callable[[Model, int, int], Forecast]
"""Forecast of a model (seen in the step before) from one time to another (ms)."""


@dataclass(frozen=True)
class Rules:
    """Settings of all runs: the controller's settings, seconds per plan, and how long a restarted worker stands.

    `restart_s` is by topology name; the others take `decide.restart_s`. `measured`: the log's own times come first.
    `lower_limits`: a setting's B(n) holds where it is below that of the log, as a recommended one does in a controller.
    """

    config: Config = field(default_factory=Config)
    budget_s: float = 0.5
    restart_s: Mapping[str, float] = field(default_factory=dict)
    measured: bool = True
    lower_limits: bool = False

    def of(self, setting: Setting) -> DecideSection:
        """The settings of `decide` under a setting; `UsageError` names what is wrong."""
        given = {**msgspec.to_builtins(self.config.decide), **setting.decide}
        try:
            return msgspec.convert(given, DecideSection)
        except msgspec.ValidationError as e:
            raise UsageError(f"{setting.name}: decide: {e}") from e

    def stands_s(self, topology: Topology) -> float:
        """Downtime of a restarted worker of the topology, seconds."""
        return self.restart_s.get(topology.name, self.config.decide.restart_s)


def play(
    steps: Sequence[Step], topologies: Sequence[str], setting: Setting, rules: Rules, coming: Coming | None = None
) -> Run:
    """Play a setting for these topologies (ids) while the others stand as they really did, step by step.

    It begins with what ran in the first step. Where a topology appears, or its executors were changed by a user, it
    takes over what really ran then.
    """
    player = _Player(topologies, setting, rules, coming if setting.forecast else None)
    for i, step in enumerate(steps):
        player.step(step, steps[i + 1] if i + 1 < len(steps) else None)
    return Run(
        setting=setting,
        topologies=list(topologies),
        played=player.played,
        plans=player.plans,
        planning_s=player.planning_s,
    )


class _Player:
    def __init__(self, topologies: Sequence[str], setting: Setting, rules: Rules, coming: Coming | None):
        self.ids, self.setting, self.rules, self.coming = set(topologies), setting, rules, coming
        self.decide = rules.of(setting)
        self.memory = Memory()
        self.held: dict[str, TopologyPlan] = {}
        self.plan: dict[str, PlanMessage] = {}
        self.spent: dict[str, list[Spent]] = {}
        self.played: list[Played] = []
        self.plans, self.planning_s = 0, 0.0

    def step(self, step: Step, coming: Step | None) -> None:
        """Foresee a step, account for it, and decide what is there in the one after it."""
        model, moves = self._placed(step)
        seen, rows = self._predict(step, model)
        limited = self._limited(seen)
        self.memory = self.memory.observe(limited, step.from_ms).observe(limited, step.to_ms)
        reasons, refused = self._decided(limited, step, coming, moves) if coming is not None else ({}, {})
        for t, row in rows.items():
            if t not in step.unmeasured:
                self.played.append(
                    msgspec.structs.replace(
                        row, move=moves.get(t), reason=reasons.get(t, ""), refused=refused.get(t, "")
                    )
                )

    # --- where things are ---------------------------------------------------------------------------------------------

    def _placed(self, step: Step) -> tuple[Model, dict[str, Move]]:
        """The step's model with our placements, repaired where a supervisor or a slot of ours is gone."""
        model, moves = step.model, dict[str, Move]()
        ports = {s.id: set(s.slots) for s in model.supervisors}
        others = {(a.supervisor, a.port) for t in model.topologies if t.id not in self.ids for a in t.assignment}
        broken = []
        for t in model.topologies:
            if t.id not in self.ids:
                continue
            held = self.held.get(t.id)
            if held is None or _executors(held) != sorted((e.start, e.end) for e in t.executors):
                self.held[t.id] = as_it_runs(t)
                self.plan.pop(t.id, None)
                continue
            left = [
                w
                for w in held.workers
                if w.port in ports.get(w.supervisor, ()) and (w.supervisor, w.port) not in others
            ]
            if len(left) < len(held.workers):
                broken.append(t.id)
                self.held[t.id] = msgspec.structs.replace(held, workers=left)
        placed = with_plans(model, {t: p for t, p in self.held.items() if t in {x.id for x in model.topologies}})
        for t_id in broken:
            placed = self._repaired(placed, step, t_id, moves)
        return placed, moves

    def _repaired(self, model: Model, step: Step, topology_id: str, moves: dict[str, Move]) -> Model:
        topology = next(t for t in model.topologies if t.id == topology_id)
        standing = subset(self._limited(model), {topology_id})
        answer = self._planned(with_survivors_fixed(standing))
        if not isinstance(answer, Plan):
            answer = self._planned(standing)
        if isinstance(answer, Plan):
            plan = answer.topologies[0]
        else:  # what really ran is the only placement known to be possible
            plan = as_it_runs(next(t for t in step.model.topologies if t.id == topology_id))
        self._apply(topology, plan, Reason.REPAIR, model.traffic, step.from_ms, moves)
        return with_plans(model, {topology_id: plan})

    def _apply(
        self,
        topology: Topology,
        plan: TopologyPlan,
        reason: Reason,
        traffic: Sequence[Edge],
        at_ms: int,
        moves: dict[str, Move],
    ) -> None:
        workers, executors = len(restarting(topology, plan)), len(moved_executors(topology, plan))
        self.held[topology.id] = plan
        self.plan[topology.id] = _message(topology.id, self.setting, plan, at_ms)
        if not workers:
            return
        cost = Spent(at_ms=at_ms, executors=executors, workers=workers, plan=self.plan[topology.id].plan_id)
        self.spent.setdefault(topology.id, []).append(cost)
        held_up = held_up_tps(topology, plan, traffic) * self.rules.stands_s(topology)
        before = moves.get(topology.id)
        moves[topology.id] = Move(
            reason=reason.value if before is None else f"{before.reason}, {reason.value}",
            executors=executors + (before.executors if before else 0),
            workers=workers + (before.workers if before else 0),
            held_up_tuples=held_up + (before.held_up_tuples if before else 0.0),
        )

    def _limited(self, model: Model) -> Model:
        """With the setting's own B(n), where it has one; what is overloaded is judged by the one of the log."""
        ratio = self.setting.decide.get("cpu_limit_ratio")
        if ratio is None:
            return model
        supervisors = []
        for s in model.supervisors:
            own_mhz = s.cpu_mhz * float(ratio)
            limit_mhz = min(own_mhz, s.limit_mhz) if self.rules.lower_limits else own_mhz
            supervisors.append(msgspec.structs.replace(s, cpu_limit_mhz=limit_mhz))
        return msgspec.structs.replace(model, supervisors=supervisors)

    # --- what it is like ----------------------------------------------------------------------------------------------

    def _predict(self, step: Step, placed: Model) -> tuple[Model, dict[str, Played]]:
        """The model as it would have been measured, and what each topology of ours costs in it."""
        now = {t.id: t for t in placed.topologies}
        topologies, traffic = [], [e for e in placed.traffic if e.topology not in self.ids]
        found = {}
        for measured in step.model.topologies:
            if measured.id not in self.ids:
                topologies.append(measured)
                continue
            flow = flow_model(isolated(step.model, measured.id))
            c = flow.compiled
            placement = c.slots_of(Plan(topologies=[self.held[measured.id]]))
            if (placement < 0).any():  # nowhere in truth either
                topologies.append(now[measured.id])
                traffic += [e for e in placed.traffic if e.topology == measured.id]
                continue
            p = flow.predict(placement)
            found[measured.id] = (c, placement, p)
            mhz = dict(zip(c.start.tolist(), p.cpu_mhz.tolist(), strict=True))
            executors = [msgspec.structs.replace(e, cpu_mhz=mhz[e.start]) for e in measured.executors]
            topologies.append(msgspec.structs.replace(now[measured.id], executors=executors))
            start = c.start.tolist()
            traffic += [
                Edge(topology=measured.id, from_=start[a], to=start[b], rate=r)
                for a, b, r in zip(*(x.tolist() for x in flow.pairs(placement)), strict=True)
            ]
        seen = msgspec.structs.replace(placed, topologies=topologies, traffic=traffic)
        ratio, over = loads(step, seen)
        rows = {}
        for t, (c, placement, p) in found.items():
            node = c.slot_node[placement]
            used = [c.node_ids[n] for n in np.unique(node)]
            part_over = np.array([over[n] for n in c.node_ids])[node]
            rows[t] = Played(
                topology_id=t,
                from_ms=step.from_ms,
                length_s=step.length_s,
                inter_node_tps=p.inter_node_tps,
                network_cost_tps=p.network_cost_tps,
                total_tps=p.total_tps,
                busiest_load_ratio=max(ratio[n] for n in used),
                overloaded_node_s=sum(over[n] for n in used) * step.length_s,
                overloaded_tps=float((p.received_tps * part_over).sum()),
            )
        return seen, rows

    # --- what would have been done ------------------------------------------------------------------------------------

    def _decided(
        self, seen: Model, step: Step, coming: Step | None, moves: dict[str, Move]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Codes of the decisions, and why there is no plan, both by topology id."""
        now_ms = step.to_ms
        forecast = Forecast(seen)
        if self.coming is not None and coming is not None:
            forecast = self.coming(seen, coming.from_ms, coming.to_ms)
        states, reasons = {}, {}
        for t in seen.topologies:
            if t.id not in self.ids:
                continue
            message = self.plan.get(t.id)
            subject = TopologyState(
                topology=t,
                mode="act",
                not_ready="not measured in this step" if t.id in step.unmeasured else None,
                plan=message,
                plan_since_ms=0 if message is None else message.created_at_ms,
                status=_applied(message),
            )
            closed = admit(subject, LostSupervisors([], len(seen.supervisors)), self.decide, now_ms)
            if closed is None:
                states[t.id] = subject
            else:
                reasons[t.id] = closed.reason.value
        if not states:
            return reasons, {}
        answer, standing, roomy = self._planned_with_room(forecast.model, states)
        if forecast.moved and not isinstance(answer, Plan) and answer[0] is Reason.INFEASIBLE:
            forecast = Forecast(seen)
            answer, standing, roomy = self._planned_with_room(seen, states)
        if not isinstance(answer, Plan):
            reason, text = answer
            return reasons | dict.fromkeys(states, reason.value), dict.fromkeys(states, text)
        room_mhz = {s.id: s.limit_mhz for s in roomy.supervisors}
        criteria = replace(self._criteria(now_ms, step.length_s), room_mhz=room_mhz, coming=forecast.overloaded)
        verdict = judge(standing, states, answer, self.memory, criteria)
        self.memory = verdict.memory
        for topology_id, d in verdict.decisions.items():
            reasons[topology_id] = d.reason.value
            if d.action == "publish" and d.moved_executors:
                topology, plan = states[topology_id].topology, verdict.plans[topology_id]
                self._apply(topology, plan, d.reason, seen.traffic, now_ms, moves)
        return reasons, {}

    def _planned_with_room(
        self, model: Model, topology_ids: Collection[str]
    ) -> tuple[Plan | tuple[Reason, str], Model, Model]:
        """A plan with headroom, or with all of B(n) where there is none; the model of these topologies for both."""
        standing = subset(model, topology_ids)
        with_room = with_headroom(model, self.decide.fill_ratio)
        roomy = standing if with_room is model else subset(with_room, topology_ids)
        answer = self._planned(roomy)
        if not isinstance(answer, Plan) and answer[0] is Reason.INFEASIBLE and roomy is not standing:
            answer = self._planned(standing)
        return answer, standing, roomy

    def _criteria(self, now_ms: int, step_s: float) -> Criteria:
        config = self.rules.config
        return Criteria(
            self.decide,
            now_ms,
            step_s / 2,
            verify=config.verify,
            new_supervisors=config.new_supervisors,
            budget=config.budget,
            arrived=self.memory.arrived(
                now_ms, config.new_supervisors.stable_cycles * step_s, config.new_supervisors.for_s
            ),
            spent=self.spent,
            traffic=config.planner.traffic,
        )

    def _planned(self, model: Model) -> Plan | tuple[Reason, str]:
        started_s = time.monotonic()
        try:
            answer = compute(
                model,
                self.setting.planner,
                self.setting.params,
                seed=self.rules.config.planner.seed,
                left_s=lambda: started_s + self.rules.budget_s - time.monotonic(),
                traffic=self.rules.config.planner.traffic,
            )
        except UsageError:
            raise
        except Exception as e:  # noqa: BLE001 (a planner that fails costs its plan, as in the controller)
            return Reason.PLANNER_FAILED, f"{type(e).__name__}: {e}"
        finally:
            self.plans += 1
            self.planning_s += time.monotonic() - started_s
        if isinstance(answer, Infeasible):
            return Reason.INFEASIBLE, f"{answer.constraint}: {answer.text}"
        wrong = violations(model, answer)
        return answer if not wrong else (Reason.CONSTRAINT_BROKEN, str(wrong[0]))


def _executors(plan: TopologyPlan) -> list[tuple[int, int]]:
    return sorted(e for w in plan.workers for e in w.executors)


def _message(topology_id: str, setting: Setting, plan: TopologyPlan, at_ms: int) -> PlanMessage:
    """The plan as if it had been published: the gates ask for its age."""
    return PlanMessage(
        plan_id=f"replay-{at_ms}",
        plan_set="replay",
        topology_id=topology_id,
        epoch=0,
        created_at_ms=at_ms,
        planner=setting.planner,
        workers=plan.workers,
        checksum="",
    )


def _applied(plan: PlanMessage | None) -> StatusMessage | None:
    if plan is None:
        return None
    return StatusMessage(
        topology_id=plan.topology_id,
        plan_id=plan.plan_id,
        state="applied",
        code="APPLIED",
        since_ms=plan.created_at_ms,
        written_at_ms=plan.created_at_ms,
    )
