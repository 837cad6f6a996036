"""Storm's scheduling keys: what stormpilot does with each of them, and which hold a topology.

A key that says where executors may run, and that a plan could break, holds the topology that sets it: the controller
leaves it alone (`UNSUPPORTED_SETTING`), and Storm's own scheduler, our fallback, goes on to honour it. The table is the
page `docs/reference/storm-keys.md`; a test of the plug-in goes through Storm's own classes and fails on a scheduling
key without a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot
from stormpilot.model.bounds import MOST

Treatment = Literal["honoured", "held", "fallback", "before"]
TREATMENTS: Mapping[Treatment, str] = {
    "honoured": "plans keep them",
    "held": "what uses them is left alone",
    "fallback": "only for what Storm's own scheduler places",
    "before": "applied before a scheduler is asked",
}


@dataclass(frozen=True)
class StormKey:
    """A key of Storm: how plans treat it, and the test that shows it (a path in the repository)."""

    key: str
    treatment: Treatment
    how: str
    test: str = ""


CAPACITY_TEST = "tests/unit/model/test_constraints.py"
HELD_TEST = "tests/unit/observe/test_storm_keys.py"
RAS_TEST = "tests/unit/observe/test_ras.py"
BUILD_TEST = "tests/unit/observe/test_build.py"
ISOLATION_TEST = "tests/unit/observe/test_isolation.py"
RANK_TEST = "tests/unit/control/test_ranks.py"
WORKERS, HEAP = "topology.workers", "topology.worker.max.heap.size.mb"
RESOURCES, SHARED_MEMORY = "topology.component.resources.map", "shared memory"
CONSTRAINTS, SPREAD = "topology.ras.constraints", "topology.spread.components"
APART = "incompatibleComponents"
ONE_EXECUTOR, ONE_COMPONENT = "topology.ras.one.executor.per.worker", "topology.ras.one.component.per.worker"
FAVORED, UNFAVORED = "topology.scheduler.favored.nodes", "topology.scheduler.unfavored.nodes"
STRATEGY, ISOLATE = "topology.scheduler.strategy", "topology.isolate.machines"
ISOLATION, POOLS = "isolation.scheduler.machines", "multitenant.scheduler.user.pools"
USER_POOLS = "resource.aware.scheduler.user.pools"
ORDER_STRATEGY = "resource.aware.scheduler.priority.strategy"
"""Told where it is not Storm's default."""


def _honoured(key: str, how: str, test: str) -> StormKey:
    return StormKey(key, "honoured", how, test)


def _held(key: str, how: str) -> StormKey:
    return StormKey(key, "held", how, HELD_TEST)


def _ras(key: str, how: str) -> StormKey:
    """Honoured where Storm's own scheduler knows it; else held."""
    return StormKey(key, "honoured", f"under the ResourceAwareScheduler: {how}; under another: left alone", RAS_TEST)


def _fallback(key: str, how: str) -> StormKey:
    return StormKey(key, "fallback", how)


def _before(key: str, how: str) -> StormKey:
    return StormKey(key, "before", how)


_CPU = "CPU of an executor until it is measured; a reservation under the ResourceAwareScheduler (`load.cpu`)"
_MEMORY = "memory of an executor; the sum of a node stays within its capacity"
_BLACKLIST = "Storm's blacklist wraps every scheduler; plans use no supervisor that it lists"
_PRIORITY = "how the ResourceAwareScheduler orders and evicts"

