"""Evictions: topologies give up their plans, so that the ResourceAwareScheduler finds room for one that comes before.

That scheduler stops topologies for one that comes before them by users' guarantees and priorities, but only those
without a plan, and of these none that comes before one with a plan, unless it gave its own up. Where `decide.evict`
allows it, a topology whose room is needed gives its plan up; it runs on, and the scheduler stops it in the round in
which it starts the other one. So nothing stops for a topology that then cannot run.
"""

from __future__ import annotations

import fnmatch
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from stormpilot.config import DecideSection
from stormpilot.control.planner_client import PlannerClient
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.approval import young
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.drain import admit_leaving
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import HistoryEntry
from stormpilot.model.subset import subset, without
from stormpilot.model.values import Plan, Topology, TopologyPlan
from stormpilot.observe.storm_keys import ORDER_STRATEGY, resource_aware
from stormpilot.planner.admission import topology_order
from stormpilot.publish.publisher import Publisher


@dataclass(frozen=True)
class _Waiting:
    """A topology that waits for room, and who would have to leave: `planned` have a plan, `free` have none."""

    topology: Topology
    waited_s: float
    planned: Sequence[str]
    free: Sequence[str]


@dataclass(frozen=True)
class EvictionProposer:
    """Makes room for the first topology in the order that waits, and that would have room without some after it."""

    planners: PlannerClient
    publisher: Publisher

    def propose(self, situation: Situation) -> Verdict | None:
        """The plan that is given up next; before it, all that must stay without one."""
        found = self._first(situation)
        if found is None:
            return None
        stay = {t: _stays_free(t, found) for t in found.free if t in situation.undecided}
        if stay:
            return Verdict.without_plan(stay, situation.memory)
        own = found.topology.id
        # the plan of what waits itself would keep the scheduler from placing it
        leaving = found.planned or ([own] if situation.topologies[own].plan is not None else [])
        for t in leaving:
            if t in situation.undecided:
                return self._given_up(situation.topologies[t], found, situation)
        return None

    def stands(self, topology_id: str, text: str, situation: Situation) -> bool:
        """Whether a plan that is proposed to be given up would be given up now, for the same reason."""
        found = self._first(situation)
        if found is None or topology_id not in (*found.planned, found.topology.id):
            return False
        return text.endswith(_text(situation.topologies[topology_id], found))

    def _first(self, situation: Situation) -> _Waiting | None:
        """The first to wait; None also where nothing is to be evicted, or storm.yaml names an order not known here."""
        cluster, config = situation.snapshot.cluster, situation.config.decide
        other_order = cluster is not None and bool(cluster.shim.config.get(ORDER_STRATEGY))
        if not config.evict or not resource_aware(situation.fallback) or other_order:
            return None
        by_id = {t.id: t for t in situation.model.topologies}
        order = [by_id[turn.topology] for turn in topology_order(situation.model)]
        since_ms = situation.memory.unplaced_since_ms
        for place, t in enumerate(order):
            waited_s = (situation.now_ms - since_ms.get(t.id, situation.now_ms)) / 1000
            if t.id in since_ms and t.id not in situation.on_their_way and waited_s >= config.evict_after_s:
                later = [o.id for o in order[place + 1 :] if o.assignment]
                leave = self._who_leaves(t, later, situation)
                if leave is not None:
                    planned = [o for o in later if o in leave and situation.topologies[o].plan is not None]
                    return _Waiting(t, waited_s, planned, [o for o in later if o in leave and o not in planned])
        return None

    def _who_leaves(self, waiting: Topology, later: Sequence[str], situation: Situation) -> set[str] | None:
        """The last in the order that suffice, of those that may be stopped; None: nobody helps, or need to."""
        states = situation.topologies
        free = [t for t in later if states[t].plan is None]
        stay = [t for t in later if t not in free and not _may_leave(states[t], situation)]
        may = [t for t in later if t not in stay and not _kept(t, stay, later, situation)]
        if not may or self._fits(waiting, (), situation) or not self._fits(waiting, may, situation):
            return None
        least = bisect_left(range(len(may)), True, lo=1, key=lambda n: self._fits(waiting, may[-n:], situation))
        leave = set(may[-least:])
        for t in may[-least:]:
            rest = leave - {t}
            holds = t not in free and any(_kept(o, [t], later, situation) for o in rest)
            if not holds and self._fits(waiting, rest, situation):
                leave.remove(t)
        return leave

    def _fits(self, waiting: Topology, leave: Collection[str], situation: Situation) -> bool:
        whole = without(situation.cluster_for({waiting.id}), leave)
        return self.planners.has_room(subset(whole, {waiting.id}))

    def _given_up(self, state: TopologyState, found: _Waiting, situation: Situation) -> Verdict:
        """The decision to give a plan up, or the proposal; what is proposed already stays as it is."""
        t, config = state.topology.id, situation.config.decide
        decision = Decision(t, "publish", Reason.EVICTED, _text(state, found), found.waited_s, config.evict_after_s)
        plan = Plan(planner="none", topologies=[TopologyPlan(id=t, workers=[])])
        standing = self._standing(state, decision.text, config, situation.now_ms)
        if state.mode != "act":
            decision = replace(decision, action="advise")
            if standing is not None:
                verdict = Verdict.without_plan({t: decision}, situation.memory)
                return replace(verdict, standing={t: plan.topologies[0]})
        elif config.evict_approval:
            if standing is not None:
                return Verdict.without_plan({t: _waits(standing, state, config)}, situation.memory)
            text = f"{decision.reason}: {decision.text}"
            decision = replace(decision, action="advise", reason=Reason.APPROVAL_NEEDED, text=text)
        return Verdict.of_one(decision, plan, situation.memory, situation.part_for({t}))

    def _standing(self, state: TopologyState, text: str, config: DecideSection, now_ms: int) -> HistoryEntry | None:
        """The same proposal, while it is young."""
        entry, _ = self.publisher.proposal(state.topology.id, now_ms)
        if entry is None or not entry.gives_up or not entry.text.endswith(text):
            return None
        return entry if young(entry, config, now_ms) else None


