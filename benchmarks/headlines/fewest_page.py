"""The fewest nodes that hold a rate, as the page of headlines tells them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.headlines import fewest
from benchmarks.headlines.cases import EVEN
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
        figures = ["-", "-", "-"]
        if windows:
            figures = [spread([min(w["throughput_tps"] for w in two) for two in windows], ",.0f")]
            figures += [spread([w["mean_ms"] for two in windows for w in two], ".1f")]
            figures += [spread([_used(w) for two in windows for w in two], ".1f")]
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
            "RAS (`ras-default`, measured CPU declared) by Storm's own classes, ours by `best`, which fills no node "
            "over its CPU, and by `best` that asks as little for CPU as Storm's default. A placement holds the "
            f"rate if {fewest.WINDOWS} windows one after the other{_of(found)} have {fewest.CARRIED:.0%} of it, no "
            f"tuple fails, and the mean latency does not grow by more than {fewest.GROWTH - 1:.0%}; the first number "
            "of nodes that does ends the search. Repetitions ask in turn forwards and backwards. "
            f"{found['cpu']}, load average "
            f"{min(loads):.1f} to {max(loads):.1f}; executors that find no tuple sleep {found['sleep_ms']} ms."
        ),
        table(
            ["placement", "nodes", "held it", "least tuples/s", "mean ms of a window", "CPU (nodes)", "why not"], lines
        ),
        *_why(found),
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


def _used(window: dict[str, Any]) -> float:
    """CPU of a window, in nodes that are busy all the time."""
    return sum(window["cpu_per_node_percent"].values()) / 100


def _why(found: dict[str, Any]) -> list[str]:
    """Why `best` may need more nodes than without a limit of CPU."""
    limited, free = (
        [t for t in found["trials"] if t["who"] == who and t["holds"]] for who in ("best", fewest.UNLIMITED)
    )
    counts = [min((t["nodes"] for t in held), default=found["nodes"] + 1) for held in (limited, free)]
    if not free or counts[0] <= counts[1]:
        return []
    everywhere = [_used(w) for t in found["trials"] if t["nodes"] == found["nodes"] for w in t["windows"]]
    few = [_used(w) for t in free if t["nodes"] == counts[1] for w in t["windows"]]
    most = f"On all nodes the rate takes the CPU of {spread(everywhere, '.1f')} nodes, " if everywhere else ""
    return [
        filled(
            f"{most}on {counts[1]} that of {spread(few, '.1f')}. The difference is not work: a thread that finds no "
            "tuple looks again every "
            f"{found['sleep_ms']} ms, one that finds some sends few at a time, and tuples go through other workers. "
            f"{_filled(found)}`best` takes the CPU that was measured for what is needed; where nothing fits so, less "
            "what it learned that places save ([decision 18](../decisions/0018-cpu-by-places.md)), and less a half of "
            "what threads of bolts look with ([decision 23](../decisions/0023-polling.md)). It fills no node further "
            "in the hope that threads give way. Trial runs tell what components need when they are busy: "
            "[`size`](sizes.md) counts slots by these. Who knows that his threads mostly wait declares more CPU than "
            "nodes have (`supervisor.cpu.capacity`), as for RAS: B(n) is a part of what is declared."
        )
    ]


def _filled(found: dict[str, Any]) -> str:
    """One node that fills up, in words."""
    if not (rounds := found.get(fewest.FILLED)):
        return ""
    rate, most = ([one[name] for one in rounds] for name in ("at_rate", "saturated"))
    tps = spread([w["throughput_tps"] for w in most], ",.0f")
    return (
        f"Threads of bolts look for tuples with the CPU of {_looks(rate)} nodes at the rate on one node, and with that "
        f"of {_looks(most)} nodes when it carries as much as it can, {tps} tuples/s. "
    )


def _looks(windows: Sequence[dict[str, Any]]) -> str:
    return spread([w["polling_cores"] / EVEN[0] for w in windows], ".2f")
