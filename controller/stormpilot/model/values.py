"""The planning model and the plan: what every planner reads and returns (`model.json`, `plan.json`).

Units: `rate` tuples/s, `cpu_mhz` MHz = (CPU seconds per second) x (MHz of one core of the node measured on),
`memory_mb` MB, `cores` whole or fractional cores, `mhz` MHz of one core. An executor is named by its first task
(`start`), unique within its topology; a slot is (supervisor id, port).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from stormpilot.messages.core import Worker as Worker  # a worker of a plan is the same value in a message

Kind = Literal["spout", "bolt", "system"]
DEFAULT_RACK = "/default-rack"
"""Storm's rack of every host without a topography plug-in; network cost goes by `rack` of `supervisor.scheduler.meta`
then.
"""
LOAD_STREAM = "stormpilot_load"
"""The stream on which components send their counters to the collector: not part of the traffic to plan for."""
RESERVED_CPU = "cpu.pcore.percent"
"""Name among the resources of components and supervisors: CPU as a reservation, in Storm's points (100 = one core)."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of the values: immutable, unknown fields in files are ignored."""


class Supervisor(Value, frozen=True, kw_only=True):
    """A node that may run workers; only live and not blacklisted ones stand in a model.

    Network cost goes by `rack`, Storm's shuffles by `storm_rack` (None: the same).
    `cpu_limit_mhz` is B(n), the part of the node's CPU that planning may fill; None means all of `cores * mhz`.
    `resources`: what it has of others, by name (e.g. `gpu`).
    """

    id: str
    host: str
    rack: str = DEFAULT_RACK
    storm_rack: str | None = None
    site: str | None = None
    slots: list[int]
    cores: float
    mhz: float
    memory_mb: float
    cpu_limit_mhz: float | None = None
    resources: dict[str, float] = {}

    @property
    def cpu_mhz(self) -> float:
        """CPU(n) = cores x MHz per core [A13 3.2.1]."""
        return self.cores * self.mhz

    @property
    def limit_mhz(self) -> float:
        """B(n), MHz."""
        return self.cpu_mhz if self.cpu_limit_mhz is None else self.cpu_limit_mhz


class Input(Value, frozen=True, kw_only=True):
    """A subscription of a component: it receives `stream` of `component` by `grouping` (Storm's name, upper case)."""

    component: str
    stream: str = "default"
    grouping: str = "SHUFFLE"


class Component(Value, frozen=True, kw_only=True):
    """A spout, a bolt, or one of Storm's own (`__acker`); `site` asks for supervisors of that site.

    With `site_required` False the wish is given up (and said so) when no plan can meet it. `bundle`: how many of its
    threads make the most of one slot, where that is known (`stormpilot size` sets it, `sam` uses it). Each of its
    executors takes `heap_mb` of its worker's heap and `resources` of its supervisor, on which there are at most
    `most_per_node` of them.
    """

    id: str
    kind: Kind = "bolt"
    site: str | None = None
    site_required: bool = True
    inputs: list[Input] = []
    bundle: Annotated[int, msgspec.Meta(ge=1)] | None = None
    heap_mb: float = 0.0
    resources: dict[str, float] = {}
    most_per_node: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def auxiliary(self) -> bool:
        """Whether it is one of Storm's own, or the collector of load reports: it has no part in what users size."""
        return self.kind == "system" or (bool(self.inputs) and all(i.stream == LOAD_STREAM for i in self.inputs))


class Executor(Value, frozen=True, kw_only=True):
    """A thread that carries the tasks `start` to `end`; `measured` is False where the numbers are only declared.

    `pin` is the id of the supervisor that it must run on. `queue_tuples` is how many tuples wait in its receive queue
    in the mean, `service_ms` how long a tuple keeps its thread, both None where nobody measured that. `polling_mhz` is
    the part of `cpu_mhz` in which its thread only looks for tuples, as far as that was measured. `lanes`: how many
    processes work beside each other, one for each task of a multilang component, or threads; 1 where its own does.
    """

    start: int
    end: int
    component: str
    cpu_mhz: float = 0.0
    polling_mhz: float = 0.0
    memory_mb: float = 0.0
    measured: bool = True
    pin: str | None = None
    queue_tuples: float | None = None
    service_ms: float | None = None
    lanes: Annotated[int, msgspec.Meta(ge=1)] = 1


class Assigned(Value, frozen=True, kw_only=True):
    """Where an executor runs now."""

    start: int
    supervisor: str
    port: int


class SharedMemory(Value, frozen=True, kw_only=True):
    """Memory that executors of `components` share: once in every worker, or on every node, with one of them or more.

    `heap_mb` is of the worker's heap, `worker_mb` beside it, `node_mb` of the supervisor.
    """

    name: str
    components: list[str]
    heap_mb: float = 0.0
    worker_mb: float = 0.0
    node_mb: float = 0.0


