"""numbers -> pass -> batches -> late: every kind of component, fields and shuffle groupings."""

from counting import Batches, Late, Numbers, Pass
from streamparse import Grouping, Topology


class Counted(Topology):
    """Countable to the last tuple."""

    numbers = Numbers.spec(par=2)
    passing = Pass.spec(name="pass", inputs=[numbers["default"], numbers["untracked"]], par={"test": 3})
    batches = Batches.spec(inputs={passing: Grouping.fields("n")}, par=2, config={"topology.tick.tuple.freq.secs": 1})
    late = Late.spec(inputs=[batches])
