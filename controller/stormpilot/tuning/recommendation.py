"""Planner of a topology instead of the configured one: what its owner asks for, else what replay recommends.

An owner names a planner, with parameters, in the topology's configuration; the operator says which ones owners may name
(`planner.owner_planners`).

For a recommendation an operator has to say so (`history.use_recommendation`), and it must have beaten the default on
days that it was not chosen by, by more than chance. A recommendation comes through ZooKeeper: what it says is checked
like every other setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stormpilot.config import Config, DecideSection
from stormpilot.errors import UsageError
from stormpilot.messages.thresholds import Recommendation, Thresholds
from stormpilot.model.values import Model
from stormpilot.planner import planner_named
from stormpilot.planner.registry import params_of

RULES = ("cpu_limit_ratio", "fill_ratio", "gain_threshold_ratio", "consecutive_hits")
"""Settings of `decide` that a recommendation may change for its topology: those that replay tries."""
OVERRULED_BY = ("operator", "owner")
DAY_MS = 86_400_000
PLANNER_KEY, PARAMS_KEY = "stormpilot.planner", "stormpilot.planner.params"
"""Keys of a topology's configuration: the planner that its owner asks for, and its parameters by name."""


@dataclass(frozen=True)
class Choice:
    """Planner and settings of a topology instead of the configured ones; `name` is what people read."""

    name: str
    planner: str
    params: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    forecast: bool = False

    def decide(self, section: DecideSection, sources: Mapping[str, str]) -> tuple[DecideSection, dict[str, str]]:
        """The section with its rules, but for what an operator or owner set; and where each number is from."""
        free = {n: v for n, v in self.rules.items() if not sources.get(f"decide.{n}", "").startswith(OVERRULED_BY)}
        from_replay = {f"decide.{n}": f"replay: {self.name}" for n in free}
        return msgspec.structs.replace(section, **free), {**sources, **from_replay}

    def limited(self, model: Model) -> Model:
        """The model with no more of its nodes to fill than is recommended."""
        ratio = self.rules.get("cpu_limit_ratio")
        if ratio is None:
            return model
        nodes = [
            msgspec.structs.replace(s, cpu_limit_mhz=min(s.limit_mhz, ratio * s.cpu_mhz)) for s in model.supervisors
        ]
        return msgspec.structs.replace(model, supervisors=nodes)


@dataclass(frozen=True)
class Choices:
    """By topology id: what is planned by, and what people are told of a recommendation, used or not."""

    used: Mapping[str, Choice] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def name(self, topology_id: str) -> str:
        """Key of a group that is planned differently; empty: as configured."""
        choice = self.used.get(topology_id)
        return "" if choice is None else choice.name


def choices(
    config: Config, mined: Mapping[str, Thresholds], now_ms: int, owners: Mapping[str, Mapping[str, Any]]
) -> Choices:
    """Choices in force; `mined`, and `owners`, the topologies' own configurations, are by topology id."""
    found = {t: recommended(config, m, now_ms) for t, m in sorted(mined.items())}
    for t, own in sorted(owners.items()):
        if PLANNER_KEY not in own and PARAMS_KEY not in own:
            continue
        wanted, said = asked_for(config, own)
        next_best, recommendation = found.get(t, (None, ""))
        refused = next_best, "; ".join(filter(None, (said, recommendation)))
        found[t] = refused if wanted is None else (wanted, said)
    used = {t: choice for t, (choice, _) in found.items() if choice is not None}
    return Choices(used, {t: text for t, (_, text) in found.items() if text})


