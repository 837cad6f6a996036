"""The CP-SAT model of `exact`: executors to nodes under every hard constraint, and the least cost over levels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from stormpilot.model.compiled import Floats, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.bounds.linear import Level, Levels, Pair, Triangle
from stormpilot.planner.placement.layout import Frame, Layout, empty_layout
from stormpilot.planner.placement.problem import LeftS, Limits, Objective, no_limits
from stormpilot.planner.search.annealing import Annealer

LOAD_UNITS = 1e5  # integer units of a MHz or a MB
MOST_UNITS = 2**36  # of the whole cost


class Assignment:
    """The CP-SAT model: executors to nodes, number of workers of each topology on each node."""

    def __init__(self, frame: Frame, limits: Limits, *, by_rack: bool = False) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model
        self.frame = frame
        self.limits = limits
        self.model = cp_model.CpModel()
        c = frame.compiled
        fixed_node = c.slot_node[c.current]
        self.on: list[dict[int, Any]] = [
            {
                n: self.model.new_bool_var(f"e{e}n{n}")
                for n in range(c.nodes)
                if (
                    fixed_node[e] == n
                    if c.fixed[e]
                    else c.allowed[c.klass[e], n] and c.first_slot[n + 1] > c.first_slot[n]
                )
            }
            for e in range(c.executors)
        ]
        for places in self.on:
            self.model.add_exactly_one(list(places.values()))
        for need, limit in ((c.cpu_mhz, c.node_limit_mhz), (c.memory_mb, c.node_memory_mb)):
            self._capacity(need, limit)
        self._amounts()
        self._count: list[list[Any]] = []  # T x N: workers that are not fixed
        self._workers()
        traffic = np.bincount(c.pair_a, c.pair_tps, c.executors) + np.bincount(c.pair_b, c.pair_tps, c.executors)
        self.rank: list[int] = np.lexsort((np.arange(c.executors), -traffic)).tolist()
        self.alike = self._alike_nodes(by_rack)
        self._one_order_of_alike_nodes()
        self.solver = cp_model.CpSolver()
        self.scale = 1.0
        self.constant = 0.0

    def _capacity(self, need: Floats, limit: Floats) -> None:
        """Keep needs within a limit; rounded so that what fits by a hair is no proof that nothing does."""
        units = np.floor(need * LOAD_UNITS).astype(np.int64)
        for n in range(self.frame.compiled.nodes):
            here = [(v[n], int(u)) for v, u in zip(self.on, units, strict=True) if n in v]
            if not math.isfinite(limit[n]) or sum(u for _, u in here) <= limit[n] * LOAD_UNITS:
                continue
            self.model.add(sum(v * u for v, u in here) <= math.ceil(limit[n] * LOAD_UNITS))

    def _amounts(self) -> None:
        s = self.frame.compiled.sharing
        for r in range(len(s.names)):
            need = np.where(s.kind >= 0, s.demand[s.kind, r], 0.0)
            self._capacity(need, s.room[r])

    def _workers(self) -> None:
        f, c, m = self.frame, self.frame.compiled, self.model
        slots = c.slots_per_node()
        fixed_here = np.zeros((c.topologies, c.nodes), dtype=np.int64)
        np.add.at(fixed_here, (f.topology[f.fixed], f.home_node[f.fixed]), 1)
        per_node: list[list[Any]] = [[] for _ in range(c.nodes)]
        for t in range(c.topologies):
            own = range(int(c.first_executor[t]), int(c.first_executor[t + 1]))
            total = []
            for n in range(c.nodes):
                here = [self.on[e][n] for e in own if n in self.on[e] and not c.fixed[e]]
                least = int(fixed_here[t, n])
                most = min(int(slots[n]), int(c.workers[t]), len(here) + least)
                if most < least:
                    most = least
                count = m.new_int_var(least, most, f"t{t}n{n}")
                cap = int(self.limits.max_executors[t])
                if here:
                    if cap >= len(here):
                        for v in here:
                            m.add(count >= least + 1).only_enforce_if(v)
                    else:
                        m.add(sum(here) <= cap * (count - least))
                    m.add(count - least <= sum(here))
                total.append(count)
                per_node[n].append(count)
            self._count.append([count - least for count, least in zip(total, fixed_here[t].tolist(), strict=True)])
            if self.limits.exact_workers[t]:
                m.add(sum(total) == int(c.workers[t]))
            else:
                m.add(sum(total) <= int(c.workers[t]))
        for n, counts in enumerate(per_node):
            if counts:
                m.add(sum(counts) <= int(slots[n]))

    def _in_groups(self, group: Ints) -> list[list[Any]]:
        """E -> group of nodes -> a variable: the executor is in that group."""
        m = self.model
        result = []
        for e, places in enumerate(self.on):
            row = []
            for h in np.unique(group).tolist():
                here = [v for n, v in places.items() if group[n] == h]
                if len(here) == 1:
                    row.append(here[0])
                else:
                    v = m.new_bool_var(f"e{e}g{h}")
                    m.add(v == sum(here))
                    row.append(v)
            result.append(row)
        return result

    def _alike_nodes(self, by_rack: bool) -> list[list[int]]:
        """Groups of nodes that can be exchanged in any solution; `by_rack`: only inside a rack."""
        c = self.frame.compiled
        if c.fixed.any():
            return []
        hosts = np.bincount(c.node_host, minlength=c.nodes)
        alike: dict[tuple[Any, ...], list[int]] = {}
        for n in range(c.nodes):
            rack = int(c.node_rack[n]) if by_rack else 0
            room = (c.node_limit_mhz[n], c.node_memory_mb[n], int(c.slots_per_node()[n]), *c.sharing.room[:, n])
            key = (rack, *room, tuple(c.allowed[:, n]))
            if hosts[c.node_host[n]] == 1:
                alike.setdefault(key, []).append(n)
        return [nodes for nodes in alike.values() if len(nodes) > 1]

    def _one_order_of_alike_nodes(self) -> None:
        """An executor is on the second of two alike nodes only if one of lower rank (more traffic) is on the first."""
        for nodes in self.alike:
            for before, after in itertools.pairwise(nodes):
                earlier: list[Any] = []
                for e in self.rank:
                    if after in self.on[e]:
                        self.model.add_bool_or([*earlier, self.on[e][after].negated()])
                    if before in self.on[e]:
                        earlier.append(self.on[e][before])

    def minimise(self, cost: Levels, triangles: list[Triangle]) -> None:
        """Objective: the cost of pairs that are apart; `triangles` are cuts that make the bound strong."""
        m = self.model
        self.constant = cost.constant
        self.scale = 2.0 ** math.floor(math.log2(MOST_UNITS / max(cost.total, 1e-9)))
        terms: list[Any] = []
        narrow: dict[Pair, Any] = {}
        for i, level in enumerate(cost.levels):
            own = [t for t in triangles if t.level == i]
            pairs = set(level.apart).union(*(t.pairs() for t in own))
            at = self._in_groups(level.group)
            together = {(a, b): self._together(at[a], at[b]) for a, b in sorted(pairs)}
            for t in own:
                first, second, third = t.pairs()
                m.add(together[first] + together[second] - together[third] <= 1)
            for p in sorted(narrow.keys() & together.keys()):
                m.add_implication(narrow[p], together[p])
            self._what_fits_beside(level, together)
            terms += [(1 - together[p]) * round(w * self.scale) for p, w in level.apart.items()]
            narrow = together
        m.minimize(sum(terms))

    def _together(self, a: list[Any], b: list[Any]) -> Any:
        """A variable: two executors, given by the groups that they may be in, are in the same."""
        m = self.model
        v = m.new_bool_var("")
        for here, there in zip(a, b, strict=True):
            m.add_bool_or([here.negated(), there.negated(), v])
            m.add_bool_or([here.negated(), there, v.negated()])
            m.add_bool_or([here, there.negated(), v.negated()])
        return v

    def _what_fits_beside(self, level: Level, together: dict[Pair, Any]) -> None:
        """Beside an executor fits only what the largest group leaves: implied, and what the bound rests on."""
        c = self.frame.compiled
        beside: list[list[tuple[Any, int]]] = [[] for _ in range(c.executors)]
        for (a, b), v in together.items():
            beside[a].append((v, b))
            beside[b].append((v, a))
        for need, limit in ((c.cpu_mhz, c.node_limit_mhz), (c.memory_mb, c.node_memory_mb)):
            units = np.rint(need * LOAD_UNITS).astype(np.int64).tolist()
            most = float(np.bincount(level.group, limit).max(initial=0.0))
            for e, others in enumerate(beside):
                if math.isfinite(most) and sum(units[u] for _, u in others) + units[e] > most * LOAD_UNITS:
                    room = math.floor(most * LOAD_UNITS) + c.executors - units[e]
                    self.model.add(sum(v * units[u] for v, u in others) <= room)

    def hint(self, node: Ints) -> None:
        """Start from this solution (nodes per executor), with alike nodes in the order that is searched."""
        number = {n: n for n in range(self.frame.compiled.nodes)}
        for nodes in self.alike:
            seen = list(dict.fromkeys(int(node[e]) for e in self.rank if int(node[e]) in nodes))
            number.update(zip([*seen, *(n for n in nodes if n not in seen)], nodes, strict=True))
        for places, n in zip(self.on, node.tolist(), strict=True):
            for m, v in places.items():
                self.model.add_hint(v, int(m == number[n]))

    def run(self, budget_s: float, threads: int) -> tuple[str, float]:
        """Solve; `optimal`, `feasible`, `infeasible` or `unknown`, and the proved bound of the cost."""
        cp = self.cp
        self.solver.parameters.max_time_in_seconds = max(min(budget_s, 1e6), 1e-3)
        self.solver.parameters.num_workers = threads
        self.solver.parameters.random_seed = 1
        self.solver.parameters.linearization_level = 2
        status = self.solver.solve(self.model)
        names = {cp.OPTIMAL: "optimal", cp.FEASIBLE: "feasible", cp.INFEASIBLE: "infeasible"}
        name = names.get(status, "unknown")
        bound = max(self.solver.best_objective_bound, 0.0) / self.scale if self.model.has_objective() else 0.0
        return name, bound + self.constant

    def nodes(self) -> Ints:
        """E -> node, of the solution."""
        return np.array(
            [next(n for n, v in places.items() if self.solver.value(v)) for places in self.on], dtype=np.int64
        )

    def workers(self) -> Ints:
        """T x N: workers that are not fixed, of the solution."""
        c = self.frame.compiled
        found = [[int(self.solver.value(count)) for count in row] for row in self._count]
        return np.array(found, dtype=np.int64).reshape(c.topologies, c.nodes)

    def refuted(self) -> Infeasible:
        """The answer after a proof that nothing fits: of the model, or only of a planner that caps its workers."""
        c = self.frame.compiled
        most = no_limits(c).max_executors
        spread = np.diff(c.first_executor) - c.workers + 1  # the others of the workers that must be used hold one each
        most = np.where(self.limits.exact_workers, np.minimum(most, spread), most)
        capped = bool((self.limits.max_executors < most).any())
        beside = " beside the planner's own cap of executors per worker (raise alpha)" if capped else ""
        return Infeasible(
            constraint=self._blame(),
            text="no placement keeps CPU and memory limits, slots, numbers of workers, sites, pins and exclusions all"
            + beside,
            executors=[c.name(e) for e in range(c.executors)],
            proved=not capped,
        )

    def _blame(self) -> str:
        c = self.frame.compiled
        kinds = ["cpu", "slots"]
        if np.isfinite(c.node_memory_mb).any():
            kinds.append("memory")
        if not c.allowed.all():
            kinds.append("site, pin or exclusion")
        return " + ".join(kinds)

    def unknown(self) -> Infeasible:
        """The answer when the time was over before anything was found or refuted."""
        return Infeasible(
            constraint=self._blame(),
            text="the time was over before a plan was found; that none exists is not proved",
            executors=[self.frame.compiled.name(e) for e in range(self.frame.compiled.executors)],
        )


def any_layout(frame: Frame, limits: Limits, budget_s: float) -> Layout | Infeasible:
    """Some layout that keeps every hard constraint, or a proof that there is none, or neither within the budget."""
    problem = Assignment(frame, limits)
    status, _ = problem.run(budget_s, 1)
    if status == "infeasible":
        return problem.refuted()
    if status == "unknown":
        return problem.unknown()
    return split(frame, problem, limits, np.random.default_rng(0), lambda: math.inf)


def split(frame: Frame, solved: Assignment, limits: Limits, rng: np.random.Generator, left_s: LeftS) -> Layout:
    """Workers for executors that have their nodes: one per topology and node, more where limits ask for more.

    Where all workers must be used, a node has as many of each as in the solution: it has slots for those. Who shares
    one of several is a matter of inter-worker traffic (local search inside the nodes).
    """
    c = frame.compiled
    node, workers = solved.nodes(), solved.workers()
    layout = empty_layout(frame)
    for t in range(c.topologies):
        own = np.arange(c.first_executor[t], c.first_executor[t + 1])
        own = own[~c.fixed[own]]
        unused = [w for w in range(int(frame.first_worker[t]), int(frame.first_worker[t + 1])) if not frame.fixed[w]]
        for n in np.unique(node[own]).tolist():
            here = own[node[own] == n]
            least = -(-len(here) // int(limits.max_executors[t]))
            for part in np.array_split(here, int(workers[t, n]) if limits.exact_workers[t] else least):
                w = unused.pop(0)
                layout.worker[part] = w
                layout.node[w] = n
    if limits.exact_workers.any() or (limits.max_executors < np.diff(c.first_executor)).any():
        annealer = Annealer(frame, Objective((1.0, 1.0, 1.0)), limits)
        tries = min(1000 * c.executors, 5_000_000)
        return annealer.search(layout, rng, tries, left_s, inside_nodes=True).layout
    return layout
