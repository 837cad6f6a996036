"""A topology with components in two sites: one spout and three bolts."""

from streamparse import Grouping, JavaBolt, JavaSpout, Topology

JAVA = "io.stormpilot.worker.topology."
EAST, WEST = {"site": "east"}, {"site": "west"}


class TwoSites(Topology):
    """east, west -> between, which may run anywhere -> west."""

    source = JavaSpout.spec(full_class_name=JAVA + "FastSpout", args_list=[], outputs=["x"], par=2, config=EAST)
    clean = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt",
        args_list=[],
        inputs={source: Grouping.SHUFFLE},
        outputs=["x"],
        par=2,
        config=EAST,
    )
    between = JavaBolt.spec(
        full_class_name=JAVA + "RelayBolt", args_list=[], inputs={clean: Grouping.SHUFFLE}, outputs=["x"], par=2
    )
    store = JavaBolt.spec(
        full_class_name=JAVA + "SinkBolt",
        args_list=[],
        inputs={between: Grouping.SHUFFLE},
        outputs=[],
        par=2,
        config=WEST,
    )
