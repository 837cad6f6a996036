"""The dataflows of S17 8.3: three micro DAGs, three applications, and what its text says of them.

Sections 8.3 and 8.4 give the number of tasks, the paths and some rates; the arrows are in drawings, which the text of
the source lacks. A dataflow here has all that the text says, and where it leaves something open, what is simplest:

- micro DAGs have the five tasks once. Source to sink are 7, 4 and 5 components; each task takes in the source's rate,
  but for the hub of the star, parse XML, which takes in and gives twice as much;
- applications have 7 to 15 tasks, and 2 to 4 tuples come out for each that goes in. Table query takes in once
  (traffic), twice (finance) and three times (grid) the rate; finance has more of pi, and a blob download less, than the
  others; grid needs 3 to 5 times the slots of finance.

A sink is left out: it needs what it needs under every method, as the source does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stormpilot.sizing.performance import Performance
from stormpilot.sizing.problem import Component, Problem, Slot, Static, Stream, VmSize

SOURCE = "source"
FREE = Static(cpu_share=0.0, memory_share=0.0)
VMS = [VmSize(name="D3", slots=4), VmSize(name="D2", slots=2), VmSize(name="D1", slots=1)]
MICRO_TPS, APPLICATION_TPS = (50.0, 100.0, 200.0), (50.0, 100.0)


@dataclass(frozen=True)
class Dag:
    """A dataflow: `streams` are `sender>receiver`, with `:selectivity` where it is not 1.

    The task of a component is its name up to a `_`.
    """

    name: str
    streams: str
    rates_tps: Sequence[float] = APPLICATION_TPS

    def components(self, models: Mapping[str, Performance], source: Static = FREE) -> list[Component]:
        """The components in the order of the streams."""
        inputs: dict[str, list[Stream]] = {SOURCE: []}
        for stream in self.streams.split():
            ends, _, selectivity = stream.partition(":")
            sender, receiver = ends.split(">")
            inputs.setdefault(receiver, []).append(Stream(component=sender, selectivity=float(selectivity or 1)))
        return [
            Component(id=name, static=source)
            if name == SOURCE
            else Component(id=name, model=models[name.partition("_")[0]].name, inputs=streams)
            for name, streams in inputs.items()
        ]

    def problem(self, models: Mapping[str, Performance], slot: Slot) -> Problem:
        """The file that `stormpilot size` reads, at the first rate; shuffles are those of the paper's Storm 1.0."""
        components = self.components(models)
        used = {c.model for c in components}
        return Problem(
            name=self.name,
            rate_tps=self.rates_tps[0],
            slot=slot,
            vms=VMS,
            components=components,
            models=[m for m in models.values() if m.name in used],
            shuffle="even",
        )


MICRO = (
    Dag("linear", "source>xml xml>pi pi>file file>blob blob>table", MICRO_TPS),
    Dag("diamond", "source>file file>xml file>pi file>blob file>table", MICRO_TPS),
    Dag("star", "source>pi source>file pi>xml file>xml xml>blob:0.5 xml>table:0.5", MICRO_TPS),
)
APPLICATIONS = (
    Dag("finance", "source>xml source>xml_2 xml>pi xml>file xml_2>blob pi>pi_2 blob>pi_2 pi_2>table"),
    Dag(
        "traffic",
        "source>xml xml>file xml>pi pi>blob pi>xml_2 blob>table xml_2>blob_2 table>file_2 blob_2>xml_3 xml_3>file_3",
    ),
    Dag(
        "grid",
        "source>xml source>xml_2 xml>pi xml_2>pi_2 pi>blob pi_2>blob blob>table xml_2>table table>blob_2 "
        "blob_2>file file>file_2 file_2>file_3 xml>file_4 file_4>xml_3 xml_3>file_5 file_5>xml_4 xml_4>file_6",
    ),
)
ALL = (*MICRO, *APPLICATIONS)


def linear_of(tasks: Sequence[str], rates_tps: Sequence[float]) -> Dag:
    """A line of tasks."""
    names = [SOURCE, *tasks]
    return Dag("linear", " ".join(f"{a}>{b}" for a, b in pairwise(names)), rates_tps)
