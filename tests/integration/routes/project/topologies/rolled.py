"""keys -> take -> tally: shuffled, then by key."""

from keys import Keys, Pass, Take
from streamparse import Grouping, Topology


class Rolled(Topology):
    """One spout; two tasks that pass its keys on, two that take them."""

    config = {"topology.workers": 3, "topology.acker.executors": 1}  # noqa: RUF012

    keys = Keys.spec()
    forward = Pass.spec(inputs={keys: Grouping.SHUFFLE}, par=2)
    tally = Take.spec(inputs={forward: Grouping.fields("key")}, par=2)
