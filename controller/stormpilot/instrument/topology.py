"""Adds the load stream and the collector to the Thrift structures of a topology: at submit, or by a decorator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from streamparse import Grouping
from streamparse.thrift import Bolt, ComponentCommon, ComponentObject, GlobalStreamId, ShellComponent, StreamInfo

from stormpilot.instrument.reporting import LOAD_STREAM

COLLECTOR_ID = "stormpilot-collector"
COLLECTOR_CLASS = "stormpilot.instrument.collector.LoadCollector"
COLLECTOR_CONFIG = {
    "stormpilot.role": "collector",
    "topology.tasks": 1,
    "topology.component.cpu.pcore.percent": 5.0,
}
"""The collector's own configuration: its role for the planner, one task whatever the topology says, little CPU."""
LOAD_FIELDS = ["load"]
_RUNNERS = ("streamparse_run", "stormpilot_run")

T = TypeVar("T", bound=type)


def python_components(topology: Any, runner: str | None = None) -> Iterator[tuple[str, Any, Any]]:
    """(id, `common`, `ShellComponent`) of the components of a `StormTopology` that a Python runner runs.

    `runner`: the command that runs them, where it has another name.
    """
    for components, attribute in ((topology.spouts, "spout_object"), (topology.bolts, "bolt_object")):
        for component_id, component in sorted(components.items()):
            shell = getattr(component, attribute).shell
            command = "" if shell is None else shell.execution_command or ""
            if command and (command == runner or any(known in command for known in _RUNNERS)):
                yield component_id, component.common, shell


def add_load_reporting(topology: Any, runner: str | None = None, script_arguments: str = "") -> list[str]:
    """Give every Python component the load stream and add the collector that hears it.

    Java components and other shells are left alone. Done twice, it changes nothing more.

    Parameters
    ----------
    topology
        A Thrift `StormTopology`; changed in place.
    runner
        Command that runs the collector; None takes that of the first Python component.
    script_arguments
        What stands before a class in the `script` of a component, as `-s json `.

    Returns
    -------
    list of str
        Ids of the components that report; empty (and no collector) where there is no Python component.

    Raises
    ------
    ValueError
        A stream or component of the user's has our name.
    """
    reporting = []
    for component_id, common, shell in python_components(topology, runner):
        if shell.script.endswith(COLLECTOR_CLASS):
            continue
        stream = common.streams.get(LOAD_STREAM)
        if stream is not None and (stream.output_fields != LOAD_FIELDS or stream.direct):
            raise ValueError(f"component {component_id!r} has a stream of its own named {LOAD_STREAM!r}")
        common.streams[LOAD_STREAM] = StreamInfo(output_fields=list(LOAD_FIELDS), direct=False)
        reporting.append(component_id)
        runner = runner or shell.execution_command
    if reporting:
        _add_collector(topology, reporting, str(runner), script_arguments)
    return reporting


def _add_collector(topology: Any, reporting: list[str], runner: str, script_arguments: str) -> None:
    known = topology.bolts.get(COLLECTOR_ID)
    if known is not None:
        shell = known.bolt_object.shell
        if shell is None or not shell.script.endswith(COLLECTOR_CLASS):
            raise ValueError(f"the topology has a component of its own named {COLLECTOR_ID!r}")
    if known is None and COLLECTOR_ID in topology.spouts:
        raise ValueError(f"the topology has a component of its own named {COLLECTOR_ID!r}")
    topology.bolts[COLLECTOR_ID] = known or Bolt(
        bolt_object=ComponentObject(
            shell=ShellComponent(execution_command=runner, script=f"{script_arguments}{COLLECTOR_CLASS}")
        ),
        common=ComponentCommon(
            inputs={}, streams={}, parallelism_hint=1, json_conf=json.dumps(COLLECTOR_CONFIG, sort_keys=True)
        ),
    )
    topology.bolts[COLLECTOR_ID].common.inputs = {
        GlobalStreamId(componentId=component_id, streamId=LOAD_STREAM): Grouping.GLOBAL for component_id in reporting
    }


def load_reporting(topology_class: T) -> T:
    """Class decorator of a streamparse `Topology` for people who keep `sparse submit`.

    Adds the load stream and the collector to what will be submitted. The component classes take the mixin by hand:
    one without it stays silent.
    """
    add_load_reporting(topology_class.thrift_topology)  # type: ignore[attr-defined]
    return topology_class
