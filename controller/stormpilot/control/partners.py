"""Plans that were proposed together and fit only together: topologies that trade places, and some need approval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stormpilot.control.reservations import as_placement
from stormpilot.control.situation import Situation
from stormpilot.decide.requests import Room, unfit
from stormpilot.messages.core import HistoryEntry
from stormpilot.publish.publisher import Publisher

Entries = Mapping[str, HistoryEntry]
"""Proposals by topology id."""


@dataclass(frozen=True)
class Partners:
    """Plans with which a proposal of a topology goes, by topology id.

    It is among them: alone where it fits alone. There are none where it does not fit any more.
    """

    publisher: Publisher

    def proposed(self, topology_id: str, entry: HistoryEntry, situation: Situation) -> dict[str, HistoryEntry]:
        """Those that go once all have been approved that must be."""
        return self._together(topology_id, entry, situation, lambda *_: True)

    def approved(self, topology_id: str, entry: HistoryEntry, situation: Situation) -> dict[str, HistoryEntry]:
        """Those that go now, where the proposal itself is approved."""
        return self._together(topology_id, entry, situation, lambda t, e: not self.needs_approval(t, e, situation))

    def needs_approval(self, topology_id: str, entry: HistoryEntry, situation: Situation) -> bool:
        """Whether an operator has to approve a proposal, and has not."""
        pending, state = situation.snapshot.settings.requests.get(topology_id), situation.topologies[topology_id]
        request = None if pending is None else pending.request
        if request is not None and request.verb == "approve" and request.entry is not None:
            return request.entry.plan.plan_id != entry.plan.plan_id
        return state.approval or state.mode != "act"

    def room(self, topology_id: str, together: Entries, situation: Situation) -> Room:
        """Surroundings of the plan of one of these topologies where all of them are applied."""
        others = {t: e for t, e in together.items() if t != topology_id}
        placement = as_placement(topology_id, together[topology_id].plan.workers)
        holders = situation.slot_holders(placement, together)
        for t, e in others.items():
            name = f"{situation.topologies[t].topology.name}, by plan {e.plan.plan_id}"
            holders |= {(w.supervisor, w.port): name for w in e.plan.workers}
        return Room(situation.part_for(tuple(together)), holders, [*others.values()])

    def _together(
        self, topology_id: str, entry: HistoryEntry, situation: Situation, may: Callable[[str, HistoryEntry], bool]
    ) -> dict[str, HistoryEntry]:
        """The plan with those in its way, and those in theirs, that may go; only such as it needs."""
        if entry.plan.topology_id != topology_id:
            return {}
        left, free = {topology_id: entry}, dict[str, HistoryEntry]()
        if self._unfit(topology_id, left, situation):
            free = {t: e for t, e in self._plan_set(topology_id, entry, situation).items() if may(t, e)}
        while (wrong := self._first_unfit(topology_id, left, situation)) is not None:
            in_the_way = _in_the_way(left[wrong], free, situation)
            left |= {t: free.pop(t) for t in sorted(in_the_way)}
            if not in_the_way:
                del left[wrong]
                if wrong == topology_id:
                    return {}
        for t in sorted(left.keys() - {topology_id}):
            rest = {o: e for o, e in left.items() if o != t}
            left = left if self._first_unfit(topology_id, rest, situation) else rest
        return left

    def _first_unfit(self, topology_id: str, together: Entries, situation: Situation) -> str | None:
        """The first of these that does not fit beside the others; the topology itself comes last."""
        order = sorted(together, key=lambda t: (t == topology_id, t))
        return next((t for t in order if self._unfit(t, together, situation)), None)

    def _unfit(self, topology_id: str, together: Entries, situation: Situation) -> bool:
        room = self.room(topology_id, together, situation)
        return bool(unfit(together[topology_id], situation.topologies[topology_id], room))

    def _plan_set(self, topology_id: str, entry: HistoryEntry, situation: Situation) -> dict[str, HistoryEntry]:
        """The other proposals of its plan set that still lie there, of topologies of which nothing else is asked."""
        found, requests = {}, situation.snapshot.settings.requests
        for t in entry.plan.plan_set_topologies:
            if t == topology_id or t not in situation.undecided:
                continue
            asked = requests[t].request if t in requests else None
            if t in requests and (asked is None or asked.verb != "approve"):
                continue
            other, _ = self.publisher.proposal(t, situation.now_ms)
            if other is None or other.plan.topology_id != t or other.gives_up:
                continue
            if other.plan.plan_set == entry.plan.plan_set:
                found[t] = other
        return found


def _in_the_way(entry: HistoryEntry, others: Entries, situation: Situation) -> set[str]:
    """Those of the others that run in slots of a plan now; where none does, those that run on its supervisors."""
    slots = {(w.supervisor, w.port) for w in entry.plan.workers}
    nodes = {supervisor for supervisor, _ in slots}
    running = {t: situation.topologies[t].topology.assignment for t in others}
    found = {t for t, assigned in running.items() if any((a.supervisor, a.port) in slots for a in assigned)}
    return found or {t for t, assigned in running.items() if any(a.supervisor in nodes for a in assigned)}
