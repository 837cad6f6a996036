"""Limits of where executors of a size may be, beside the room of the slots, and who has no size placed within them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.messages.core import Worker
from stormpilot.model.constraints import constrained
from stormpilot.model.values import Exclusion, Executor, Model, Plan, Topology, TopologyPlan
from stormpilot.model.violations import violations
from stormpilot.observe.settings import Settings
from stormpilot.sizing.carrying_out import Ranges

RULES = (
    "worker_heap_mb",
    "worker_executors",
    "apart",
    "all_apart",
    "shared_memory",
    "favored_nodes",
    "unfavored_nodes",
)
"""Fields of `Topology` that are rules of Storm's ResourceAwareScheduler."""


@dataclass(frozen=True)
class Limits:
    """Limits of where a running topology may be: its sites, drains, pins, exclusions, hosts of isolated topologies.

    Under Storm's ResourceAwareScheduler its rules too.
    """

    running: Topology
    exclusions: list[Exclusion]
    settings: Settings

    def bound(self, model: Model) -> Model:
        """The model of a size, of one topology, under these limits."""
        (sized,) = model.topologies
        own, known = self.running, {c.id: c for c in sized.components}
        components = [
            msgspec.structs.replace(
                known.get(c.id, c),
                site=c.site,
                site_required=c.site_required,
                heap_mb=c.heap_mb,
                resources=c.resources,
                most_per_node=c.most_per_node,
            )
            for c in own.components
        ]
        rules = {name: getattr(own, name) for name in RULES}
        t = msgspec.structs.replace(sized, id=own.id, name=own.name, components=components, **rules)
        model = msgspec.structs.replace(model, topologies=[t], exclusions=self.exclusions)
        s = self.settings
        return constrained(model, s.drains, s.pins, s.exclusions)

    def barred(self, model: Model) -> set[str]:
        """Supervisors on which nothing of the topology may run."""
        return {x.supervisor for x in self.bound(model).exclusions if x.component is None}


def with_the_rest(answer: tuple[Model, Plan], rest: Ranges, limits: Limits) -> list[Worker]:
    """The planned workers; executors without a size in the one whose executors need the least CPU, where they may be.

    Where they may be in none, a free slot of their own.

    Raises
    ------
    RefusedError
        They may be in none of them together.
    """
    model, plan = answer
    needs = {e.start: e.cpu_mhz for e in model.topologies[0].executors}
    workers = list(plan.topologies[0].workers)
    others = [Executor(start=start, end=end, component=c) for c, held in rest.items() for start, end in held]
    (sized,) = model.topologies
    whole = msgspec.structs.replace(sized, workers=len(workers) + 1, executors=[*sized.executors, *others])
    bound = limits.bound(msgspec.structs.replace(model, topologies=[whole]))
    used = {(w.supervisor, w.port) for w in workers}
    chances = sorted(workers, key=lambda w: sum(needs[start] for start, _ in w.executors))
    for s in model.supervisors:
        free = [port for port in s.slots if (s.id, port) not in used]
        chances += [Worker(supervisor=s.id, port=port, executors=[]) for port in free[:1]]
    for before in chances:
        after = msgspec.structs.replace(
            before, executors=sorted([*before.executors, *((e.start, e.end) for e in others)])
        )
        tried = [after if w is before else w for w in workers] + ([] if before.executors else [after])
        if not violations(bound, Plan(topologies=[TopologyPlan(id=sized.id, workers=tried)])):
            return tried
    raise RefusedError(
        f"{limits.running.name}: no worker of this size, and no free slot, is where sites, pins and exclusions allow "
        f"{', '.join(rest)}"
    )
