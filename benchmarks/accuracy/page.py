"""`docs/results/accuracy.md`."""

from __future__ import annotations

import statistics
import textwrap
from typing import Any

from benchmarks.accuracy import latency, table
from stormpilot.observe.cpu_law import NOISE_RATIO


def _wrapped(line: str) -> str:
    """A line of prose as several; tables and headings as they are."""
    if line.startswith(("|", "#")):
        return line
    return textwrap.fill(line, 120, break_long_words=False, break_on_hyphens=False)


def text(found: list[table.Row], result: dict[str, Any]) -> str:
    """The page, folded."""
    return "\n".join(map(_wrapped, _lines(found, result))) + "\n"


def _lines(found: list[table.Row], result: dict[str, Any]) -> list[str]:
    p, c = result["parameters"], result["constants"]
    cores = {"worker", "asleep", "awake", "transfer", "receive"}

    def amount(name: str, value: float) -> str:
        return f"{value:.4f} cores" if name in cores else f"{1e6 * value:.0f} us"

    return [
        "# CPU of nodes: predicted and measured",
        "",
        f"`make bench-accuracy`, Storm 2.8.3 on one machine with {result['machine']['cores']} cores "
        f"({result['machine']['cpu']}), {p['nodes']} "
        f"isolated nodes of {p['cores']:g} cores and {p['mbit']:.0f} Mbit/s; every worker was {p['warm_s']:.0f} s old, "
        f"and {p['settle_s']:.0f} s were without a gap, before each window of {p['window_s']:.0f} s; "
        f"{_seeds(p['seeds'])}. The machine was {result['busy_ratio'][0]:.0%} to {result['busy_ratio'][1]:.0%} busy, "
        f"and work at the lowest priority took {result['nice_ratio'][0]:.0%} to {result['nice_ratio'][1]:.0%} "
        "besides: nodes share the cores of one machine here, which do less the busier they are, and that work keeps "
        "all of them busy all the time. "
        f"{_speed(result['speed_ratio'], result['as_counted'])}Every placement "
        "is predicted from the window before it, by the model without places (an executor's CPU goes with it) and by "
        "the one with places ([decision 18](../decisions/0018-cpu-by-places.md)), which has learned from the windows "
        "before. Measured is what the kernel counted for the workers' JVMs and their child processes on a node, not "
        "what was reported. "
        f"[JSON](accuracy.json).",
        "",
        table.sentence(found)
        + _by_run(found)
        + f". The goal was {table.GOAL_MEDIAN:.0%} and {table.GOAL_P95:.0%}. The constants in use "
        f"come from a run before this one; how much a window is taken to vary by itself ({NOISE_RATIO:.0%}) was chosen "
        "on the windows of the run of 27 November 2026. That an executor keeps what it takes asleep when its tuples "
        "go elsewhere was found on the run with seed 9, whose 95th percentile was 19.8% without it.",
        "",
        *_other_runs(result["other_runs"]),
        _disturbed(result["disturbed"]),
        "",
        "| topology | nodes | median, with places | 95th percentile | median, without places | 95th percentile |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {t} | {s['nodes']} | " + " | ".join(f"{s[k]:.1%}" for k in table.ERRORS) + " |"
            for t, s in result["by_topology"].items()
        ),
        "",
        *table.markdown(found),
        "",
        "`rate`: tuples/s then, against the window that the prediction was made from.",
        "",
        *_children(result.get("children_cores", {})),
        *latency.markdown(result.get("latency", {})),
        "## Constants",
        "",
        f"What a topology's own windows do not tell is drawn to constants. They fit {c['workers_windows']} windows of "
        f"workers that were measured in their JVM best as in the last column"
        + ("." if c["error_ratio"] is None else f", with an error of {c['error_ratio']:.0%} of a worker's CPU."),
        "",
        "| constant | in use | fitted here |",
        "|---|---:|---:|",
        *(f"| {n} | {amount(n, c['in_use'][n])} | {amount(n, c['fitted'][n])} |" for n in c["in_use"]),
        "",
        "## Threads of executors",
        "",
        "Of Java bolts with Storm's default wait strategy, in cores:",
        "",
        "| tuples/s | threads | least | median | most |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {t['threads']} | {t['least']:.4f} | {t['median']:.4f} | {t['most']:.4f} |"
            for name, t in result["threads"].items()
        ),
    ]


def _by_run(found: list[table.Row]) -> str:
    """Errors of each run, where there are several."""
    seeds = sorted({r.seed for r in found})
    each = [table.summary([r for r in found if r.seed == seed]) for seed in seeds]
    told = [
        f"{x['after_node_median']:.1%} and {x['after_node_p95']:.1%} with seed {seed}"
        for seed, x in zip(seeds, each, strict=True)
    ]
    return f"; run by run {', '.join(told)}" if len(seeds) > 1 else ""


def _seeds(seeds: list[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"{len(seeds)} runs, seeds {', '.join(map(str, seeds[:-1]))} and {seeds[-1]}"


def _speed(ratio: list[float], as_counted: dict[str, Any]) -> str:
    if ratio == [1.0, 1.0]:
        return ""
    return (
        "Python processes that are woken for a tuple as those of topologies are, and do nothing else, got through "
        f"{ratio[0]:.0%} to {ratio[1]:.0%} of the run's median in a second of CPU; the CPU of Python processes below "
        "is told at the speed of the median, or that of the machine would be taken for a cost of placements. JVMs are "
        "told as they were counted: on these windows they do not follow that speed (all as it was counted, the errors "
        f"of nodes with places are {as_counted['after_node_median']:.1%} in the median and "
        f"{as_counted['after_node_p95']:.1%} at the 95th percentile). "
    )


def _children(cores: dict[str, dict[str, float]]) -> list[str]:
    """CPU of Python processes in one worker, against the median of their other placements."""
    told = []
    for topology, by_placement in sorted(cores.items()):
        others = [c for placement, c in by_placement.items() if placement != "merged"]
        if "merged" in by_placement and others:
            told.append(f"{topology} {by_placement['merged'] / statistics.median(others) - 1:+.0%}")
    if not told:
        return []
    return [
        "Both models take the work of Python processes for the same everywhere. Merged into one worker they took, to "
        f"the median of their other placements, {', '.join(told)}.",
        "",
    ]


def _other_runs(others: list[dict[str, Any]]) -> list[str]:
    """Runs with windows of other lengths, or on other machines, in words."""
    told = []
    for o in others:
        s, where = o["summary"], f", {o['cpu']}" if "cpu" in o else ""
        of_latency = (
            f", of latency {x['predicted_median']:.0%} and {x['predicted_p95']:.0%}" if (x := o["latency"]) else ""
        )
        told.append(
            f"Windows of {o['window_s']:g} s ({_seeds(o['seeds'])}{where}; {s['placements']} placements, {s['nodes']} "
            f"nodes): the errors are {s['after_node_median']:.1%} in the median and {s['after_node_p95']:.1%} at the "
            f"95th percentile{of_latency}."
        )
    return [" ".join(told), ""] if told else []


def _disturbed(windows: list[str]) -> str:
    if not windows:
        return "No window was disturbed: by quotas that ran out, by the hypervisor, by a machine without idle time."
    return f"Left out, since they were disturbed: {'; '.join(windows)}."
