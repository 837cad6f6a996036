"""Policy of a topology (mode, approval): operators' settings, then its owner within limits, then the defaults.

    stormpilot mode X NAME > stormpilot mode X --all > decide.modes[NAME] > the owner > decide.mode

Owners speak through their topology's own configuration: `stormpilot.mode` (off, advise, act; one that
`decide.owner_modes` lists), `stormpilot.approval` (true: what moves running executors waits for an operator),
`stormpilot.priority` (an int as `topology.priority`: 0 is the most important).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stormpilot.messages.controller_state import ConfiguredModes
from stormpilot.messages.settings import MODES, Mode
from stormpilot.model.bounds import MOST_INT

if TYPE_CHECKING:
    from stormpilot.config import DecideSection

MODE_KEY = "stormpilot.mode"
APPROVAL_KEY = "stormpilot.approval"
PRIORITY_KEY = "stormpilot.priority"


@dataclass(frozen=True)
class Policy:
    """The policy of a topology; `mode_from` is the source of the mode, `note` names the owner's refused wishes."""

    mode: Mode
    mode_from: str
    approval: bool
    note: str = ""


def policy(
    name: str, conf: Mapping[str, Any], config: DecideSection, setting: Mode | None, setting_for_all: Mode | None
) -> Policy:
    """The policy of a topology with the configuration `conf`."""
    mode, source, note = chosen_mode(name, conf, configured_modes(config), setting, setting_for_all)
    asked, _ = _owner_approval(conf)
    approval = asked or any(fnmatch.fnmatchcase(name, p) for p in config.approve)
    return Policy(mode, source, approval, note)


def owner_priority(conf: Mapping[str, Any], default: int) -> int:
    """The priority that the owner asks for in the topology's configuration, else Storm's own; 0 is most important."""
    value, _ = _owner_priority(conf)
    return default if value is None else value


def chosen_mode(
    name: str, conf: Mapping[str, Any], modes: ConfiguredModes, setting: Mode | None, setting_for_all: Mode | None
) -> tuple[Mode, str, str]:
    """The mode of a topology with the configuration `conf`, its source, and which of the owner's wishes are refused."""
    asked, refused = _owner_mode(conf, modes.owner_modes)
    wants = [
        (setting, "operator"),
        (setting_for_all, "operator, for all"),
        (modes.by_name.get(name), "controller.yaml: decide.modes"),
        (asked, f"owner: {MODE_KEY}"),
        (modes.mode, "controller.yaml: decide.mode"),
    ]
    mode, source = next((m, s) for m, s in wants if m is not None)
    notes = (refused, _owner_approval(conf)[1], _owner_priority(conf)[1])
    return mode, source, "; ".join(n for n in notes if n)


def configured_modes(config: DecideSection) -> ConfiguredModes:
    """The part of the configuration that says modes, for the plug-in: with settings it decides as `policy` does."""
    return ConfiguredModes(mode=config.mode, by_name=config.modes, owner_modes=list(config.owner_modes))


def _owner_mode(conf: Mapping[str, Any], may: Collection[str]) -> tuple[Mode | None, str]:
    value = conf.get(MODE_KEY)
    if value is None:
        return None, ""
    if value is False:  # YAML 1.1 reads an unquoted `off` so
        value = "off"
    for mode in MODES:
        if value == mode:
            if mode in may:
                return mode, ""
            allowed = ", ".join(may) or "none"
            return None, f"the owner asks for mode {mode}, which decide.owner_modes does not allow ({allowed})"
    return None, f"{MODE_KEY} is {value!r}, expected off, advise or act"


def _owner_approval(conf: Mapping[str, Any]) -> tuple[bool, str]:
    value = conf.get(APPROVAL_KEY)
    text = str(value).strip().lower()  # "true" as for the hook's keys: Java's owners put texts
    if value is None or text in ("true", "false"):
        return text == "true", ""
    return True, f"{APPROVAL_KEY} is {value!r}, expected true or false: moves wait for an operator"


def _owner_priority(conf: Mapping[str, Any]) -> tuple[int | None, str]:
    value = conf.get(PRIORITY_KEY)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_INT):
        return value, ""
    return None, f"{PRIORITY_KEY} is {value!r}, expected an integer from 0 to {MOST_INT}: topology.priority holds"
