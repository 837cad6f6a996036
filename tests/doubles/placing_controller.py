"""A controller process whose planner places executors where a file says, so that a test knows what will move.

python -m doubles.placing_controller controller.yaml placement.json

The file: {"supervisor:port": ["component:n", ...]}, the n-th executor of a component from 0; what it does not name goes
to the first slot.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from stormpilot import logs
from stormpilot.config import load
from stormpilot.control import signals
from stormpilot.control.daemon import Daemon
from stormpilot.model.values import Model, Plan, Topology, TopologyPlan, Worker


def placed(topology: Topology, wanted: dict[str, list[str]]) -> TopologyPlan:
    """Where the file wants it."""
    slots = list(wanted)
    slot_of = {name: slot for slot, names in wanted.items() for name in names}
    numbers: defaultdict[str, int] = defaultdict(int)
    members: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for e in sorted(topology.executors, key=lambda e: e.start):
        name = f"{e.component}:{numbers[e.component]}"
        numbers[e.component] += 1
        members[slot_of.get(name, slots[0])].append((e.start, e.end))
    workers = []
    for slot, executors in sorted(members.items()):
        supervisor, _, port = slot.rpartition(":")
        workers.append(Worker(supervisor=supervisor, port=int(port), executors=executors))
    return TopologyPlan(id=topology.id, workers=workers)


def main() -> None:
    config, file = Path(sys.argv[1]), Path(sys.argv[2])

    def compute(model: Model, planner: str, params: object, **_: Any) -> Plan:
        wanted = json.loads(file.read_text())
        return Plan(planner=planner, topologies=[placed(t, wanted) for t in model.topologies])

    logs.configure("info")
    signals.run(Daemon(load(config), compute, "online", "default"))


if __name__ == "__main__":
    main()
