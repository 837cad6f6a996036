"""Clusters whose nodes differ: small and large ones side by side, few slots, memory that binds, sites.

What such a cluster asks of a planner is which topology gets the large nodes. On alike nodes (`loaded.py`) that question
does not arise.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.generate.models.loaded import ATTEMPTS, check_load, fits, topology_of
from stormpilot.model.compiled import Floats
from stormpilot.model.values import Component, Edge, Model, Supervisor, Topology

CLOCKS_MHZ = (2000.0, 2400.0, 3000.0)
MOST_AT_SITE = 0.5  # of the CPU of a site's nodes, that executors which ask for the site may need


@dataclass(frozen=True)
class Unlike:
    """Parameters of `unlike`.

    `load`, `memory_load`: demand as a part of all CPU, and of all memory. `spread`: CPU of the largest node / that of
    the smallest. `slots`: of a node, drawn once for each. `slots_wanted`: workers of all topologies as a part of all
    slots. `skew`: how unequal topologies are (0: about alike; 1: the largest may be ten times the smallest).
    `sites`: besides the nodes without a site, so many that one component each must run at, on `site_share` of the
    nodes together. `nodes`: None = one for 25 executors. `fan_out`: most targets of an executor on one stream.
    """

    executors: int = 1000
    topologies: int = 6
    load: float = 0.5
    memory_load: float = 0.4
    spread: float = 6.0
    slots: tuple[int, ...] = (4, 6)
    slots_wanted: float = 0.55
    skew: float = 0.8
    sites: int = 0
    site_share: float = 0.2
    nodes: int | None = None
    nodes_per_rack: int = 8
    ackers: float = 0.5
    fan_out: int | None = None

    def __post_init__(self) -> None:
        if self.topologies < 1 or self.executors < 6 * self.topologies:
            raise UsageError(
                f"--executors is {self.executors}, expected at least 6 for each of {self.topologies} topologies"
            )
        check_load(self.load)
        check_load(self.memory_load, "--memory-load", "memory")
        if not 1.0 <= self.spread <= 100.0:
            raise UsageError(f"--spread is {self.spread}, expected the largest node / the smallest, from 1 to 100")
        if not self.slots or min(self.slots) < 1:
            raise UsageError(f"--slots is {min(self.slots, default=0)}, expected at least 1 per node")
        if not 0.0 < self.slots_wanted <= 0.9:
            raise UsageError(f"slots_wanted is {self.slots_wanted}, expected a part above 0, at most 0.9")
        if not 0.0 <= self.skew <= 1.0:
            raise UsageError(f"skew is {self.skew}, expected 0 to 1")
        if self.sites < 0 or not 0.0 < self.site_share < 1.0:
            raise UsageError(
                f"--sites is {self.sites} and site_share {self.site_share}, expected at least 0, and between 0 and 1"
            )
        if self.node_count < 2 or (self.sites and int(self.node_count * self.site_share) < self.sites):
            each = f", and {1 / self.site_share:g} for each site" if self.sites else ""
            raise UsageError(f"--nodes is {self.node_count}, expected at least 2{each}")

    @property
    def node_count(self) -> int:
        """Nodes."""
        return self.nodes if self.nodes is not None else max(round(self.executors / 25), 2)


def unlike(params: Unlike, rng: np.random.Generator) -> Model:
    """A cluster of unlike nodes that its topologies fill to `params.load`; a simple packing holds them (`fits`)."""
    load = params.load
    for _ in range(ATTEMPTS):
        slots = rng.choice(np.array(params.slots), size=params.node_count)
        per_worker = params.executors / max(params.slots_wanted * float(slots.sum()), 1.0)
        made = [
            topology_of(i, size, per_worker, params.ackers, CLOCKS_MHZ[1], params.fan_out, rng)
            for i, size in enumerate(_sizes(params, rng))
        ]
        topologies = [t for t, _ in made]
        supervisors = _nodes(params, topologies, load, slots.tolist(), rng)
        sited = _with_sites(topologies, supervisors, rng)
        if sited is None:
            continue
        edges: list[Edge] = [e for _, es in made for e in es]
        model = Model(supervisors=supervisors, topologies=sited, traffic=edges)
        if fits(model):
            return model
        load *= 0.97
    fewer = ", or for fewer sites" if params.sites else ""
    raise UsageError(f"no cluster that fits was found in {ATTEMPTS} attempts: ask for less load or more slots{fewer}")


def _sizes(params: Unlike, rng: np.random.Generator) -> list[int]:
    """Executors per topology, at least 6 each."""
    share = np.exp(rng.uniform(-1.15, 1.15, params.topologies) * params.skew)
    extra = rng.multinomial(params.executors - 6 * params.topologies, share / share.sum())
    return [6 + int(x) for x in extra]


def _nodes(
    params: Unlike, topologies: list[Topology], load: float, slots: list[int], rng: np.random.Generator
) -> list[Supervisor]:
    """Nodes whose CPU is spread evenly on a logarithmic scale, and memory with it."""
    n = params.node_count
    size: Floats = params.spread ** rng.random(n)
    size[: min(n, 2)] = (1.0, params.spread)[: min(n, 2)]
    size = rng.permutation(size)
    share = size / size.sum()
    mhz = sum(e.cpu_mhz for t in topologies for e in t.executors) / load
    memory_mb = sum(e.memory_mb for t in topologies for e in t.executors) / params.memory_load
    at_sites = int(n * params.site_share) if params.sites else 0
    site = [f"site-{i % params.sites}" if i < at_sites else None for i in range(n)]
    nodes = []
    for i, s in enumerate(rng.permutation(n).tolist()):
        clock = float(rng.choice(CLOCKS_MHZ))
        nodes.append(
            Supervisor(
                id=f"n{i:03d}",
                host=f"h{i:03d}",
                rack=f"/r{i // params.nodes_per_rack}",
                site=site[s],
                slots=[6700 + p for p in range(slots[i])],
                cores=round(float(share[i]) * mhz / clock, 3),
                mhz=clock,
                memory_mb=round(float(share[i] * rng.uniform(0.85, 1.15)) * memory_mb),
            )
        )
    return nodes


def _with_sites(
    topologies: list[Topology], supervisors: list[Supervisor], rng: np.random.Generator
) -> list[Topology] | None:
    """For every site one component that must run there and that its nodes have room for; None where none has."""
    changed = list(topologies)
    for site in sorted({s.site for s in supervisors if s.site is not None}):
        room_mhz = MOST_AT_SITE * sum(s.limit_mhz for s in supervisors if s.site == site)
        room_mb = MOST_AT_SITE * sum(s.memory_mb for s in supervisors if s.site == site)
        for t in rng.permutation(len(changed)).tolist():
            fitting = [c for c in changed[t].components if _fits_at(changed[t], c, room_mhz, room_mb)]
            if fitting:
                chosen = fitting[int(rng.integers(len(fitting)))]
                components = [
                    msgspec.structs.replace(c, site=site) if c.id == chosen.id else c for c in changed[t].components
                ]
                changed[t] = msgspec.structs.replace(changed[t], components=components)
                break
        else:
            return None
    return changed


def _fits_at(topology: Topology, component: Component, room_mhz: float, room_mb: float) -> bool:
    own = [e for e in topology.executors if e.component == component.id]
    enough = sum(e.cpu_mhz for e in own) <= room_mhz and sum(e.memory_mb for e in own) <= room_mb
    return enough and component.site is None and component.kind != "system"
