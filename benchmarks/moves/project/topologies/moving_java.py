"""c_source -> b_forward (shuffled) -> d_count (by key), with Java targets; see `moving_python` for the names."""

from moving import CONFIG, Source
from streamparse import Grouping, JavaBolt, Topology

RELAY = "io.stormpilot.worker.topology.RelayBolt"


class MovingJava(Topology):
    """One source in Python, which measures; two Java tasks that send on, two that count."""

    config = CONFIG

    source = Source.spec(name="c_source")
    forward = JavaBolt.spec(
        name="b_forward", full_class_name=RELAY, args_list=[], inputs=[source], par=2, outputs=["x"]
    )
    count = JavaBolt.spec(
        name="d_count",
        full_class_name=RELAY,
        args_list=[],
        inputs={forward: Grouping.fields("x")},
        par=2,
        outputs=["x"],
    )
