"""Users' guarantees, as Storm's ResourceAwareScheduler has loaded them, for the model.

They come from `resource.aware.scheduler.user.pools` in storm.yaml, from `user-resource-pools.yaml`, or from where
`scheduler.config.loader.uri` points; the plug-in asks the scheduler and writes them into the cluster's snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from stormpilot.messages.core import ClusterSnapshot
from stormpilot.model.values import Guarantee
from stormpilot.observe.storm_keys import USER_POOLS, resource_aware


def guarantees(cluster: ClusterSnapshot, mhz: float) -> list[Guarantee]:
    """Guarantees of users, by user; none where Storm's own scheduler knows no users.

    Parameters
    ----------
    mhz
        Of one core: 100 points of CPU.
    """
    pools = cluster.shim.config.get(USER_POOLS)
    if not resource_aware(cluster.shim.fallback) or not isinstance(pools, Mapping):
        return []
    found = []
    for user, pool in sorted(pools.items()):
        own = pool if isinstance(pool, Mapping) else {}
        points, memory_mb = _amount(own.get("cpu")), _amount(own.get("memory"))
        found.append(Guarantee(user=str(user), cpu_mhz=points / 100 * mhz, memory_mb=memory_mb, cpu_points=points))
    return found


def _amount(value: object) -> float:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    return number if math.isfinite(number) and number > 0 else 0.0
