"""Topologies that are measured: their source, as fast as it may go, and who places them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.flow.jobs import COMMON
from benchmarks.headlines.chain import Chain
from benchmarks.headlines.contenders import NAMES, SWEPT
from stormpilot.local.build import LOAD_HOOK

FLAT_OUT_TPS = 1_000_000
"""More than any source here can send: `topology.max.spout.pending` is what holds it."""
RATED = 0.55
"""Of the most that Storm's default placement holds: there latency is measured."""
AIM = 5
"""Passes, repetitions and changes of the long form: fewer are told as fewer."""

EVEN = (0.4,) * 4
"""Cores of the isolated nodes."""

SLEEP, SLEEP_MS = "topology.bolt.wait.progressive.level3.sleep.millis", 1
"""Storm's default: with ten times that, most of the latency was that of executors that sleep, at every stage."""


@dataclass(frozen=True)
class Case:
    """A topology, and how many tuples a spout task may have under way.

    `rate_tps`, at which latency is measured, is `RATED` of what Storm's default placement holds; until that is known it
    is a guess that is low enough. With `given` it is that rate; with `steady` the source sends at nothing else.
    `topology` and `options` are of the project of examples; the chain is sent to Nimbus as it is. `who`: contenders.
    `cores` are those of the isolated nodes.
    `timeout_s`: a tuple that a move lost counts as one that is under way until then, so that this is more than the
    longest latency, and not much more.
    """

    name: str
    rate_tps: float
    pending: int
    phase_s: float = 10.0
    timeout_s: int = 10
    topology: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    chain: Chain | None = None
    who: tuple[str, ...] = NAMES
    given: bool = False
    steady: bool = False
    cores: tuple[float, ...] = EVEN

    @property
    def schedule(self) -> str:
        """The rate, then as fast as it goes, by turns."""
        if self.steady:
            return f"{self.rate_tps:g}x{self.phase_s:g}"
        return f"{self.rate_tps:g}x{self.phase_s:g},{FLAT_OUT_TPS}x{self.phase_s:g}"

    @property
    def options_key(self) -> str:
        """The key under which an example reads its rates."""
        return "flights.rate.schedule" if self.topology == "flights" else "wordcount.rate.schedule"

    def conf(self) -> dict[str, Any]:
        """Options of the submission."""
        if self.chain:  # measured by the hook, the others by their own components
            more = {**self.chain.conf(self.schedule), "topology.auto.task.hooks": [LOAD_HOOK], **self.options}
        else:
            more = {**self.options, self.options_key: self.schedule}
        return {
            **COMMON,
            "topology.max.spout.pending": self.pending,
            "topology.message.timeout.secs": self.timeout_s,
            "topology.component.resources.onheap.memory.mb": 16.0,
            # An executor without tuples sleeps at once: spinning would be CPU that the others lack.
            "topology.bolt.wait.progressive.level2.count": 0,
            SLEEP: SLEEP_MS,
            **more,
        }


SETTINGS, UNLIKE = LONG = "settings", "unlike"
"""Cases of the long form: other settings of the paper's two schedulers, and nodes that differ; both on the chain."""
CASES = {
    "chain": Case("chain", 100.0, 50, timeout_s=5, chain=Chain()),
    SETTINGS: Case(SETTINGS, 100.0, 50, timeout_s=5, chain=Chain(), who=("default", "online", "offline", *SWEPT)),
    UNLIKE: Case(
        UNLIKE,
        100.0,
        50,
        timeout_s=5,
        chain=Chain(),
        who=("default", "ras", "online", "best", "best latency"),
        cores=(0.25, 0.3, 0.45, 0.6),
    ),
    "wordcount": Case("wordcount", 5.0, 20, topology="wordcount_comm", who=("default", "ras", "best")),
    "flights": Case(
        "flights", 50.0, 50, topology="flights", who=("default", "online", "best", "best latency"), given=True
    ),
}


def measured_on(found: Mapping[str, Any], prepared: Mapping[str, Any]) -> str:
    """The processor that a case was measured on; that of the page, where it does not say so itself."""
    cpu: str = prepared["parameters"].get("cpu", found["machine"]["cpu"])
    return cpu
