"""c_source -> b_forward (shuffled) -> d_count (by key), with Java targets; see `moving_python` for the names."""

from moving import Source
from streamparse import Grouping, JavaBolt, Topology

RELAY = "io.stormpilot.worker.topology.RelayBolt"


class MovingJava(Topology):
    """One source in Python, which measures; two Java tasks that send on, two that count."""

    config = {  # noqa: RUF012
        "topology.workers": 3,
        "topology.acker.executors": 1,
        "topology.message.timeout.secs": 15,
        "topology.bolt.wait.progressive.level2.count": 0,
    }

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
