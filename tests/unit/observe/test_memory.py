"""Memory that somebody declares counts for the executors that Storm gives it to, and is measured of the others."""

from __future__ import annotations

from typing import Any

import pytest

from doubles.snapshots import topology
from stormpilot.messages.core import ComponentPart
from stormpilot.observe.memory import declared

METRICS = "__metrics_org.apache.storm.metric.LoggingMetricsConsumer"
EVERYBODY = {"source", "parse", "sink", "collector", "__acker", METRICS}


@pytest.mark.parametrize(
    ("config", "declaring"),
    [
        ({"topology.acker.resources.onheap.memory.mb": 256.0}, {"__acker"}),
        ({"topology.metrics.consumer.resources.offheap.memory.mb": 256.0}, {METRICS}),
        ({"topology.component.resources.onheap.memory.mb": 256.0}, EVERYBODY),
        ({"topology.component.resources.map": {"onheap.memory.mb": 256.0}}, EVERYBODY),
        ({"topology.component.resources.map": {"cpu.pcore.percent": 20.0}}, set()),
        ({}, set()),
    ],
)
def test_memory_of_ackers_or_metrics_consumers_is_declared_for_them_alone(
    config: dict[str, Any], declaring: set[str]
) -> None:
    job = topology(config=config)
    components = [*job.components, ComponentPart(id=METRICS, kind="system")]
    default = "org.apache.storm.scheduler.DefaultScheduler"
    assert {c.id for c in components if declared(job, c, default)} == declaring
