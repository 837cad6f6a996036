"""A cluster that is short of CPU: what runs needs more than B(n) of all nodes together.

No plan would keep B(n) then, and nothing would relieve the node that is full beside one that is not.
"""

from __future__ import annotations

import msgspec

from stormpilot.model.values import Model

NEAR_RATIO = 0.05
"""B(n) rises from the moment on at which less than this part of what is needed is left."""
RISE = 2.0
"""B(n) rises so many times as fast as what is needed: executors do not divide evenly among nodes, and where all nodes
are nearly full, relief of one that is a little fuller wins little."""


def with_room_for_what_runs(model: Model, needed_mhz: float) -> tuple[Model, str]:
    """The model with B(n) at which what runs and needs so much fits, at most the whole node, and a sentence on that.

    B(n) of all nodes rises by the same ratio, and does not jump where the load comes and goes. Where B(n) suffices: the
    same object, and no sentence.
    """
    limit_mhz = sum(s.limit_mhz for s in model.supervisors)
    short_ratio = needed_mhz * (1 + NEAR_RATIO) / limit_mhz - 1 if limit_mhz else 0.0
    if short_ratio <= 0:
        return model, ""
    raised = 1 + RISE * short_ratio
    supervisors = [
        msgspec.structs.replace(s, cpu_limit_mhz=max(s.limit_mhz, min(s.cpu_mhz, s.limit_mhz * raised)))
        for s in model.supervisors
    ]
    cpu_mhz = sum(s.cpu_mhz for s in supervisors)
    filled = sum(s.limit_mhz for s in supervisors) / cpu_mhz
    text = (
        f"what runs needs {needed_mhz:,.0f} MHz, and the supervisors have {cpu_mhz:,.0f} MHz, of which plans may fill "
        f"{limit_mhz:,.0f}: they fill up to {filled:.0%} of every node now, to share the load; add a supervisor"
    )
    return msgspec.structs.replace(model, supervisors=supervisors), text
