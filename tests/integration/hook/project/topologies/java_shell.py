"""A topology as Java users have them, with a component of Storm's multilang that is declared in Java."""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."


class JavaShell(Topology):
    """A steady stream through two bolts, of which the second one has a process of its own."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"])
    relay = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=2
    )
    shell = JavaBolt.spec(
        full_class_name=JAVA + "ShellSink", args_list=[], inputs={relay: Grouping.SHUFFLE}, outputs=[]
    )
