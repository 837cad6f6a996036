"""Criteria for plans: settings, thresholds and the circumstances of a cycle, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stormpilot.config import BudgetSection, DecideSection, NewSupervisorsSection, VerifySection
from stormpilot.decide.budget import plans_within_the_hour
from stormpilot.decide.effect import HOUR_MS
from stormpilot.decide.expectation import Traffic
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.messages.controller_state import Restart
from stormpilot.messages.moves import Spent
from stormpilot.model.values import Model


@dataclass(frozen=True)
class TopologyCriteria:
    """The criteria of one topology: sections with its own thresholds in them.

    `overload_s` is X(n) of supervisors that have one of their own. `sources` gives the source of each threshold that is
    not the configured one, by its name (`decide.overload_s`).
    """

    decide: DecideSection
    verify: VerifySection
    overload_s: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def overload_s_of(self, supervisor: str) -> float:
        """X(n) of a supervisor, s."""
        return self.overload_s.get(supervisor, self.decide.overload_s)

    def overloaded(self, since_ms: Mapping[str, int], now_ms: int) -> set[str]:
        """Supervisors that have been overloaded for at least X(n); `since_ms` is by supervisor."""
        return {s for s, begun_ms in since_ms.items() if now_ms - begun_ms >= self.overload_s_of(s) * 1000}


@dataclass(frozen=True)
class Criteria:
    """The criteria of a plan, the same for all topologies of a cycle.

    Parameters
    ----------
    hit_spacing_s
        The least time between two cycles that count, in seconds.
    changed_spacing_s
        The same after a change of a topology's traffic.
    restarts
        Times of earlier moves.
    arrived
        Supervisors that are new or returned, and wait to be used.
    spent
        Moves within the hour, by topology id.
    traffic
        `measured`: measured pairs are taken to stay. `flow`: shuffles follow the placement.
    own
        Criteria of single topologies, by topology id.
    limit_mhz
        B(n) by supervisor; that of the model where it is missing, which is what others leave of it.
    room_mhz
        CPU of a supervisor that voluntary plans may fill, where that is less than B(n).
    strategies
        How the plan of a topology would be carried out, by topology id; by restarts where it is missing.
    coming
        Supervisors that a forecast predicts over B(n) if nothing moves, with load / B(n). Profiles are of hours, so
        such a load lasts.
    measured
        The model as it was measured, where plans are judged in a forecast: a promise is compared with measurements.
    growth
        How many times as fast topologies whose sources are held may run by a better plan, by topology id.
    """

    decide: DecideSection
    now_ms: int
    hit_spacing_s: float
    changed_spacing_s: float = 0.0
    verify: VerifySection = field(default_factory=VerifySection)
    new_supervisors: NewSupervisorsSection = field(default_factory=NewSupervisorsSection)
    budget: BudgetSection = field(default_factory=BudgetSection)
    restarts: Sequence[Restart] = ()
    arrived: frozenset[str] = frozenset()
    spent: Mapping[str, Sequence[Spent]] = field(default_factory=dict)
    traffic: Traffic = "measured"
    own: Mapping[str, TopologyCriteria] = field(default_factory=dict)
    limit_mhz: Mapping[str, float] = field(default_factory=dict)
    room_mhz: Mapping[str, float] = field(default_factory=dict)
    strategies: Mapping[str, MoveStrategy] = field(default_factory=dict)
    coming: Mapping[str, float] = field(default_factory=dict)
    measured: Model | None = None
    growth: Mapping[str, float] = field(default_factory=dict)

    def of(self, topology_id: str) -> TopologyCriteria:
        """Criteria of one topology; the common ones where it has none of its own."""
        return self.own.get(topology_id) or TopologyCriteria(self.decide, self.verify)

    def plans_within_the_hour(self, topology_id: str) -> int:
        """The number of plans that moved a topology."""
        spent, apart_s = self.spent.get(topology_id, ()), self.of(topology_id).decide.cool_down_s
        return plans_within_the_hour(spent, self.now_ms, apart_s)

    def expected_s(self, topology_id: str) -> float:
        """Time for which a gain is taken to last: `decide.payback_s`, less where plans of the last hour lasted less."""
        between_s = HOUR_MS / 1000 / (self.plans_within_the_hour(topology_id) + 1)
        return min(self.of(topology_id).decide.payback_s, between_s)
