"""Storm's own statistics of executors, out of the structures of its IDL; a worker may have told Nimbus anything."""

from __future__ import annotations

from typing import Any

from stormpilot.nimbus.values import ExecutorStatistics, PlacedExecutor

MOST_TOLD = 1e12
STATISTICS_S = 600
"""The shortest window of Storm's statistics."""


def placed(e: Any) -> PlacedExecutor:
    """An executor of `ExecutorSummary`."""
    return PlacedExecutor(
        start=int(e.executor_info.task_start),
        end=int(e.executor_info.task_end),
        component=e.component_id,
        host=e.host,
        port=int(e.port),
        uptime_s=int(e.uptime_secs or 0),
    )


def statistics(e: Any) -> ExecutorStatistics:
    """Storm's counts of an executor of `ExecutorSummary`."""
    where = placed(e)
    window_s = float(min(max(where.uptime_s, 1), STATISTICS_S))
    stats, key = e.stats, str(STATISTICS_S)
    bolt = stats.specific.bolt if stats is not None and stats.specific is not None else None
    spout = stats.specific.spout if stats is not None and stats.specific is not None else None
    executed = {} if bolt is None else (bolt.executed or {}).get(key, {})
    took = {} if bolt is None else (bolt.execute_ms_avg or {}).get(key, {})
    ended = [] if spout is None else [(part or {}).get(key, {}) for part in (spout.acked, spout.failed)]
    return ExecutorStatistics(
        placed=where,
        window_s=window_s,
        emitted_tps={
            s: _sound(n) / window_s for s, n in ({} if stats is None else (stats.emitted or {}).get(key, {})).items()
        },
        executed_tps={(i.componentId, i.streamId): _sound(n) / window_s for i, n in executed.items()},
        execute_ms={(i.componentId, i.streamId): _sound(ms) for i, ms in took.items()},
        completed_tps=sum(_sound(n) for part in ended for n in part.values()) / window_s,
    )


def _sound(number: float) -> float:
    """A count or time from a worker, which checks nothing; 0 where it cannot be a count or a time."""
    return float(number) if 0 <= number <= MOST_TOLD else 0.0


def grouping(grouping: Any) -> str:
    """Storm's name of a grouping."""
    if grouping.fields is not None:
        return "FIELDS" if grouping.fields else "GLOBAL"
    names = ("shuffle", "all", "none", "direct", "custom_object", "custom_serialized", "local_or_shuffle")
    return next(name.upper() for name in names if getattr(grouping, name) is not None)
