"""Whether anything may be done at all: pause, resume, mode."""

from __future__ import annotations

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import ModeSetting, PauseSetting
from stormpilot.messages.settings import ALL, setting_key
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator

MODES = ("off", "advise", "act")


def pause(operator: Operator, topology: str | None = None) -> Change:
    """Publish and apply nothing new (of one topology, or None: of all), until `resume`; what runs goes on."""
    name = operator.topology_name(topology)
    setting = PauseSetting(since_ms=operator.now_ms, by=operator.who, why=operator.why)
    text = f"{_words(name)}: paused"
    same = f"{_words(name)}: was paused already"
    key = setting_key(name)
    return operator.set("pause", name or ALL, operator.paths.pause(key), setting, text, same=same)


def resume(operator: Operator, topology: str | None = None) -> Change:
    """End a pause."""
    name = operator.topology_name(topology)
    text, same = f"{_words(name)}: resumed", f"{_words(name)}: was not paused"
    return operator.set("resume", name or ALL, operator.paths.pause(setting_key(name)), None, text, same=same)


def mode(operator: Operator, mode: str, topology: str | None = None) -> Change:
    """Set what the controller may do with a topology (None: with all that have no mode of their own).

    `default` takes the setting back: the owner's or `controller.yaml`'s mode holds again.
    """
    check_mode(mode)
    name = operator.topology_name(topology)
    if name is None and mode == "off":
        raise RefusedError(
            "off hands a topology back to Storm's own scheduler, one by name at a time; pause holds everything as it is"
        )
    setting = None
    if mode != "default":
        setting = ModeSetting(mode=mode, since_ms=operator.now_ms, by=operator.who, why=operator.why)  # type: ignore[arg-type]
    danger = "the controller may then move every topology that has no mode of its own"
    return operator.set(
        "mode",
        name or ALL,
        operator.paths.mode(setting_key(name)),
        setting,
        f"{_words(name)}: mode {mode}",
        danger=danger if name is None and mode == "act" else "",
        same=f"{_words(name)}: the mode was {mode} already",
    )


def check_mode(mode: str) -> None:
    """`UsageError` for what is no mode."""
    if mode not in (*MODES, "default"):
        raise UsageError(f"the mode is {mode!r}, expected off, advise, act or default")


def _words(name: str | None) -> str:
    return "everything" if name is None else name