class CpuLaw(Value, frozen=True, kw_only=True):
    """CPU of a topology that follows from places, MHz; the rest is work that goes with them.

    Every worker takes `worker_mhz`, every executor `asleep_mhz` wherever it is and whatever comes. One that waits for
    tuples stays awake for `awake_s` after each of them, and takes `awake_mhz` more than asleep. A worker that sends to
    others takes `transfer_mhz` more, one that gets tuples of others `receive_mhz`. A tuple/s takes so much at both ends
    together: `in_worker_mhz` within a worker, `in_node_mhz` to another worker of the node, `far_mhz` to another node.
    `error_ratio` is the error of the law on what it was learned from, in the mean of the squares (None: nothing was
    learned, these are constants), `rows` how many workers' windows those were.
    """

    worker_mhz: float = 0.0
    asleep_mhz: float = 0.0
    awake_mhz: float = 0.0
    transfer_mhz: float = 0.0
    receive_mhz: float = 0.0
    in_worker_mhz: float = 0.0
    in_node_mhz: float = 0.0
    far_mhz: float = 0.0
    awake_s: float = 0.0
    error_ratio: float | None = None
    rows: int = 0


class Topology(Value, frozen=True, kw_only=True):
    """A topology to place: `workers` is W(t), `assignment` is empty for one that was never placed.

    `fixed_workers` lists slots (supervisor, port) of `assignment` whose workers stay exactly as they are. `standby`:
    first tasks of executors that get no tuples of the streams to their component until a route names them, which those
    of `standby_components` may become. A worker
    holds at most `worker_heap_mb` of heap and `worker_executors` executors, and no two components that are `apart`, or
    no two at all with `all_apart`. `favored_nodes` and `unfavored_nodes` (supervisor ids) are wishes: first the former,
    the latter last. `latency_ms` is the mean time from a tuple of a source to its ack, None where nobody measured that.
    `cpu_law` tells which part of its executors' CPU follows from their places; None: not known.
    """

    id: str
    name: str
    workers: int
    components: list[Component]
    executors: list[Executor]
    assignment: list[Assigned] = []
    fixed_workers: list[tuple[str, int]] = []
    standby: list[int] = []
    standby_components: list[str] = []
    owner: str | None = None
    priority: int = 29
    launched_at_ms: int = 0
    loadaware: bool = True
    worker_heap_mb: float | None = None
    worker_executors: Annotated[int, msgspec.Meta(ge=1)] | None = None
    apart: list[tuple[str, str]] = []
    all_apart: bool = False
    shared_memory: list[SharedMemory] = []
    favored_nodes: list[str] = []
    unfavored_nodes: list[str] = []
    latency_ms: float | None = None
    cpu_law: CpuLaw | None = None


class Edge(Value, frozen=True, kw_only=True, gc=False):
    """Measured traffic: `rate` tuples/s from executor `from_` to executor `to` (start tasks) of one topology.

    Not for the garbage collector: a model may have a million of them, and none can be part of a cycle.
    """

    topology: str
    from_: int = msgspec.field(name="from")
    to: int
    rate: float
    stream: str | None = None


class Exclusion(Value, frozen=True, kw_only=True):
    """A supervisor that executors may not run on: of one component, of one topology (id), or (both None) of all.

    `drained`: an operator drains its host. `kept_for`: the isolated topology (its name) that has the supervisor to
    itself.
    """

    supervisor: str
    topology: str | None = None
    component: str | None = None
    drained: bool = False
    kept_for: str | None = None


class Guarantee(Value, frozen=True, kw_only=True):
    """Guarantee of a user (`Topology.owner`): decides who comes first where not all topologies fit.

    `cpu_points` counts instead of `cpu_mhz` where CPU is reserved in points (supervisors offer `RESERVED_CPU`).
    """

    user: str
    cpu_mhz: float = 0.0
    memory_mb: float = 0.0
    cpu_points: float = 0.0


class Model(Value, frozen=True, kw_only=True):
    """Everything that a planner may know. A planner is a function of this, its parameters and a seeded generator.

    A supervisor with `memory_mb` 0 has no memory limit.
    """

    schema: int = 1
    supervisors: list[Supervisor]
    topologies: list[Topology]
    traffic: list[Edge] = []
    exclusions: list[Exclusion] = []
    guarantees: list[Guarantee] = []


class TopologyPlan(Value, frozen=True, kw_only=True):
    """The placement of one topology."""

    id: str
    workers: list[Worker]


class Plan(Value, frozen=True, kw_only=True):
    """A complete placement of every topology of a model, with the metrics that it was judged by (name -> number).

    `left_out`: topologies (id -> why) that have no place in it, where a partial plan was asked for; its metrics are
    then those of the others.
    """

    schema: int = 1
    planner: str = ""
    params: dict[str, float | int | str | bool | None] = {}
    seed: int = 0
    topologies: list[TopologyPlan]
    metrics: dict[str, float] = {}
    notes: list[str] = []
    left_out: dict[str, str] = {}


class Infeasible(Value, frozen=True, kw_only=True):
    """No plan: `proved` says that none exists, otherwise none was found; names the constraint and the executors.

    `executors` holds (topology id, start task) of those that could not be placed.
    """

    constraint: str
    text: str
    executors: list[tuple[str, int]] = []
    proved: bool = False
