"""Instrumentation, inside topologies: what each Python task receives, sends and costs is counted and reported.

The way of a count: a mixin (`reporting`) counts in the component's own process (`counters`, `latency`); every few
seconds the task emits one unanchored tuple on the stream `stormpilot_load` to the collector bolt (`collector`), which
keeps the newest counters of every task (`reports`) and writes them to ZooKeeper from a thread (`report_writer`).
`topology` adds the stream and the collector to a topology; `runner` runs components with the mixin added. `keyed` is a
mixin of its own, for bolts whose state by key follows its keys (`handing_over`, `partitions`). `worker_store` is what
both have of ZooKeeper.

Imports only streamparse (pystorm), kazoo, the standard library and our `paths`.
"""

from stormpilot.instrument.keyed import KeyedState
from stormpilot.instrument.reporting import LoadReporting, SpoutLoadReporting
from stormpilot.instrument.topology import load_reporting

__all__ = ["KeyedState", "LoadReporting", "SpoutLoadReporting", "load_reporting"]
