"""Targets against what was measured: one row per promise, met or not or not measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

import numpy as np

from benchmarks.planners.baselines import BY_FLOWS
from benchmarks.planners.instances import CLUSTERS
from benchmarks.planners.rows import Row

COST = "inter_node_tps"
RAS = "ras_network_metric"
NEAR = 1e-6
KINDS = ("ours", "baseline", "storm", "bound")
BEST, BEST_LONG, BEST_SMALL = "best 10 s", "best 60 s", "best 2 s"
PARTS = (("small", BEST_SMALL), ("medium", BEST), ("planted", BEST), ("production", "best 8 s"))
"""Where `best` on measured pairs is compared with the others, and under which name it ran."""
CLIMBS = {
    "mt-kahypar+shifts": "Mt-KaHyPar plus hill climbing by shifts alone",
    "mt-kahypar balanced+climb": "Mt-KaHyPar (3% imbalance) plus hill climbing",
    "mt-kahypar+climb": "Mt-KaHyPar (blocks up to the nodes' limits) plus hill climbing",
}


@dataclass(frozen=True)
class Target:
    """A promise: `figure` is what was measured, `met` is None where there is nothing to judge by."""

    what: str
    target: str
    figure: str
    met: bool | None
    samples: int


class Table:
    """Rows by part, contestant and instance, with medians over seeds."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, str], dict[str, list[Row]]] = {}
        for r in rows:
            self._rows.setdefault((r.part, r.contestant), {}).setdefault(r.instance, []).append(r)

    def contestants(self, part: str) -> list[str]:
        """Contestants: ours, partitioners, Storm's; each by name."""
        kinds = {c: next(iter(by.values()))[0].kind for (p, c), by in self._rows.items() if p == part}
        return sorted(kinds, key=lambda c: (KINDS.index(kinds[c]), c))

    def rows(self, part: str, contestant: str) -> dict[str, list[Row]]:
        """By instance, one row per seed."""
        return self._rows.get((part, contestant), {})

    def median(self, part: str, contestant: str, value: Callable[[Row], float | None]) -> dict[str, float]:
        """By instance the median over seeds; instances where it is unknown are left out."""
        found = {}
        for instance, rows in self.rows(part, contestant).items():
            values = [v for v in map(value, rows) if v is not None]
            if values:
                found[instance] = float(median(values))
        return found

    def held(self, part: str, contestant: str, metric: str = COST) -> dict[str, float]:
        """By instance the median of a metric over the seeds whose plans hold every constraint."""
        return self.median(part, contestant, lambda r: r.metrics[metric] if r.held else None)


def excess(value: float, reference: float) -> float:
    """Excess over the reference, as a part of it; a reference of 0 is met by 0 alone."""
    if reference <= 0:
        return 0.0 if value <= NEAR else float("inf")
    return value / reference - 1.0


def proved(table: Table, contestant: str, metric: str) -> dict[str, float]:
    """Instances whose optimum was proved, with its value."""
    return {
        instance: rows[0].metrics[metric]
        for instance, rows in table.rows("small", contestant).items()
        if rows[0].held and rows[0].proved
    }


def all_targets(rows: Iterable[Row]) -> list[Target]:
    """Every promise, part by part."""
    table = Table(rows)
    return [
        *_small(table, "inter-node traffic", COST, ""),
        *_small(table, "RAS network metric", RAS, " objective=ras"),
        _storm_ras(table),
        *_planted(table),
        *_large(table),
        *_production(table),
        *_medium(table),
        *_flows(table),
        _moves(table),
    ]


def _small(table: Table, name: str, metric: str, setting: str) -> list[Target]:
    optimum = proved(table, f"exact{setting}", metric)
    mine = table.rows("small", f"{BEST_SMALL}{setting}")
    common = sorted(set(optimum) & set(mine))
    gaps = [excess(mine[i][0].metrics[metric], optimum[i]) if mine[i][0].held else float("inf") for i in common]
    seconds = [r.plan_s or 0.0 for i in common for r in mine[i]]
    what = f"small instances, {name}: `best`"
    n = len(common)
    equal = mean(g <= NEAR for g in gaps) if n else 0.0
    worst = max(gaps, default=0.0)
    slowest = max(seconds, default=0.0)
    return [
        _target(f"{what} equals the proved optimum", "on at least 98%", f"{equal:.1%} of {n}", equal >= 0.98, n),
        _target(f"{what} off the optimum at worst", "at most 2%", f"{worst:.2%}", worst <= 0.02, n),
        _target(f"{what} takes", "at most 2 s", f"{slowest:.2f} s at worst", round(slowest, 1) <= 2.0, n),
    ]


