"""Java and Python spouts -> a Java bolt -> a Python bolt -> a Java bolt, over every kind of pair."""

from ledgers import Numbers, Pass
from streamparse import Grouping, JavaBolt, JavaSpout, Stream, Topology

JAVA = "io.stormpilot.worker.topology."
BOTH = [Stream(fields=["n"]), Stream(fields=["n"], name="third")]


class Mixed(Topology):
    """Countable to the last tuple."""

    numbers = JavaSpout.spec(full_class_name=JAVA + "NumbersSpout", args_list=[], outputs=["n"], par=2)
    python_numbers = Numbers.spec()
    mid = JavaBolt.spec(
        full_class_name=JAVA + "CountingBolt",
        args_list=[],
        inputs={numbers: Grouping.fields("n"), python_numbers: Grouping.SHUFFLE},
        outputs=BOTH,
        par=3,
    )
    python = Pass.spec(inputs={mid["default"]: Grouping.fields("n")}, par=2)
    end = JavaBolt.spec(
        full_class_name=JAVA + "CountingBolt",
        args_list=[],
        inputs={python: Grouping.SHUFFLE, mid["third"]: Grouping.ALL},
        outputs=BOTH,
        par=2,
    )