def _waits(proposal: HistoryEntry, state: TopologyState, config: DecideSection) -> Decision:
    """APPROVAL_NEEDED for a proposal that lies there."""
    until_ms = proposal.plan.created_at_ms + int(config.approval_max_age_s * 1000)
    text = f"{proposal.plan.plan_id} ({proposal.text}) waits for `stormpilot approve {quote(state.topology.name)}`"
    return skip(state.topology.id, Reason.APPROVAL_NEEDED, text, until_ms=until_ms)


def _may_leave(state: TopologyState, situation: Situation) -> bool:
    """Whether policy and operators allow that it gives its plan up now."""
    config, now_ms = situation.config.decide, situation.now_ms
    if not any(fnmatch.fnmatchcase(state.topology.name, pattern) for pattern in config.evict):
        return False
    closed = admit_leaving(state, situation.lost, config, now_ms, overruled=False)
    return closed is None and state.topology.id not in situation.snapshot.running_rollouts


def _kept(topology_id: str, planned: Collection[str], order: Sequence[str], situation: Situation) -> bool:
    """Whether the plug-in keeps one without a plan from being stopped, for one of these comes after it with a plan."""
    state = situation.topologies[topology_id]
    given_up = state.status is not None and state.status.code == "PLAN_GIVEN_UP"
    after = order[order.index(topology_id) + 1 :]
    return state.plan is None and not given_up and any(t in planned for t in after)


def _stays_free(topology_id: str, found: _Waiting) -> Decision:
    return skip(topology_id, Reason.HIGHER_PRIORITY_WAITS, _may_be_stopped(found, "a plan"))


def _may_be_stopped(found: _Waiting, without: str) -> str:
    return (
        f"{found.topology.name} comes before it by guarantees and priorities and waits for room; without {without} the "
        "ResourceAwareScheduler may stop it for that"
    )


def _text(state: TopologyState, found: _Waiting) -> str:
    if state.topology.id == found.topology.id:
        return "it waits for room, which others after it have without a plan; without its own it gets that"
    return _may_be_stopped(found, "its plan")