def _storm_ras(table: Table) -> Target:
    optimum = proved(table, "exact objective=ras", RAS)
    storm = table.median("small", "storm ras-default", lambda r: r.metrics.get(RAS))
    gaps = [excess(storm[i], optimum[i]) for i in optimum if i in storm and optimum[i] > 0]
    what = "for comparison: Storm's DefaultResourceAwareStrategy above the optimum of the RAS metric, mean"
    figure = f"{mean(gaps):.0%}" if gaps else ""
    return Target(what, "", figure, None, len(gaps))


def _planted(table: Table) -> list[Target]:
    hidden = table.held("planted", "planted")
    found = []
    for contestant, name in (("partition", "partition"), (BEST, "best")):
        costs = table.held("planted", contestant)
        by_size: dict[int, list[float]] = {}
        for instance, value in costs.items():
            if _size(instance) <= 20_000 and instance in hidden:
                by_size.setdefault(_size(instance), []).append(excess(value, hidden[instance]))
        attempts = [i for i in table.rows("planted", contestant) if _size(i) <= 20_000]
        gaps = {size: median(values) for size, values in by_size.items()}
        worst = max(gaps.values(), default=0.0)
        met = worst <= 0.03 and len(costs.keys() & attempts) == len(attempts)
        figure = ", ".join(f"{size:,}: {gap:+.1%}" for size, gap in sorted(gaps.items()))
        what = f"planted instances up to 20,000 executors: `{name}` against the planted cost"
        found.append(_target(what, "within 3%", figure, met, len(attempts)))
    return found


def _large(table: Table) -> list[Target]:
    found = []
    for contestant, limit in (("online", 5.0), ("partition", 5.0), (BEST, 10.0)):
        seconds = _largest(table, contestant, lambda r: r.process_s if r.held else None)
        attempts = _largest(table, contestant, lambda r: r.process_s)
        shared = any(r.shared for rs in table.rows("planted", contestant).values() for r in rs)
        figure = f"{median(seconds):.1f} {_unit(shared)} (median)" if seconds else "no plan"
        whole = bool(seconds) and len(seconds) == len(attempts)
        what = f"20,000 executors, 200,000 pairs, 500 nodes: `{contestant}`, whole process"
        in_time = _in_time(round(median(seconds), 1) <= limit, shared) if whole else False
        found.append(_target(what, f"under {limit:g} s", figure, in_time, len(attempts)))
    peaks = [p for c in ("online", "partition", BEST) for p in _largest(table, c, lambda r: r.peak_mb)]
    figure = f"{max(peaks, default=0.0):,.0f} MB at most"
    found.append(_target("the same: memory", "under 2 GB", figure, max(peaks, default=0.0) < 2048, len(peaks)))
    for contestant in ("online", "partition"):
        sizes, seconds = growth(table, contestant)
        power = exponent(sizes, seconds)
        shown = f"time ~ executors^{power:.2f} from 5,000 to 20,000" if power else ""
        what = f"cost of `{contestant}` grows near-linearly from 1,000 to 20,000 executors"
        met = power is not None and power <= 1.2
        found.append(_target(what, "exponent at most 1.2", shown, met, len(sizes) if power else 0))
    rows = [r for rs in table.rows("planted", "partition").values() for r in rs if r.executors == 100_000]
    figure = ", ".join(f"{r.process_s:.1f} {_unit(r.shared)}, {r.peak_mb:,.0f} MB" for r in rows if r.held)
    found.append(_target("100,000 executors: `partition`", "finishes", figure or "no plan", bool(figure), len(rows)))
    return found


