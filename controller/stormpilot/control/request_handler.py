"""Where operators' wishes meet the cycle: their requests, executors that must leave, moves that wait for approval.

What is decided is in `decide/` (`requests.py`, `leave.py`, `approval.py`, `policy.py`); here it is fetched and written.
A request goes in the transaction in which it is done, so that a crash at any point leaves it either done or to do.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from stormpilot.config import Config
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.approval import still_waiting
from stormpilot.decide.drain import (
    admit_leaving,
    cannot_leave,
    decide_leaving,
    leaving,
    wait_for,
    whose_move,
)
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.decide.requests import RequestOutcome, answer
from stormpilot.messages.core import HistoryEntry, encode
from stormpilot.messages.settings import AuditRecord, DrainSetting, ExcludeSetting, PinSetting, Request
from stormpilot.model.constraints import misplaced, rest_keeps_its_nodes, rest_stands_still
from stormpilot.model.subset import part
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.observe.settings import Settings
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import Append, ConflictError, Delete, Put, Step

Lost = tuple[list[str], int]
"""Supervisors that were lost lately, and how many are known (`Memory.lost`)."""
PlanOne = Callable[[Model], "Plan | tuple[Reason, str]"]


def wrong(model: Model, plan: Plan) -> list[str]:
    """What is wrong with a plan, as sentences."""
    return [f"{v.constraint}: {v.text}" for v in violations(model, plan)]


@dataclass
class RequestHandler:
    """One per leadership; `begin` starts a cycle. `new_id` makes unique ids, `name` is the controller's."""

    publisher: Publisher
    config: Config
    name: str
    new_id: Callable[[], str]
    settings: Settings = field(default_factory=Settings)
    now_ms: int = 0
    answers: dict[str, RequestOutcome] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def begin(
        self, settings: Settings, states: Mapping[str, TopologyState], model: Model, lost: Lost, now_ms: int
    ) -> dict[str, TopologyState]:
        """Take in the settings and decide about every request; the states with what was asked of them."""
        self.settings, self.now_ms, self.answers = settings, now_ms, {}
        self.names = {t: s.topology.name for t, s in states.items()}
        for t, pending in settings.requests.items():
            if t in states:
                config, traffic = self.config.decide, self.config.planner.traffic
                self.answers[t] = answer(pending.request, states[t], model, wrong, *lost, config, now_ms, traffic)
        asked = {t for t in self.answers if self._verb(t) == "replan" and not self.answers[t].done}
        asked = {t for t in asked if self.answers[t].decision is None}
        return {t: replace(s, asked=t in asked) for t, s in states.items()}

    # --- requests -----------------------------------------------------------------------------------------------------

    def to_publish(self) -> list[tuple[str, Decision, Plan]]:
        """Approved plans, and those to roll back to."""
        return [(t, a.decision, a.plan) for t, a in self.answers.items() if a.decision and a.plan]

    def waiting(self) -> dict[str, Decision]:
        """Topologies whose request must wait, with what it waits for."""
        return {t: a.decision for t, a in self.answers.items() if a.decision and a.plan is None and not a.done}

    def finish_refused(self) -> None:
        """Remove requests that are over without a plan to publish."""
        for t, a in self.answers.items():
            if a.done and a.plan is None:
                self._write(self._over(t, a, a.result))

    def finish_asked(self, states: Mapping[str, TopologyState], decisions: Mapping[str, Decision]) -> None:
        """Remove requests for a plan now of which nothing was published; the decision is the answer."""
        for t, s in states.items():
            d = decisions.get(t)
            if s.asked and d is not None and d.action != "publish":
                self._write(self._over(t, self.answers[t], f"{d.action}: {d.reason}: {d.text}"))

    def approver(self, topology_id: str) -> str:
        """Who asked for what is published now, or nobody."""
        request = self._request(topology_id)
        return "" if request is None or topology_id not in self.answers else request.by

    def plan_id(self, topology_id: str) -> str | None:
        """The id that an approved plan keeps."""
        request, a = self._request(topology_id), self.answers.get(topology_id)
        approved = a is not None and a.plan is not None and request is not None and request.verb == "approve"
        return request.entry.plan.plan_id if approved and request is not None and request.entry else None

    def beside(self, entry: HistoryEntry, before: str | None, model: Model | None) -> list[Step]:
        """What is written in the transaction that publishes a plan: its audit record, and the end of its request."""
        t, a = entry.plan.topology_id, self.answers.get(entry.plan.topology_id)
        inputs = "" if model is None else hashlib.sha256(msgspec.json.encode(model)).hexdigest()
        result = f"published {entry.plan.plan_id}, {entry.moved_executors} executors move"
        if a is not None and self._verb(t) is not None:
            result += f" ({a.note})" if a.note else ""
            return self._over(t, a, result, plan_id=entry.plan.plan_id, before=before, inputs_hash=inputs)
        record = AuditRecord(
            id=f"a-{self.new_id()}",
            at_ms=self.now_ms,
            who=self.name,
            verb="publish",
            target=self.names.get(t, t),
            why=f"{entry.reason}: {entry.text}",
            before=before,
            after=entry.plan.plan_id,
            result=result,
            plan_id=entry.plan.plan_id,
            inputs_hash=inputs,
            carried_out_by=self.name,
        )
        return [self._record(record)]

    def _write(self, steps: Sequence[Step]) -> None:
        """A request, hold or proposal that somebody changed meanwhile is seen anew in the next cycle."""
        with contextlib.suppress(ConflictError):
            self.publisher.write(steps)

    def _over(
        self,
        topology_id: str,
        a: RequestOutcome,
        result: str,
        *,
        plan_id: str = "",
        before: str | None = None,
        inputs_hash: str = "",
    ) -> list[Step]:
        p, pending = self.publisher.paths, self.settings.requests[topology_id]
        request = pending.request
        steps: list[Step] = [Delete(p.request(topology_id), pending.version)]
        standing = self.settings.hold_versions.get(topology_id)
        if a.hold is not None:
            steps.append(Put(p.hold(topology_id), encode(a.hold), standing))
        elif a.lift_hold and standing is not None:
            steps.append(Delete(p.hold(topology_id), standing))
        if a.drop_proposal:
            _, version = self.publisher.proposal(topology_id)
            steps += [] if version is None else [Delete(p.proposal(topology_id), version)]
        record = AuditRecord(
            id=f"a-{self.new_id()}",
            at_ms=self.now_ms,
            who="" if request is None else request.by,
            verb="unknown" if request is None else request.verb,
            target=self.names.get(topology_id, topology_id),
            why="" if request is None else request.why,
            before=before,
            after=plan_id or None,
            result=result,
            request_id="" if request is None else request.id,
            plan_id=plan_id,
            inputs_hash=inputs_hash,
            carried_out_by=self.name,
        )
        return [*steps, self._record(record)]

    def _record(self, record: AuditRecord) -> Append:
        return Append(self.publisher.paths.audit("e-"), encode(record))

    def _request(self, topology_id: str) -> Request | None:
        pending = self.settings.requests.get(topology_id)
        return None if pending is None else pending.request

    def _verb(self, topology_id: str) -> str | None:
        request = self._request(topology_id)
        return None if request is None else request.verb

    # --- executors that must leave ------------------------------------------------------------------------------------

    def leave(
        self, states: Mapping[str, TopologyState], model: Model, lost: Lost, plan_one: PlanOne
    ) -> tuple[dict[str, Decision], dict[str, tuple[Decision, Plan, Model]]]:
        """Decide for topologies with executors where they may not be, one of them at most to be moved.

        The first: what is held. The second: what is planned, with the model that it was planned on.
        """
        decide, drains = self.config.decide, self.settings.drains
        asked: list[DrainSetting | PinSetting | ExcludeSetting] = [*drains.values()]
        asked += [*self.settings.pins, *self.settings.exclusions]
        why = leaving(model, misplaced(model), drains)
        held: dict[str, Decision] = {}
        planned: dict[str, tuple[Decision, Plan, Model]] = {}
        mover = whose_move(states, decide, self.now_ms)
        for t, (reason, text) in sorted(why.items()):
            subject = states.get(t)
            if subject is None or subject.new or not subject.placed:
                continue
            refusal = admit_leaving(subject, *lost, decide, self.now_ms, asked)
            if refusal is not None:
                held[t] = replace(refusal, text=f"{refusal.text} ({text})")
                continue
            if mover is not None and mover != t and subject.mode == "act":
                held[t] = wait_for(t, states[mover], text, decide.restart_s)
                continue
            alone = part(model, {t})
            starts = {t: misplaced(alone).get(t, [])}
            for standing in (rest_stands_still(alone, starts), rest_keeps_its_nodes(alone, starts), alone):
                answer_ = plan_one(standing)
                if isinstance(answer_, Plan):
                    break
            if not isinstance(answer_, Plan):
                held[t] = cannot_leave(t, text, answer_)
                continue
            decision = decide_leaving(model, subject, answer_, reason, text, self.config.planner.traffic)
            planned[t] = (decision, answer_, standing)
            if decision.action == "publish" and not subject.approval:
                mover = t
        return held, planned

    # --- approval -----------------------------------------------------------------------------------------------------

    def pending_approval(self, states: Mapping[str, TopologyState], model: Model) -> dict[str, Decision]:
        """Topologies of which a plan waits for an operator, and still fits."""
        found = {}
        for t, s in states.items():
            if s.approval and s.mode == "act" and t not in self.answers:
                proposal, _ = self.publisher.proposal(t)
                decision = still_waiting(proposal, s, model, wrong, self.config.decide, self.now_ms)
                if decision is not None:
                    found[t] = decision
        return found
