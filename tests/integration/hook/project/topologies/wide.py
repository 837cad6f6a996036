"""A topology of many light executors: 120, and ackers."""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."


class Wide(Topology):
    """Everyone of a step sends to everyone of the next one."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"], par=2)
    relay = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=59
    )
    sink = JavaBolt.spec(
        full_class_name=JAVA + "SinkBolt", args_list=[], inputs={relay: Grouping.SHUFFLE}, outputs=[], par=59
    )
