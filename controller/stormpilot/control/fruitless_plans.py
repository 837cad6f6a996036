"""Plans that won nothing: where model and settings are as they were then, the planner is not asked again at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from stormpilot.decide.reasons import Decision
from stormpilot.model.values import Model

TOLERANCE = 0.1
"""Rates, CPU and room may change by this part of their sum, and the model counts as unchanged."""
MAX_SKIPS = 5
"""So many cycles in a row answer without a planner."""


@dataclass(frozen=True)
class _Attempt:
    model: Model
    settings: object
    decisions: Mapping[str, Decision]
    skips: int = 0


@dataclass
class FruitlessPlans:
    """The last plan of each group that won nothing; `max_skips` of 0 asks the planner in every cycle."""

    max_skips: int = MAX_SKIPS
    _attempts: dict[frozenset[str], _Attempt] = field(default_factory=dict)

    def repeated(self, model: Model, settings: object) -> Mapping[str, Decision] | None:
        """The decisions of the last plan of these topologies, if it would win nothing again; None: plan."""
        key = _ids(model)
        last = self._attempts.get(key)
        if last is None or last.skips >= self.max_skips or last.settings != settings:
            return None
        if not unchanged(last.model, model):
            return None
        self._attempts[key] = replace(last, skips=last.skips + 1)
        return {t: replace(d, text=f"{d.text}; nothing has changed since") for t, d in last.decisions.items()}

    def note(self, model: Model, settings: object, decisions: Mapping[str, Decision]) -> None:
        """Remember a plan, if it won nothing; forget other groups of the same topologies."""
        key = _ids(model)
        self._attempts = {k: a for k, a in self._attempts.items() if not k & key}
        if all(d.reason.row.fruitless for d in decisions.values()):
            self._attempts[key] = _Attempt(model, settings, decisions)


def unchanged(before: Model, now: Model) -> bool:
    """Whether two models are the same but for small changes of rates, CPU use and room."""
    if _shape(before) != _shape(now):
        return False
    return (
        _close([s.limit_mhz for s in before.supervisors], [s.limit_mhz for s in now.supervisors])
        and _close([s.memory_mb for s in before.supervisors], [s.memory_mb for s in now.supervisors])
        and _close(_cpu(before), _cpu(now))
        and _same_traffic(before, now)
    )


def _ids(model: Model) -> frozenset[str]:
    return frozenset(t.id for t in model.topologies)


def _shape(model: Model) -> object:
    """All of a model that is not measured."""
    supervisors = [msgspec.structs.replace(s, mhz=0.0, cpu_limit_mhz=0.0, memory_mb=0.0) for s in model.supervisors]
    topologies = [
        msgspec.structs.replace(
            t, executors=[msgspec.structs.replace(e, cpu_mhz=0.0, queue_tuples=None) for e in t.executors]
        )
        for t in model.topologies
    ]
    return msgspec.structs.replace(model, supervisors=supervisors, topologies=topologies, traffic=[])


def _cpu(model: Model) -> list[float]:
    return [e.cpu_mhz for t in model.topologies for e in t.executors]


def _same_traffic(before: Model, now: Model) -> bool:
    was, is_ = _rates(before), _rates(now)
    keys = was.keys() | is_.keys()
    return _close([was[k] for k in keys], [is_[k] for k in keys])


def _rates(model: Model) -> defaultdict[tuple[str, int, int, str | None], float]:
    rates: defaultdict[tuple[str, int, int, str | None], float] = defaultdict(float)
    for e in model.traffic:
        rates[e.topology, e.from_, e.to, e.stream] += e.rate
    return rates


def _close(before: Iterable[float], now: Iterable[float]) -> bool:
    """Whether two series differ by little, all together."""
    before, now = list(before), list(now)
    return sum(abs(a - b) for a, b in zip(before, now, strict=True)) <= TOLERANCE * sum(before)
