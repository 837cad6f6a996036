"""Which number a threshold has for a topology, and where it comes from.

    an operator's setting > the owner's wish, where allowed > mined from history > controller.yaml

An operator's or owner's number outside of its range (`history.ranges`) is refused, and said so; then the next in this
order holds. A mined (or frozen) one is taken to the nearer end of the range, and said so: a topology with very much
noise needs the most careful number that there is, not the default. A mined B(n) is never above the configured one, and
where several topologies say one, the lowest holds. What somebody sets for the whole topology holds on every supervisor
of which nobody set another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stormpilot.config import Config, HistorySection
from stormpilot.config.section import Section
from stormpilot.messages.controller_state import ChosenThreshold
from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.settings import ALL, ThresholdSetting, setting_key
from stormpilot.messages.thresholds import CONTROLS, CPU_LIMIT_RATIO, OVERLOAD_S, Profile, ThresholdEntry, Thresholds
from stormpilot.model.values import Model

OWNER_KEY = "stormpilot.thresholds"
"""Key of a topology's configuration: a mapping of names to numbers."""
DAY_MS = 86_400_000
RANKS = {"operator": 2, "owner": 1, "mined": 0, "configured": 0}
"""Whose number stays where two contradict each other, by its source: the higher one's."""
S = TypeVar("S", bound=Section)
Key = tuple[str, tuple[str, ...]]
"""Name, and which one of its scope (a supervisor, or nothing for the topology)."""


@dataclass(frozen=True)
class EffectiveThresholds:
    """Thresholds in force; `chosen` by topology id, then by name and scope; only those not configured, or refused."""

    chosen: Mapping[str, Mapping[Key, ChosenThreshold]] = field(default_factory=dict)
    cpu_limit: Mapping[str, ChosenThreshold] = field(default_factory=dict)

    def section(self, topology_id: str, prefix: str, section: S) -> S:
        """A section of the configuration as it holds for a topology."""
        changed = {
            name.partition(".")[2]: c.value
            for (name, of), c in self.chosen.get(topology_id, {}).items()
            if name.startswith(f"{prefix}.") and not of and c.source != "configured" and name != CPU_LIMIT_RATIO
        }
        return msgspec.structs.replace(section, **changed) if changed else section

    def overload_s(self, topology_id: str) -> dict[str, float]:
        """X(n) of supervisors that have one of their own."""
        found = self.chosen.get(topology_id, {})
        return {of[0]: c.value for (n, of), c in found.items() if n == OVERLOAD_S and of and c.source != "configured"}

    def sources(self, topology_id: str) -> dict[str, str]:
        """Where thresholds come from that are not as configured, by name: `mined: 43,180 rows of 30.0 days`."""
        found = sorted(self.chosen.get(topology_id, {}).values(), key=lambda c: len(c.of), reverse=True)
        return {c.name: f"{c.source}: {c.text}" for c in found if c.source != "configured"}  # the topology's own last

    def limited(self, model: Model) -> Model:
        """The model, whose limits are as configured, with B(n) as it holds."""
        limits = {s: c for s, c in self.cpu_limit.items() if c.source != "configured"}
        if not limits:
            return model
        return msgspec.structs.replace(
            model,
            supervisors=[
                msgspec.structs.replace(s, cpu_limit_mhz=limits[s.id].value * s.cpu_mhz) if s.id in limits else s
                for s in model.supervisors
            ],
        )

    def in_force(self, topology_id: str, model: Model) -> list[ChosenThreshold]:
        """Thresholds of a topology for operators: its own, and B(n) of the nodes on which it runs."""
        own = [c for _, c in sorted(self.chosen.get(topology_id, {}).items()) if c.name != CPU_LIMIT_RATIO]
        used = {a.supervisor for t in model.topologies if t.id == topology_id for a in t.assignment}
        return own + [c for s, c in sorted(self.cpu_limit.items()) if s in used]


