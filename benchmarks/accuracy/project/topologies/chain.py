"""Plain Java, nothing of ours in it: a chain of two relays, as deep as it is wide."""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."


class Chain(Topology):
    """source -> first -> second -> sink, each to any task."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"], par=2)
    first = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=2
    )
    second = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={first: Grouping.SHUFFLE}, outputs=["x"], par=2
    )
    sink = JavaBolt.spec(
        full_class_name=JAVA + "SinkBolt", args_list=[], inputs={second: Grouping.SHUFFLE}, outputs=[], par=2
    )
