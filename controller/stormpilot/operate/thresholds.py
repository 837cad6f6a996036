"""Thresholds as operators want them: set, freeze what was mined, unset; and what holds now."""

from __future__ import annotations

import contextlib

import msgspec

from stormpilot.config import Config
from stormpilot.config.options import broken_range
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.settings import ALL, ThresholdSetting, name_of_setting_key, setting_key
from stormpilot.messages.thresholds import CONTROLS, CPU_LIMIT_RATIO, OVERLOAD_S, ThresholdEntry, Thresholds
from stormpilot.observe.reader import Reader
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator
from stormpilot.operate.parameters import AnyTopology, ThresholdName, ThresholdOf, ThresholdValue, TopologyName
from stormpilot.operate.places import supervisor_named
from stormpilot.tuning.effective_thresholds import choose, configured, refusal, thresholds_of


class ShownThreshold(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold of a topology: what holds, where it comes from, and what was mined (null: nothing)."""

    name: str
    of: list[str]
    value: float | None
    source: str
    text: str
    mined: float | None = None


def set_threshold(
    operator: Operator, topology: AnyTopology, name: ThresholdName, value: ThresholdValue, of: ThresholdOf = None
) -> Change:
    """Set a threshold of a topology until `unset`, regardless of what is mined.

    Raises
    ------
    UsageError
        The name is no threshold, `of` is missing where it takes one, or the setting can never be that number.
    """
    key = [supervisor_named(operator, of).id for of in _checked(name, of)]
    section, _, field = name.partition(".")
    expected = broken_range(type(getattr(Config(), section)), field, value)
    if expected is not None:
        raise UsageError(f"{name} is {value:g}, expected {expected}")
    unusual = refusal(Config(), name, value)
    danger = f"{unusual}: the controller refuses it unless its own history.ranges allows it" if unusual else ""
    setting = ThresholdSetting(
        topology=setting_key(operator.topology_name(topology)),
        name=name,
        of=key,
        value=value,
        since_ms=operator.now_ms,
        by=operator.who,
        why=operator.why,
    )
    what, unknown = _what(setting), operator.unknown(None if topology is None else operator.topology_name(topology))
    text, same = f"{what} is {value:g} from now on{unknown}", f"{what} was {value:g} already{unknown}"
    path = operator.paths.threshold_setting(setting.key)
    return operator.set("thresholds set", _target(setting), path, setting, text, danger=danger, same=same)


def freeze_threshold(operator: Operator, topology: TopologyName, name: ThresholdName, of: ThresholdOf = None) -> Change:
    """Keep a mined threshold as it is until `unset`, regardless of what is mined later.

    A proposed one is in force from then on.
    """
    key = _checked(name, of)
    known = {(e.name, *e.of): e for e in mined_entries(operator, topology, ("mined", "proposed"))}
    if (name, *key) not in known:
        key = _by_host(operator, key)
    entry = known.get((name, *key))
    if entry is None or entry.value is None:
        raise RefusedError(f"{topology}: {name} was not mined, there is nothing to freeze")
    setting = ThresholdSetting(
        topology=setting_key(operator.topology_name(topology)),
        name=name,
        of=key,
        value=entry.value,
        frozen=True,
        since_ms=operator.now_ms,
        by=operator.who,
        why=operator.why,
    )
    what = _what(setting)
    text, same = f"{what} stays {entry.value:g}", f"{what} was frozen at {entry.value:g} already"
    path = operator.paths.threshold_setting(setting.key)
    return operator.set("thresholds freeze", _target(setting), path, setting, text, same=same)


def unset_threshold(operator: Operator, topology: AnyTopology, name: ThresholdName, of: ThresholdOf = None) -> Change:
    """Remove what was set or frozen: the mined threshold holds again, else the configured one."""
    setting = ThresholdSetting(topology=setting_key(operator.topology_name(topology)), name=name, of=_checked(name, of))
    path = operator.paths.threshold_setting(setting.key)
    if operator.zookeeper.read([path]) == [None]:
        setting = msgspec.structs.replace(setting, of=_by_host(operator, setting.of))
        path = operator.paths.threshold_setting(setting.key)
    text, same = f"{_what(setting)} is mined or configured again", f"{_what(setting)} was not set"
    return operator.set("thresholds unset", _target(setting), path, None, text, same=same)


def _by_host(operator: Operator, of: list[str]) -> list[str]:
    """The supervisor of a host instead of the host; what names none that is there stays, for it may be gone."""
    with contextlib.suppress(RefusedError):
        return [supervisor_named(operator, name).id for name in of]
    return of


def mined_entries(
    operator: Operator, topology: str, sources: tuple[str, ...] = ("mined",), of: str | None = None
) -> list[ThresholdEntry]:
    """The thresholds that were mined of a topology and that the controller uses; empty without any.

    With `of` those of this supervisor (its id, or its host where it has one) alone.
    """
    name = operator.topology_name(topology)
    seen = Reader(operator.zookeeper, operator.paths).read()
    mined = [m for m in seen.thresholds.values() if topology == m.topology_id or name == m.topology_name]
    newest = max(mined, key=lambda m: m.mined_at_ms, default=None)
    found = [] if newest is None else [e for e in newest.entries if e.name in CONTROLS and e.source in sources]
    wanted = None if of is None else _by_host(operator, [of])
    return [e for e in found if wanted is None or list(e.of) == wanted]


def shown_thresholds(
    operator: Operator, topology: str, config: Config | None = None
) -> tuple[list[ShownThreshold], Thresholds | None, str]:
    """Thresholds in force for a running topology, all that was mined of it, and the text on replay's recommendation.

    What the leading controller says counts; without one it is worked out from `config`. The configured number is known
    only with `config`.
    """
    snapshot = operator.topology(topology)
    seen = Reader(operator.zookeeper, operator.paths).read()
    mined = thresholds_of(snapshot, seen.thresholds)
    state: ControllerState | None = seen.controller
    view = None if state is None else next((v for v in state.topologies if v.id == snapshot.id), None)
    if view is None or not seen.contenders:
        from stormpilot.tuning.recommendation import recommended  # it loads the planners

        used = config or Config()
        topologies = {**seen.topologies, snapshot.id: snapshot}  # of what several say of a node the lowest holds
        in_use = choose(used, topologies, seen.thresholds, seen.settings.thresholds, operator.now_ms)
        holding = [
            in_use.cpu_limit.get("".join(c.of), c) if c.name == CPU_LIMIT_RATIO else c
            for c in in_use.chosen.get(snapshot.id, {}).values()
        ]
        _, recommendation = recommended(used, mined, operator.now_ms)
    else:
        holding, recommendation = view.thresholds, view.recommendation
    entries = {} if mined is None else {(e.name, tuple(e.of)): e for e in mined.entries if e.name in CONTROLS}
    rows = [
        ShownThreshold(
            name=c.name,
            of=c.of,
            value=c.value,
            source=c.source,
            text=c.text,
            mined=entries[c.name, tuple(c.of)].value if (c.name, tuple(c.of)) in entries else None,
        )
        for c in holding
    ]
    known = {(r.name, tuple(r.of)) for r in rows}
    for name in CONTROLS:
        for key, entry in entries.items():
            if key[0] == name and key not in known and entry.source in ("default", "proposed"):
                rows.append(_as_configured(config, name, list(key[1]), entry.text))
                known.add(key)
        if not any(k[0] == name for k in known):
            rows.append(_as_configured(config, name, [], ""))
    return sorted(rows, key=lambda r: (CONTROLS.index(r.name), r.of)), mined, recommendation


def _as_configured(config: Config | None, name: str, of: list[str], text: str) -> ShownThreshold:
    value = None if config is None else configured(config, name)
    return ShownThreshold(name=name, of=of, value=value, source="configured", text=text)


def _checked(name: str, of: str | None) -> list[str]:
    if name not in CONTROLS:
        raise UsageError(f"{name!r} is no threshold, expected one of {', '.join(CONTROLS)}")
    if of is not None and name not in (CPU_LIMIT_RATIO, OVERLOAD_S):
        raise UsageError(f"{name} is of a topology, not of a supervisor: leave --of out")
    if of is None and name == CPU_LIMIT_RATIO:
        raise UsageError(f"{name} is of a supervisor: name it with --of (for all, it is set in controller.yaml)")
    return [] if of is None else [of]


def _what(setting: ThresholdSetting) -> str:
    return f"{_target(setting)}: {' of '.join([setting.name, *setting.of])}"


def _target(setting: ThresholdSetting) -> str:
    return "everything" if setting.topology == ALL else name_of_setting_key(setting.topology)
