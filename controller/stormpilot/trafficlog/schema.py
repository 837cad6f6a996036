"""Tables and columns of the traffic log (Parquet), in one place: who writes, mines, replays or makes logs reads here.

Layout: `<dir>/<table>/date=YYYY-MM-DD/topology=<id, quoted>/<name>.parquet`, `nodes` without the topology; the date is
the UTC day of the window's end. A long id is cut in the folder's name (`topology_folder`). Names carry units: `_tps`
tuples per second, `_mhz` MHz, `_mb` MB, `_ms`, `_s`; `rate_tps` and all that is per second are means over the window.
Times are UTC milliseconds.

Columns are only ever added, at the end and nullable, and every version adds one to `VERSION`, which each file has in
its metadata. So a file of any version is read with the newest schema, and what it did not know is null.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import quote, unquote

import pyarrow as pa

VERSION = 5
"""2 adds what the miners need: places and components in `edges`, `windows`, `outcomes`, ports, the plan itself.
3 adds what a plan costs, also where it is only proposed: restarted workers, tuples held up, all tuples of the time."""
VERSION_KEY = b"stormpilot.schema"
"""Key of the version in a file's metadata; files of version 1 have none."""

TIME = pa.timestamp("ms", tz="UTC")
_WINDOW = [("window_from", TIME), ("window_to", TIME), ("topology_id", pa.string()), ("topology_name", pa.string())]
TABLES: dict[str, pa.Schema] = {
    # one row per topology, window, executor pair and stream; executors are named by their first task
    "edges": pa.schema(
        [
            *_WINDOW,
            ("assigned_since", TIME),  # when the placement began under which this was measured
            ("from_executor", pa.int32()),
            ("to_executor", pa.int32()),
            ("stream", pa.string()),  # streams to and from ackers too: __ack_init, __ack_ack, ...
            ("rate_tps", pa.float64()),
            # since 2
            ("from_component", pa.string()),
            ("to_component", pa.string()),
            ("from_supervisor", pa.string()),  # null while unassigned
            ("to_supervisor", pa.string()),
            ("hop", pa.string()),  # worker, node, network: what the tuple crosses; see HOPS
        ]
    ),
    # one row per topology, window and executor; rates of an executor that was not measured are null
    "executors": pa.schema(
        [
            *_WINDOW,
            ("assigned_since", TIME),
            ("executor", pa.int32()),
            ("last_task", pa.int32()),
            ("component", pa.string()),
            ("supervisor", pa.string()),
            ("port", pa.int32()),
            ("cpu_mhz", pa.float64()),  # Python's and the JVM's around it
            ("python_cpu_cores", pa.float64()),
            ("memory_mb", pa.float64()),  # declared, else measured (resident set), else 0
            ("measured", pa.bool_()),
            ("covered_s", pa.float64()),
            ("received_tps", pa.float64()),
            ("acked_tps", pa.float64()),
            ("emitted_tps", pa.float64()),  # spouts: tuples emitted with an id
            ("completed_tps", pa.float64()),
            ("failed_tps", pa.float64()),
            ("queue", pa.int64()),
            # since 2
            ("sent_tps", pa.float64()),  # tuples sent, one to two executors counts twice; without those to ackers
            ("core_mhz", pa.float64()),  # MHz of one core of its node
            # since 4
            ("measured_memory_mb", pa.float64()),  # resident set, also where memory is declared
        ]
    ),
    # one row per window and live supervisor
    "nodes": pa.schema(
        [
            ("window_from", TIME),
            ("window_to", TIME),
            ("supervisor", pa.string()),
            ("host", pa.string()),
            ("rack", pa.string()),
            ("site", pa.string()),
            ("cores", pa.float64()),
            ("mhz", pa.float64()),
            ("limit_mhz", pa.float64()),  # B(n)
            ("load_mhz", pa.float64()),  # of all executors on it; null while one is late to report
            ("memory_mb", pa.float64()),
            ("slots", pa.int32()),
            ("used_slots", pa.int32()),
            # since 2
            ("ports", pa.list_(pa.int32())),
            # since 5
            ("storm_rack", pa.string()),  # by which Storm's shuffles and its resource-aware scheduler go; `rack`: cost
        ]
    ),
    # one row per topology, window, spout task and histogram bucket; upper_ms null = above the last bound
    "latency": pa.schema(
        [*_WINDOW, ("component", pa.string()), ("task", pa.int32()), ("upper_ms", pa.float64()), ("tuples", pa.int64())]
    ),
    # one row per topology and window (since 2): the topology as a whole, and what it is
    "windows": pa.schema(
        [
            *_WINDOW,
            ("assigned_since", TIME),
            ("measured", pa.bool_()),  # every executor that is to report did, over the whole window
            ("executors", pa.int32()),
            ("workers", pa.int32()),  # W(t), as asked for
            ("used_workers", pa.int32()),
            ("total_tps", pa.float64()),  # of all edges
            ("inter_node_tps", pa.float64()),
            ("inter_worker_tps", pa.float64()),  # between workers, of one node or of two
            ("emitted_tps", pa.float64()),
            ("completed_tps", pa.float64()),
            ("failed_tps", pa.float64()),
            ("latency_tuples", pa.int64()),  # how many latencies were counted; emit to ack
            ("latency_p50_ms", pa.float64()),
            ("latency_p95_ms", pa.float64()),
            ("latency_p99_ms", pa.float64()),
            ("busiest_supervisor", pa.string()),  # of the nodes that it runs on
            ("busiest_load_ratio", pa.float64()),  # its load_mhz / (cores x mhz)
            ("owner", pa.string()),
            ("priority", pa.int32()),
            ("loadaware", pa.bool_()),
            ("components", pa.string()),  # JSON: list of `Component` of model/values.py
        ]
    ),
    # one row per cycle and topology
    "decisions": pa.schema(
        [
            ("at", TIME),
            ("topology_id", pa.string()),
            ("topology_name", pa.string()),
            ("mode", pa.string()),
            ("action", pa.string()),
            ("reason", pa.string()),
            ("text", pa.string()),
            ("value", pa.float64()),
            ("threshold", pa.float64()),
            ("planner", pa.string()),
            ("params", pa.string()),
            ("seed", pa.int64()),
            ("epoch", pa.int64()),
            ("plan_set", pa.string()),
            ("plan_id", pa.string()),
            ("moved_executors", pa.int32()),
            ("inter_node_tps", pa.float64()),
            ("planned_inter_node_tps", pa.float64()),
            ("took_ms", pa.float64()),
            # since 2
            ("plan", pa.string()),  # JSON: [[supervisor, port, [[first task, last task], ...]], ...]; null without one
            ("threshold_from", pa.string()),  # where the threshold comes from: mined, operator, owner, configured
            # since 3
            ("total_tps", pa.float64()),  # of all edges, as it runs; null while not measured
            ("restarted_workers", pa.int32()),  # by the plan, published or proposed; 0 for a rolling move
            ("held_up_tuples", pa.float64()),  # by the move
        ]
    ),
    # one row per published plan when it is known what became of it (since 2); joins decisions by plan_id
    "outcomes": pa.schema(
        [
            ("at", TIME),
            ("topology_id", pa.string()),
            ("topology_name", pa.string()),
            ("plan_id", pa.string()),
            ("published_at", TIME),
            ("metric", pa.string()),  # inter_node_share or load_ratio; lower is better
            ("before", pa.float64()),
            ("predicted", pa.float64()),
            ("measured", pa.float64()),
            ("noise_ratio", pa.float64()),
            ("verdict", pa.string()),
            ("text", pa.string()),
            ("applied_s", pa.float64()),  # publishing until applied
            ("recovery_s", pa.float64()),  # until every task that restarted reported again
            ("downtime_s", pa.float64()),  # median time without work of those tasks
            ("restarted_tasks", pa.int32()),
            ("executors", pa.int32()),
            ("workers", pa.int32()),
        ]
    ),
}
SINCE: Mapping[str, Mapping[str, int]] = {
    "edges": dict.fromkeys(("from_component", "to_component", "from_supervisor", "to_supervisor", "hop"), 2),
    "executors": {"sent_tps": 2, "core_mhz": 2, "measured_memory_mb": 4},
    "nodes": {"ports": 2, "storm_rack": 5},
    "decisions": {"plan": 2, "threshold_from": 2, "total_tps": 3, "restarted_workers": 3, "held_up_tuples": 3},
}
"""The version that a column came with; all others are as old as their table."""
CLUSTER_TABLES = frozenset({"nodes"})
"""Tables without a folder per topology."""
HOPS = ("worker", "node", "network")
"""Distance of a tuple: nothing (both executors in one worker), from worker to worker of a node, from node to node."""


