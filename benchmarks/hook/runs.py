"""One run of the fast topology: spout -> relay -> sink in one worker, nothing done with a tuple, no ackers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamparse.thrift import (
    Bolt,
    ComponentCommon,
    ComponentObject,
    GlobalStreamId,
    Grouping,
    JavaObject,
    NullStruct,
    SpoutSpec,
    StormTopology,
    StreamInfo,
)

from stormpilot.errors import UnreachableError
from stormpilot.local.build import LOAD_HOOK
from stormpilot.local.cluster import LocalCluster
from stormpilot.nimbus import Nimbus

JAVA = "io.stormpilot.worker.topology."
START_S = 120.0
WORKER_JVM = "-Xmx512m -XX:TieredStopAtLevel=4"
"""As a worker in production: local clusters stop at the first compiler, which starts faster and inlines little."""
_LINE = re.compile(r"odometer phase=(\d+) at_s=([\d.E-]+) arrived=(\d+) cpu_s=([\d.E-]+)")


@dataclass(frozen=True)
class Phase:
    """Seconds, and the rate of the spout in tuples/s (0: as fast as it can); `name` None: not measured."""

    seconds: float
    rate_tps: float
    name: str | None = None


@dataclass(frozen=True)
class Measured:
    """Tuples at the sink per second in a phase, and the CPU seconds of the worker's JVM per second."""

    tuples_tps: float
    cpu_cores: float

    @property
    def cpu_us(self) -> float:
        """CPU of the worker per tuple that went through all three executors, µs."""
        return 1e6 * self.cpu_cores / self.tuples_tps


def fast_topology() -> StormTopology:
    """The topology, of Java classes that are in the uploaded jar."""

    def java(name: str) -> ComponentObject:
        return ComponentObject(java_object=JavaObject(full_class_name=JAVA + name, args_list=[]))

    def common(source: str | None, streams: dict[str, StreamInfo]) -> ComponentCommon:
        shuffle = Grouping(shuffle=NullStruct())
        inputs = {GlobalStreamId(componentId=source, streamId="default"): shuffle} if source else {}
        return ComponentCommon(inputs=inputs, streams=streams, parallelism_hint=1, json_conf="{}")

    out = {"default": StreamInfo(output_fields=["x"], direct=False)}
    return StormTopology(
        spouts={"source": SpoutSpec(spout_object=java("FastSpout"), common=common(None, out))},
        bolts={
            "relay": Bolt(bolt_object=java("RelayBolt"), common=common("source", out)),
            "sink": Bolt(bolt_object=java("SinkBolt"), common=common("relay", {})),
        },
        state_spouts={},
    )


def run(cluster: LocalCluster, jar: str, name: str, hook: bool, phases: list[Phase]) -> dict[str, Measured]:
    """Run the topology in a fresh worker through the phases; what was measured, by the phase's name."""
    conf: dict[str, Any] = {
        "topology.workers": 1,
        "topology.acker.executors": 0,
        "topology.worker.childopts": WORKER_JVM,
        "bench.phases": [[p.seconds, p.rate_tps] for p in phases],
    }
    if hook:
        conf["topology.auto.task.hooks"] = [LOAD_HOOK]
    with Nimbus.connect_leader(cluster.nimbus_address) as nimbus:
        nimbus.submit(name, jar, conf, fast_topology(), True)
        topology_id = nimbus.topology_id(name)
    try:
        length_s = sum(p.seconds for p in phases)
        lines = _wait(lambda: _lines(cluster, topology_id), len(phases) + 1, START_S + 1.5 * length_s)
    finally:
        with Nimbus.connect_leader(cluster.nimbus_address) as nimbus:
            nimbus.kill(name, wait_s=0)
            end = time.monotonic() + 60
            while nimbus.find(name) is not None or any(w.topology_id == topology_id for w in cluster.workers()):
                if time.monotonic() > end:
                    raise UnreachableError(f"{name} was killed and is still there after a minute")
                time.sleep(0.3)
    return {
        phase.name: Measured((b[1] - a[1]) / (b[0] - a[0]), (b[2] - a[2]) / (b[0] - a[0]))
        for phase, a, b in zip(phases, lines, lines[1:], strict=False)
        if phase.name
    }


def _lines(cluster: LocalCluster, topology_id: str) -> list[tuple[float, int, float]]:
    """(time, tuples arrived, CPU) as each phase began, from the worker's log."""
    logs = cluster.layout.logs.glob(f"*/workers-artifacts/{topology_id}/*/worker.log")
    texts = [Path(f).read_text(errors="replace") for f in logs]
    found = [m.groups() for text in texts for m in _LINE.finditer(text)]
    return [(float(at_s), int(arrived), float(cpu_s)) for _, at_s, arrived, cpu_s in found]


def _wait(
    read: Callable[[], list[tuple[float, int, float]]], count: int, within_s: float
) -> list[tuple[float, int, float]]:
    deadline = time.monotonic() + within_s
    while len(lines := read()) < count:
        if time.monotonic() > deadline:
            raise UnreachableError(f"waited {within_s:.0f} s for a run to end: {len(lines)} of {count} phases began")
        time.sleep(0.5)
    return lines
