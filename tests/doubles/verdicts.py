"""Plans judged against small models, with settings that one cycle meets."""

from __future__ import annotations

from typing import Any

import msgspec

from doubles.models import NOW_MS, SPREAD, Slots, model, plan, subject, topology
from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.criteria import Criteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.judge import Verdict, judge
from stormpilot.decide.memory import Memory
from stormpilot.model.values import Input, Model

ONE_HIT = DecideSection(gain_threshold_ratio=0.1, consecutive_hits=1, overload_s=60)


def judged(
    states: list[TopologyState],
    *slots: Slots,
    config: DecideSection = ONE_HIT,
    memory: Memory | None = None,
    now_ms: int = NOW_MS,
    on: Model | None = None,
    **terms: Any,
) -> Verdict:
    on = on or model(*(s.topology for s in states))
    by_id = {s.topology.id: s for s in states}
    return judge(on, by_id, plan(*slots), memory or Memory(), Criteria(config, now_ms, 10, **terms))


def one(verdict: Verdict) -> Decision:
    (decision,) = verdict.decisions.values()
    return decision


CROSSED: Slots = {("a", 1): (1, 4), ("b", 1): (2, 3)}
"""Both pairs that were measured are apart, but each source of the shuffle has a target beside it."""


def shuffled(slots: Slots = SPREAD) -> TopologyState:
    t = topology(slots)
    components = [t.components[0], msgspec.structs.replace(t.components[1], inputs=[Input(component="x")])]
    return subject(msgspec.structs.replace(t, components=components))
