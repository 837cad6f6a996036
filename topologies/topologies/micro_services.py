"""The two tasks of S17 that wait for a service: source -> blob download, source -> table query."""

from streamparse import Grouping, Topology

from micro_tasks.blob_download import BlobDownload
from micro_tasks.source import NumberSource
from micro_tasks.table_query import TableQuery


class MicroServices(Topology):
    """Needs `micro.storage.connection`, and workers whose Python has `virtualenvs/micro_services.txt`."""

    config = {
        "topology.workers": 2,
        "topology.acker.executors": 1,
        "topology.max.spout.pending": 100,
        "topology.message.timeout.secs": 30,
        "micro.rate.tps": 5,
    }

    source = NumberSource.spec(par=1)
    blob = BlobDownload.spec(inputs={source: Grouping.SHUFFLE}, par={"local": 4, "standby": 4, "cluster": 8})
    table = TableQuery.spec(inputs={source: Grouping.SHUFFLE}, par={"local": 4, "standby": 4, "cluster": 8})
