"""The linear micro topology of S17 without its two services: source -> parse XML -> pi -> batch file write."""

from streamparse import Grouping, Topology

from micro_tasks.file_write import BatchFileWrite
from micro_tasks.parse_xml import ParseXml
from micro_tasks.pi import Pi
from micro_tasks.source import NumberSource


class MicroLinear(Topology):
    """Several executors of every component, so that `stormpilot apply-size` has threads to give and to take."""

    config = {
        "topology.workers": 2,
        "topology.acker.executors": 1,
        "topology.max.spout.pending": 500,
        "topology.message.timeout.secs": 30,
        "micro.rate.tps": 20,
    }

    source = NumberSource.spec(par=1)
    xml = ParseXml.spec(inputs={source: Grouping.SHUFFLE}, par={"local": 3, "standby": 3, "cluster": 4})
    pi = Pi.spec(inputs={xml: Grouping.SHUFFLE}, par={"local": 3, "standby": 3, "cluster": 8})
    file = BatchFileWrite.spec(inputs={pi: Grouping.SHUFFLE}, par=2)
