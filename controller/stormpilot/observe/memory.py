"""Memory of executors: declared by their owner, or measured where nobody declared it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stormpilot.messages.core import ComponentPart, TopologySnapshot
from stormpilot.observe.storm_keys import declares_memory, resource_aware
from stormpilot.observe.task_rates import TaskRates
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.config.sections import LoadSection


def declared(snapshot: TopologySnapshot, component: ComponentPart, fallback: str) -> bool:
    """Whether somebody declared the memory of a component's executors, or Storm's default counts, as under RAS."""
    return resource_aware(fallback) or declares_memory(component.id, component.config, snapshot.config)


def memory_of(
    component: ComponentPart, is_declared: bool, tasks: Sequence[TaskRates], load: LoadSection
) -> tuple[float, str]:
    """Memory of an executor, MB, and where the number comes from: `declared`, `measured` or `unknown` (0, no limit).

    What somebody declared counts; else what is measured of all its `tasks`, unless `load.capacity` is `declared`.
    """
    if is_declared:
        return component.memory_mb, "declared"
    measured = [t.memory_mb for t in tasks if t.memory_mb is not None]
    if load.capacity != "declared" and measured and len(measured) == len(tasks):
        return sum(measured), "measured"
    return 0.0, "unknown"


def memory_in_words(memory: Mapping[str, Sequence[float]]) -> str:
    """`512 MB declared by 4 executors, 310 MB measured of 2`; what nobody knows is left out."""
    declared, measured = memory.get("declared", ()), memory.get("measured", ())
    parts = [f"{sum(declared):,.0f} MB declared by {counted(len(declared), 'executor')}"] if declared else []
    parts += [f"{sum(measured):,.0f} MB measured of {counted(len(measured), 'executor')}"] if measured else []
    return ", ".join(parts)
