"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median

from benchmarks.planners.rows import Row
from benchmarks.planners.targets import COST, NEAR, RAS, Table, Target, excess, proved, room


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, all but the first column right-aligned; empty where there are no rows."""
    if not rows:
        return ""
    texts = [list(columns), *([str(c) for c in r] for r in rows)]
    widths = [max(3, *(len(t[i]) for t in texts)) for i in range(len(columns))]
    lines = [
        "| "
        + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(t, widths, strict=True)))
        + " |"
        for t in texts
    ]
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def targets(found: Sequence[Target]) -> str:
    """Promise, target, figure, met."""
    word = {True: "yes", False: "**no**", None: "-"}
    rows = [[t.what, t.target, t.figure, word[t.met], str(t.samples)] for t in found]
    return markdown(["what", "target", "measured", "met", "samples"], rows)


def small(table: Table) -> str:
    """Distance of everybody from the proved optimum of small instances."""
    optimum, ras_optimum = proved(table, "exact", COST), proved(table, "exact objective=ras", RAS)
    rows = []
    for contestant in table.contestants("small"):
        answers = {i: r[0] for i, r in table.rows("small", contestant).items()}
        known = [i for i, r in answers.items() if r.held and i in optimum]
        reached = [excess(answers[i].metrics[COST], optimum[i]) <= NEAR for i in known]
        gaps = [excess(answers[i].metrics[COST], optimum[i]) for i in known if optimum[i] > 0]
        ras = [
            excess(r.metrics[RAS], ras_optimum[i])
            for i, r in answers.items()
            if r.placed and ras_optimum.get(i, 0.0) > 0
        ]
        rows.append(
            [
                contestant,
                f"{sum(r.held for r in answers.values())} of {len(answers)}",
                f"{mean(reached):.1%}" if reached else "-",
                f"{median(gaps):.1%}" if gaps else "-",
                f"{max(gaps):.0%}" if gaps else "-",
                f"{mean(ras):.0%}" if ras else "-",
                _ms([r.plan_s for r in answers.values()]),
            ]
        )
    columns = ["planner", "plans that hold all constraints", "optimal", "above optimum, median", "worst"]
    page = markdown([*columns, "RAS metric above its optimum, mean", "time, median"], rows)
    zero = sum(v <= NEAR for v in optimum.values())
    proofs = f"Proved: {len(optimum)}; {zero} of them with an optimum of 0, which count in the column `optimal` only."
    return f"{page}\n\n{proofs}" if page else ""


def compared(table: Table, part: str, reference: str) -> str:
    """Traffic between nodes as a part of the reference's, over the instances of a part."""
    base = table.held(part, reference)
    rows = []
    for contestant in table.contestants(part):
        all_rows = [r for rs in table.rows(part, contestant).values() for r in rs]
        costs = table.median(part, contestant, lambda r: r.metrics.get(COST))
        held = table.held(part, contestant)
        ratios = sorted(held[i] / base[i] for i in held if base.get(i, 0) > 0)
        any_ratio = sorted(costs[i] / base[i] for i in costs if base.get(i, 0) > 0)
        broken = sorted({b for r in all_rows for b in r.broken})
        rows.append(
            [
                contestant,
                f"{sum(r.held for r in all_rows)} of {len(all_rows)}",
                _spread(ratios),
                f"{median(any_ratio):.2f}" if any_ratio else "-",
                _seeds(table, part, contestant),
                _ms([r.plan_s or r.process_s for r in all_rows]),
                ", ".join(broken) or "-",
            ]
        )
    columns = ["planner", "hold all constraints", f"traffic / {reference} (quartiles)", "all plans"]
    return markdown([*columns, "spread over seeds", "time, median", "constraints broken"], rows)


def by_instance(table: Table, part: str) -> str:
    """One row per instance group and contestant of a part that runs whole processes."""
    rows = []
    for contestant in table.contestants(part):
        grouped: dict[str, list[Row]] = {}
        for instance, rs in table.rows(part, contestant).items():
            grouped.setdefault(instance.rsplit("-", 1)[0], []).extend(rs)
        hidden = table.held(part, "planted")
        for group, rs in grouped.items():
            gaps = [excess(r.metrics[COST], hidden[r.instance]) for r in rs if r.held and r.instance in hidden]
            rows.append(
                [
                    group,
                    contestant,
                    f"{rs[0].executors:,} / {rs[0].nodes:,} / {rs[0].pairs:,}",
                    f"{sum(r.held for r in rs)} of {len(rs)}",
                    _median([r.metrics.get(COST) for r in rs], "{:,.0f}"),
                    _median([r.metrics.get("inter_node_share") for r in rs], "{:.1%}"),
                    f"{median(gaps):+.1%}" if gaps else "-",
                    _seconds([r.process_s for r in rs]),
                    _seconds([r.plan_s or r.first_s for r in rs]),
                    _median([r.peak_mb for r in rs], "{:,.0f}"),
                ]
            )
    rows.sort(key=lambda r: (_natural(r[0]), r[1]))
    columns = ["instance", "planner", "executors / nodes / pairs", "hold all", "tuples/s between nodes", "share"]
    return markdown([*columns, "above planted", "process", "of it planning", "peak MB"], rows)


def moves(table: Table) -> str:
    """Restarts against the traffic that is left, by the weight of a restart."""
    found = []
    for contestant in table.contestants("moves"):
        for instance, rs in table.rows("moves", contestant).items():
            m = rs[0].metrics
            if m:
                values = [m["restarted_workers"], m["workers"], m["moved_executors"], m[COST]]
                row = [instance, contestant, *(f"{v:,.0f}" for v in values), f"{m['inter_node_share']:.1%}"]
                found.append((instance, m["restarted_workers"], m[COST], row))
    found.sort()
    columns = ["instance", "planner", "workers restarted", "of", "executors moved", "tuples/s between nodes", "share"]
    return markdown(columns, [row for *_, row in found])


