"""The fewest nodes that hold a rate, as the page of headlines tells them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from benchmarks.headlines import fewest
from benchmarks.headlines.cases import LONG_SLEEP_MS
from benchmarks.headlines.contenders import WHO
from benchmarks.markdown import filled, table


def headline(found: dict[str, Any]) -> list[list[str]]:
    """The headline of the fewest nodes; none before each contender has an answer."""
    answers = {who: fewest.fewest(found, who) for who in fewest.CONTENDERS}
    if not all(answers.values()):
        return []
    here = "; ".join(f"{WHO.get(who, f'`{who}`').split(',')[0]} {_nodes(counts)}" for who, counts in answers.items())
    most = {who: max(n or found["nodes"] + 1 for n in counts) for who, counts in answers.items()}
    reached = most["best"] < min(most["default"], most["ras"])
    what = f"reference chain: fewest nodes that hold {found['rate_tps']:,.0f} tuples/s"
    return [[what, here, "ours: fewer than Storm's", "yes" if reached else "**no**"]]


def _nodes(counts: Sequence[int | None]) -> str:
    """Fewest nodes in each repetition, once where all are the same."""
    said = ["more than there are" if n is None else str(n) for n in counts]
    return said[0] if len(set(said)) == 1 else " and ".join(said)


def section(found: dict[str, Any]) -> list[str]:
    """Paragraphs: what was asked, and each trial."""
    lines = []
    for t in found["trials"]:
        figures = ["-", "-"]
        if t["windows"]:
            figures = [f"{min(w['throughput_tps'] for w in t['windows']):,.0f}"]
            figures += [", ".join(f"{w['mean_ms']:.1f}" for w in t["windows"])]
        who = WHO.get(t["who"], f"`{t['who']}`")
        held = "yes" if t["holds"] else f"no: {_short(t['why'])}"
        lines.append([str(t["repetition"]), who, str(t["nodes"]), *figures, held, f"{t['load_average']:g}"])
    return [
        "## Fewest nodes that hold a rate",
        filled(
            f"The reference chain at {found['rate_tps']:,.0f} tuples/s and nothing else, on the first one, two, ... of "
            f"the {found['nodes']} isolated nodes. Plans are made for these alone, as after an operator has drained "
            "the others (for Storm's schedulers: taken them away), from what was measured on all: Storm's default and "
            "RAS (`ras-default`, measured CPU declared) by Storm's own classes, ours by `best`. A placement holds the "
            f"rate if {fewest.WINDOWS} windows one after the other have {fewest.CARRIED:.0%} of it, no tuple fails, "
            f"and the mean latency does not grow by more than {fewest.GROWTH - 1:.0%}; the first number of nodes that "
            f"does ends the search. Executors that find no tuple sleep {found.get('sleep_ms', LONG_SLEEP_MS)} ms."
        ),
        table(["repetition", "placement", "nodes", "least tuples/s", "mean ms by window", "holds", "load"], lines),
        *_why(found["trials"]),
    ]


def _short(why: str) -> str:
    """A refusal of Storm's without the topology's name, and with whole numbers."""
    return re.sub(r"(\d+)\.\d+", r"\1", why.split(": ", 1)[-1] if "Not enough resources" in why else why)


def _why(trials: Sequence[dict[str, Any]]) -> list[str]:
    """Why Storm's default, which asks nobody for CPU, may hold the rate where the others find no room."""
    held = {t["nodes"] for t in trials if t["who"] == "default" and t["holds"]}
    refused = {t["nodes"] for t in trials if t["who"] == "best" and t["why"] and not t["windows"]}
    if not held & refused:
        return []
    busiest = [
        max(w["cpu_per_node_percent"].values())
        for t in trials
        if t["who"] == "default" and t["holds"]
        for w in t["windows"]
    ]
    return [
        filled(
            "`best` finds no room where Storm's default, which asks nobody for CPU, holds the rate (its node "
            f"{min(busiest):.0f}% to {max(busiest):.0f}% busy). What executors were measured to use is on all nodes "
            "mostly the CPU of tuples between them; in fewer workers a part of it is not needed, and `best` relies on "
            "so much of that as was learned of the topology "
            "([decision 18](../decisions/0018-cpu-by-places.md)). That all of it is gone in one worker, its threads "
            "for sending too, nobody can have learned who saw four workers alone."
        )
    ]