STORM_KEYS: Sequence[StormKey] = (
    _honoured(WORKERS, "most workers of a plan; under the ResourceAwareScheduler those that it made", BUILD_TEST),
    _honoured("topology.component.cpu.pcore.percent", _CPU, BUILD_TEST),
    _honoured("topology.component.resources.onheap.memory.mb", _MEMORY, CAPACITY_TEST),
    _honoured("topology.component.resources.offheap.memory.mb", _MEMORY, CAPACITY_TEST),
    _honoured("topology.acker.cpu.pcore.percent", _CPU, BUILD_TEST),
    _honoured("topology.acker.resources.onheap.memory.mb", _MEMORY, CAPACITY_TEST),
    _honoured("topology.acker.resources.offheap.memory.mb", _MEMORY, CAPACITY_TEST),
    _honoured("topology.metrics.consumer.cpu.pcore.percent", _CPU, BUILD_TEST),
    _honoured("topology.metrics.consumer.resources.onheap.memory.mb", _MEMORY, CAPACITY_TEST),
    _honoured("topology.metrics.consumer.resources.offheap.memory.mb", _MEMORY, CAPACITY_TEST),
    _honoured("topology.priority", "order in which topologies get room where not all fit", RANK_TEST),
    _honoured(
        USER_POOLS,
        "the same order, under the ResourceAwareScheduler: no plan gives room to a topology while one before "
        "it waits, and what has a plan counts for its user; in user-resource-pools.yaml too",
        RANK_TEST,
    ),
    _honoured("supervisor.slots.ports", "slots of a node", BUILD_TEST),
    _honoured("supervisor.cpu.capacity", "CPU of a node", BUILD_TEST),
    _honoured("supervisor.memory.capacity.mb", "memory of a node", BUILD_TEST),
    _honoured("supervisor.scheduler.meta", "tags of a node, e.g. its site", BUILD_TEST),
    _honoured("supervisor.resources.map", "what a node has of generic resources", RAS_TEST),
    _honoured(HEAP, "under the ResourceAwareScheduler, heap that the executors of a worker declare", RAS_TEST),
    _ras(
        RESOURCES, "a node has the generic resources that each executor needs, by its component or the whole topology"
    ),
    _ras(
        CONSTRAINTS,
        "components kept apart, and at most so many of one on a node (with a component that is incompatible with "
        "itself: left alone)",
    ),
    _ras(SPREAD, "at most one executor of each of these components on a node"),
    _ras(ONE_EXECUTOR, "a worker has one executor"),
    _ras(ONE_COMPONENT, "a worker has executors of one component"),
    _ras(SHARED_MEMORY, "of components (`addSharedMemory`), once in a worker or on a node, in its heap and memory"),
    _ras(FAVORED, "plans use these hosts alone where there is a plan that does"),
    _ras(UNFAVORED, "plans use these hosts where there is no other plan"),
    _held(
        STRATEGY,
        "the topology is left alone, unless the strategy only orders nodes by resources, or under the "
        "ResourceAwareScheduler is the ConstraintSolverStrategy. RoundRobinResourceAwareStrategy deals executors out "
        "over hosts that no other topology uses, at most `topology.isolate.machines` of them: what a plan wins by "
        "putting executors together it is there to prevent. What strategies of your own promise is not known",
    ),
    _honoured(
        ISOLATE,
        "under the MultitenantScheduler, as the pool of its user; under another, which does not know it: left alone",
        ISOLATION_TEST,
    ),
    _honoured(
        ISOLATION,
        "under the IsolationScheduler: it alone places isolated topologies, and nobody else comes to their hosts, by "
        "plan or repair; under another: every topology is left alone",
        ISOLATION_TEST,
    ),
    _honoured(
        POOLS,
        "under the MultitenantScheduler: it alone places topologies of users with a pool, and nobody else comes to "
        "their supervisors, by plan or repair; under another: every topology is left alone",
        ISOLATION_TEST,
    ),
    _fallback("topology.ras.order.executors.by.proximity.needs", "how the ResourceAwareScheduler orders executors"),
    _fallback("topology.ras.constraint.max.state.search", "how long the ResourceAwareScheduler searches"),
    _fallback("topology.ras.constraint.max.time.secs", "how long the ResourceAwareScheduler searches"),
    _fallback("resource.aware.scheduler.constraint.max.state.search", "how long the ResourceAwareScheduler searches"),
    _fallback("resource.aware.scheduler.max.topology.scheduling.attempts", _PRIORITY),
    _fallback(ORDER_STRATEGY, f"{_PRIORITY}; plans use the formula of Storm's default"),
    _fallback("scheduling.timeout.seconds.per.topology", "how long the ResourceAwareScheduler searches"),
    _fallback("scheduler.config.cache.expiration.secs", "where pools of users come from"),
    _fallback("scheduler.config.loader.uri", "where pools of users come from"),
    _fallback("scheduler.config.loader.artifactory.base.directory", "where pools of users come from"),
    _fallback("scheduler.config.loader.polltime.secs", "where pools of users come from"),
    _fallback("scheduler.config.loader.timeout.secs", "where pools of users come from"),
    _before("storm.scheduler", "`io.stormpilot.PilotScheduler`; yours becomes `stormpilot.fallback.scheduler`"),
    _before("nimbus.scheduler.strategy.class.whitelist", "checked when a topology is submitted"),
    _before("nimbus.slots.perTopology", "checked when a topology is submitted"),
    _before("nimbus.executors.perTopology", "checked when a topology is submitted"),
    _before("topology.tasks", "executors are what Storm makes of it"),
    _before("topology.max.task.parallelism", "executors are what Storm makes of it"),
    _before("topology.acker.executors", "executors are what Storm makes of it"),
    _before("topology.eventlogger.executors", "executors are what Storm makes of it"),
    _before("topology.ras.acker.executors.per.worker", "ackers are executors, which plans place as all others"),
    _before(
        "storm.worker.min.cpu.pcore.percent",
        "CPU limit of a worker's cgroup; the ResourceAwareScheduler counts at least so much for a worker, plans do not",
    ),
    _before("supervisor.numa.meta", "every NUMA zone is a supervisor to a scheduler"),
    _before(
        "storm.network.topography.plugin",
        "racks that shuffles prefer; without it `rack` of `supervisor.scheduler.meta` counts for network cost alone",
    ),
    _before("scheduler.display.resource", "what Storm's UI shows"),
    *(
        StormKey(f"blacklist.scheduler.{key}", "before", _BLACKLIST)
        for key in (
            "assume.supervisor.bad.based.on.bad.slot",
            "enable.send.assignment.failures",
            "reporter",
            "resume.time.secs",
            "strategy",
            "tolerance.count",
            "tolerance.time.secs",
        )
    ),
)
PLAIN_STRATEGIES = {
    "DefaultResourceAwareStrategy",
    "DefaultResourceAwareStrategyOld",
    "GenericResourceAwareStrategy",
    "GenericResourceAwareStrategyOld",
}
"""They order nodes by resources; a plan breaks nothing that they promise."""
CONSTRAINT_STRATEGY = "ConstraintSolverStrategy"
"""Promises of a setting that a plan keeps under the ResourceAwareScheduler."""
RAS_KEYS = (CONSTRAINTS, SPREAD, ONE_EXECUTOR, ONE_COMPONENT, FAVORED, UNFAVORED)
PLAIN_RESOURCES = {
    *("cpu.pcore.percent", "onheap.memory.mb", "offheap.memory.mb", "memory.mb"),
    *("topology.component.cpu.pcore.percent", "supervisor.cpu.capacity", "supervisor.memory.capacity.mb"),
    *(f"topology.component.resources.{heap}.memory.mb" for heap in ("onheap", "offheap")),
}
"""Names of CPU and memory among resources, Storm's newer and older (`ResourceNameNormalizer`)."""
DEFAULT_HEAP_MB = 768.0


