"""The models that are planned: generated with a seed, kept as files, so that every contestant reads the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.planners import storm
from benchmarks.planners.rows import fingerprint
from stormpilot.generate.models import (
    Loaded,
    Planted,
    Production,
    Small,
    Unlike,
    loaded,
    planted,
    small,
    unlike,
    with_traffic,
)
from stormpilot.model.values import Assigned, Model, Plan

GENERATORS = ("controller/stormpilot/generate", "storm-plugin/storm-schedulers/src/main")
CLUSTERS = ("largeCluster01", "largeCluster02", "largeCluster03")


@dataclass(frozen=True)
class Instance:
    """A model by name; `hidden` is the file of the placement that a planted one hides."""

    name: str
    file: Path
    hidden: Path | None = None

    @cached_property
    def model(self) -> Model:
        """Read once."""
        return msgspec.json.decode(self.file.read_bytes(), type=Model)

    @property
    def executors(self) -> int:
        """Executors of all its topologies."""
        return sum(len(t.executors) for t in self.model.topologies)

    @property
    def hidden_plan(self) -> Plan:
        """The planted placement."""
        assert self.hidden is not None
        return msgspec.json.decode(self.hidden.read_bytes(), type=Plan)


class Instances:
    """Makes the files in `folder` where they are not there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"models-{fingerprint(GENERATORS)}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def small(self, number: int) -> Instance:
        """Up to 14 executors on up to 4 nodes."""
        return self._made(f"small-{number:03d}", lambda: small(Small(), np.random.default_rng([1, number])))

    def loaded(self, executors: int, topologies: int, load: float, seed: int) -> Instance:
        """Several topologies on a cluster that is full to `load`."""
        params = Loaded(executors=executors, topologies=topologies, load=load)
        name = f"loaded-{executors}x{topologies}-{load:g}-{seed}"
        return self._made(name, lambda: loaded(params, np.random.default_rng([2, executors, seed])))

    def running(self, of: Instance, name: str, plan: Callable[[], Plan]) -> Instance:
        """The same instance with the topologies running as a plan has placed them."""

        def make() -> Model:
            placed = {t.id: t for t in plan().topologies}
            return msgspec.structs.replace(
                of.model,
                topologies=[
                    msgspec.structs.replace(
                        t,
                        assignment=[
                            Assigned(start=start, supervisor=w.supervisor, port=w.port)
                            for w in placed[t.id].workers
                            for start, _ in w.executors
                        ],
                    )
                    for t in of.model.topologies
                ],
            )

        return self._made(f"{of.name}-{name}", make)

    def changed(self, of: Instance, part: float, seed: int) -> Instance:
        """The same instance after what that part of the executors send changed, to between a fifth and five times."""

        def make() -> Model:
            rng = np.random.default_rng([6, seed])
            factor = {
                (t.id, e.start): float(rng.uniform(0.2, 5.0)) if rng.random() < part else 1.0
                for t in of.model.topologies
                for e in t.executors
            }
            edges = [msgspec.structs.replace(e, rate=e.rate * factor[e.topology, e.from_]) for e in of.model.traffic]
            return msgspec.structs.replace(of.model, traffic=edges)

        return self._made(f"{of.name}-changed-{part:g}-{seed}", make)

    def unlike(self, params: Unlike, seed: int) -> Instance:
        """A cluster whose nodes differ."""
        name = f"unlike-{params.executors}x{params.topologies}-{params.load:g}-{seed}"
        return self._made(name, lambda: unlike(params, np.random.default_rng([5, params.executors, seed])))

    def of_file(self, name: str, data: bytes) -> Instance:
        """A model that somebody else made."""
        return self._made(f"given-{name}", lambda: msgspec.json.decode(data, type=Model))

    def planted(self, executors: int, seed: int) -> Instance:
        """A placement hidden in noise; 40 executors to a node, 10 pairs to an executor."""
        name = f"planted-{executors}-{seed}"
        hidden = self.folder / f"{name}.hidden.json"

        def make() -> Model:
            params = Planted(executors=executors, nodes=executors // 40)
            model, plan = planted(params, np.random.default_rng([3, executors, seed]))
            hidden.write_bytes(msgspec.json.encode(plan))
            return model

        return Instance(name, self._made(name, make).file, hidden)

    def production(self, cluster: str, seed: int) -> Instance:
        """A production cluster of Storm's test jar, running as Storm's RAS places it, with synthetic traffic."""
        bare = self.folder / f"{cluster}.bare.json"

        def make() -> Model:
            if not bare.exists():
                storm.export(cluster, bare)
            model = msgspec.json.decode(bare.read_bytes(), type=Model)
            return with_traffic(model, Production(), np.random.default_rng([4, seed]))

        return self._made(f"{cluster}-{seed}", make)

    def _made(self, name: str, make: Callable[[], Model]) -> Instance:
        file = self.folder / f"{name}.json"
        if not file.exists():
            data = msgspec.json.encode(make())
            part = file.with_suffix(".part")
            part.write_bytes(data)
            part.rename(file)
        return Instance(name, file)
