"""A stretch of a planted topology's time as tables of the traffic log."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stormpilot.generate.logs.places import FIRST_PORT, SLOTS, Places
from stormpilot.generate.logs.shape import COMPONENTS, CORE_MHZ, STREAM_NAMES, Floats, Ints, Shape, components
from stormpilot.generate.logs.spec import Spec
from stormpilot.generate.logs.tables import Columns, masked, table_of, times, word, words
from stormpilot.generate.logs.timeline import CALM_QUEUE, FULL_QUEUE, Timeline
from stormpilot.instrument.latency import BOUNDS_MS, RATIO
from stormpilot.trafficlog.schema import HOPS

EDGE_NOISE, CPU_NOISE, LATENCY_NOISE = 0.02, 0.02, 0.04
RISE = 8.0
"""Latency above a knee: how steeply it rises with utilisation."""
SHARPNESS = 9.0
"""Of the log-logistic spread of latencies within a window."""
DECLARED_MHZ = 250.0
MEMORY_MB = 128.0


@dataclass(frozen=True)
class Planted:
    """A topology with all that was drawn for it; `supervisors` and `knees` are by node."""

    id: str
    name: str
    shape: Shape
    timeline: Timeline
    supervisors: list[str]
    hosts: list[str]
    knees: Floats
    latency_ms: float
    restart_s: float


@dataclass
class Counted:
    """Ground truth about the rows: by node windows in which it was the busiest, and of these above its knee."""

    busiest: Ints
    above: Ints
    highest_tps: dict[tuple[int, int], float]
    alone_windows: dict[tuple[int, int], int]


class Stretch:
    """Windows `[begin, end)` of one topology; gaps are left out."""

    def __init__(self, spec: Spec, planted: Planted, begin: int, end: int, rng: np.random.Generator):
        self.spec, self.p, self.rng = spec, planted, rng
        t, shape = planted.timeline, planted.shape
        self.at = np.flatnonzero(~t.gap[begin:end]) + begin
        self.placement = t.placement[self.at]
        self.silent = t.silent[self.at]
        noise = rng.standard_normal((len(self.at), len(shape.edge_part)), dtype=np.float32)
        rates = t.rate_tps[self.at, None] * shape.edge_part * (1 + EDGE_NOISE * noise)
        self.counts = np.rint(rates.clip(0) * spec.window_s)
        self.unheard = self.silent[:, None] == np.arange(shape.executors)
        data = shape.data_edges
        into = _summed(self.counts, shape.edge_to, shape.executors) / spec.window_s
        self.sent = _summed(self.counts * data, shape.edge_from, shape.executors) / spec.window_s
        self.taken = np.where(shape.component == 0, self.sent, into)
        law = shape.intercept_mhz[shape.component] + shape.mhz_per_tps[shape.component] * self.taken
        cpu = law * (1 + CPU_NOISE * rng.standard_normal(law.shape))
        self.cpu_mhz = np.where(self.unheard, DECLARED_MHZ, cpu)
        nodes = len(planted.supervisors)
        self.node = np.array([m.places.node for m in t.moves])[self.placement]
        self.load_mhz = np.empty((len(self.at), nodes))
        true_mhz = np.empty((len(self.at), nodes))
        for i in np.unique(self.placement):
            one_hot = np.eye(nodes)[t.moves[i].places.node]
            mine = self.placement == i
            self.load_mhz[mine], true_mhz[mine] = self.cpu_mhz[mine] @ one_hot, cpu[mine] @ one_hot
        self.ratio = true_mhz / t.node_mhz
        over = (self.ratio - planted.knees).clip(0)
        factor = (1 + RISE * over / (1.05 - self.ratio).clip(0.05)).max(axis=1)
        self.median_ms = planted.latency_ms * factor * np.exp(LATENCY_NOISE * rng.standard_normal(len(self.at)))
        self.tuples = np.rint(self.taken[:, shape.component == 0] * spec.window_s * 0.999).astype(np.int64)
        self.ends_ms = spec.start_ms + (self.at + 1) * spec.window_s * 1000
        since = np.array([spec.start_ms + m.at * spec.window_s * 1000 for m in t.moves])
        self.since_ms = since[self.placement]

    def count(self, counted: Counted) -> None:
        """Add to what the truth tells."""
        busiest = self.ratio.argmax(axis=1)
        np.add.at(counted.busiest, busiest, 1)
        above = self.ratio[np.arange(len(busiest)), busiest] > self.p.knees[busiest]
        np.add.at(counted.above, busiest[above], 1)
        shape = self.p.shape
        calm = (self.ratio < self.p.knees).all(axis=1) & (self.silent < 0)
        for i in np.unique(self.placement):
            here = (self.placement == i) & calm
            node = self.p.timeline.moves[i].places.node
            for c in range(len(COMPONENTS) - 1):
                for n in range(len(self.p.supervisors)):
                    mine = (shape.component == c) & (node == n)
                    if not mine.any() or not here.any():
                        continue
                    key = (c, int(mine.sum()))
                    highest = float(self.taken[here][:, mine].sum(axis=1).max())
                    counted.highest_tps[key] = max(counted.highest_tps.get(key, 0.0), highest)
                    counted.alone_windows[key] = counted.alone_windows.get(key, 0) + int(here.sum())

    def tables(self) -> dict[str, pa.Table]:
        """Rows by table, without `nodes`."""
        found = {
            "edges": self._edges(),
            "executors": self._executors(),
            "latency": self._latency(),
            "windows": self._windows(),
            "decisions": self._decisions(),
            "outcomes": self._outcomes(),
        }
        return {name: table_of(name, columns) for name, columns in found.items() if len(next(iter(columns.values())))}

    def nodes(self) -> pa.Table:
        """Rows of `nodes`: the topology's supervisors."""
        t, nodes = self.p.timeline, len(self.p.supervisors)
        lost = np.array([-1 if m.places.lost is None else m.places.lost for m in t.moves])[self.placement]
        window, node = np.nonzero(lost[:, None] != np.arange(nodes))
        used = np.array([_used_slots(m.places, self.p.shape, nodes) for m in t.moves])
        rows = len(window)
        ports = list(range(FIRST_PORT, FIRST_PORT + SLOTS))
        return table_of(
            "nodes",
            {
                "window_from": times(self.ends_ms[window] - self.spec.window_s * 1000),
                "window_to": times(self.ends_ms[window]),
                "supervisor": words(node, list(self.p.supervisors)),
                "host": words(node, list(self.p.hosts)),
                "rack": words(node % 2, ["/rack-a", "/rack-b"]),
                "cores": np.full(rows, t.node_mhz / CORE_MHZ),
                "mhz": np.full(rows, CORE_MHZ),
                "limit_mhz": np.full(rows, t.node_mhz * self.spec.cpu_limit_ratio),
                "load_mhz": self.load_mhz[window, node],
                "memory_mb": np.full(rows, 65536.0),
                "slots": np.full(rows, SLOTS),
                "used_slots": used[self.placement[window], node],
                "ports": pa.array([ports] * rows, pa.list_(pa.int32())),
            },
        )

    def _head(self, window: npt.NDArray[np.int64], since: bool = True) -> dict[str, pa.Array]:
        head = {
            "window_from": times(self.ends_ms[window] - self.spec.window_s * 1000),
            "window_to": times(self.ends_ms[window]),
            "topology_id": word(self.p.id, len(window)),
            "topology_name": word(self.p.name, len(window)),
        }
        return head | ({"assigned_since": times(self.since_ms[window])} if since else {})

    def _edges(self) -> Columns:
        shape = self.p.shape
        heard = ~self.unheard[:, shape.edge_to] & (shape.data_edges | ~self.unheard[:, shape.edge_from])
        window, edge = np.nonzero((self.counts > 0) & heard)
        a, b = shape.edge_from[edge], shape.edge_to[edge]
        hop = np.array([m.places.hop for m in self.p.timeline.moves])[self.placement[window], edge]
        return {
            **self._head(window),
            "from_executor": shape.start[a].astype(np.int32),
            "to_executor": shape.start[b].astype(np.int32),
            "stream": words(shape.edge_stream[edge], list(STREAM_NAMES)),
            "rate_tps": self.counts[window, edge] / self.spec.window_s,
            "from_component": words(shape.component[a], list(COMPONENTS)),
            "to_component": words(shape.component[b], list(COMPONENTS)),
            "from_supervisor": words(self.node[window, a], list(self.p.supervisors)),
            "to_supervisor": words(self.node[window, b], list(self.p.supervisors)),
            "hop": words(hop, list(HOPS)),
        }

    def _executors(self) -> Columns:
        shape = self.p.shape
        window, e = (x.ravel() for x in np.indices((len(self.at), shape.executors)))
        component = shape.component[e]
        null = self.unheard.ravel() | (component == len(COMPONENTS) - 1)
        taken, sent = self.taken.ravel(), self.sent.ravel()
        spout = component == 0
        filling = self.p.timeline.filling[self.at]
        hot = np.array([m.places.hot for m in self.p.timeline.moves])[self.placement]
        full = (filling[:, None] & (self.node == hot[:, None])).ravel()
        queue = np.where(full, FULL_QUEUE, CALM_QUEUE) * np.exp(0.5 * self.rng.standard_normal(len(e)))
        core = np.full(len(e), CORE_MHZ)
        return {
            **self._head(window),
            "executor": shape.start[e],
            "last_task": shape.start[e],
            "component": words(component, list(COMPONENTS)),
            "supervisor": words(self.node.ravel(), list(self.p.supervisors)),
            "port": FIRST_PORT + component,
            "cpu_mhz": self.cpu_mhz.ravel(),
            "python_cpu_cores": masked(self.cpu_mhz.ravel() / CORE_MHZ * 0.9, null),
            "memory_mb": np.full(len(e), MEMORY_MB),
            "measured": ~self.unheard.ravel(),
            "covered_s": masked(np.full(len(e), float(self.spec.window_s)), null),
            "received_tps": masked(np.where(spout, 0.0, taken), null),
            "acked_tps": masked(np.where(spout, 0.0, taken), null),
            "emitted_tps": masked(np.where(spout, taken, 0.0), null),
            "completed_tps": masked(np.where(spout, taken * 0.999, 0.0), null),
            "failed_tps": masked(np.where(spout, taken * 0.001, 0.0), null),
            "queue": masked(np.rint(queue).astype(np.int64), null | spout),
            "sent_tps": masked(sent, null),
            "core_mhz": core,
        }

    def _latency(self) -> Columns:
        bounds = np.array(BOUNDS_MS)
        below = 1 / (1 + (bounds / self.median_ms[:, None]) ** -SHARPNESS)
        part = np.diff(below, axis=1, prepend=0.0)
        tuples = np.rint(part[:, None, :] * self.tuples[:, :, None]).astype(np.int64)
        window, spout, bucket = np.nonzero(tuples)
        return {
            **self._head(window, since=False),
            "component": word(COMPONENTS[0], len(window)),
            "task": self.p.shape.start[spout],
            "upper_ms": bounds[bucket],
            "tuples": tuples[window, spout, bucket],
        }

    def _windows(self) -> Columns:
        t, shape = self.p.timeline, self.p.shape
        rows = np.arange(len(self.at))
        hop = np.array([m.places.hop for m in t.moves])[self.placement]
        rates = self.counts / self.spec.window_s
        emitted = self.taken[:, shape.component == 0].sum(axis=1)
        busiest = (self.load_mhz / t.node_mhz).argmax(axis=1)
        workers = np.array([_workers(m.places, shape) for m in t.moves])[self.placement]
        text = msgspec.json.encode(components()).decode()
        return {
            **self._head(rows),
            "measured": self.silent < 0,
            "executors": np.full(len(rows), shape.executors),
            "workers": workers,
            "used_workers": workers,
            "total_tps": rates.sum(axis=1),
            "inter_node_tps": (rates * (hop == HOPS.index("network"))).sum(axis=1),
            "inter_worker_tps": (rates * (hop != HOPS.index("worker"))).sum(axis=1),
            "emitted_tps": emitted,
            "completed_tps": emitted * 0.999,
            "failed_tps": emitted * 0.001,
            "latency_tuples": self.tuples.sum(axis=1),
            "latency_p50_ms": self._quantile_ms(0.5),
            "latency_p95_ms": self._quantile_ms(0.95),
            "latency_p99_ms": self._quantile_ms(0.99),
            "busiest_supervisor": words(busiest, list(self.p.supervisors)),
            "busiest_load_ratio": (self.load_mhz / t.node_mhz)[rows, busiest],
            "owner": word("generated", len(rows)),
            "priority": np.full(len(rows), 29),
            "loadaware": np.zeros(len(rows), dtype=bool),  # its shuffles are even, wherever the receivers run
            "components": word(text, len(rows)),
        }

    def _quantile_ms(self, q: float) -> Floats:
        """As it is read from the histogram: the geometric middle of the bucket."""
        exact = self.median_ms * (q / (1 - q)) ** (1 / SHARPNESS)
        bucket = np.searchsorted(np.array(BOUNDS_MS), exact).clip(max=len(BOUNDS_MS) - 1)
        middle: Floats = np.array(BOUNDS_MS)[bucket] / RATIO**0.5
        return middle

    def _moves(self) -> list[tuple[int, int]]:
        """(row of the stretch, number of the move) of the moves in it; the first placement is no move."""
        at = {int(w): i for i, w in enumerate(self.at)}
        return [(at[m.at], i) for i, m in enumerate(self.p.timeline.moves) if m.reason and m.at in at]

    def _decisions(self) -> Columns:
        rows = np.arange(len(self.at))
        moved = self._moves()
        actions = ["skip", "publish"]
        reasons = ["GAIN_BELOW_THRESHOLD", *sorted({m.reason for m in self.p.timeline.moves})]
        action, reason = np.zeros((2, len(rows)), dtype=np.int64)
        plan: list[str | None] = [None] * len(rows)
        plan_id: list[str | None] = [None] * len(rows)
        for row, i in moved:
            move = self.p.timeline.moves[i]
            action[row], reason[row] = 1, reasons.index(move.reason)
            plan[row], plan_id[row] = _plan_text(self.p, move.places), self._plan_id(i)
        published = action == 1
        gain = self.rng.uniform(0, 0.08, len(rows))
        return {
            "at": times(self.ends_ms),
            "topology_id": word(self.p.id, len(rows)),
            "topology_name": word(self.p.name, len(rows)),
            "mode": word("act", len(rows)),
            "action": words(action, list(actions)),
            "reason": words(reason, list(reasons)),
            "value": gain,
            "threshold": np.full(len(rows), 0.1),
            "planner": pa.array([None if p is None else "best" for p in plan], pa.string()),
            "seed": masked(np.zeros(len(rows), dtype=np.int64), ~published),
            "epoch": np.ones(len(rows), dtype=np.int64),
            "plan_id": pa.array(plan_id, pa.string()),
            "moved_executors": np.where(published, self.p.shape.executors // 2, 0),
            "took_ms": self.rng.uniform(20, 60, len(rows)),
            "plan": pa.array(plan, pa.string()),
        }

    def _outcomes(self) -> Columns:
        moved = self._moves()
        at = np.array([self.ends_ms[row] for row, _ in moved], dtype=np.int64)
        stood = self.p.restart_s * np.exp(0.2 * self.rng.standard_normal(len(moved)))
        return {
            "at": times(at + 3 * self.spec.window_s * 1000),
            "topology_id": word(self.p.id, len(moved)),
            "topology_name": word(self.p.name, len(moved)),
            "plan_id": pa.array([self._plan_id(i) for _, i in moved], pa.string()),
            "published_at": times(at),
            "metric": word("inter_node_share", len(moved)),
            "noise_ratio": np.full(len(moved), self.spec.noise_ratio),
            "verdict": word("HELPED", len(moved)),
            "applied_s": self.rng.uniform(2, 6, len(moved)),
            "recovery_s": stood + self.rng.uniform(3, 8, len(moved)),
            "downtime_s": stood,
            "restarted_tasks": np.full(len(moved), self.p.shape.executors // 2),
            "executors": np.full(len(moved), self.p.shape.executors // 2),
            "workers": np.full(len(moved), len(self.p.supervisors)),
        }

    def _plan_id(self, move: int) -> str:
        return f"p-{self.p.name}-{move}"


def _summed(counts: Floats, to: Ints, executors: int) -> Floats:
    """Counts by window and edge, summed by executor."""
    order = np.argsort(to, kind="stable")
    keys, begins = np.unique(to[order], return_index=True)
    found = np.zeros((len(counts), executors))
    found[:, keys] = np.add.reduceat(counts[:, order], begins, axis=1)
    return found


def _workers(places: Places, shape: Shape) -> int:
    return len(set(zip(places.node.tolist(), places.port(shape).tolist(), strict=True)))


def _used_slots(places: Places, shape: Shape, nodes: int) -> list[int]:
    port = places.port(shape)
    return [len(set(port[places.node == n])) for n in range(nodes)]


def _plan_text(planted: Planted, places: Places) -> str:
    workers: dict[tuple[str, int], list[list[int]]] = {}
    for start, node, port in zip(planted.shape.start, places.node, places.port(planted.shape), strict=True):
        workers.setdefault((planted.supervisors[node], int(port)), []).append([int(start), int(start)])
    return json.dumps([[s, p, e] for (s, p), e in sorted(workers.items())], separators=(",", ":"))