def growth(table: Table, contestant: str) -> tuple[list[int], list[float]]:
    """Executors of the planted instances and the median seconds of the whole process."""
    seconds = table.median("planted", contestant, lambda r: r.process_s)
    sizes = sorted({_size(i) for i in seconds if _size(i) <= 20_000})
    return sizes, [median([s for i, s in seconds.items() if _size(i) == size]) for size in sizes]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
    """Slope of log seconds over log executors, from 5,000 executors (below, the start of the process counts most)."""
    large = [(s, t) for s, t in zip(sizes, seconds, strict=True) if s >= 5000]
    if len(large) < 2:
        return None
    x, y = np.log(np.array(large, dtype=np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def _production(table: Table) -> list[Target]:
    found = []
    for cluster in CLUSTERS:
        medians = {}
        attempts = 0
        failed = shared = False
        for contestant in ("online", "partition", "best 8 s"):
            rows = [r for i, rs in table.rows("production", contestant).items() if i.startswith(cluster) for r in rs]
            attempts += len(rows)
            failed |= any(not r.held for r in rows)
            shared |= any(r.shared for r in rows)
            if rows:
                medians[contestant] = median([r.process_s or 0.0 for r in rows])
        figure = ", ".join(f"{c} {s:.1f} {_unit(shared)}" for c, s in medians.items())
        figure += ", not all held" if failed else ""
        in_time = False if failed else _in_time(max(medians.values(), default=99.0) < 10.0, shared)
        found.append(_target(f"production cluster {cluster} planned", "under 10 s", figure, in_time, attempts))
    return found


def _medium(table: Table) -> list[Target]:
    short, long = table.held("medium", BEST), table.held("medium", BEST_LONG)
    gaps = [excess(short[i], long[i]) for i in short if i in long]
    online, default = table.held("medium", "online"), table.median("medium", "storm default", _cost)
    wins = [online[i] < default[i] for i in online if i in default]
    lost, against = losses(table)
    climbers, climbs = losses(table, climbers=True)
    most = max(gaps, default=0.0)
    return [
        _target(
            "medium instances: `best` in 10 s above what it finds in 60 s",
            "within 3%",
            f"{most:.1%} at worst, {median(gaps) if gaps else 0:.1%} in the median",
            most <= 0.03,
            len(gaps),
        ),
        *(_climbing(table, contestant, name) for contestant, name in CLIMBS.items()),
        _room(table),
        _target(
            "`best` never loses to another planner that holds all constraints",
            "no loss",
            f"{len(lost)} losses" + (f", e.g. {lost[0]}" if lost else ""),
            not lost,
            against,
        ),
        Target(
            "the same against Mt-KaHyPar plus hill climbing",
            "(none)",
            f"{len(climbers)} losses" + (f", e.g. {climbers[0]}" if climbers else "") if climbs else "",
            None,
            climbs,
        ),
        _target(
            "medium instances: `online` beats Storm's default",
            "on every one",
            f"on {sum(wins)} of {len(wins)}",
            all(wins),
            len(wins),
        ),
    ]


def _flows(table: Table) -> list[Target]:
    """By what shuffles will really send: `best` against the others, and against hill climbing on the same."""
    found = []
    for what, climbers in (("another planner", False), ("Mt-KaHyPar plus hill climbing by flows", True)):
        lost, against = losses(table, climbers=climbers, parts=[("flows", BEST)])
        figure = f"{len(lost)} losses" + (f", e.g. {lost[0]}" if lost else "")
        title = f"medium instances by flows: `best` in 10 s loses to {what} that holds all constraints"
        target = _target(title, "(none)" if climbers else "no loss", figure, not lost, against)
        found.append(replace(target, met=None) if climbers else target)
    best = table.held("flows", BEST)
    climbs = [table.held("flows", name) for name in BY_FLOWS]
    gains = [1 - best[i] / min(c[i] for c in climbs if i in c) for i in best if any(i in c for c in climbs)]
    figure = f"{median(gains):.1%} (from {min(gains):.1%} to {max(gains):.1%})" if gains else ""
    title = "medium instances by flows: `best` in 10 s below the cheaper of these, median"
    return [*found, Target(title, "(20%)", figure or "not measured", None, len(gains))]


def _climbing(table: Table, contestant: str, name: str) -> Target:
    best, climb = table.held("medium", BEST), table.held("medium", contestant)
    gains = [1 - best[i] / climb[i] for i in best if climb.get(i, 0.0) > 0]
    saved = median(gains) if gains else 0.0
    figure = f"{saved:.1%} (from {min(gains, default=0):.1%} to {max(gains, default=0):.1%})"
    what = f"medium instances: `best` below {name}, median"
    return _target(what, "at least 20%", figure, saved >= 0.20, len(gains))


def room(table: Table) -> dict[str, tuple[float, float, float]]:
    """By instance: the proved bound, `best` in 10 s, and the cheapest of Mt-KaHyPar plus hill climbing."""
    bound = table.median("bound", "bound", lambda r: r.metrics[COST])
    best = table.held("medium", BEST)
    climbs = [table.held("medium", contestant) for contestant in CLIMBS]
    found = {}
    for instance in sorted(bound.keys() & best.keys(), key=_natural):
        costs = [c[instance] for c in climbs if c.get(instance, 0.0) > 0]
        if costs:
            found[instance] = (bound[instance], best[instance], min(costs))
    return found


def _room(table: Table) -> Target:
    """Whether any planner could have been a fifth below the best of the hill climbers."""
    most = [1 - bound / climb for bound, _, climb in room(table).values()]
    above = [excess(best, bound) for bound, best, _ in room(table).values()]
    possible = sum(m >= 0.20 for m in most)
    figure = f"on {possible} of {len(most)}; median {median(most) if most else 0:.1%}, "
    figure += f"`best` is above the bound by {median(above) if above else 0:.1%}"
    what = "the same: how far below the cheapest of the three a plan can be at most (proved bound)"
    return Target(what, "20% or more", figure if most else "not measured", None, len(most))


def losses(table: Table, *, climbers: bool = False, parts: Sequence[tuple[str, str]] = PARTS) -> tuple[list[str], int]:
    """Where a plan that holds every constraint has less traffic between nodes than `best` with the same instance.

    `climbers`: of the partitioners with hill climbing, else of all planners but these. Who ran with several seeds is
    compared with `best` of the same seed, who ran with one with each of `best`.
    """
    lost = []
    compared = 0
    for part, best in parts:
        mine = table.rows(part, best)
        for contestant in table.contestants(part):
            if contestant.startswith(("best", "exact", "planted")) or (contestant in (*CLIMBS, *BY_FLOWS)) != climbers:
                continue
            for instance, rows in table.rows(part, contestant).items():
                own = {r.seed: r.metrics[COST] if r.held else float("inf") for r in mine.get(instance, [])}
                seeded = len({r.seed for r in rows}) > 1
                for r in (r for r in rows if r.held):
                    theirs = r.metrics[COST]
                    for most in (cost for seed, cost in own.items() if not seeded or seed == r.seed):
                        compared += 1
                        if most > theirs * (1 + NEAR) + NEAR:
                            lost.append(f"{instance}, seed {r.seed}: {contestant} {theirs:,.1f}, best {most:,.1f}")
    return lost, compared


def _moves(table: Table) -> Target:
    curves = [c for c in table.contestants("moves") if c.startswith("best")]
    what = "moves of a rollout-aware plan against the cost that it leaves"
    return Target(
        what, "a curve", "see the table and planners-moves.svg" if curves else "", bool(curves) or None, len(curves)
    )


def _target(what: str, target: str, figure: str, met: bool | None, samples: int) -> Target:
    return Target(what, target, figure, met, samples) if samples else Target(what, target, "not measured", None, 0)


def _in_time(enough: bool, shared: bool) -> bool | None:
    """CPU seconds of all threads that are few enough are so on the clock too; too many say nothing of it."""
    return None if shared and not enough else enough


def _unit(shared: bool) -> str:
    return "CPU s" if shared else "s"


def _largest(table: Table, contestant: str, value: Callable[[Row], float | None]) -> list[float]:
    rows = [r for rs in table.rows("planted", contestant).values() for r in rs if r.executors == 20_000]
    return [v for v in map(value, rows) if v is not None]


def _cost(row: Row) -> float | None:
    return row.metrics.get(COST)


def _natural(instance: str) -> tuple[int, str]:
    return int(instance.split("-")[1].split("x")[0]), instance


def _size(instance: str) -> int:
    return int(instance.split("-")[1])
