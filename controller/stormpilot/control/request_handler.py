"""Operators' requests: answers them, proposes the plans that were approved, and closes what is over.

What is decided is in `decide/requests.py` and `decide/approval.py`; here it is fetched and written. A request goes in
the transaction in which it is done, so that a crash at any point leaves it either done or to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stormpilot.control.audit_records import AuditRecords
from stormpilot.control.evictions import EvictionProposer
from stormpilot.control.reservations import as_placement
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.approval import still_waiting
from stormpilot.decide.judge import Verdict
from stormpilot.decide.origin import AnsweredRequest
from stormpilot.decide.reasons import Decision, Reason, skip
from stormpilot.decide.requests import RequestOutcome, answer
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import ConflictError, Step


@dataclass(frozen=True)
class RequestHandler:
    """One per leadership."""

    publisher: Publisher
    records: AuditRecords
    evictions: EvictionProposer

    def answered(self, situation: Situation) -> Situation:
        """The situation with the open requests and their answers; those that are refused or done are closed."""
        pending = situation.snapshot.settings.requests
        answers = {t: self._answer(t, situation) for t in pending if t in situation.topologies}
        closed = {t: a for t, a in answers.items() if a.outcome.done and a.outcome.plan is None}
        for t, a in closed.items():
            self._write(self.records.of_request(t, a, a.outcome.result, situation))
        requests = {t: a for t, a in answers.items() if t not in closed}
        asked = {t for t, a in requests.items() if a.wants_plan}
        states = {t: replace(s, asked=t in asked) for t, s in situation.topologies.items()}
        return replace(situation, topologies=states, requests=requests)

    def propose(self, situation: Situation) -> Verdict | None:
        """The next plan that an operator approved or wants back; before it, all that waits."""
        waiting = self._waiting(situation)
        if waiting:
            return Verdict.without_plan(waiting, situation.memory)
        for t, request in situation.requests.items():
            if t in situation.undecided and request.outcome.plan is not None:
                return self._verdict(t, situation)
        return None

    def close_unpublished(self, situation: Situation) -> None:
        """Close requests to replan of which nothing was published; the decision is the answer."""
        for t, request in situation.requests.items():
            d = situation.decisions.get(t)
            if request.wants_plan and d is not None and d.action != "publish":
                result = f"{d.action}: {d.reason}: {d.text}"
                self._write(self.records.of_request(t, request, result, situation))

    def _answer(self, topology_id: str, situation: Situation) -> AnsweredRequest:
        request, config = situation.snapshot.settings.requests[topology_id].request, situation.config
        entry = None if request is None else request.entry
        outcome = answer(
            request,
            situation.topologies[topology_id],
            situation.part_for({topology_id}),
            *situation.lost,
            config.decide,
            situation.now_ms,
            config.planner.traffic,
            {} if entry is None else situation.slot_holders(as_placement(topology_id, entry.plan.workers)),
        )
        gives_up = outcome.plan is not None and entry is not None and entry.gives_up
        if entry is not None and gives_up and not self.evictions.stands(topology_id, entry.text, situation):
            why = f"{entry.plan.plan_id} was proposed to make room, which nobody waits for like that any more"
            outcome = RequestOutcome(done=True, result=f"refused: {why}", drop_proposal=True)
        return AnsweredRequest(request, outcome)

    def _waiting(self, situation: Situation) -> dict[str, Decision]:
        """Topologies whose request must wait, and those with a proposal that still fits."""
        found = {}
        for t, state in situation.undecided.items():
            request = situation.requests.get(t)
            if request is not None:
                if request.outcome.decision is not None and request.outcome.plan is None:
                    found[t] = request.outcome.decision
            elif state.approval and state.mode == "act":
                decision = self._still_waiting(state, situation)
                if decision is not None:
                    found[t] = decision
        return found

    def _still_waiting(self, state: TopologyState, situation: Situation) -> Decision | None:
        t = state.topology.id
        proposal, _ = self.publisher.proposal(t)
        if proposal is None:
            return None
        alone, holders = situation.part_for({t}), situation.slot_holders(as_placement(t, proposal.plan.workers))
        return still_waiting(proposal, state, alone, situation.config.decide, situation.now_ms, holders)

    def _verdict(self, topology_id: str, situation: Situation) -> Verdict:
        """The plan of a request, once more held against what was published before it in this cycle."""
        again = self._answer(topology_id, situation)
        outcome = again.outcome
        if outcome.plan is not None and outcome.decision is not None:
            model = situation.part_for({topology_id})
            return Verdict.of_one(outcome.decision, outcome.plan, situation.memory, model)
        if outcome.done:
            self._write(self.records.of_request(topology_id, again, outcome.result, situation))
        decision = outcome.decision or skip(topology_id, Reason.NOT_PUBLISHED, outcome.result)
        return Verdict.without_plan({topology_id: decision}, situation.memory)

    def _write(self, steps: Sequence[Step]) -> None:
        """A request, hold or proposal that somebody changed meanwhile is answered anew in the next cycle."""
        with contextlib.suppress(ConflictError):
            self.publisher.write(steps)
