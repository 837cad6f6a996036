"""`stormpilot config explain`: every setting of controller.yaml with default, unit, range and meaning."""

from __future__ import annotations

import difflib
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from stormpilot.cli.output import Format, FormatOption, console, print_json, say
from stormpilot.config.renamed import RENAMED
from stormpilot.errors import UsageError

if TYPE_CHECKING:
    from stormpilot.config.options import Option

WIDEST = 100


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `required` ones have no default; `needs_restart`: a reload (SIGHUP) does not apply it.

    `advanced`: few installations change it; the example file leaves it out.
    """

    key: str
    type: str
    default: Any
    required: bool
    unit: str
    range: str
    meaning: str
    needs_restart: bool
    advanced: bool


def explain(
    key: Annotated[str | None, typer.Argument(help="A setting (decide.mode, or mode) or a section (decide).")] = None,
    format: FormatOption = Format.table,
) -> None:
    """Explain the settings of controller.yaml: default, range, unit and meaning."""
    shown = matching(settings(), key)
    if format is Format.json:
        print_json(shown)
        return
    section = None
    for s in shown:
        if s.key.partition(".")[0] != section:
            if section is not None:
                say("")
            section = s.key.partition(".")[0]
            say(f"{section}: {about(section)}")
        _say(s)


def about(section: str) -> str:
    """Purpose of a section: the first sentence of its class."""
    from stormpilot.config import Config

    return (type(getattr(Config(), section)).__doc__ or "").strip().partition("\n")[0]


def settings() -> list[Setting]:
    """All of them, in the order of the file; those of a blackout after the list that they are in."""
    from stormpilot.config import BlackoutWindow, Config
    from stormpilot.config.options import options_of

    config, found = Config(), []
    for section in config.__struct_fields__:
        for o in options_of(type(getattr(config, section))):
            found.append(_setting(f"{section}.{o.name}", o))
            if found[-1].key == "decide.blackouts":
                found += [_setting(f"decide.blackouts.{b.name.rstrip('_')}", b) for b in options_of(BlackoutWindow)]
    return found


def matching(known: list[Setting], key: str | None) -> list[Setting]:
    """Those of that key, of that section or of that name; `UsageError` names the nearest."""
    if key is None:
        return known
    if key in RENAMED:
        raise UsageError(f"{key} is now {RENAMED[key]}")
    found = [s for s in known if s.key == key or s.key.startswith(f"{key}.")]
    found = found or [s for s in known if key in s.key.split(".")[1:]]
    if found:
        return found
    keys = [s.key for s in known]
    by_name = {k.rpartition(".")[2]: k for k in reversed(keys)}
    sections = [k.partition(".")[0] for k in keys]
    near = difflib.get_close_matches(key, [*keys, *by_name, *sections], n=1)
    hint = (
        f"did you mean {by_name.get(near[0], near[0])}?" if near else f"sections: {', '.join(dict.fromkeys(sections))}"
    )
    raise UsageError(f"{key}: unknown setting; {hint}")


def _setting(key: str, o: Option) -> Setting:
    from stormpilot.config.reload import needs_restart

    required = o.default is msgspec.NODEFAULT
    return Setting(
        key=key,
        type=o.type,
        default=None if required else o.default,
        required=required,
        unit=o.unit,
        range=o.range,
        meaning=o.meaning,
        needs_restart=needs_restart(key),
        advanced=o.advanced,
    )


def _say(s: Setting) -> None:
    """A line with default, range and unit, then what it means."""
    value = "required" if s.required else msgspec.json.encode(s.default).decode()
    what = ", ".join(w for w in (s.range or s.type, s.unit) if w)
    what += "; needs a restart" * s.needs_restart + "; advanced" * s.advanced
    say(f"  {s.key}: {'none' if value == 'null' else value}  ({what})")
    for line in textwrap.wrap(s.meaning, min(console.width, WIDEST) - 6):
        say(f"      {line}")
