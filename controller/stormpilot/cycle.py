"""The one page on which all stages meet: observe -> model -> plan -> decide -> publish -> verify."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from stormpilot.account import Account
from stormpilot.config import Config, mode_of
from stormpilot.decide.admit import Subject, admit
from stormpilot.decide.judge import Verdict, judge
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Reason, hold
from stormpilot.model.messages import BasedOn
from stormpilot.model.part import part, with_plans
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.observe.observer import Observation, Observer
from stormpilot.observe.reader import ALL
from stormpilot.planner.check import violations
from stormpilot.publish.message import Round, history_entry, plan_message
from stormpilot.publish.publisher import Publisher
from stormpilot.verify import Verifier
from stormpilot.zookeeper import ConflictError

log = structlog.get_logger(__name__)


class Compute(Protocol):
    """A planner by name: `stormpilot.planner.compute`."""

    def __call__(
        self,
        model: Model,
        planner: str,
        params: Mapping[str, float | int | str | bool | None],
        *,
        seed: int,
        left_s: Callable[[], float],
    ) -> Plan | Infeasible:
        """Plan every topology of the model."""


@dataclass
class Cycle:
    """What one cycle needs, and what it remembers for the next.

    `planner` plans what runs, `first_planner` what was never placed; `new_id` makes unique ids.
    """

    observer: Observer
    publisher: Publisher
    config: Config
    compute: Compute
    planner: str
    first_planner: str
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    name: str
    memory: Memory = field(default_factory=Memory)
    verifier: Verifier = field(default_factory=Verifier)

    def run(self, observation: Observation) -> Account:
        """One cycle; `UnreachableError` when ZooKeeper is away, `DeposedError` when we do not lead any more."""
        now_ms = observation.at_ms
        account = Account(now_ms)
        self.verifier.look(observation.seen)
        if observation.belief is None:
            account.waiting_for = "waiting for the scheduler plug-in to write the cluster: is it in Nimbus?"
            return account
        model = observation.belief.model
        self.memory = self.memory.look(model, now_ms).keep_only(observation.seen.topologies)
        subjects = self._subjects(observation, model)
        account.names = {t: s.topology.name for t, s in subjects.items()}
        account.modes = {t: s.mode for t, s in subjects.items()}
        for group in self._admitted(subjects, model, account):
            verdict = self._decide(group, model, account)
            self._publish(verdict, observation, account)
            model = with_plans(model, verdict.plans)
        return account

    def _subjects(self, observation: Observation, model: Model) -> dict[str, Subject]:
        seen = observation.seen
        subjects = {}
        for t in model.topologies:
            readiness = observation.belief.readiness[t.id] if observation.belief else None
            assert readiness is not None
            published, override = seen.plans.get(t.id), seen.modes.get(t.name)
            path = self.publisher.paths.plan(t.id)
            subjects[t.id] = Subject(
                topology=t,
                mode=mode_of(self.config.decide, t.name, override.mode if override else None),
                paused=bool({ALL, t.name} & seen.paused),
                not_ready=None if readiness.ready else readiness.text,
                ready_at_ms=readiness.expected_at_ms,
                instrumented=readiness.instrumented,
                plan=published.message if published else None,
                plan_problem=seen.problems.get(path),
                plan_written_ms=published.written_at_ms if published else 0,
                unplaced_since_ms=self.memory.unplaced_since_ms.get(t.id),
                status=seen.statuses.get(t.id),
            )
        return subjects

    def _admitted(self, subjects: Mapping[str, Subject], model: Model, account: Account) -> list[dict[str, Subject]]:
        """Sort out what is held; the rest in groups that are planned together, the urgent first."""
        grace_s = self.config.decide.lost_supervisor_grace_s
        lost, known = self.memory.lost((s.id for s in model.supervisors), account.at_ms, grace_s)
        groups: dict[tuple[bool, bool], dict[str, Subject]] = {}
        for t, subject in subjects.items():
            refusal = admit(subject, lost, known, self.config.decide, account.at_ms)
            if refusal is not None:
                account.decisions[t] = refusal
            else:
                groups.setdefault((subject.mode != "act", not subject.new), {})[t] = subject
        return [groups[key] for key in sorted(groups)]

    def _decide(self, group: Mapping[str, Subject], model: Model, account: Account) -> Verdict:
        """Plan these topologies while the rest of the cluster stands still, and judge the plan."""
        standing = part(model, group)
        account.models.update(dict.fromkeys(group, standing))
        first = all(s.new for s in group.values())
        plan = self._plan(standing, self.first_planner if first else self.planner, first)
        if isinstance(plan, Plan):
            account.planners.append(plan.planner)
            config, cycle = self.config.decide, self.config.cycle
            verdict = judge(standing, group, plan, self.memory, config, account.at_ms, cycle.period_s / 2)
            self.memory = verdict.memory
        else:
            verdict = Verdict({t: hold(t, plan[0], plan[1]) for t in group}, {}, Plan(topologies=[]), self.memory)
        account.decisions.update(verdict.decisions)
        return verdict

    def _plan(self, model: Model, planner: str, first: bool) -> Plan | tuple[Reason, str]:
        settings = self.config.planner
        deadline_s = time.monotonic() + settings.budget_s
        try:
            plan = self.compute(
                model,
                planner,
                {} if first else settings.params,
                seed=settings.seed,
                left_s=lambda: deadline_s - time.monotonic(),
            )
        except Exception as e:
            log.exception("planner failed", planner=planner)
            return Reason.PLANNER_FAILED, f"{planner}: {type(e).__name__}: {e}"
        if isinstance(plan, Infeasible):
            return Reason.INFEASIBLE, f"{planner}: {plan.constraint}: {plan.text}"
        wrong = violations(model, plan)
        if wrong:
            log.error("planner broke a hard constraint", planner=planner, constraint=wrong[0].constraint)
            return Reason.PLANNER_FAILED, f"{planner}: {wrong[0].constraint}: {wrong[0].text}"
        return plan

    def _publish(self, verdict: Verdict, observation: Observation, account: Account) -> None:
        """Write the plans to publish, all as one round; advice is written beside, where nobody applies it."""
        seen = observation.seen
        for action in ("publish", "advise"):
            ids = [t for t in verdict.plans if verdict.decisions[t].action == action]
            if not ids:
                continue
            round_ = Round(f"r-{self.new_id()}", self.publisher.epoch.number, self.clock_ms(), ids, self.name)
            entries = []
            for t in ids:
                based_on = BasedOn(
                    snapshot_version=seen.topologies[t].version,
                    window_from_ms=observation.since_ms[t],
                    window_to_ms=observation.at_ms,
                )
                decision = verdict.decisions[t]
                plan_id = f"p-{self.new_id()}"
                message = plan_message(verdict.plans[t], verdict.plan, decision, round_, plan_id, based_on)
                entries.append(history_entry(message, decision, self.name))
            try:
                if action == "publish":
                    self.publisher.publish(entries, {t: p.version for t, p in seen.plans.items()})
                    account.plans.update((e.plan.topology_id, e) for e in entries)
                else:
                    self.publisher.advise(entries)
            except ConflictError as e:
                account.decisions.update({t: hold(t, Reason.NOT_PUBLISHED, str(e)) for t in ids})
