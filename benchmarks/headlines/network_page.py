"""The network metric of random topologies, as the page of headlines tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.headlines import connections
from benchmarks.markdown import filled, table

HEAD = ["who", "placed", "mean metric", "10%", "median", "90%", "optimal on", "above the optimum"]


def headline(found: dict[str, Any]) -> list[str]:
    """The headline of the network metric, against the best of Storm's own schedulers."""
    by_name = {r["who"]: r for r in connections.summary(found)}
    ours = next(r for name, r in by_name.items() if name.startswith("best"))
    storm = min((r for name, r in by_name.items() if name.startswith("storm")), key=lambda r: r["above_optimum"])
    return [
        "network metric above the optimum, all topologies together",
        f"`best` {ours['above_optimum']:+.1%}, the best of Storm's ({storm['who'][6:]}) {storm['above_optimum']:+.1%}",
        "ours: at the optimum [RAS: no figure]",
        "yes" if ours["above_optimum"] < 0.005 else "**no**",
    ]


def rows(found: dict[str, Any]) -> list[list[str]]:
    """The table of the network metric, of what `connections` measured."""
    return [
        [
            f"`{r['who']}`" if r["who"].startswith("best") else r["who"],
            f"{r['placed']:,}",
            f"{r['mean']:.3f}",
            *(f"{r[q]:.3f}" for q in ("p10", "p50", "p90")),
            f"{r['optimal_share']:.1%}",
            f"{r['above_optimum']:+.1%}",
        ]
        for r in connections.summary(found)
    ]


def section(found: dict[str, Any]) -> list[str]:
    """Its part of the page, paragraph by paragraph."""
    count, proved = found["topologies"], found["proved"]
    return [
        "## Network metric of random topologies",
        filled(
            f"{count:,} random topologies of 6 to 14 executors on 2 to 4 nodes in two racks, no cluster: Storm's own "
            "classes place them, `best` in at most half a CPU second for the network metric of Storm's resource aware "
            f"scheduler, and `exact` proves the optimum ({proved:,} of {count:,} proved within 20 CPU seconds "
            "each). `placed`: all executors placed within every limit; means and deciles are over those alone, "
            "shares against the optimum of the same topologies."
        ),
        table(HEAD, rows(found)),
        "![distribution of the network metric](headlines-connections.svg)",
    ]


def plot(found: dict[str, Any], file: Path) -> None:
    """The distributions, as the source draws them."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, values in found["values"].items():
        own = sorted(values.values())
        if own:
            share = [(n + 1) / len(own) for n in range(len(own))]
            main = name == "optimum" or name.startswith("best")
            axes.step(own, share, where="post", label=name, linewidth=1.8 if main else 0.9, alpha=1 if main else 0.7)
    axes.set(xlabel="network metric (mean distance of a sender to its receivers)", ylabel="share of topologies")
    axes.legend(fontsize=7)
    figure.savefig(file, metadata={"Date": None})
