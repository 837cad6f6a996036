"""A job whose keyed work holds its source up where one node is too small for its part of it."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

from held_components import Source, Work
from streamparse import Grouping, Topology


class Held(Topology):
    """source -> work, by key: every executor of work gets its part, on however small a node it runs."""

    config = {
        "topology.workers": 3,
        "topology.acker.executors": 1,
        "topology.max.spout.pending": 100,
        "topology.bolt.wait.progressive.level2.count": 0,
        "held.rate.file": "",
        "held.work.ms": 8,
    }

    source = Source.spec(par=1)
    work = Work.spec(inputs={source: Grouping.fields("key")}, par=6)
