"""A topology as Java users have them: no line of it is ours, and nothing in it reports."""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."


class JavaOnly(Topology):
    """A steady stream through two bolts."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"])
    relay = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=2
    )
    sink = JavaBolt.spec(
        full_class_name=JAVA + "SinkBolt", args_list=[], inputs={relay: Grouping.fields("x")}, outputs=[], par=2
    )