@dataclass(frozen=True)
class Held:
    """A key that is set and that plans do not honour, with its value."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key} is {self.value}"


def held_by_topology(
    config: Mapping[str, Any],
    components: Mapping[str, Mapping[str, Any]],
    *,
    shared_memory: Collection[str] = (),
    fallback: str = "",
) -> Iterator[Held]:
    """Keys that hold a topology.

    Parameters
    ----------
    config
        Its configuration, or the part of it that is about scheduling.
    components
        The configurations of its components.
    shared_memory
        Names of the shared memory that components ask for.
    fallback
        Class of the scheduler that honours what we do not.
    """
    ras = resource_aware(fallback)
    for row in STORM_KEYS:
        value = config.get(row.key)
        unknown = row.key in RAS_KEYS and not (ras and _is_readable(row.key, value))
        unknown |= row.key == ISOLATE and not isolates_by_user(fallback)
        if value and (unknown or (row.treatment == "held" and row.key != STRATEGY)):
            yield Held(row.key, _short(value))
    strategy = str(config.get(STRATEGY) or "").rpartition(".")[2]
    if strategy and strategy not in PLAIN_STRATEGIES and not (ras and strategy == CONSTRAINT_STRATEGY):
        yield Held(STRATEGY, strategy)
    for where, conf in {"": config, **components}.items():
        names = sorted(generic(conf))
        if names and not ras:
            yield Held(RESOURCES, f"{', '.join(names)}{f' of {where}' if where else ''}")
    if shared_memory and not ras:
        yield Held(SHARED_MEMORY, _short(sorted(shared_memory)))
    if ras and (alone := sorted({a for a, b in incompatible(config) if a == b and a in components})):
        yield Held(CONSTRAINTS, f"{', '.join(alone)} apart from itself")


def held_by_cluster(config: Mapping[str, Any], fallback: str) -> Iterator[Held]:
    """Keys of Nimbus that hold every topology: whose machines are whose is said, but the scheduler is another."""
    if config.get(ISOLATION) and not isolates_by_name(fallback):
        yield Held(ISOLATION, _short(config[ISOLATION]))
    if config.get(POOLS) and not isolates_by_user(fallback):
        yield Held(POOLS, _short(config[POOLS]))
    if isolates_by_user(fallback) and POOLS not in config:
        yield Held(POOLS, "with the MultitenantScheduler, in a file of its own")


def unsupported(
    cluster: ClusterSnapshot | None,
    topologies: Mapping[str, TopologySnapshot],
    ignored: Collection[str] = (),
    isolated: Mapping[str, tuple[str, str]] | None = None,
) -> dict[str, str]:
    """The keys that hold each topology, by its id, in words.

    Parameters
    ----------
    ignored
        Keys that shall hold nothing.
    isolated
        Isolated topologies, by id, with key and value: these the plug-in leaves to Storm's own scheduler in any case.
    """
    fallback = "" if cluster is None else cluster.shim.fallback
    whole = [] if cluster is None else list(held_by_cluster(cluster.shim.config, fallback))
    said: dict[str, str] = {}
    for i, t in topologies.items():
        texts = [str(h) for h in [*held_by(t, fallback), *whole] if h.key not in ignored]
        if isolated and i in isolated:
            texts.insert(0, str(Held(*isolated[i])))
        if texts:
            said[i] = "; ".join(texts)
    return said


def held_by(topology: TopologySnapshot, fallback: str) -> Iterator[Held]:
    """Keys that hold a topology, by what the plug-in wrote of it."""
    told = {m.name for m in topology.shared_memories}
    if resource_aware(fallback) and not told.issuperset(topology.shared_memory):
        yield Held(SHARED_MEMORY, "not told by this plug-in, which is older")
    yield from held_by_topology(
        topology.config,
        {c.id: c.config for c in topology.components},
        shared_memory=topology.shared_memory,
        fallback=fallback,
    )


def generic(conf: Mapping[str, Any]) -> dict[str, float]:
    """The generic resources (any but CPU and memory) that a configuration asks for, by Storm's names: 0 to `MOST`."""
    asked = conf.get(RESOURCES)
    if not isinstance(asked, dict):
        return {}
    return {
        name: min(amount, MOST) if amount > 0 else 0.0
        for name, amount in asked.items()
        if isinstance(amount, int | float) and name not in PLAIN_RESOURCES
    }


