"""Rollbacks of moves that made it worse, to the placement before them."""

from __future__ import annotations

from dataclasses import dataclass

from stormpilot.control.move_tracker import MoveTracker
from stormpilot.control.reservations import as_placement
from stormpilot.control.rollout_gates import aborted
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, admit_rollback
from stormpilot.decide.budget import moved_executors
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout
from stormpilot.model.subset import isolated
from stormpilot.model.values import Plan
from stormpilot.model.violations import AMOUNTS, Violation, violations
from stormpilot.observe.storm_keys import resource_aware


@dataclass(frozen=True)
class RollbackProposer:
    """Proposes former placements; one that is not possible any more is given up."""

    tracker: MoveTracker

    def propose(self, situation: Situation) -> Verdict | None:
        """The next rollback; before it, all that must wait."""
        states = {t: s for t, s in situation.undecided.items() if situation.moves[t].phase == "rollback"}
        refusals = {t: admit_rollback(s, situation.lost, situation.config.decide) for t, s in states.items()}
        waiting = {t: refusal for t, refusal in refusals.items() if refusal is not None}
        if waiting:
            return Verdict.without_plan(waiting, situation.memory)
        t = next(iter(states), None)
        return None if t is None else self._back(states[t], situation.moves[t], situation)

    def _back(self, state: TopologyState, move: MoveState, situation: Situation) -> Verdict:
        topology = state.topology
        former = as_placement(topology.id, move.former)
        plan = Plan(planner="rollback", topologies=[former])
        problems = [str(v) for v in situation.problems(plan) if not _was_so(v, plan, situation)]
        ended = aborted(topology.id, situation)
        if ended is not None and ended.entry.reason == Reason.ROLLBACK_EFFECT and _after(ended, move):
            problems = ["an operator aborted its rollout"]
        if problems:
            text = self.tracker.give_up_rollback(move, topology, situation.observation, problems[0])
            decision = skip(topology.id, Reason.BACK_OFF, text, until_ms=move.back_off_until_ms)
            return Verdict.without_plan({topology.id: decision}, situation.memory)
        decision = Decision(
            topology.id,
            "publish",
            Reason.ROLLBACK_EFFECT,
            f"back to the former placement: {move.text}",
            move.measured,
            move.before,
            moved_executors=len(moved_executors(topology, former)),
        )
        return Verdict.of_one(decision, plan, situation.memory, situation.part_for({topology.id}))


def _was_so(violation: Violation, plan: Plan, situation: Situation) -> bool:
    """Whether the former placement breaks this constraint by itself: it did when it ran. CPU never keeps it away."""
    if violation.constraint == "worker-heap":  # (what is measured is no rule)
        cluster = situation.snapshot.cluster
        return cluster is not None and not resource_aware(cluster.shim.fallback)
    if violation.constraint != "memory":
        return violation.constraint in AMOUNTS
    (placement,) = plan.topologies
    alone = violations(isolated(situation.model, placement.id), plan)
    return any(v.constraint == "memory" for v in alone)


def _after(m: Rollout, move: MoveState) -> bool:
    """Whether a rollout began after a move was judged."""
    return move.judged_at_ms is not None and m.started_at_ms >= move.judged_at_ms
