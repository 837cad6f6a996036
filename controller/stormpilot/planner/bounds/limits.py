"""The limits that every plan of a model must keep, and no more: what a bound of all plans rests on.

Planners are often held to more: to wishes for nodes and sites, to room that is set aside for shared memory, to CPU as
measured where less would do. What is proved under that may be undercut by another plan.
"""

from __future__ import annotations

import msgspec

from stormpilot.model.compiled import Compiled, compile_model
from stormpilot.model.flow.places_cpu import gives_up_mhz
from stormpilot.model.values import Model


def hard_limits(model: Model) -> Compiled | None:
    """The arrays of the model in which wishes for sites bind nobody, and executors have the least CPU (MHz).

    The least is without the CPU in which they look for tuples and that they give up. None where they may need less in
    other places (a law was learned): how little that is in the best of all places is not known.
    """
    if any(t.cpu_law is not None and t.cpu_law.error_ratio is not None for t in model.topologies):
        return None
    wishes = {
        (t.id, c.id) for t in model.topologies for c in t.components if c.site is not None and not c.site_required
    }
    topologies = [
        msgspec.structs.replace(
            t, executors=[msgspec.structs.replace(e, cpu_mhz=e.cpu_mhz - gives_up_mhz(e)) for e in t.executors]
        )
        for t in model.topologies
    ]
    return compile_model(msgspec.structs.replace(model, topologies=topologies), given_up=wishes)


def within(planned: Compiled, limits: Compiled) -> bool:
    """Whether plans of `planned` are held to the hard limits and to nothing else."""
    if planned.model != limits.model:
        return False
    return bool((planned.allowed[planned.klass] == limits.allowed[limits.klass]).all())