def incompatible(conf: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of components that may share no worker; of one paired with itself it has one executor. In two forms."""
    rules = conf.get(CONSTRAINTS)
    pairs: list[tuple[object, object]] = []
    if isinstance(rules, list):
        pairs = [(p[0], p[1]) for p in rules if isinstance(p, list) and len(p) == 2]
    elif isinstance(rules, Mapping):
        for a, rule in rules.items():
            others = rule.get(APART) if isinstance(rule, Mapping) else None
            pairs += [
                (a, b) for b in ([others] if isinstance(others, str) else others if isinstance(others, list) else [])
            ]
    yield from ((a, b) for a, b in pairs if isinstance(a, str) and isinstance(b, str))


def _is_readable(key: str, value: object) -> bool:
    """Whether the value has a form that Storm knows."""
    return isinstance(
        value, {CONSTRAINTS: (dict, list), SPREAD: (list,), FAVORED: (list,), UNFAVORED: (list,)}.get(key, (bool,))
    )


def declares_memory(component: str, own: Mapping[str, Any], conf: Mapping[str, Any]) -> bool:
    """Whether somebody says how much memory executors of a component take: itself (`own`) or its topology (`conf`).

    Storm has keys for ackers and for metrics consumers alone, and takes those of all components where these are not
    set.
    """
    kinds = ["component"]
    if component == "__acker":
        kinds.append("acker")
    elif component.startswith("__metrics"):
        kinds.append("metrics.consumer")
    names = {f"{heap}.memory.mb" for heap in ("onheap", "offheap")}
    keys = {f"topology.{kind}.resources.{name}" for kind in kinds for name in names}
    for where in (own, conf):
        resources = where.get(RESOURCES)
        told = {*where, *(resources if isinstance(resources, dict) else ())}
        if not told.isdisjoint(keys | names):
            return True
    return False


def isolates_by_name(fallback: str) -> bool:
    """Whether the fallback is Storm's IsolationScheduler."""
    return fallback.endswith("IsolationScheduler")


def isolates_by_user(fallback: str) -> bool:
    """Whether the fallback is Storm's MultitenantScheduler."""
    return fallback.endswith("MultitenantScheduler")


def resource_aware(fallback: str) -> bool:
    """Whether the fallback is Storm's ResourceAwareScheduler."""
    return fallback.endswith("ResourceAwareScheduler")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
