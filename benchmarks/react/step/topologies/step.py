"""A job whose traffic takes a step: what goes to the east goes to the west from one moment to the next, and back."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

from step_components import Deliver, Sort, Source
from streamparse import Grouping, Topology


class Step(Topology):
    """source -> sort -> east or west; all but sort are bound to their site: where sort should be changes."""

    config = {
        "topology.workers": 5,
        "topology.acker.executors": 0,
        "topology.max.spout.pending": 500,
        # An executor without tuples sleeps 1 ms at a time; Storm's default of 1000 would let it spin for a while first.
        "topology.bolt.wait.progressive.level2.count": 0,
        "step.rate.tps": 60,
        "step.expand": 1,
        "step.favour.ratio": 0.9,
        "step.period.secs": 240,
    }

    source = Source.spec(par=1, config={"site": "middle"})
    sort = Sort.spec(inputs={source: Grouping.fields("key")}, par=2)
    east = Deliver.spec(inputs={sort["east"]: Grouping.fields("key")}, par=1, config={"site": "east"})
    west = Deliver.spec(inputs={sort["west"]: Grouping.fields("key")}, par=1, config={"site": "west"})
