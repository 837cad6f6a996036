"""The first thing of a model that cannot be, as `compile_model` refuses it; `validate.py` lists all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stormpilot.errors import UsageError
from stormpilot.model.bounds import MOST, MOST_CORES, MOST_INT, MOST_PORT, is_amount, is_port, wrong_tasks
from stormpilot.model.values import Supervisor, Topology


def check_supervisors(supervisors: Sequence[Supervisor]) -> None:
    """Numbers, ports and names of supervisors; `UsageError` names the first that is wrong or there twice."""
    _unique([s.id for s in supervisors], "supervisors", "id")
    for s in supervisors:
        _unique(s.slots, f"supervisor {s.id}: slots", "port")
        if not (0 < s.cores <= MOST_CORES and s.mhz > 0 and all(map(is_amount, (s.mhz, s.memory_mb, s.cpu_limit_mhz)))):
            raise UsageError(
                f"supervisor {s.id}: expected cores and mhz > 0, memory_mb and cpu_limit_mhz >= 0, at most {MOST:g}"
            )
        if not all(map(is_port, s.slots)):
            raise UsageError(f"supervisor {s.id}: slots: expected ports from 0 to {MOST_PORT}")


def check_topologies(topologies: Sequence[Topology]) -> None:
    """Numbers, names and executors of topologies; `UsageError` names the first that is wrong or there twice."""
    _unique([t.id for t in topologies], "topologies", "id")
    for t in topologies:
        _unique(sorted(e.start for e in t.executors), f"topology {t.id}: executors", "start")
        if not 1 <= t.workers <= MOST_INT:
            raise UsageError(f"topology {t.id}: workers is {t.workers}, expected at least 1, at most {MOST_INT}")
        if abs(t.priority) > MOST_INT:
            raise UsageError(f"topology {t.id}: priority is {t.priority}, expected at most {MOST_INT}")
        if t.worker_executors is not None and t.worker_executors > MOST_INT:
            raise UsageError(
                f"topology {t.id}: worker_executors is {t.worker_executors}, expected at least 1, at most {MOST_INT}"
            )
        _unique([c.id for c in t.components], f"topology {t.id}: components", "id")
        _check_executors(t)
        _unique([a.start for a in t.assignment], f"topology {t.id}: assignment", "executor")


def _check_executors(t: Topology) -> None:
    components = {c.id for c in t.components}
    own = sorted(t.executors, key=lambda e: e.start)
    for before, e in zip([None, *own], own, strict=False):
        where = f"topology {t.id}: executor {e.start}"
        if e.component not in components:
            raise UsageError(f"{where} names the component {e.component!r}, not listed")
        if wrong := wrong_tasks(e, before):
            raise UsageError(f"{where}: {wrong[0]} {wrong[1]}")
        if not all(map(is_amount, (e.cpu_mhz, e.polling_mhz, e.memory_mb, e.queue_tuples))):
            raise UsageError(f"{where}: expected cpu_mhz, polling_mhz, memory_mb and queue_tuples from 0 to {MOST:g}")


def _unique(values: Sequence[str] | Sequence[int], where: str, field: str) -> None:
    if len(set(values)) != len(values):
        twice = next(v for v, n in Counter(values).items() if n > 1)
        raise UsageError(f"{where}: {field} {twice!r} is there twice")
