"""keys -> take, by key."""

from keys import Keys, Take
from streamparse import Grouping, Topology


class Keyed(Topology):
    """One spout, two tasks that take its keys."""

    config = {"topology.workers": 3, "topology.acker.executors": 1}  # noqa: RUF012

    keys = Keys.spec()
    take = Take.spec(inputs={keys: Grouping.fields("key")}, par=2)
