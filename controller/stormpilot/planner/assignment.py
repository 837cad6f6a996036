"""The CP-SAT model of `exact`: executors to nodes under every hard constraint, and the least traffic between hosts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from stormpilot.model.compiled import Floats, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.anneal import Limits
from stormpilot.planner.bound import Triangle
from stormpilot.planner.layout import Frame

LOAD_UNITS = 1e5  # integer units of a MHz or a MB
MOST_UNITS = 2**50  # of all traffic together


class Assignment:
    """The CP-SAT model: executors to nodes, number of workers of each topology on each node."""

    def __init__(self, frame: Frame, limits: Limits) -> None:
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
        self._workers()
        self.at = self._on_hosts()
        traffic = np.bincount(c.pair_a, c.pair_tps, c.executors) + np.bincount(c.pair_b, c.pair_tps, c.executors)
        self.rank: list[int] = np.lexsort((np.arange(c.executors), -traffic)).tolist()
        self.alike = self._alike_nodes()
        self._one_order_of_alike_nodes()
        self.solver = cp_model.CpSolver()
        self.scale = 1.0

    def _capacity(self, need: Floats, limit: Floats) -> None:
        units = np.rint(need * LOAD_UNITS).astype(np.int64)
        for n in range(self.frame.compiled.nodes):
            here = [(v[n], int(u)) for v, u in zip(self.on, units, strict=True) if n in v]
            if not math.isfinite(limit[n]) or sum(u for _, u in here) <= limit[n] * LOAD_UNITS:
                continue
            room = math.floor(limit[n] * LOAD_UNITS) + len(here) // 2  # what rounding may have added
            self.model.add(sum(v * u for v, u in here) <= room)

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
            if self.limits.exact_workers[t]:
                m.add(sum(total) == int(c.workers[t]))
            else:
                m.add(sum(total) <= int(c.workers[t]))
        for n, counts in enumerate(per_node):
            if counts:
                m.add(sum(counts) <= int(slots[n]))

    def _on_hosts(self) -> list[list[Any]]:
        """E -> host -> a variable or constant: the executor is on that host."""
        c, m = self.frame.compiled, self.model
        result = []
        for e, places in enumerate(self.on):
            row = []
            for h in range(int(c.node_host.max(initial=-1)) + 1):
                here = [v for n, v in places.items() if c.node_host[n] == h]
                if len(here) == 1:
                    row.append(here[0])
                else:
                    v = m.new_bool_var(f"e{e}h{h}")
                    m.add(v == sum(here))
                    row.append(v)
            result.append(row)
        return result

    def _alike_nodes(self) -> list[list[int]]:
        """Groups of nodes that can be exchanged in any solution."""
        c = self.frame.compiled
        if c.fixed.any():
            return []
        hosts = np.bincount(c.node_host, minlength=c.nodes)
        alike: dict[tuple[Any, ...], list[int]] = {}
        for n in range(c.nodes):
            key = (c.node_limit_mhz[n], c.node_memory_mb[n], int(c.slots_per_node()[n]), tuple(c.allowed[:, n]))
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

    def minimise_traffic(self, triangles: list[Triangle]) -> None:
        """Objective: traffic between executors on different hosts; `triangles` are cuts that make the bound strong."""
        c, m = self.frame.compiled, self.model
        self.scale = min(2.0 ** math.floor(math.log2(MOST_UNITS / max(c.total_tps, 1e-9))), 1e6)
        pairs = set(zip(c.pair_a.tolist(), c.pair_b.tolist(), strict=True))
        for t in triangles:
            pairs.update(t.pairs())
        together = {(a, b): self._together(a, b) for a, b in sorted(pairs)}
        for t in triangles:
            first, second, third = t.pairs()
            m.add(together[first] + together[second] - together[third] <= 1)
        self._what_fits_beside(together)
        units = np.rint(c.pair_tps * self.scale).astype(np.int64).tolist()
        pairs_with_traffic = zip(c.pair_a.tolist(), c.pair_b.tolist(), units, strict=True)
        m.minimize(sum((1 - together[a, b]) * u for a, b, u in pairs_with_traffic))

    def _together(self, a: int, b: int) -> Any:
        """A variable: executors a and b are on the same host."""
        m = self.model
        v = m.new_bool_var(f"p{a}_{b}")
        for h in range(len(self.at[a])):
            here, there = self.at[a][h], self.at[b][h]
            m.add_bool_or([here.negated(), there.negated(), v])
            m.add_bool_or([here.negated(), there, v.negated()])
            m.add_bool_or([here, there.negated(), v.negated()])
        return v

    def _what_fits_beside(self, together: dict[tuple[int, int], Any]) -> None:
        """Beside an executor fits only what the largest host leaves: implied, and what the bound rests on."""
        c = self.frame.compiled
        beside: list[list[tuple[Any, int]]] = [[] for _ in range(c.executors)]
        for (a, b), v in together.items():
            beside[a].append((v, b))
            beside[b].append((v, a))
        for need, limit in ((c.cpu_mhz, c.node_limit_mhz), (c.memory_mb, c.node_memory_mb)):
            units = np.rint(need * LOAD_UNITS).astype(np.int64).tolist()
            most = float(np.bincount(c.node_host, limit).max(initial=0.0))
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
        """Solve; `optimal`, `feasible`, `infeasible` or `unknown`, and the proved bound of the objective (tuples/s)."""
        cp = self.cp
        self.solver.parameters.max_time_in_seconds = max(min(budget_s, 1e6), 1e-3)
        self.solver.parameters.num_workers = threads
        self.solver.parameters.random_seed = 1
        self.solver.parameters.linearization_level = 2
        status = self.solver.solve(self.model)
        names = {cp.OPTIMAL: "optimal", cp.FEASIBLE: "feasible", cp.INFEASIBLE: "infeasible"}
        name = names.get(status, "unknown")
        bound = max(self.solver.best_objective_bound, 0.0) / self.scale if self.model.has_objective() else 0.0
        return name, bound

    def nodes(self) -> Ints:
        """E -> node, of the solution."""
        return np.array(
            [next(n for n, v in places.items() if self.solver.value(v)) for places in self.on], dtype=np.int64
        )

    def refuted(self) -> Infeasible:
        """The answer after a proof that nothing fits: of the model, or only of a planner that caps its workers."""
        c = self.frame.compiled
        capped = bool((self.limits.max_executors < np.diff(c.first_executor)).any())
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