def choose(
    config: Config,
    topologies: Mapping[str, TopologySnapshot],
    mined: Mapping[str, Thresholds],
    settings: tuple[ThresholdSetting, ...],
    now_ms: int,
) -> EffectiveThresholds:
    """Decide, for every topology and name, which number holds. `mined` is by the id of the topology it was mined of."""
    chosen: dict[str, dict[Key, ChosenThreshold]] = {}
    limits: dict[str, ChosenThreshold] = {}
    for topology_id, snapshot in sorted(topologies.items()):
        found = chosen[topology_id] = _of_topology(config, snapshot, thresholds_of(snapshot, mined), settings, now_ms)
        _together(found, config)
        for (name, of), c in found.items():
            if name == CPU_LIMIT_RATIO and of:
                limits[of[0]] = _stricter(limits.get(of[0]), c)
    return EffectiveThresholds(chosen, limits)


def thresholds_of(snapshot: TopologySnapshot, mined: Mapping[str, Thresholds]) -> Thresholds | None:
    """Mined thresholds of this topology, else of the one that had its name before: a new submission has a new id."""
    own = mined.get(snapshot.id)
    if own is not None:
        return own
    former = [m for m in mined.values() if m.topology_name == snapshot.name]
    return max(former, key=lambda m: m.mined_at_ms, default=None)


def too_old(mined: Thresholds | Profile, history: HistorySection, now_ms: int) -> bool:
    """Whether what was mined does not count any more: mined long ago, or of a log that ends long ago."""
    return now_ms - min(mined.mined_at_ms, mined.to_ms) > history.max_age_days * DAY_MS


def configured(config: Config, name: str) -> float:
    """The number in controller.yaml (or its default)."""
    section, _, field_name = name.partition(".")
    return float(getattr(getattr(config, section), field_name))


def refusal(config: Config, name: str, value: Any) -> str:
    """Why a number cannot be this threshold; empty when it can."""
    if name not in CONTROLS:
        return f"{name} is no threshold that the controller uses"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f"{value!r} is no number"
    least, most = config.history.range_of(name)
    if not least <= value <= most:
        return f"{value:g} is outside {least:g} to {most:g} (history.ranges)"
    return ""


def _of_topology(
    config: Config,
    snapshot: TopologySnapshot,
    mined: Thresholds | None,
    settings: tuple[ThresholdSetting, ...],
    now_ms: int,
) -> dict[Key, ChosenThreshold]:
    found: dict[Key, ChosenThreshold] = {}
    refused: dict[Key, list[str]] = {}
    said = set[Key]()  # set by somebody, not frozen as it was

    def offer(name: str, of: tuple[str, ...], value: Any, source: Any, text: str, *, word: bool = False) -> None:
        key = (name, of)
        if key in found:
            return
        wrong = refusal(config, name, value)
        if wrong:
            refused.setdefault(key, []).append(f"{source}: {wrong}")
        else:
            said.update({key} if word else ())
            found[key] = ChosenThreshold(name=name, of=list(of), value=float(value), source=source, text=text)

    names = (setting_key(snapshot.name), ALL)
    for s in sorted((s for s in settings if s.topology in names), key=lambda s: names.index(s.topology)):
        key = (s.name, tuple(s.of))
        if s.value is None and s.name in CONTROLS and key not in found:
            found[key] = _as_configured(config, key, "an operator's setting cannot be read")
        elif s.value is not None:
            value, changed = _into_range(config, s.name, s.value) if s.frozen and s.name in CONTROLS else (s.value, "")
            told = [f"{'frozen' if s.frozen else 'set'} by {s.by or 'somebody'}" + (f": {s.why}" if s.why else "")]
            offer(*key, value, "operator", "; ".join(told + [changed] * bool(changed)), word=not s.frozen)
    for name, value in _owner_wishes(snapshot):
        if name in config.history.owner_thresholds:
            offer(name, (), value, "owner", f"{OWNER_KEY} of the topology", word=True)
        else:
            refused.setdefault((name, ()), []).append("owner: history.owner_thresholds does not allow it")
    for entry, found_value in _usable(config, mined, now_ms):
        assert mined is not None
        value, changed = _into_range(config, entry.name, found_value)
        if entry.of and (entry.name, ()) in said:
            continue
        if entry.name == CPU_LIMIT_RATIO:
            value = min(value, config.decide.cpu_limit_ratio)
        text = _evidence(entry, mined, snapshot.id)
        offer(entry.name, tuple(entry.of), value, "mined", f"{text}; {changed}" if changed else text)
    for key, why in refused.items():
        if key[0] in CONTROLS:
            was = found.get(key) or _as_configured(config, key, "")
            text = "; ".join(t for t in (was.text, f"refused: {', '.join(why)}") if t)
            found[key] = msgspec.structs.replace(was, text=text)
    return found


