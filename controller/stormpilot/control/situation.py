"""The situation of a cycle: what is known when the next plan is made. Frozen; every plan leads to the next one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from stormpilot.config import Config
from stormpilot.control.reservations import as_placement, with_reservations
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.approval import stands, with_approval
from stormpilot.decide.budget import moved_executors
from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import spent_by
from stormpilot.decide.judge import Verdict
from stormpilot.decide.memory import LostSupervisors, Memory
from stormpilot.decide.origin import AnsweredRequest, origin_of
from stormpilot.decide.report import Outcome
from stormpilot.decide.requests import Room
from stormpilot.decide.restarts import restarting
from stormpilot.messages.controller_state import Restart
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.moves import MoveState, Spent
from stormpilot.model.subset import Parts, subset
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.model.violations import Violation, violations
from stormpilot.observe.build import ModelWithReadiness
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.publish.room import PlanRooms
from stormpilot.tuning.recommendation import Choices


@dataclass(frozen=True)
class Situation:
    """The cluster as it runs, with what is decided in this cycle so far.

    By topology id: `topologies` the state of each, `moves` what is being verified, `requests` of operators that are
    open, `on_their_way` the placements of plans that are not applied yet, `proposed` those that were only proposed in
    this cycle, `decisions` those of this cycle, `denied` why nothing of it can be written.
    """

    observation: Observation
    readiness: ModelWithReadiness
    topologies: Mapping[str, TopologyState]
    lost: LostSupervisors
    memory: Memory
    config: Config
    moves: Mapping[str, MoveState] = field(default_factory=dict)
    restarts: Sequence[Restart] = ()
    choices: Choices = field(default_factory=Choices)
    requests: Mapping[str, AnsweredRequest] = field(default_factory=dict)
    on_their_way: Mapping[str, Sequence[TopologyPlan]] = field(default_factory=dict)
    proposed: Mapping[str, Sequence[TopologyPlan]] = field(default_factory=dict)
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    denied: Mapping[str, str] = field(default_factory=dict)

    @property
    def now_ms(self) -> int:
        """The time of the observation."""
        return self.observation.at_ms

    @property
    def snapshot(self) -> StoreSnapshot:
        """The state as it was read from ZooKeeper."""
        return self.observation.seen

    @property
    def model(self) -> Model:
        """The cluster as it runs, without reservations."""
        return self.readiness.model

    @property
    def fallback(self) -> str:
        """The class of the scheduler that places what has no plan; empty where it is not known."""
        cluster = self.snapshot.cluster
        return "" if cluster is None else cluster.shim.fallback

    @property
    def undecided(self) -> dict[str, TopologyState]:
        """Topologies without a decision in this cycle."""
        return {t: s for t, s in self.topologies.items() if t not in self.decisions}

    @cached_property
    def spent(self) -> dict[str, list[Spent]]:
        """Moves by topology id, with those that rollouts will still make: these that run, or began in this cycle."""
        found = {t: spent_by(m) for t, m in self.moves.items()}
        rollouts = self.snapshot.running_rollouts
        for t, state in self.topologies.items():
            d = self.decisions.get(t)
            strategy = d.strategy if d is not None and d.action == "publish" else None
            if t in rollouts:
                m, target = rollouts[t], as_placement(t, rollouts[t].target)
                workers, plan_id = sum(len(step.workers) for step in m.steps[m.step :]), m.entry.plan.plan_id
            elif strategy is not None and strategy.how == "rolling":
                (target,) = self.on_their_way[t]
                workers, plan_id = len(restarting(state.topology, target)), ""
            else:
                continue
            executors = len(moved_executors(state.topology, target))
            to_come = Spent(at_ms=self.now_ms, executors=executors, workers=workers, plan=plan_id)
            found.setdefault(t, []).append(to_come)
        return found

    def cluster_for(self, topology_ids: Collection[str]) -> Model:
        """The cluster as these topologies may use it: without what plans of others that are on their way will need."""
        if not set(topology_ids) & self.on_their_way.keys():
            return self._reserved
        others = {t: plans for t, plans in self.on_their_way.items() if t not in topology_ids}
        return with_reservations(self.model, others)

    @cached_property
    def _reserved(self) -> Model:
        """The cluster without what any plan that is on its way will need."""
        return with_reservations(self.model, self.on_their_way)

    def part_for(self, topology_ids: Collection[str]) -> Model:
        """These topologies alone, on what others leave of the cluster."""
        if set(topology_ids) & self.on_their_way.keys():
            return subset(self.cluster_for(topology_ids), topology_ids)
        if len(topology_ids) == 1:
            return self._parts.alone(*topology_ids)
        return self._parts.of(topology_ids)

    @cached_property
    def _parts(self) -> Parts:
        """The parts of topologies that have no plan on its way."""
        return Parts(self._reserved)

    @cached_property
    def rooms(self) -> PlanRooms:
        """Room for the repair of what is published now."""
        return PlanRooms(self.model, self.snapshot.plans, {c.supervisor: c for c in self.readiness.capacities})

    def problems(self, plan: Plan) -> list[Violation]:
        """Violations of a plan of one topology now; another topology in one of its slots comes first."""
        (placement,) = plan.topologies
        holders = sorted(self.slot_holders(placement).items())
        held = [Violation("slot-one-topology", f"slot {s}:{port} is held by {name}", []) for (s, port), name in holders]
        return held or violations(self.part_for({placement.id}), plan)

    def slot_holders(self, placement: TopologyPlan, beside: Collection[str] = ()) -> dict[tuple[str, int], str]:
        """Slots of a placement that another topology has, or gets by a plan on its way, with its name.

        `beside`: topologies (ids) that leave where they are together with this one.
        """
        found = {}
        for w in placement.workers:
            holders = self._holders.get((w.supervisor, w.port), ())
            names = [name for t, name in holders if t != placement.id and t not in beside]
            if names:
                found[w.supervisor, w.port] = names[0]
        return found

    @cached_property
    def _holders(self) -> Mapping[tuple[str, int], list[tuple[str, str]]]:
        """Topologies (id, name) of every slot: those that run there before those that will."""
        found = defaultdict[tuple[str, int], list[tuple[str, str]]](list)
        names = {t.id: t.name for t in self.model.topologies}
        for t in self.model.topologies:
            for slot in {(a.supervisor, a.port) for a in t.assignment}:
                found[slot].append((t.id, t.name))
        for t_id, plans in self.on_their_way.items():
            for slot in {(w.supervisor, w.port) for plan in plans for w in plan.workers} if t_id in names else ():
                found[slot].append((t_id, f"{names[t_id]}, whose plan is on its way"))
        return found

    def stands(self, topology_id: str, proposal: HistoryEntry) -> bool:
        """Whether a proposal of a topology is young enough to be approved, and still fits."""
        holders = self.slot_holders(as_placement(topology_id, proposal.plan.workers))
        room = Room(self.part_for({topology_id}), holders)
        return stands(proposal, self.topologies[topology_id], room, self.config.decide, self.now_ms)

    @cached_property
    def among_proposals(self) -> Situation:
        """The situation for another proposal: placements that are only proposed are reserved as well."""
        return replace(self, on_their_way={**self.on_their_way, **self.proposed}) if self.proposed else self

    def after(self, outcome: Outcome) -> Situation:
        """The situation once a verdict is published: its topologies are decided, its placements are reserved.

        Those that are only proposed take no room from plans: they are reserved once all that may act are decided.
        """
        if not set(outcome.decisions) - set(self.decisions):
            raise ValueError(f"a verdict decides nothing new: {sorted(outcome.decisions)}")
        placements = {t: (plan,) for t, plan in outcome.placements.items()}
        proposed = {t: plans for t, plans in placements.items() if outcome.decisions[t].action == "advise"}
        published = {t: plans for t, plans in placements.items() if t not in proposed}
        after = replace(
            self,
            memory=outcome.memory,
            moves={**self.moves, **outcome.moves},
            on_their_way={**self.on_their_way, **published},
            proposed={**self.proposed, **proposed},
            decisions={**self.decisions, **outcome.decisions},
        )
        return after if any(s.mode == "act" for s in after.undecided.values()) else after.among_proposals


def approved(verdict: Verdict, situation: Situation) -> Verdict:
    """The verdict as it may go out: without approval a plan is a proposal, and every plan has its origin."""
    origins = {t: origin_of(situation.requests.get(t)) for t in verdict.plans}
    return replace(verdict, decisions=with_approval(verdict.decisions, situation.topologies), origins=origins)
