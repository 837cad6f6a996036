"""Plain Java, nothing of ours in it: two ways from the spouts to one sink."""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."


class Diamond(Topology):
    """source -> left and right -> sink, each to any task."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"], par=2)
    left = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=3
    )
    right = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=2
    )
    sink = JavaBolt.spec(
        full_class_name=JAVA + "SinkBolt",
        args_list=[],
        inputs={left: Grouping.SHUFFLE, right: Grouping.SHUFFLE},
        outputs=[],
        par=3,
    )
