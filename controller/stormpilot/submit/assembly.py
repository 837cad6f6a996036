"""From a `Topology` class to the Thrift topology that is sent; the class itself stays as it was."""

from __future__ import annotations

import copy
from typing import Any

from streamparse.dsl.component import JavaComponentSpec, ShellComponentSpec
from streamparse.dsl.topology import Topology

from stormpilot.errors import UsageError
from stormpilot.instrument.topology import add_load_reporting, python_components


def has_java_components(topology_class: type[Topology]) -> bool:
    """Whether the topology needs a jar with classes."""
    return any(isinstance(spec, JavaComponentSpec) for spec in topology_class.specs)


def python_classes(topology_class: type[Topology]) -> dict[str, type]:
    """The class of each Python component, by the component's id."""
    specs = [s for s in topology_class.specs if isinstance(s, ShellComponentSpec)]
    return {s.name: s.component_cls for s in specs if isinstance(s.component_cls, type)}


def assemble(
    topology_class: type[Topology],
    environment: str,
    runner: str,
    serializer: str | None = None,
    instrument: bool = True,
    where: str = "topology",
) -> tuple[Any, list[str]]:
    """The `StormTopology` to submit, and the ids of the components that will report their load.

    Parameters
    ----------
    environment
        Name that parallelism dictionaries (`par={"prod": 3}`) are read by.
    runner
        Command that runs Python components on the worker hosts.
    serializer
        `json` or `msgpack`, passed to the runner; None leaves the runner's default.
    where
        Names the topology file in errors.
    """
    topology = copy.deepcopy(topology_class.thrift_topology)
    for component_id, component in [*topology.spouts.items(), *topology.bolts.items()]:
        component.common.parallelism_hint = _parallelism(
            component.common.parallelism_hint, environment, f"{where}: component {component_id}"
        )
    arguments = f"-s {serializer} " if serializer else ""
    for _, _, shell in python_components(topology):
        shell.execution_command = runner
        shell.script = arguments + shell.script
    if not instrument:
        return topology, []
    try:
        return topology, add_load_reporting(topology, runner, arguments)
    except ValueError as e:
        raise UsageError(f"{where}: {e}: rename it, or submit with --no-instrument") from e


def _parallelism(hint: Any, environment: str, where: str) -> Any:
    if not isinstance(hint, dict):
        return hint
    if environment not in hint:
        known = ", ".join(sorted(hint))
        raise UsageError(f"{where}: par has no entry for environment {environment!r} (it has: {known})")
    return hint[environment]
