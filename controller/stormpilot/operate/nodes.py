"""Nodes of a running cluster as sizes go by them: capacity as it was measured, and how fast a core is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from stormpilot.config import LoadSection
from stormpilot.errors import RefusedError
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.messages.load import TaskLoad
from stormpilot.model.values import Model
from stormpilot.observe.build import build
from stormpilot.observe.capacity import measured, remembered
from stormpilot.observe.core_mhz import MHZ_META, told_mhz
from stormpilot.observe.reader import Reader, StoreSnapshot


def measured_nodes(
    reader: Reader, seen: StoreSnapshot, cluster: ClusterSnapshot, load: LoadSection | None
) -> tuple[Model, dict[str, float]]:
    """The model of what runs, with the capacity of hosts as it was measured, and MHz of a core by supervisor.

    Capacity is that of what runs there now; of other hosts what the last controller knew. `RefusedError` where nobody
    knows how fast a core is.
    """
    loads: defaultdict[str, list[TaskLoad]] = defaultdict(list)
    for report in reader.read_loads(sorted(seen.topologies))[0]:
        loads[report.topology_id] += report.tasks
    before = {} if seen.controller is None else remembered(seen.controller.capacities, cluster.supervisors)
    hosts = before | measured(seen.topologies, loads, cluster.supervisors)
    model = build(cluster, seen.topologies, {}, load or LoadSection(), 1.0, 0, hosts=hosts).model
    return model, _mhz(seen, cluster, loads)


def _mhz(seen: StoreSnapshot, cluster: ClusterSnapshot, loads: Mapping[str, list[TaskLoad]]) -> dict[str, float]:
    """MHz of one core by supervisor, of unknown ones that of the fastest; `RefusedError` where none is known."""
    live = [s for s in cluster.supervisors if not s.blacklisted]
    known = told_mhz(live, seen.topologies, {i: [(t.task, t) for t in own] for i, own in loads.items()})
    if not known:
        raise RefusedError(
            f"no topology reports load and no supervisor declares {MHZ_META}, so that nobody knows how fast a core "
            "is: submit the topology with `stormpilot submit`, or turn the hook on (docs/guide/hook.md)"
        )
    return {s.id: known.get(s.id, max(known.values())) for s in live}
