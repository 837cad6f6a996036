"""c_source -> b_forward (shuffled) -> d_count (by key), with Python (ShellBolt) targets.

The names are in the order in which Storm's scheduler deals executors out, so that on three workers the source and the
acker are alone in one: then everything that can be routed can also be moved.
"""

from moving import CONFIG, Count, Forward, Source
from streamparse import Grouping, Topology


class MovingPython(Topology):
    """One source, two tasks that send on, two that count."""

    config = CONFIG

    source = Source.spec(name="c_source")
    forward = Forward.spec(name="b_forward", inputs=[source], par=2)
    count = Count.spec(name="d_count", inputs={forward: Grouping.fields("key")}, par=2)
