"""Gates of rollouts: topologies wait for theirs, and rest after one that ended early."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from stormpilot.control.reservations import as_placement
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, silence
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.messages.rollouts import Rollout
from stormpilot.model.constraints import misplaced
from stormpilot.model.subset import with_plans
from stormpilot.observe.observer import Observation
from stormpilot.rollout.peer_capacity import Routable, routable


def routables(observation: Observation, topology_ids: Collection[str]) -> dict[str, Routable]:
    """Routable parts of these topologies now."""
    snapshot = observation.seen
    return {
        t: routable(snapshot.topologies[t], snapshot.table(t), observation.rates.get(t, {}))
        for t in topology_ids
        if t in snapshot.topologies
    }


def waiting_for_rollouts(situation: Situation) -> Verdict | None:
    """Topologies that stay as they are while their rollout goes on; repairs and drains go before."""
    found = {}
    for t, m in situation.snapshot.running_rollouts.items():
        state = situation.undecided.get(t)
        if state is None or state.degraded or forbidden_target(m, situation):
            continue
        text = m.sentence(situation.now_ms)
        found[t] = skip(t, Reason.ROLLOUT_IN_PROGRESS, text, value=m.step + 1, threshold=len(m.steps))
    return Verdict.without_plan(found, situation.memory) if found else None


def forbidden_target(m: Rollout, situation: Situation) -> str:
    """Why executors may not be where a rollout leads, by a setting that was made after it began; empty: they may."""
    t = m.topology_id
    own = [x for x in situation.model.topologies if x.id == t]
    alone = msgspec.structs.replace(situation.model, topologies=own, traffic=[])
    wrong = misplaced(with_plans(alone, {t: as_placement(t, m.target)})).get(t)
    return "its target is drained, excluded or off its site" if wrong else ""


def aborted(topology_id: str, situation: Situation) -> Rollout | None:
    """The rollout of a topology that an operator ended, as long as that holds; None: there is none."""
    m = _ended_early(topology_id, situation)
    return m if m is not None and m.outcome == "ABORTED" and situation.now_ms < _until_ms(m, situation) else None


def resting(state: TopologyState, situation: Situation) -> Decision | None:
    """A topology whose rollout ended before its last step is left alone for a while; None: it may be moved.

    As long as after `discard` where an operator ended it, else as long as after a plan, and until the plug-in has
    answered to its last one.
    """
    t = state.topology.id
    m = _ended_early(t, situation)
    if m is None or state.degraded or state.rebalanced or state.asked:
        return None
    if situation.now_ms >= _until_ms(m, situation):
        return unanswered_withdrawal(state, situation)
    text = f"the rollout ended early: {m.sentence(situation.now_ms)}"
    reason = Reason.OPERATOR_HOLD if m.outcome == "ABORTED" else Reason.COOL_DOWN
    return skip(t, reason, text, until_ms=_until_ms(m, situation))


def unanswered_withdrawal(state: TopologyState, situation: Situation) -> Decision | None:
    """MOVE_BEING_EVALUATED where the plug-in has not answered to the last plan of a rollout that ended early.

    Another rollout would be withdrawn as well; it is tried as late as another plan after one without an answer.
    """
    t = state.topology.id
    m = _ended_early(t, situation)
    if m is None or state.plan is None or state.plan.plan_id != m.standing_plan_id or state.asked or state.rebalanced:
        return None
    again_ms = state.plan_since_ms + int((situation.config.verify.timeout_s + m.window_s) * 1000)
    found = silence(state, situation.now_ms)
    if found is None or situation.now_ms >= again_ms:
        return None
    text = f"{found.text}: it is away, or cannot write status/{t}; another rollout is tried without an answer later"
    return replace(found, text=text, until_ms=again_ms)


def _ended_early(topology_id: str, situation: Situation) -> Rollout | None:
    kept = situation.snapshot.rollouts.get(topology_id)
    m = None if kept is None else kept.message
    return None if m is None or m.running or m.outcome in ("DONE", "OVERTAKEN") else m


def _until_ms(m: Rollout, situation: Situation) -> int:
    """End of the rest after a rollout that ended early."""
    decide, kept = situation.config.decide, situation.snapshot.rollouts[m.topology_id]
    rest_s = decide.discard_hold_s if m.outcome == "ABORTED" else decide.cool_down_s
    return m.since_ms - kept.ahead_ms + int(rest_s * 1000)
