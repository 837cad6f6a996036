"""Whether anything may be done at all: pause, resume, mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from stormpilot.decide.policy import chosen_mode
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.settings import ALL, MODES, Mode, ModeSetting, PauseSetting, name_of_setting_key, setting_key
from stormpilot.observe.plausible import read_message
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator
from stormpilot.operate.parameters import AnyTopology, ModeWord
from stormpilot.printable import counted, listed
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths


def pause(operator: Operator, topology: AnyTopology = None) -> Change:
    """Publish and apply no new plan until `resume`; running workers are unaffected."""
    name = operator.topology_name(topology)
    setting = PauseSetting(since_ms=operator.now_ms, by=operator.who, why=operator.why)
    text = f"{_words(name)}: paused{operator.unknown(name)}"
    same = f"{_words(name)}: was paused already{operator.unknown(name)}"
    key = setting_key(name)
    return operator.set("pause", name or ALL, operator.paths.pause(key), setting, text, same=same)


def resume(operator: Operator, topology: AnyTopology = None) -> Change:
    """End a pause."""
    name = operator.topology_name(topology)
    rest = _still_paused(operator, name)
    by_name = " by its name" if rest and name is not None else ""
    same = f"{_words(name)}: was not paused{by_name}{rest or operator.unknown(name)}"
    path = operator.paths.pause(setting_key(name))
    return operator.set("resume", name or ALL, path, None, f"{_words(name)}: resumed{rest}", same=same)


def mode(operator: Operator, mode: ModeWord, topology: AnyTopology = None) -> Change:
    """Set what the controller may do with a topology, or with all that have no mode of their own.

    `default` takes the setting back: the owner's or `controller.yaml`'s mode holds again.
    """
    check_mode(mode)
    name = operator.topology_name(topology)
    if name is None and mode == "off":
        raise RefusedError("off is for one topology at a time, by its name; pause holds everything as it is")
    setting = None
    if mode != "default":
        setting = ModeSetting(mode=mode, since_ms=operator.now_ms, by=operator.who, why=operator.why)
    return operator.set(
        "mode",
        name or ALL,
        operator.paths.mode(setting_key(name)),
        setting,
        f"{_words(name)}: mode {mode}{operator.unknown(name)}",
        danger=_danger(operator, name, setting) if mode in ("act", "default") else "",
        same=f"{_words(name)}: the mode was {mode} already{operator.unknown(name)}",
    )


def _still_paused(operator: Operator, name: str | None) -> str:
    """The end of a sentence on a resumed topology (None: all) that another pause holds, or holds topologies of."""
    keys = set(operator.zookeeper.children([operator.paths.pause("")])[0])
    if name is not None:
        return f", but everything is paused, and so is {name}: `stormpilot resume` ends that" if ALL in keys else ""
    names = {name_of_setting_key(key) for key in keys - {ALL}}
    if not names:
        return ""
    which = counted(len(names), "topology is", "topologies are")
    return f", but {which} paused by name ({listed(names)}): `stormpilot resume NAME` ends that"


def _danger(operator: Operator, name: str | None, setting: ModeSetting | None) -> str:
    """Executors that mode act may move at once: executors of the proposals that wait, or else all of them.

    `setting`: the mode that is set for a topology (None: for all), or nothing where the one that was set is taken back.
    """
    seen = Reader(operator.zookeeper, operator.paths).read()
    modes = {k: m for k, m in seen.modes.items() if k != setting_key(name)}
    then = replace(seen, modes=modes | ({} if setting is None else {setting_key(name): setting}))
    parts, total = [], 0
    for snapshot in sorted(operator.topologies().values(), key=lambda s: s.name):
        before, after = (mode_of(at, snapshot.name, snapshot.id)[0] for at in (seen, then))
        if name not in (None, snapshot.name) or before == "act" or after != "act":
            continue
        proposal, _ = operator.read(operator.paths.proposal(snapshot.id), HistoryEntry)
        n = len(snapshot.executors) if proposal is None else proposal.moved_executors
        which = "" if proposal is None else f" (proposed plan {proposal.plan.plan_id})"
        parts.append(f"{n} of {counted(len(snapshot.executors), 'executor')} of {snapshot.name}{which}")
        total += n
    what = "every topology that no other mode names" if name is None else name
    if not total:
        return f"the controller may then move {what}" if name is None and setting is not None else ""
    more = f" and those of {counted(len(parts) - 5, 'more topology', 'more topologies')}" if len(parts) > 5 else ""
    return f"the controller may then move {what} at once: up to {', '.join(parts[:5])}{more}"


def pauses(zookeeper: ZooKeeper, paths: Paths, keys: Iterable[str]) -> dict[str, PauseSetting]:
    """Pauses by `setting_key`, with author and reason; a pause that cannot be read holds, and is left out."""
    wanted = {key: paths.pause(key) for key in sorted(keys)}
    found = {}
    for (key, path), node in zip(wanted.items(), zookeeper.read(list(wanted.values()), keep_denied=True), strict=True):
        with contextlib.suppress(UsageError):
            if node is not None:
                found[key] = read_message(node, PauseSetting, path)
    return found


def mode_of(seen: StoreSnapshot, name: str, topology_id: str) -> tuple[Mode | None, str | None]:
    """The mode of a topology and its source, by what operators have set by now; None: no controller has said its own.

    What the last cycle saw does not count: a mode that was set, or taken back, holds before the next one.
    """
    own, for_all = seen.mode_setting(name), seen.modes.get(ALL)
    if seen.controller is None or seen.controller.modes is None:  # of an older version: what its last cycle saw
        if (known := own or for_all) is not None:
            return known.mode, "operator" if own else "operator, for all"
        views = [] if seen.controller is None else seen.controller.topologies
        return next(((v.mode, v.mode_from) for v in views if v.id == topology_id), (None, None))
    snapshot = seen.topologies.get(topology_id)
    mode, source, note = chosen_mode(
        name,
        {} if snapshot is None else snapshot.config,
        seen.controller.modes,
        None if own is None else own.mode,
        None if for_all is None else for_all.mode,
    )
    return mode, source + (f"; {note}" if note else "")


def check_mode(mode: str) -> None:
    """`UsageError` for what is no mode."""
    if mode not in (*MODES, "default"):
        raise UsageError(f"the mode is {mode!r}, expected off, advise, act or default")


def _words(name: str | None) -> str:
    return "everything" if name is None else name
