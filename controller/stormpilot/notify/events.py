"""Events for the webhook, found by comparing each cycle with the one before (docs/reference/api.md).

What happens (a plan is published) is told when it happens, with status `info`. What lasts (no plan is feasible) is told
once when it begins, `firing`, and once when it is over, `resolved`, however many cycles lie between. It is over when
its gate was asked and is open: while an earlier one holds, such as a pause, nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from stormpilot.config import EventKind
from stormpilot.decide.decision import Decision
from stormpilot.decide.events import EventKind as Began
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.messages.controller_state import ControllerState
from stormpilot.printable import counted

Status = Literal["info", "firing", "resolved"]
BEGAN: Mapping[Began, tuple[EventKind, Status]] = {
    Began.MOVE_WORSE: ("move_worse", "info"),
    Began.MOVE_WITHOUT_GAIN: ("move_without_gain", "info"),
    Began.ROLLBACK_IMPOSSIBLE: ("rollback_impossible", "info"),
    Began.ROLLOUT_ENDED: ("rollout_ended", "info"),
    Began.RESOURCES_INSUFFICIENT: ("resources_insufficient", "firing"),
    Began.RESOURCES_SUFFICIENT: ("resources_insufficient", "resolved"),
    Began.SIZE_PROPOSED: ("size_proposed", "firing"),
    Began.SIZE_FITS: ("size_proposed", "resolved"),
}
"""Events that a cycle reports once, by itself."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a POST. `id` is unique and stays the same in retries; `text` is one sentence for people."""

    schema: int = 1
    id: str = ""
    event: EventKind
    status: Status
    at_ms: int
    controller: str = ""
    text: str
    topology: str | None = None
    topology_id: str | None = None
    reason: str | None = None
    value: float | None = None
    threshold: float | None = None
    plan_id: str | None = None
    planner: str | None = None
    moved_executors: int | None = None
    inter_node_tps: tuple[float | None, float | None] | None = None


class EventDetector:
    """Remembers what was told. One for each time that a controller leads: its successor tells what lasts anew.

    `before` is the state that the leader before left: what lasted then, and does not now, is over.
    """

    def __init__(self, before: ControllerState | None = None) -> None:
        self._lasted: dict[tuple[str, str], Event] = {} if before is None else dict(_lasting_in(before))
        self._lasting: dict[tuple[str, str], Event] = {}
        self._reported: dict[tuple[str, str], Event] = {}

    def observe(self, report: CycleReport) -> list[Event]:
        """New events of this cycle."""
        return [
            *self.published(report),
            *self._given_up(report),
            *self._rejected(report),
            *self._began(report),
            *self._lasts(report),
        ]

    def _began(self, report: CycleReport) -> Iterator[Event]:
        """Events that the cycle itself reports once, and the end of those that last when their topology is gone."""
        for e in report.events:
            if e.kind not in BEGAN:
                continue
            kind, status = BEGAN[e.kind]
            event = Event(
                event=kind,
                status=status,
                at_ms=e.at_ms,
                text=f"{e.topology}: {e.text}",
                topology=e.topology,
                topology_id=e.topology_id,
                reason=e.kind.value,
                value=e.value,
                threshold=e.threshold,
            )
            if status == "firing":
                self._reported[kind, e.topology_id] = event
            elif status == "resolved":
                self._reported.pop((kind, e.topology_id), None)
            yield event
        if report.waiting_for:
            return  # nobody knows which topologies run
        for key in [k for k in self._reported if k[1] not in report.names]:
            yield _over(self._reported.pop(key), report)

    def published(self, report: CycleReport) -> Iterator[Event]:
        """The plans that were published."""
        for topology_id, entry in report.plans.items():
            decision = report.decisions[topology_id]
            moves = counted(entry.moved_executors, "executor moves", "executors move")
            yield msgspec.structs.replace(
                _of(report, decision, decision.reason.row.notify or "published", "info"),
                text=f"{report.names[topology_id]}: plan {entry.plan.plan_id} is published, {moves}: {decision.text}",
                plan_id=entry.plan.plan_id,
                planner=entry.plan.planner,
                moved_executors=entry.moved_executors,
            )

    def _given_up(self, report: CycleReport) -> Iterator[Event]:
        """The plans that were given up."""
        for d in report.decisions.values():
            if d.action == "publish" and d.reason is Reason.EVICTED:
                yield _of(report, d, "evicted", "info")

    def _rejected(self, report: CycleReport) -> Iterator[Event]:
        for change in report.status_changes:
            status = change.status
            if change.newly_rejected:
                text = f"the scheduler plug-in rejected plan {status.plan_id}: {status.code} {status.text}"
                yield Event(
                    event="rejected",
                    status="info",
                    at_ms=report.at_ms,
                    text=f"{change.topology}: {text}",
                    topology=change.topology,
                    topology_id=change.topology_id,
                    reason=status.code,
                    plan_id=status.plan_id,
                )

    def _lasts(self, report: CycleReport) -> Iterator[Event]:
        if report.waiting_for:
            return  # nothing is decided, so nothing is over
        now: dict[tuple[str, str], Event] = {}
        for topology_id, decision in sorted(report.decisions.items()):
            if (lasts := _lasts_as(decision.reason, topology_id)) is not None:
                (kind, who), event = lasts, _of(report, decision, lasts[0], "firing")
                if kind == "mass_failure":  # one thing, however many topologies it holds
                    event = msgspec.structs.replace(event, topology=None, topology_id=None, text=decision.text)
                now.setdefault((kind, who), event)
        for key, event in now.items():
            self._lasted.pop(key, None)
            if key not in self._lasting:
                yield event
        self._lasting |= now
        for held in (self._lasted, self._lasting):
            for key in [k for k, event in held.items() if k not in now and _is_over(event, report)]:
                yield _over(held.pop(key), report)