FOLDER = "topology="
LONGEST = 246
"""Letters of a quoted id; file systems have names of 255 bytes at most."""
KEPT = 160
"""Letters that are kept of a longer one."""
_CUT = "+"  # quoting leaves none


def topology_folder(topology_id: str) -> str:
    """The folder of a topology's rows: its quoted id, or the beginning of a long one with a hash of all of it."""
    quoted = quote(topology_id, safe="")
    if len(quoted) <= LONGEST:
        return FOLDER + quoted
    kept = topology_id
    while len(quoted) > KEPT:
        kept = kept[:-1]
        quoted = quote(kept, safe="")
    return f"{FOLDER}{quoted}{_CUT}{hashlib.sha256(topology_id.encode()).hexdigest()[:16]}"


def name_of(topology_id: str) -> str:
    """The name in Storm's id NAME-NUMBER-SECONDS."""
    return topology_id.rsplit("-", 2)[0]


def id_of_folder(folder: str) -> tuple[str, bool]:
    """The id that such a folder names, and whether that is all of it; else its beginning."""
    quoted, cut, _ = folder.removeprefix(FOLDER).partition(_CUT)
    return unquote(quoted), not cut


def may_hold(folder: str, topology: str) -> bool:
    """Whether rows of a topology, by its name or id, may be in such a folder."""
    found, whole = id_of_folder(folder)
    # an id is its topology's name with a number and a time behind it
    return found.startswith(topology) or (not whole and topology.startswith(found))


def partition_name(table: str, day: str, topology_id: str | None) -> str:
    """The folder of a table's rows of a day (YYYY-MM-DD), below the log's."""
    name = f"{table}/date={day}"
    return name if topology_id is None else f"{name}/{topology_folder(topology_id)}"


def file_schema(table: str, metadata: Mapping[bytes, bytes] | None = None) -> pa.Schema:
    """The schema that a file of this version is written with: version and `metadata` are in it."""
    return TABLES[table].with_metadata({VERSION_KEY: str(VERSION).encode(), **(metadata or {})})


def version_of(schema: pa.Schema) -> int:
    """The version of a file, by its schema."""
    return int((schema.metadata or {}).get(VERSION_KEY, b"1"))


def to_newest(data: pa.Table, table: str) -> pa.Table:
    """A table of any version with the columns of this one: what is missing is null, what came later is left out."""
    columns = [
        data.column(f.name).cast(f.type) if f.name in data.column_names else pa.nulls(data.num_rows, f.type)
        for f in TABLES[table]
    ]
    return pa.table(columns, schema=file_schema(table))
