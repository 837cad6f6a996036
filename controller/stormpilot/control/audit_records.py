"""Audit records of plans and requests, as steps of the transaction in which a plan is published or a request closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stormpilot.control.situation import Situation
from stormpilot.decide.origin import AnsweredRequest, PlanOrigin
from stormpilot.messages.core import HistoryEntry, encode
from stormpilot.messages.settings import AuditRecord
from stormpilot.printable import counted
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.transaction import Append, Delete, Put, Step


@dataclass(frozen=True)
class AuditRecords:
    """Writes in the name of the controller `name`; `new_id` makes unique ids."""

    publisher: Publisher
    name: str
    new_id: Callable[[], str]

    def of_plan(self, entry: HistoryEntry, origin: PlanOrigin, inputs: str, situation: Situation) -> list[Step]:
        """Writes that go with a plan: its audit record, and the end of the request that it answers.

        `inputs`: hash of the model that it was made on.
        """
        t, plan_id = entry.plan.topology_id, entry.plan.plan_id
        published = situation.snapshot.plan(t)
        before = None if published is None else published.plan_id
        result = f"published {plan_id}, {counted(entry.moved_executors, 'executor moves', 'executors move')}"
        result = f"gave up {before}" if entry.gives_up else result
        request = origin.request
        if request is not None and request.verb is not None:
            result += f" ({request.outcome.note})" if request.outcome.note else ""
            return self.of_request(t, request, result, situation, plan_id=plan_id, before=before, inputs_hash=inputs)
        record = self._record(
            t,
            situation,
            who=self.name,
            verb="evict" if entry.gives_up else "publish",
            why=f"{entry.reason}: {entry.text}",
            before=before,
            after=None if entry.gives_up else plan_id,
            result=result,
            plan_id=plan_id,
            inputs_hash=inputs,
        )
        return [*self._without_proposal(t), record]

    def of_request(
        self,
        topology_id: str,
        answered: AnsweredRequest,
        result: str,
        situation: Situation,
        *,
        plan_id: str = "",
        before: str | None = None,
        inputs_hash: str = "",
    ) -> list[Step]:
        """Writes at the end of a request: the request goes, its hold and proposal change, and a record stays."""
        paths, settings = self.publisher.paths, situation.snapshot.settings
        request, outcome = answered.request, answered.outcome
        steps: list[Step] = [Delete(paths.request(topology_id), settings.requests[topology_id].version)]
        standing = settings.hold_versions.get(topology_id)
        if outcome.hold is not None:
            steps.append(Put(paths.hold(topology_id), encode(outcome.hold), standing))
        elif outcome.lift_hold and standing is not None:
            steps.append(Delete(paths.hold(topology_id), standing))
        if outcome.drop_proposal or plan_id:
            steps += self._without_proposal(topology_id)
        record = self._record(
            topology_id,
            situation,
            who="" if request is None else request.by,
            verb="unknown" if request is None else request.verb,
            why="" if request is None else request.why,
            before=before,
            after=plan_id or None,
            result=result,
            request_id="" if request is None else request.id,
            plan_id=plan_id,
            inputs_hash=inputs_hash,
        )
        return [*steps, record]

    def _without_proposal(self, topology_id: str) -> list[Step]:
        """The removal of a proposal, which is out of date once a plan is published."""
        _, version = self.publisher.proposal(topology_id)
        return [] if version is None else [Delete(self.publisher.paths.proposal(topology_id), version)]

    def _record(self, topology_id: str, situation: Situation, **told: Any) -> Append:
        state, at_ms = situation.topologies.get(topology_id), situation.now_ms
        name = topology_id if state is None else state.topology.name
        record = AuditRecord(id=f"a-{self.new_id()}", at_ms=at_ms, target=name, carried_out_by=self.name, **told)
        return Append(self.publisher.paths.audit("e-"), encode(record))
