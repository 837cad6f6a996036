"""A topology of which some components may not share a worker, and one needs a resource that few nodes have."""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."


class Apart(Topology):
    """Tests set `topology.ras.constraints`; the sink asks for one `gpu` for each of its executors."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"], par=2)
    relay = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={source: Grouping.SHUFFLE}, outputs=["x"], par=2
    )
    sink = JavaBolt.spec(
        full_class_name=JAVA + "SinkBolt",
        args_list=[],
        inputs={relay: Grouping.SHUFFLE},
        outputs=[],
        par=2,
        config={"topology.component.resources.map": {"gpu": 1.0}},
    )
