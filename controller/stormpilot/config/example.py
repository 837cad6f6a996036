"""A controller.yaml with all settings that are not advanced, default and meaning: `stormpilot config example`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from stormpilot.config.options import Option, options_of
from stormpilot.config.sections import Config

WIDTH = 110
HEAD = """\
# The controller of stormpilot. Every setting is here with its default, except the advanced ones, and except
# `traffic_log.dir`: without that line nothing that is measured is kept, and there is no trial run, no mining and no
# audit file. Leave out what you do not change. `stormpilot config explain [KEY]` has all settings with range and
# meaning, and what needs a restart.
# Check the file with `stormpilot config check controller.yaml`, run it with `stormpilot run controller.yaml`; a running
# controller reloads it on SIGHUP.
"""
SUGGESTED: dict[str, Any] = {"traffic_log.dir": "/var/lib/stormpilot/traffic"}
"""Values of the example that differ from the defaults."""


def example() -> str:
    """The file."""
    return HEAD + "".join(_section(name) for name in Config.__struct_fields__ if _shown(name))


def yaml_text(value: Any) -> str:
    """A value as it is written in controller.yaml, in one line; empty for none."""
    if value is None:
        return ""
    plain = msgspec.to_builtins(value)
    plain = int(plain) if isinstance(plain, float) and plain == int(plain) else plain
    text = yaml.safe_dump(plain, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("...").strip()


def _kind(section: str) -> type[Any]:
    return type(getattr(Config(), section))


def _shown(section: str) -> list[Option]:
    return [o for o in options_of(_kind(section)) if not o.advanced]


def _section(name: str) -> str:
    about = " ".join((_kind(name).__doc__ or "").partition("\n")[0].split())
    return "\n".join(["", f"# {about}", f"{name}:", *(line for o in _shown(name) for line in _lines(name, o)), ""])


def _lines(section: str, option: Option) -> Iterator[str]:
    unit = f" ({option.unit})" if option.unit else ""
    for line in textwrap.wrap(f"{option.meaning}{unit}", WIDTH):
        yield f"  # {line}"
    key = f"{section}.{option.name}"
    yield f"  {option.name}: {yaml_text(SUGGESTED.get(key, option.default))}".rstrip()