def _is_over(event: Event, report: CycleReport) -> bool:
    """Whether the gate of what lasted was asked and is open, for any topology where it is everybody's."""
    if event.topology_id is not None and event.topology_id not in report.names:
        return True
    decided = [d.reason for i, d in report.decisions.items() if event.topology_id in (None, i)]
    asked = [r for r in decided if r is not Reason.NOT_PUBLISHED]  # also the answer to a request that asked no gate
    first = next(reason for reason in Reason if reason.value == event.reason)
    open_now = (r.row.kind != "gate" or r.order > first.order for r in asked)
    return any(open_now) or ((bool(asked) or not report.names) and all(r.row.unwatched for r in asked))


def _lasts_as(reason: Reason, topology_id: str) -> tuple[EventKind, str] | None:
    """Kind of event that lasts as long as a topology is held for this reason, and whose it is (""): everybody's."""
    kind = reason.row.notify
    if kind is None or reason.row.kind != "gate":
        return None
    return kind, "" if kind == "mass_failure" else topology_id


def _lasting_in(state: ControllerState) -> Iterator[tuple[tuple[EventKind, str], Event]]:
    """Events that lasted by the state of a controller; reasons of another version are none."""
    for view in state.topologies:
        reason = next((r for r in Reason if r.value == view.reason), None)
        key = None if reason is None else _lasts_as(reason, view.id)
        if key is not None:
            kind, who = key
            yield (
                key,
                Event(
                    event=kind,
                    status="firing",
                    at_ms=state.written_at_ms,
                    text=f"{view.name}: {view.text}" if who else view.text,
                    topology=view.name if who else None,
                    topology_id=view.id if who else None,
                    reason=view.reason,
                ),
            )


def _over(event: Event, report: CycleReport) -> Event:
    """The end of what lasted."""
    return msgspec.structs.replace(
        event, status="resolved", at_ms=report.at_ms, text=f"over: {event.text}", value=None, threshold=None
    )


def _of(report: CycleReport, decision: Decision, kind: EventKind, status: Status) -> Event:
    name = report.names.get(decision.topology_id, decision.topology_id)
    return Event(
        event=kind,
        status=status,
        at_ms=report.at_ms,
        text=f"{name}: {decision.text}",
        topology=name,
        topology_id=decision.topology_id,
        reason=decision.reason.value,
        value=decision.value,
        threshold=decision.threshold,
        inter_node_tps=None if decision.inter_node_tps == (None, None) else decision.inter_node_tps,
    )
