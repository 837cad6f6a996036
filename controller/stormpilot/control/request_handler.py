"""Operators' requests: answers them, proposes the plans that were approved, and closes what is over.

What is decided is in `decide/requests.py` and `decide/approval.py`; here it is fetched and written. A request goes in
the transaction in which it is done, so that a crash at any point leaves it either done or to do. Plans of topologies
that trade places go together (`partners.py`), once all that need an approval have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote

import msgspec
import structlog

from stormpilot.control.audit_records import AuditRecords
from stormpilot.control.evictions import EvictionProposer
from stormpilot.control.partners import Entries, Partners
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.approval import still_waiting
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.judge import Verdict
from stormpilot.decide.origin import AnsweredRequest
from stormpilot.decide.reasons import Reason
from stormpilot.decide.requests import RequestOutcome, Room, answer
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.settings import Request
from stormpilot.publish.publisher import NOT_OURS, Publisher
from stormpilot.zookeeper.client import ConflictError
from stormpilot.zookeeper.transaction import Step

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RequestHandler:
    """One per leadership."""

    publisher: Publisher
    records: AuditRecords
    evictions: EvictionProposer
    partners: Partners

    def answered(self, situation: Situation) -> Situation:
        """The situation with the open requests and their answers; those that are refused or done are closed."""
        answers = {
            t: AnsweredRequest(pending.request, self._outcomes(t, pending.request, situation)[t])
            for t, pending in situation.snapshot.settings.requests.items()
            if t in situation.topologies
        }
        closed = {t: a for t, a in answers.items() if a.outcome.done and a.outcome.plan is None}
        for t, a in closed.items():
            self._write(self.records.of_request(t, a, a.outcome.result, situation))
        requests = {t: a for t, a in answers.items() if t not in closed}
        asked = {t for t, a in requests.items() if a.wants_plan}
        holds = {t: a.outcome.hold for t, a in closed.items() if a.outcome.hold is not None}
        states = {t: replace(s, asked=t in asked, hold=holds.get(t, s.hold)) for t, s in situation.topologies.items()}
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

    def _outcomes(self, topology_id: str, request: Request | None, situation: Situation) -> dict[str, RequestOutcome]:
        """The outcome of a request, and where its plan is published those of the plans that go with it."""
        entry = None if request is None else request.entry
        if request is None or entry is None or request.verb != "approve":
            return {topology_id: self._outcome(topology_id, request, {}, situation)}
        going = self.partners.approved(topology_id, entry, situation)
        together = going or self.partners.proposed(topology_id, entry, situation) or {topology_id: entry}
        outcomes = {
            t: self._outcome(t, self._asked(t, request, e, situation), together, situation) for t, e in together.items()
        }
        lacking = [(t, o) for t, o in outcomes.items() if o.plan is None]
        if not lacking and going:
            return outcomes
        if lacking:
            (t, outcome), *_ = lacking  # its own comes first
            return {topology_id: outcome if t == topology_id else self._held_up(topology_id, t, outcome, situation)}
        missing = [t for t, e in together.items() if t != topology_id and self.partners.needs_approval(t, e, situation)]
        names = [situation.topologies[t].topology.name for t in missing]
        approve = " and ".join(f"`stormpilot approve {quote(name)}`" for name in names)
        text = f"plan {entry.plan.plan_id} is approved and trades places with {', '.join(names)}: needs {approve} too"
        return {topology_id: RequestOutcome(done=False, decision=skip(topology_id, Reason.APPROVAL_NEEDED, text))}

    def _asked(self, topology_id: str, request: Request, entry: HistoryEntry, situation: Situation) -> Request:
        """The request to publish a plan that goes with that of `request`: one for it, else this one."""
        pending = situation.snapshot.settings.requests.get(topology_id)
        own = None if pending is None else pending.request
        return own if own is not None and own.verb == "approve" else msgspec.structs.replace(request, entry=entry)

    def _held_up(self, topology_id: str, by: str, outcome: RequestOutcome, situation: Situation) -> RequestOutcome:
        """The outcome for a plan whose partner `by` cannot go, or not yet."""
        with_whom = f"{situation.topologies[by].topology.name}, with which it trades places"
        if outcome.decision is None:
            return RequestOutcome(done=True, result=f"refused: {with_whom}: {outcome.result.removeprefix('refused: ')}")
        d = outcome.decision
        held = skip(topology_id, d.reason, f"{with_whom}: {d.text}", until_ms=d.until_ms)
        return RequestOutcome(done=False, decision=held)

    def _outcome(
        self, topology_id: str, request: Request | None, together: Entries, situation: Situation
    ) -> RequestOutcome:
        """The outcome of a request by itself, where the plans of `together` are published with its own."""
        if request is not None and request.entry is not None:
            dated = self.publisher.by_our_clock(request.entry, situation.now_ms)
            request = msgspec.structs.replace(request, entry=dated)
        config, entry = situation.config, None if request is None else request.entry
        room = Room(situation.part_for({topology_id}))
        if entry is not None:
            room = self.partners.room(topology_id, together or {topology_id: entry}, situation)
        outcome = answer(
            request,
            situation.topologies[topology_id],
            room,
            situation.lost,
            config.decide,
            situation.now_ms,
            config.planner.traffic,
            moving=topology_id in situation.snapshot.running_rollouts,
        )
        gives_up = outcome.plan is not None and entry is not None and entry.gives_up
        if entry is not None and gives_up and not self.evictions.stands(topology_id, entry.text, situation):
            why = f"{entry.plan.plan_id} was proposed to make room, which nobody waits for like that any more"
            outcome = RequestOutcome(done=True, result=f"refused: {why}", drop_proposal=True)
        return outcome

    def _waiting(self, situation: Situation) -> dict[str, Decision]:
        """Topologies whose request must wait, those with a proposal that still fits, and partners of both."""
        found, partners = dict[str, Decision](), dict[str, Decision]()
        for t, state in situation.undecided.items():
            request = situation.requests.get(t)
            if request is not None:
                if request.outcome.decision is not None and request.outcome.plan is None:
                    found[t] = request.outcome.decision
                    partners |= self._waiting_with(t, request, situation)
            elif state.approval and state.mode == "act":
                waiting = self._still_waiting(state, situation)
                partners |= waiting
                found |= {t: waiting[t]} if t in waiting else {}
        return {**{t: d for t, d in partners.items() if t not in situation.requests}, **found}

    def _waiting_with(self, topology_id: str, request: AnsweredRequest, situation: Situation) -> dict[str, Decision]:
        """Partners of a plan that is approved and waits."""
        if request.request is None or request.verb != "approve" or request.request.entry is None:
            return {}
        name, found = situation.topologies[topology_id].topology.name, dict[str, Decision]()
        for t, entry in self.partners.proposed(topology_id, request.request.entry, situation).items():
            if situation.topologies[t].degraded:
                continue
            needs = f"`stormpilot approve {quote(situation.topologies[t].topology.name)}`"
            needs = needs if self.partners.needs_approval(t, entry, situation) else f"{name}, which is approved"
            text = f"plan {entry.plan.plan_id} ({entry.text}) trades places with {name} and waits for {needs}"
            found[t] = skip(t, Reason.APPROVAL_NEEDED, text)
        return found

    def _still_waiting(self, state: TopologyState, situation: Situation) -> dict[str, Decision]:
        """The decision for a topology whose proposal still fits, and for those that go with it without an approval."""
        proposal, _ = self.publisher.proposal(state.topology.id, situation.now_ms)
        together = {} if proposal is None else self.partners.proposed(state.topology.id, proposal, situation)
        found = dict[str, Decision]()
        for t, entry in together.items():
            if t != state.topology.id and self.partners.needs_approval(t, entry, situation):
                continue
            room, subject = self.partners.room(t, together, situation), situation.topologies[t]
            decision = still_waiting(entry, subject, room, situation.config.decide, situation.now_ms, state)
            if decision is None:
                return {}
            found[t] = decision
        return found

    def _verdict(self, topology_id: str, situation: Situation) -> Verdict:
        """The plan of a request, once more held against what was published before it in this cycle."""
        request = situation.snapshot.settings.requests[topology_id].request
        outcomes = self._outcomes(topology_id, request, situation)
        outcome, model = outcomes[topology_id], situation.part_for(tuple(outcomes))
        if outcome.plan is not None:
            decisions = {t: o.decision for t, o in outcomes.items() if o.decision is not None}
            placements = {t: p for t, o in outcomes.items() if o.plan is not None for p in o.plan.topologies}
            plan = msgspec.structs.replace(outcome.plan, topologies=[*placements.values()])
            return Verdict(decisions, placements, plan, situation.memory, dict.fromkeys(placements, model))
        if outcome.done:
            answered = AnsweredRequest(request, outcome)
            self._write(self.records.of_request(topology_id, answered, outcome.result, situation))
        decision = outcome.decision or skip(topology_id, Reason.NOT_PUBLISHED, outcome.result)
        return Verdict.without_plan({topology_id: decision}, situation.memory)

    def _write(self, steps: Sequence[Step]) -> None:
        """Writing of these steps; what others changed, locked or wrote below is answered anew in the next cycle."""
        try:
            self.publisher.write(steps)
        except ConflictError:
            return
        except NOT_OURS as e:
            log.warning("the answer to a request cannot be written", why=e)