def _usable(config: Config, mined: Thresholds | None, now_ms: int) -> Iterator[tuple[ThresholdEntry, float]]:
    if mined is None or not config.history.use_thresholds:
        return
    if too_old(mined, config.history, now_ms):
        return
    for entry in mined.entries:
        if entry.name in CONTROLS and entry.source == "mined" and entry.value is not None:
            yield entry, entry.value


def _into_range(config: Config, name: str, value: float) -> tuple[float, str]:
    """A mined number, or the nearer end of its range and a text that says so."""
    least, most = config.history.range_of(name)
    if least <= value <= most or not math.isfinite(value):
        return value, ""
    nearer = min(max(value, least), most)
    return nearer, f"{nearer:g} for {value:g}, which is outside {least:g} to {most:g} (history.ranges)"


def _evidence(entry: ThresholdEntry, mined: Thresholds, topology_id: str) -> str:
    days = (entry.to_ms - entry.from_ms) / DAY_MS
    of = "" if mined.topology_id == topology_id else f" of {mined.topology_id}"
    text = f"{entry.rows:,} rows of {days:.1f} days{of}"
    return f"{text}: {entry.text}" if entry.text else text


def _owner_wishes(snapshot: TopologySnapshot) -> list[tuple[str, Any]]:
    wishes = snapshot.config.get(OWNER_KEY)
    return sorted(wishes.items()) if isinstance(wishes, dict) else []


def _as_configured(config: Config, key: Key, text: str) -> ChosenThreshold:
    name, of = key
    return ChosenThreshold(name=name, of=list(of), value=configured(config, name), source="configured", text=text)


def _stricter(a: ChosenThreshold | None, b: ChosenThreshold) -> ChosenThreshold:
    """Of what two topologies say about one node: an operator's word, else the lower number."""
    if a is None:
        return b
    return min(a, b, key=lambda c: (c.source != "operator", c.value))


def _together(found: dict[Key, ChosenThreshold], config: Config) -> None:
    """Low must stay below high: where it does not, what somebody set holds, and the other one goes beside it.

    That is the configured number, or one as far from it as the configured ones are. Where neither was set, or both were
    by the same, both are as configured.
    """
    for names in (("otd.cpu_low", "otd.cpu_high"), ("otd.queue_low_tuples", "otd.queue_high_tuples")):
        pair = {n: found.get((n, ())) or _as_configured(config, (n, ()), "") for n in names}
        low, high = (pair[n].value for n in names)
        if low < high:
            continue
        refused = f"refused: {names[0]} of {low:g} is not below {names[1]} of {high:g}"
        kept, other = sorted(names, key=lambda n: RANKS[pair[n].source], reverse=True)
        value = configured(config, other)
        if RANKS[pair[kept].source] > RANKS[pair[other].source]:
            by, at = pair[kept].source, pair[kept].value
            usual = configured(config, kept)
            far = _into_range(config, other, at * value / usual if usual else value)[0]
            beside = next((v for v in (value, far) if (v < at if other == names[0] else v > at)), None)
            if beside is not None:
                source = "configured" if beside == value else by
                text = f"{refused}, {pair[kept].text}"
                found[other, ()] = ChosenThreshold(name=other, value=beside, source=source, text=text)
                continue
        found.update({(n, ()): _as_configured(config, (n, ()), refused) for n in names if (n, ()) in found})