def asked_for(config: Config, own: Mapping[str, Any]) -> tuple[Choice | None, str]:
    """The owner's wish for a topology as it is used (None: it is not), and a sentence for people."""
    planner, params = own.get(PLANNER_KEY), own.get(PARAMS_KEY, {})
    try:
        if not isinstance(planner, str) or not isinstance(params, Mapping):
            raise UsageError(f"expected {PLANNER_KEY} as text and {PARAMS_KEY} as a map")
        name = " ".join([planner, ", ".join(f"{k}={v}" for k, v in sorted(params.items()))]).rstrip()
        if planner not in config.planner.owner_planners:
            raise UsageError(f"{planner!r} is not in planner.owner_planners")
        params_of(planner_named(planner), params)
    except UsageError as e:
        return None, f"its owner asks for a planner; not used: {e}"
    return Choice(f"owner: {name}", planner, dict(params)), f"planned as its owner asks, {name}"


def recommended(config: Config, mined: Thresholds | None, now_ms: int) -> tuple[Choice | None, str]:
    """The recommendation as it is used (None: it is not), and a sentence for people; empty without one."""
    r = None if mined is None else mined.recommendation
    if r is None:
        return None, ""
    name, found = named(r), worth_it(r)
    try:
        choice = _choice(config, r, name)
    except (UsageError, msgspec.ValidationError) as e:
        return None, f"replay recommends {name}; not used: {e}"
    why = _why_not(config, r, now_ms)
    if why:
        return None, f"replay recommends {name}: {found}; not used: {why}"
    return choice, f"planned as replay recommends, {name}: {found}"


def named(r: Recommendation) -> str:
    """As people read it: `best decide.cpu_limit_ratio=0.6, forecast`."""
    parts = [
        k if v is True else f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in sorted(r.params.items())
    ]
    return f"{r.planner} {', '.join(parts)}".rstrip()


def worth_it(r: Recommendation) -> str:
    """Its cost against that of the default, on the days that count."""
    if r.held_out_score is not None and r.default_held_out_score is not None:
        text = f"cost {r.held_out_score:.3g} instead of {r.default_held_out_score:.3g} on days held out"
        if r.gain_low_ratio is None or r.gain_high_ratio is None:
            return text
        return f"{text} ({-r.gain_high_ratio:+.0%} to {-r.gain_low_ratio:+.0%})"
    if r.default_score is not None:
        return f"cost {r.score:.3g} instead of {r.default_score:.3g}"
    return f"cost {r.score:.3g}"


def _why_not(config: Config, r: Recommendation, now_ms: int) -> str:
    if r.default_score is not None and r.score >= r.default_score:
        return "nothing that was tried is better than the default"
    if r.held_out_score is None or r.default_held_out_score is None:
        return "it was not confirmed on days held out"
    if r.held_out_score >= r.default_held_out_score:
        return "it is not better than the default on the days held out"
    if r.gain_low_ratio is None:
        return f"{r.held_out_days} days held out do not tell its gain from chance"
    if r.gain_low_ratio <= 0:
        return "its gain on the days held out may be chance"
    days = (now_ms - r.replayed_at_ms) / DAY_MS
    if days > config.history.max_age_days:
        return f"{days:.0f} days old, history.max_age_days is {config.history.max_age_days:g}"
    return "" if config.history.use_recommendation else "history.use_recommendation is false"


def _choice(config: Config, r: Recommendation, name: str) -> Choice:
    """`UsageError` or `ValidationError` for what cannot be planned by."""
    rules = {k.removeprefix("decide."): v for k, v in r.params.items() if k.startswith("decide.")}
    params = {k: v for k, v in r.params.items() if not k.startswith("decide.") and k != "forecast"}
    for rule in rules:
        if rule not in RULES:
            raise UsageError(f"decide.{rule} is not for a recommendation to set")
    msgspec.convert(rules, DecideSection)
    for rule in set(rules) & {"cpu_limit_ratio", "gain_threshold_ratio"}:
        least, most = config.history.range_of(f"decide.{rule}")
        if not least <= rules[rule] <= most:
            raise UsageError(f"decide.{rule} of {rules[rule]:g} is outside {least:g} to {most:g} (history.ranges)")
    params_of(planner_named(r.planner), params)
    return Choice(name, r.planner, params, rules, r.params.get("forecast") is True)
