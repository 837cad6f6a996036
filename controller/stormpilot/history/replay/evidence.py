"""Files of a replay: `replay.json` (verdicts and sums) and `runs.parquet` (every step of every run)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from stormpilot.errors import UsageError
from stormpilot.history.replay.study import Evidence, Replay
from stormpilot.trafficlog.schema import TIME
from stormpilot.user_files import LARGE_BYTES, read_bytes, text_bytes

REPLAY = "replay.json"
RUNS = "runs.parquet"
SCHEMA = pa.schema(
    [
        ("setting", pa.string()),  # empty: what really happened
        ("topology_id", pa.string()),
        ("step_from", TIME),
        ("length_s", pa.float64()),
        ("inter_node_tps", pa.float64()),
        ("network_cost_tps", pa.float64()),  # tuples/s x distance
        ("total_tps", pa.float64()),
        ("busiest_load_ratio", pa.float64()),  # load / B(n) of the busiest node that it runs on
        ("overloaded_node_s", pa.float64()),
        ("overloaded_tps", pa.float64()),
        ("reason", pa.string()),  # of the decision at the end of the step
        ("refused", pa.string()),
        ("moved_executors", pa.int32()),  # at the end of the step
        ("restarted_workers", pa.int32()),
        ("held_up_tuples", pa.float64()),
    ]
)


def write(folder: Path, replay: Replay, evidence: Evidence) -> None:
    """Write both files into a folder, each whole or not at all; `UsageError` where that cannot be."""
    rows = [
        {
            "setting": setting,
            "topology_id": p.topology_id,
            "step_from": p.from_ms,
            "length_s": p.length_s,
            "inter_node_tps": p.inter_node_tps,
            "network_cost_tps": p.network_cost_tps,
            "total_tps": p.total_tps,
            "busiest_load_ratio": p.busiest_load_ratio,
            "overloaded_node_s": p.overloaded_node_s,
            "overloaded_tps": p.overloaded_tps,
            "reason": p.reason,
            "refused": p.refused,
            "moved_executors": p.move.executors if p.move else 0,
            "restarted_workers": p.move.workers if p.move else 0,
            "held_up_tuples": p.move.held_up_tuples if p.move else 0.0,
        }
        for setting, played in evidence.items()
        for p in played
    ]
    hidden = folder / f".{RUNS}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), hidden, compression="zstd")
        hidden.replace(folder / RUNS)
        hidden = folder / f".{REPLAY}.tmp"
        hidden.write_bytes(msgspec.json.format(msgspec.json.encode(replay), indent=1))
        hidden.replace(folder / REPLAY)
    except OSError as e:
        raise UsageError(f"{folder}: cannot write the replay: {e.strerror or e}") from e


def read(path: Path) -> Replay:
    """Read a `replay.json` (or the folder that it is in); `UsageError` when it is none."""
    path = path / REPLAY if path.is_dir() else path
    try:
        return msgspec.json.decode(text_bytes(read_bytes(path, LARGE_BYTES), path), type=Replay)
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}") from e
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        raise UsageError(f"{path} is not what `stormpilot trafficlog replay` writes: {e}") from e
