"""The same step for a job whose sources stay: only bolts have to move, so rolling moves can carry a plan out."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

from step_components import Deliver, Sort, Source
from streamparse import Grouping, Topology


class Bolts(Topology):
    """A source in each site -> sort -> east or west, bound to their sites: where sort should be changes."""

    config = {
        "topology.workers": 6,
        "topology.acker.executors": 0,
        "topology.max.spout.pending": 500,
        "topology.bolt.wait.progressive.level2.count": 0,
        "step.rate.tps": 30,
        "step.favour.ratio": 0.9,
        "step.period.secs": 240,
    }

    source_east = Source.spec(par=1, config={"site": "east"})
    source_west = Source.spec(par=1, config={"site": "west"})
    sort = Sort.spec(inputs={source_east: Grouping.fields("key"), source_west: Grouping.fields("key")}, par=2)
    east = Deliver.spec(inputs={sort["east"]: Grouping.fields("key")}, par=2, config={"site": "east"})
    west = Deliver.spec(inputs={sort["west"]: Grouping.fields("key")}, par=2, config={"site": "west"})
