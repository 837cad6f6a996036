"""The fewest nodes that hold a rate, as the page of headlines tells them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.headlines import fewest
from benchmarks.headlines.contenders import WHO
from benchmarks.headlines.figures import spread
from benchmarks.markdown import filled, table


def headline(found: dict[str, Any]) -> list[list[str]]:
    """The headline of the fewest nodes; none before each contender has an answer."""
    answers = {who: fewest.fewest(found, who) for who in fewest.CONTENDERS}
    if not all(answers.values()):
        return []
    here = "; ".join(f"{WHO.get(who, f'`{who}`').split(',')[0]} {_nodes(counts)}" for who, counts in answers.items())
    counted = {who: [n or found["nodes"] + 1 for n in counts] for who, counts in answers.items()}
    beside = list(zip(counted["best"], counted["default"], counted["ras"], strict=False))
    fewer = sum(best < min(storms) for best, *storms in beside)
    what = f"reference chain: fewest nodes that hold {found['rate_tps']:,.0f} tuples/s"
    return [
        [
            what,
            here,
            "ours: fewer than Storm's",
            "yes" if fewer == len(beside) else f"**no** ({fewer} of {len(beside)})",
        ]
    ]


def _nodes(counts: Sequence[int | None]) -> str:
    """Fewest nodes in each repetition, once where all are the same."""
    said = ["more than there are" if n is None else str(n) for n in counts]
    return said[0] if len(set(said)) == 1 else ", ".join(said)


def section(found: dict[str, Any]) -> list[str]:
    """Paragraphs: what was asked, and how often each contender's placement on so many nodes held the rate."""
    lines = []
    for who, nodes in sorted({(t["who"], t["nodes"]) for t in found["trials"]}, key=_in_order):
        ones = [t for t in found["trials"] if (t["who"], t["nodes"]) == (who, nodes)]
        windows = [t["windows"] for t in ones if t["windows"]]
        figures = ["-", "-"]
        if windows:
            figures = [spread([min(w["throughput_tps"] for w in two) for two in windows], ",.0f")]
            figures += [spread([w["mean_ms"] for two in windows for w in two], ".1f")]
        why = Counter(_short(t["why"]) if not t["windows"] else _kind(t["why"]) for t in ones if not t["holds"])
        told = "; ".join(f"{text} ({n} times)" if 1 < n < len(ones) else text for text, n in why.items())
        held = f"{sum(t['holds'] for t in ones)} of {len(ones)}"
        lines.append([WHO.get(who, f"`{who}`"), str(nodes), held, *figures, told or "-"])
    loads = [t["load_average"] for t in found["trials"]]
    return [
        "## Fewest nodes that hold a rate",
        filled(
            f"The reference chain at {found['rate_tps']:,.0f} tuples/s and nothing else, on the first one, two, ... of "
            f"the {found['nodes']} isolated nodes. Plans are made for these alone, as after an operator has drained "
            "the others (for Storm's schedulers: taken them away), from what was measured on all: Storm's default and "
            "RAS (`ras-default`, measured CPU declared) by Storm's own classes, ours by `best`. A placement holds the "
            f"rate if {fewest.WINDOWS} windows one after the other{_of(found)} have {fewest.CARRIED:.0%} of it, no "
            f"tuple fails, and the mean latency does not grow by more than {fewest.GROWTH - 1:.0%}; the first number "
            "of nodes that does ends the search. Repetitions ask in turn forwards and backwards. "
            f"{found['cpu']}, load average "
            f"{min(loads):.1f} to {max(loads):.1f}; executors that find no tuple sleep {found['sleep_ms']} ms."
        ),
        table(["placement", "nodes", "held it", "least tuples/s", "mean ms of a window", "why not"], lines),
        *_why(found["trials"]),
    ]


def _of(found: dict[str, Any]) -> str:
    """Of how many windows; earlier runs had no more than these."""
    return f" of at most {found['most_windows']}" if "most_windows" in found else ""


def _in_order(asked: tuple[str, int]) -> tuple[int, int]:
    """By contender, then by how many nodes."""
    return fewest.CONTENDERS.index(asked[0]), asked[1]


def _kind(why: str) -> str:
    """Why a placement did not hold the rate, without the figures that stand beside it."""
    return re.sub(r"from \d+ to \d+ ms", "between windows", re.sub(r"^[\d,]+ tuples/s came", "less came", why))


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
