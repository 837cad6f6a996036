"""Plain Java, nothing of ours in it: two ways from the spouts to one sink.

Three bolts that never sleep (Storm's default wait strategy) are what two cores carry: with eight of them each had the
processor for two thirds of the time that it wanted, and how much that was depended on what else ran.
"""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."


class Diamond(Topology):
    """source -> left and right -> sink, each to any task."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"], par=2)
    left = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=1
    )
    right = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=1
    )
    sink = JavaBolt.spec(
        full_class_name=JAVA + "SinkBolt",
        args_list=[],
        inputs={left: Grouping.SHUFFLE, right: Grouping.SHUFFLE},
        outputs=[],
        par=1,
    )
