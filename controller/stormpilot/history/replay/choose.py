"""The best setting of a topology, and whether it also beats the default on days that it was not chosen by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stormpilot.history.replay.confirm import LEAST_DAYS, DayCost, Gain, by_day, gain
from stormpilot.history.replay.limits import LimitDifference
from stormpilot.history.replay.past import Yardstick
from stormpilot.history.replay.score import Totals, Weights, score, totals
from stormpilot.history.replay.values import Played, Run, Setting
from stormpilot.model.values import Value

LEAST_STEPS = 24
"""Steps that are needed to choose by."""


class Tried(Value, frozen=True, kw_only=True, rename="camel"):
    """A setting (None: what really happened) with its sums and score, on the steps chosen by and on those held out.

    `held_out_days`: what each day held out cost.
    """

    setting: Setting | None
    chosen_by: Totals
    score: float
    held_out: Totals | None = None
    held_out_score: float | None = None
    held_out_days: list[DayCost] = msgspec.field(default_factory=list)
    plans: int = 0
    planning_s: float = 0.0

    @property
    def name(self) -> str:
        """As a person reads it."""
        return AS_IT_WAS if self.setting is None else self.setting.name


AS_IT_WAS = "as it was"


class Yardsticks(Value, frozen=True, kw_only=True, rename="camel"):
    """Error of the flow model on the steps chosen by, and on those held out."""

    chosen_by: Yardstick = Yardstick()
    held_out: Yardstick = Yardstick()


class Verdict(Value, frozen=True, kw_only=True, rename="camel"):
    """Of one topology: all that was tried, the best first, and what is recommended (`kept_default`: nothing better).

    `gain`: of the best one on the days held out, whether it is recommended or not (null: none were). `barred`: settings
    that are not recommended whatever they cost, by name, with why. `limits`: nodes whose mined B(n) is another one.
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
    yardsticks: Yardsticks = Yardsticks()
    gain: Gain | None = None
    barred: dict[str, str] = msgspec.field(default_factory=dict)
    limits: list[LimitDifference] = msgspec.field(default_factory=list)


def of_each_name(verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """The verdict that counts for a name: of a topology that was submitted again that of the id with the most steps."""
    found: dict[str, Verdict] = {}
    for v in verdicts:
        before = found.get(v.topology_name)
        if before is None or v.default.chosen_by.steps >= before.default.chosen_by.steps:
            found[v.topology_name] = v
    return found


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
        held_out_days=[] if split_ms is None else by_day(played, split_ms, weights),
        plans=0 if run is None else run.plans,
        planning_s=0.0 if run is None else run.planning_s,
    )


def choose(
    topology_id: str,
    name: str,
    tries: Sequence[Tried],
    as_it_was: Tried,
    restart_s: float,
    yardsticks: Yardsticks | None = None,
    barred: Mapping[str, str] | None = None,
) -> Verdict:
    """The best of `tries`, whose first is the default, confirmed on the days held out; else the default stays.

    Only the best is put to that test, so that trying many does not make one of them pass by chance. Settings whose
    scores differ by less than the yardstick is off by count as equal, and the one that restarts least is the best.
    """
    yardsticks, barred = yardsticks or Yardsticks(), barred or {}
    default = tries[0]
    free = [t for t in tries if t is default or t.name not in barred]
    best = _best(free, yardsticks.chosen_by.cost)
    found = None
    if best is not default and best.held_out_score is not None:
        found = gain(default.held_out_days, best.held_out_days, yardsticks.held_out.cost)
    kept, text = _judged(default, best, found)
    return Verdict(
        topology_id=topology_id,
        topology_name=name,
        tried=sorted(tries, key=lambda t: t.score),
        as_it_was=as_it_was,
        default=default,
        recommended=default if kept else best,
        kept_default=kept,
        text=text,
        restart_s=restart_s,
        yardsticks=yardsticks,
        gain=found,
        barred=dict(barred),
    )


def _best(tries: Sequence[Tried], off: float) -> Tried:
    """Of those that are as good as the best within the yardstick, the default, else the one that restarts least."""
    lowest = min(t.score for t in tries)
    close = [t for t in tries if t.score <= lowest + max(off, 1e-9 * lowest)]
    return tries[0] if tries[0] in close else min(close, key=lambda t: (t.chosen_by.restarted_workers, t.score))


def _judged(default: Tried, best: Tried, found: Gain | None) -> tuple[bool, str]:
    """Whether the default stays, and why."""
    if default.chosen_by.steps < LEAST_STEPS:
        return True, f"too little data: {default.chosen_by.steps} steps, expected {LEAST_STEPS}; the default stays"
    if best is default:
        return True, "nothing that was tried is better than the default by more than the flow model is off by"
    change = _change(best.score, default.score)
    if best.held_out_score is None:
        return False, f"{change} against the default; not confirmed on held-out days"
    if found is None and default.held_out is not None and not default.held_out.steps:
        return True, (
            f"{best.name} was best ({change}), but on the days held out it did not run, or under another id; "
            "the default stays"
        )
    if found is None:
        return True, f"{best.name} was best ({change}), but nothing flowed on the days held out; the default stays"
    held = _change(best.held_out_score, default.held_out_score or 0.0)
    if found.low is None or found.high is None:
        return True, (
            f"{best.name} was best ({change}; {held} on {found.days} days held out, {LEAST_DAYS} needed to tell that "
            "from chance); the default stays"
        )
    sure = f"{-found.high:+.1%} to {-found.low:+.1%} in 90% of draws of {found.days} days"
    if found.confirmed:
        return False, f"{change} against the default, {held} on the days held out ({sure})"
    if found.ratio <= 0:
        why = "not on the days held out"
    elif found.low <= 0:
        why = "its gain on the days held out may be chance"
    else:
        why = f"its gain on the days held out may be the flow model's error of {found.yardstick_ratio:.1%}"
    return True, f"{best.name} was best ({change}) but {why}: {held} ({sure}); the default stays"


def _change(new: float, old: float) -> str:
    return f"cost {(new - old) / old:+.1%}" if old else f"cost {new:.3g} instead of 0"
