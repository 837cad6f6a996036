"""The component graph of a topology, and the orders in which methods go over it.

An edge goes from the component that emits to the one that receives; in a topology whose graph is not known, the
measured traffic tells. Storm's own components (`__acker` and the like) hear and answer everyone and would make every
graph a cycle: they stand last in every order. A cycle is condensed to its strongly connected component.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from stormpilot.model.compiled import Compiled, Ints

if TYPE_CHECKING:  # its import takes half a second, which most planners need not wait for
    import networkx as nx


def component_graph(compiled: Compiled, t: int) -> nx.DiGraph:
    """The graph of topology t: nodes are component numbers (`Compiled.component`), without loops of one node."""
    import networkx as nx

    topology = compiled.model.topologies[t]
    number = {compiled.component_names[c][1]: c for c in _components(compiled, t)}
    graph = nx.DiGraph()
    graph.add_nodes_from(number.values())
    for component in topology.components:
        for i in component.inputs:
            if i.component in number and i.component != component.id:
                graph.add_edge(number[i.component], number[component.id])
    if not graph.number_of_edges():
        own = compiled.topology[compiled.sent_from] == t
        a, b = compiled.component[compiled.sent_from[own]], compiled.component[compiled.sent_to[own]]
        pairs = np.unique(np.stack([a, b]), axis=1)
        graph.add_edges_from((x, y) for x, y in pairs.T.tolist() if x != y)
    return graph


def linearised(compiled: Compiled, t: int, graph: nx.DiGraph) -> list[int]:
    """Components with emitters before receivers; of those that may come next, the lowest id; system ones last."""
    import networkx as nx

    condensed, own = _condensed(compiled, t, graph)
    order = nx.lexicographical_topological_sort(condensed, key=lambda s: _names(compiled, condensed, s)[0])
    return [c for s in order for c in _members(compiled, condensed, s)] + own


def breadth_first(compiled: Compiled, t: int, graph: nx.DiGraph) -> list[int]:
    """Components level by level: first those that nothing sends to; inside a level by id; system ones last."""
    import networkx as nx

    condensed, own = _condensed(compiled, t, graph)
    order: list[int] = []
    for level in nx.topological_generations(condensed):
        for s in sorted(level, key=lambda s: _names(compiled, condensed, s)[0]):
            order.extend(_members(compiled, condensed, s))
    return order + own


def executors_of(compiled: Compiled, t: int) -> dict[int, Ints]:
    """Component number -> its executors in rising order, for every component of topology t (maybe none)."""
    lo, hi = int(compiled.first_executor[t]), int(compiled.first_executor[t + 1])
    return {c: lo + np.flatnonzero(compiled.component[lo:hi] == c) for c in _components(compiled, t)}


def _components(compiled: Compiled, t: int) -> range:
    """The numbers of the components of topology t; components stand in the order of topologies."""
    names = compiled.component_names
    return range(bisect_left(names, t, key=lambda name: name[0]), bisect_right(names, t, key=lambda name: name[0]))


def is_system(compiled: Compiled, component: int) -> bool:
    """Whether it is one of Storm's own."""
    t, name = compiled.component_names[component]
    return any(c.id == name and c.kind == "system" for c in compiled.model.topologies[t].components)


def _condensed(compiled: Compiled, t: int, graph: nx.DiGraph) -> tuple[nx.DiGraph, list[int]]:
    """The acyclic graph of the strongly connected components of the user's part, and the system components by id."""
    import networkx as nx

    own = [c for c in graph if is_system(compiled, c)]
    user = graph.subgraph([c for c in graph if c not in own])
    return nx.condensation(user), sorted(own, key=lambda c: compiled.component_names[c][1])


def _members(compiled: Compiled, condensed: nx.DiGraph, s: int) -> list[int]:
    return sorted(condensed.nodes[s]["members"], key=lambda c: compiled.component_names[c][1])


def _names(compiled: Compiled, condensed: nx.DiGraph, s: int) -> list[str]:
    return [compiled.component_names[c][1] for c in _members(compiled, condensed, s)]
