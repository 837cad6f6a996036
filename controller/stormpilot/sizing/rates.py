"""Input rate of each component, by the rate of the sources and the selectivities of the streams [S17 6]."""

from __future__ import annotations

import networkx as nx

from stormpilot.sizing.problem import Problem


def input_gains(problem: Problem) -> dict[str, float]:
    """Component -> tuples that it takes in for each tuple/s of the asked rate.

    1 (times `source_share`) for a source, else the sum over its inputs of the emitter's gain times the selectivity.
    """
    components = {c.id: c for c in problem.components}
    gain: dict[str, float] = {}
    for name in nx.topological_sort(problem.graph()):
        c = components[name]
        gain[name] = sum(gain[s.component] * s.selectivity for s in c.inputs) if c.inputs else c.source_share
    return gain
