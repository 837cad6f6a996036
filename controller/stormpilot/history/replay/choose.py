"""The best setting of a topology, and whether it also beats the default on steps that it was not chosen by."""

from __future__ import annotations

from collections.abc import Sequence

from stormpilot.history.replay.score import Totals, Weights, score, totals
from stormpilot.history.replay.values import Played, Run, Setting
from stormpilot.model.values import Value

LEAST_STEPS = 24
"""Steps that are needed to choose by."""


class Tried(Value, frozen=True, kw_only=True, rename="camel"):
    """A setting (None: what really happened) with its sums and score, on the steps chosen by and on those held out."""

    setting: Setting | None
    chosen_by: Totals
    score: float
    held_out: Totals | None = None
    held_out_score: float | None = None
    plans: int = 0
    planning_s: float = 0.0

    @property
    def name(self) -> str:
        """As a person reads it."""
        return AS_IT_WAS if self.setting is None else self.setting.name


AS_IT_WAS = "as it was"


class Verdict(Value, frozen=True, kw_only=True, rename="camel"):
    """Of one topology: all that was tried, the best first, and what is recommended (`kept_default`: nothing better).

    `yardstick_error`: how far the flow model is from what was measured, as a part of it; a difference to `as it was`
    below that means nothing.
    """

    topology_id: str
    topology_name: str
    tried: list[Tried]
    as_it_was: Tried
    default: Tried
    recommended: Tried
    kept_default: bool
    text: str
    restart_s: float
    yardstick_error: float | None = None


def tried(
    setting: Setting | None,
    played: Sequence[Played],
    split_ms: int | None,
    restart_s: float,
    weights: Weights,
    run: Run | None = None,
) -> Tried:
    """Sums of a topology's steps; those from `split_ms` on are held out."""
    first = totals((p for p in played if split_ms is None or p.from_ms < split_ms), restart_s)
    rest = None if split_ms is None else totals((p for p in played if p.from_ms >= split_ms), restart_s)
    return Tried(
        setting=setting,
        chosen_by=first,
        score=score(first, weights),
        held_out=rest,
        held_out_score=None if rest is None else score(rest, weights),
        plans=0 if run is None else run.plans,
        planning_s=0.0 if run is None else run.planning_s,
    )


def choose(
    topology_id: str,
    name: str,
    tries: Sequence[Tried],
    as_it_was: Tried,
    restart_s: float,
    yardstick_error: float | None,
) -> Verdict:
    """The best of `tries`, whose first is the default; the default stays where nothing beats it on both parts."""
    default = tries[0]
    ranked = sorted(tries, key=lambda t: t.score)
    best = ranked[0]
    kept, text = True, ""
    if default.chosen_by.steps < LEAST_STEPS:
        text = f"too little data: {default.chosen_by.steps} steps, expected {LEAST_STEPS}; the default stays"
    elif best.score >= default.score * (1 - 1e-9):
        text = "nothing that was tried is better than the default"
    elif best.held_out_score is None or default.held_out_score is None:
        kept, text = False, f"{_change(best.score, default.score)} against the default; not confirmed on held-out days"
    elif best.held_out_score >= default.held_out_score:
        text = (
            f"{best.name} was best ({_change(best.score, default.score)}) but not on the held-out days "
            f"({_change(best.held_out_score, default.held_out_score)}); the default stays"
        )
    else:
        kept = False
        text = (
            f"{_change(best.score, default.score)} against the default, "
            f"{_change(best.held_out_score, default.held_out_score)} on held-out days"
        )
    return Verdict(
        topology_id=topology_id,
        topology_name=name,
        tried=ranked,
        as_it_was=as_it_was,
        default=default,
        recommended=default if kept else best,
        kept_default=kept,
        text=text,
        restart_s=restart_s,
        yardstick_error=yardstick_error,
    )


def _change(new: float, old: float) -> str:
    return f"cost {(new - old) / old:+.1%}" if old else f"cost {new:.3g} instead of 0"
