"""`stormpilot_run`: runs a component as `streamparse_run` does, with load reporting added to it.

Same contract: `stormpilot_run [-s json|msgpack] module.Class`, all in one argument as Storm passes it or in several;
modules are imported from the directory that Storm unpacked the jar into.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pystorm.bolt import Bolt
from pystorm.component import _SERIALIZERS
from pystorm.spout import Spout

from stormpilot.instrument.reporting import OURS, LoadReporting, SpoutLoadReporting

RESOURCES = "resources"


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the console script."""
    arguments = _parse(sys.argv[1:] if argv is None else argv)
    stdout, protocol_fd = sys.stdout, _take_stdout()
    component = _import_class(arguments.target_class)(serializer=arguments.serializer)
    _give_stdout(component, protocol_fd)
    if sys.stdout is stdout:  # else the component has sent its prints elsewhere
        sys.stdout = sys.stderr
    with_reporting(component)
    component.run()


def with_reporting(component: Any) -> None:
    """Give a component what the mixin of its kind has, where its class has not got it.

    To the object, not to a class derived from its own: code that asks for its class finds the one that was written.
    """
    mixin = LoadReporting if isinstance(component, Bolt) else SpoutLoadReporting
    if not isinstance(component, Bolt | Spout) or isinstance(component, mixin):
        return
    try:
        for name in (n for n in dir(mixin) if n.startswith(OURS)):
            value = getattr(mixin, name)
            setattr(component, name, types.MethodType(value, component) if callable(value) else value)
        set_up = component._setup_component

        def set_up_and_begin(storm_conf: dict[str, Any], context: dict[str, Any]) -> None:
            set_up(storm_conf, context)
            component._stormpilot_begin(storm_conf, context)

        component._setup_component = set_up_and_begin
    except Exception as e:  # noqa: BLE001 (a component may refuse attributes)
        print(f"stormpilot: {type(component).__name__} runs without load reporting: {e!r}", file=sys.stderr)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stormpilot_run", description=__doc__)
    parser.add_argument("target_class", help="the bolt or spout to run, as module.Class")
    parser.add_argument("-s", "--serializer", choices=sorted(_SERIALIZERS), default="json")
    if len(argv) == 1:
        argv = argv[0].split()
    arguments = parser.parse_args(argv)
    if "." not in arguments.target_class:
        parser.error(f"{arguments.target_class!r} is not of the form module.Class")
    return arguments


def _import_class(target: str) -> type:
    module_name, class_name = target.rsplit(".", 1)
    here = Path.cwd()
    if (here / RESOURCES / (module_name.replace(".", os.sep) + ".py")).is_file():
        here = here / RESOURCES
    sys.path.append(str(here))
    component_class: type = getattr(importlib.import_module(module_name), class_name)
    return component_class


def _take_stdout() -> int:
    """Make stdout (fd 1) a second stderr before any code of the user's runs, and return the pipe to Storm.

    So neither a print, nor a C library, nor a child process that inherits stdout can write into the protocol.
    """
    sys.stdout.flush()
    protocol_fd = os.dup(1)
    os.dup2(2, 1)
    return protocol_fd


def _give_stdout(component: Any, protocol_fd: int) -> None:
    """Let the component's serializer, which wrapped stdout at its construction, write to the pipe to Storm."""
    serializer = component.serializer
    wrapped = serializer.output_stream
    try:
        on_stdout = wrapped.fileno() == 1
    except (OSError, ValueError, AttributeError):
        on_stdout = False
    if not on_stdout:  # streams of its own: leave everything as it was
        os.dup2(protocol_fd, 1)
        os.close(protocol_fd)
    elif isinstance(wrapped, io.TextIOBase):
        serializer.output_stream = os.fdopen(protocol_fd, "w", encoding="utf-8")
        if wrapped is not sys.stdout and isinstance(wrapped, io.TextIOWrapper):
            wrapped.flush()
            wrapped.detach()  # its end would close fd 1
    else:
        serializer.output_stream = os.fdopen(protocol_fd, "wb")


if __name__ == "__main__":
    main()
