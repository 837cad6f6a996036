"""Changes of the search's layout that are carried out: loads, rings, connections and the books of restarts follow."""

from __future__ import annotations

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.jit import jit
from stormpilot.planner.search.connections import reconnect, rerack
from stormpilot.planner.search.proposals import ONE
from stormpilot.planner.search.sharing import join, leave, take
from stormpilot.planner.search.state import Space, add_load, is_restarted, link, seat_worker, unseat_worker


@jit
def move_executor(g: Space, e: int, b: int) -> None:
    """Move executor e to worker b, which has a node. Its old worker keeps its slot even where it is empty now."""
    a = g.executors[e].worker
    home = g.executors[e].home
    m, n = g.workers[a].node, g.workers[b].node
    cpu, memory = g.executors[e].cpu, g.executors[e].memory
    restarted = int(is_restarted(g, a)) + int(is_restarted(g, b))
    reconnect(g, e, a, b)
    if g.box[0].sharing:
        leave(g, e, a, m)
        join(g, e, b, n)
    link(g, e, b)
    g.workers[a].cpu -= cpu
    g.workers[a].memory -= memory
    g.workers[b].cpu += cpu
    g.workers[b].memory += memory
    g.workers[a].away += 1 if home == a else -1
    g.workers[b].away += -1 if home == b else 1
    g.box[0].restarted += int(is_restarted(g, a)) + int(is_restarted(g, b)) - restarted
    if m != n:
        add_load(g, m, -cpu, -memory)
        add_load(g, n, cpu, memory)
        if g.box[0].restricted:
            k = g.executors[e].klass
            g.box[0].forbidden += int(g.allowed[k, m]) - int(g.allowed[k, n])
    if not g.executors[e].changed:
        g.executors[e].changed = 1
        g.changed[g.box[0].changed] = e
        g.box[0].changed += 1


@jit
def leave_node(g: Space, w: int) -> None:
    """Take worker w with all that it holds from its node."""
    m = g.workers[w].node
    g.box[0].restarted -= int(is_restarted(g, w))
    add_load(g, m, -g.workers[w].cpu, -g.workers[w].memory)
    take(g, w, m, -ONE)
    unseat_worker(g, w)


@jit
def come_to_node(g: Space, w: int, m: int, n: int) -> None:
    """Put worker w, which left node m, on node n with all that it holds."""
    seat_worker(g, w, n)
    add_load(g, n, g.workers[w].cpu, g.workers[w].memory)
    take(g, w, n, ONE)
    g.box[0].restarted += int(is_restarted(g, w))
    p, q = g.nodes[m].rack, g.nodes[n].rack
    if g.box[0].restricted or (g.rack_table.size and p != q):
        e = g.workers[w].head
        for _ in range(g.workers[w].size):
            k = g.executors[e].klass
            g.box[0].forbidden += int(g.allowed[k, m]) - int(g.allowed[k, n])
            rerack(g, e, p, q)
            e = g.executors[e].after


@jit
def restarts_if(g: Space, w: int, n: int, more: int, away: int) -> int:
    """Change of the workers that restart if w were on node n with so many more executors and more of them away."""
    if w == NOWHERE:
        return 1
    size = g.workers[w].size + more
    restarts = size > 0 and (g.workers[w].away + away > 0 or n != g.workers[w].home_node)
    return int(restarts) - int(is_restarted(g, w))