def budgets(table: Table) -> str:
    """Traffic between nodes by seconds given."""
    rows = []
    for contestant in table.contestants("budget"):
        for instance, rs in table.rows("budget", contestant).items():
            if rs[0].held:
                rows.append([instance, contestant, _seconds([rs[0].plan_s]), f"{rs[0].metrics[COST]:,.0f}"])
    rows.sort(key=lambda r: (r[0], float(r[2].split()[0])))
    return markdown(["instance", "planner", "took", "tuples/s between nodes"], rows)


def what_is_left(table: Table) -> str:
    """Against the proved bound: how much `best` saves of the best hill climber's traffic, and how much can be saved."""
    rows = [
        [
            instance,
            *(f"{v:,.0f}" for v in (bound, best, climb)),
            f"{1 - best / climb:.1%}",
            f"{1 - bound / climb:.1%}",
            f"{excess(best, bound):+.1%}",
        ]
        for instance, (bound, best, climb) in room(table).items()
    ]
    columns = ["instance", "proved bound", "best 10 s", "Mt-KaHyPar + climbing", "saved", "at most", "best above bound"]
    return markdown(columns, rows)


def storm_times(table: Table) -> str:
    """Storm's schedulers: the first round in a JVM and the median of the warm ones."""
    rows = []
    for contestant in table.contestants("medium"):
        if contestant.startswith("storm"):
            rs = [r for x in table.rows("medium", contestant).values() for r in x]
            rows.append(
                [
                    contestant,
                    _ms([r.first_s for r in rs]),
                    _ms([r.plan_s for r in rs]),
                    _ms([max(r.plan_s or 0 for r in rs)]),
                ]
            )
    return markdown(["scheduler", "first round, median", "warm round, median", "warm round, slowest"], rows)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    low, high = values[len(values) // 4], values[(3 * len(values)) // 4]
    return f"{median(values):.2f} ({low:.2f} to {high:.2f})"


def _seeds(table: Table, part: str, contestant: str) -> str:
    spreads = []
    for rs in table.rows(part, contestant).values():
        costs = [r.metrics[COST] for r in rs if r.metrics]
        if len(costs) > 1 and min(costs) > 0:
            spreads.append(max(costs) / min(costs) - 1)
    return f"{median(spreads):.1%}" if spreads else "-"


def _ms(seconds: Sequence[float | None]) -> str:
    known = [s for s in seconds if s is not None]
    if not known:
        return "-"
    middle = median(known)
    return f"{middle * 1000:,.1f} ms" if middle < 1 else f"{middle:,.1f} s"


def _seconds(values: Sequence[float | None]) -> str:
    return _median(values, "{:,.2f} s")


def _median(values: Sequence[float | None], form: str) -> str:
    known = [v for v in values if v is not None]
    return form.format(median(known)) if known else "-"


def _natural(name: str) -> tuple[str, int]:
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if tail.isdigit() else (name, 0)


SECTIONS: tuple[tuple[str, str, Callable[[Table], str]], ...] = (
    (
        "Small instances with a proved optimum",
        "Up to 14 executors and 4 nodes. `exact` proves the least inter-node traffic, with `objective=ras` the "
        "least RAS network metric. Storm's schedulers know no number of workers, and `default` no CPU limit: plans "
        "that break a constraint are left out of the columns on traffic, and are in the one on the RAS metric.",
        small,
    ),
    (
        "Loaded clusters of 200 to 2,000 executors",
        "Several topologies of real shapes, nodes filled to 60% to 80%. A plan that breaks a constraint is left out of "
        "the quartiles and stays in the column on all plans. Storm's schedulers place from scratch, with the measured "
        "CPU and memory of each executor, which no user can tell them; their times are those of a warm JVM.",
        lambda t: compared(t, "medium", "best 10 s"),
    ),
    (
        "The same clusters by flows",
        "Tuples/s between nodes as shuffles will really send them ([flow model](../concepts/flow-model.md)), which "
        "`plan compute` minimises by default. Planners of papers plan on measured pairs, as published. A plan that "
        "by its flows overloads a node (`cpu`) or wants more of an executor than its core (`core`) is left out of the "
        "quartiles.",
        lambda t: compared(t, "flows", "best 10 s"),
    ),
    (
        "How much is left",
        "Tuples/s between nodes that no plan can be below, proved by semidefinite programming "
        "(`planner/bounds/semidefinite.py`), beside `best` and the cheapest of the three kinds of Mt-KaHyPar plus hill "
        "climbing. `saved` is what `best` takes from the climber, `at most` what any planner could. The true optimum "
        "lies between bound and `best`.",
        what_is_left,
    ),
    ("Storm's schedulers, cold and warm", "On the loaded clusters, `schedule()` alone.", storm_times),
    (
        "Planted instances",
        "40 executors to a node, 10 communicating pairs to an executor, 30% of the pairs are noise between nodes. "
        "Whole processes: start, read the model, plan, write.",
        lambda t: by_instance(t, "planted"),
    ),
    (
        "Production clusters",
        "The three anonymised clusters of Storm's test jar: structure, parallelism, groupings, declared CPU and memory "
        "are theirs. **The traffic is synthetic** (seeded, by grouping; at most 12 targets per executor and stream).",
        lambda t: by_instance(t, "production"),
    ),
    ("Quality against time", "What more seconds buy (`planners-time.svg`).", budgets),
    (
        "Moves",
        "Running topologies are planned again with a rising weight on restarts (`planners-moves.svg`).",
        moves,
    ),
)
