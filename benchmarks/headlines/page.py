"""The tables of `make bench-headlines` and its page: every figure with its spread and what the source claimed."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.headlines import changing, fewest_page, network_page
from benchmarks.headlines.cases import EVEN, SETTINGS, SLEEP, SLEEP_MS, measured_on
from benchmarks.headlines.contenders import LATENCY, ROOM, WHO
from benchmarks.headlines.figures import PROSE, cases, cpu, latency, measured, most, pairs, spread, stays_as_it_is
from benchmarks.headlines.notes import ONLINE_CLAIM, ONLINE_WANTED, notes
from benchmarks.markdown import WIDTH, filled, table

HEAD = ["topology", "placement", "n", "mean ms", "p99 ms", "between nodes", "most tuples/s", "CPU of nodes then"]
NUMBERS_HEAD = ["number", "here", "claimed", "reached", "page and command"]
OWN = "this page, `make bench-headlines`"


def rows(found: dict[str, Any]) -> list[list[str]]:
    """The table of placements on the cluster."""
    lines = []
    for case in cases(found):
        placed = found["cases"][case]["placements"]
        for who in placed:
            ones = measured(found, case).get(who, [])
            if not ones:
                lines.append(
                    [PROSE[case], WHO.get(who, f"`{who}`"), "0", *["-"] * 4, placed[who]["why"][:60] or "not measured"]
                )
                continue
            lines.append(
                [
                    PROSE[case],
                    WHO.get(who, f"`{who}`"),
                    str(len(ones)),
                    spread([latency(o) for o in ones], ",.1f"),
                    spread([o["at_rate"]["p99_ms"] for o in ones], ",.0f"),
                    spread([o["at_rate"]["inter_node_share"] for o in ones], ".0%"),
                    spread([most(o) for o in ones], ",.0f"),
                    cpu(ones),
                ]
            )
    return lines


def headlines(found: dict[str, Any]) -> list[list[str]]:
    """The numbers that matter: what, here, the source's claim, whether it was reached."""
    lines = []

    def add(what: str, changes: list[float], claim: str, reached: Callable[[float], bool]) -> None:
        if changes:
            yes = reached(statistics.median(changes))
            lines.append([what, spread(changes, "+.0%"), claim, "yes" if yes else "**no**"])

    for case in (c for c in cases(found) if c != SETTINGS):
        name = PROSE[case]
        add(
            f"{name}: mean latency, `online` to default",
            pairs(found, case, "online", "default", latency),
            ONLINE_CLAIM,
            lambda x: x <= ONLINE_WANTED,
        )
        add(
            f"{name}: mean latency, `best` to `online`",
            pairs(found, case, "best", "online", latency),
            "ours: below `online`",
            lambda x: x < 0,
        )
        stays = stays_as_it_is(found, case)
        add(
            f"{name}: mean latency, `best` to default",
            [] if stays else pairs(found, case, "best", "default", latency),
            "ours: below default",
            lambda x: x < 0,
        )
        add(
            f"{name}: mean latency, `{LATENCY}` to `best`",
            pairs(found, case, LATENCY, "best", latency),
            "ours: below `best`",
            lambda x: x < 0,
        )
        add(
            f"{name}: most tuples/s, `{LATENCY}` to `best`",
            pairs(found, case, LATENCY, "best", most),
            "ours: no fewer",
            lambda x: x >= 0,
        )
        for other, words in (("default", "default"), ("ras", "RAS"))[stays:]:
            add(
                f"{name}: most tuples/s, `best` to {words}",
                pairs(found, case, "best", other, most),
                "ours: more on the same nodes",
                lambda x: x > 0,
            )
    return lines


def summary(found: dict[str, Any]) -> list[list[str]]:
    """All headlines, those of other pages last."""
    own: list[list[str]] = headlines(found) + (fewest_page.headline(found["fewest"]) if found.get("fewest") else [])
    own += changing.headlines(found["changing"], spread) if found.get("changing") else []
    own += [network_page.headline(found["connections"])] if found["connections"] else []
    return [[*line, OWN] for line in own] + found.get("others", [])


def show(found: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    for head, lines in (
        (NUMBERS_HEAD, summary(found)),
        (HEAD, rows(found)),
        (network_page.HEAD, network_page.rows(found["connections"]) if found["connections"] else []),
    ):
        if lines:
            table = Table(*head, box=None)
            for line in lines:
                table.add_row(*line)
            console.print(table)


def publish(found: dict[str, Any], results: Path) -> None:
    """Write the page, its JSON and the plot."""
    (results / "headlines.json").write_text(json.dumps(found, indent=1) + "\n")
    if found["connections"]:
        network_page.plot(found["connections"], results / "headlines-connections.svg")
    (results / "headlines.md").write_text("\n\n".join(sections(found)) + "\n")


def sections(found: dict[str, Any]) -> list[str]:
    """The page, paragraph by paragraph."""
    machine = found["machine"]
    paragraphs = [
        "# Headlines",
        filled(
            "`make bench-headlines ARGS=--publish` wrote this page; [headlines.json](headlines.json) has every "
            f"number. A machine of {machine['cores']} cores ({machine['cpu']}{_elsewhere(found)}), Storm 2.8.3. "
            "Figures are the median of the passes, in brackets the least and the most; a pass is every placement once, "
            "and changes are those within a pass."
        ),
        filled(
            "`best`, `online`, `offline` and `otd` are [planners](../planners/README.md) of stormpilot, `best latency` "
            "is `best` for the least latency instead of the least traffic between nodes, MBA+SAM and LSA+RSM are ways "
            "to [size](../concepts/sizing.md). [A13], [N24] and [S17] are [where they come "
            "from](../planners/README.md#the-pages); B(n) is the part of a node's CPU that plans may fill "
            "([glossary](../reference/glossary.md)). `reached` goes by the median. All of it ran on one small machine: "
            "what plans win on yours, [`stormpilot assess`](../guide/install.md#before-you-begin) estimates."
        ),
        table(NUMBERS_HEAD, summary(found)),
        *_not_measured(found),
    ]
    if found["passes"]:
        paragraphs += ["## Placements on isolated nodes", *_setting(found), table(HEAD, rows(found))]
        paragraphs += [filled(text) for text in notes(found)]
    if (found.get("fewest") or {}).get("trials"):
        paragraphs += fewest_page.section(found["fewest"])
    if found.get("changing"):
        paragraphs += changing.section(found["changing"], spread)
    if found["connections"]:
        paragraphs += network_page.section(found["connections"])
    return paragraphs


def _elsewhere(found: dict[str, Any]) -> str:
    """The cases that were measured on other processors than that of the page, in words."""
    by_cpu: defaultdict[str, list[str]] = defaultdict(list)
    for case in cases(found):
        by_cpu[measured_on(found, found["cases"][case])].append(PROSE[case])
    return "".join(f"; these on {c}: {'; '.join(names)}" for c, names in by_cpu.items() if c != found["machine"]["cpu"])


def _not_measured(found: dict[str, Any]) -> list[str]:
    """Claims that nothing here backs."""
    wanted = list(found.get("missing", []))
    if not found.get("fewest") or not fewest_page.headline(found["fewest"]):
        wanted.append(
            "the fewest nodes that hold a given rate, under Storm's default, RAS and ours: "
            "`make bench-headlines ARGS='--only fewest'`"
        )
    unmeasured = [name for case, name in PROSE.items() if not _compared(found, case)]
    if unmeasured:
        wanted.append(
            f"latency and the most tuples/s of {', '.join(unmeasured)} under the placements of Storm and ours: "
            "`make bench-headlines` goes on with what is missing"
        )
    return ["Claims that are not measured yet:", "\n".join(_listed(text) for text in wanted)] if wanted else []


def _compared(found: dict[str, Any], case: str) -> bool:
    """Whether each placement of the topology was measured."""
    ones = measured(found, case)
    return bool(ones) and all(w in ones for w, p in found["cases"][case]["placements"].items() if not p["why"])


def _listed(text: str) -> str:
    return textwrap.fill(f"- {text}.", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _setting(found: dict[str, Any]) -> list[str]:
    some = next(iter(found["cases"].values()))["parameters"]
    cores = [c["parameters"]["cores"] for c in found["cases"].values()]
    alike = [c for c in cores if not isinstance(c, list)] or [EVEN[0]]
    loads = [o["load_average"] for p in found["passes"] for o in p["measured"]]
    turns = sorted({p["phase_s"] for p in found["passes"]})
    what = []
    for case in cases(found):
        p = found["cases"][case]["parameters"]
        own = f"{PROSE[case]} at {p['rate_tps']:g} tuples/s, {p['max_spout_pending']} under way of each source task"
        if chain := p["chain"]:
            own += (
                f" ({chain['stages']} stages by shuffle and by key in turn, {chain['replication']} executors of each, "
                f"{chain['payload_bytes']} bytes, selectivity {chain['selectivity']:g})"
            )
        if isinstance(p["cores"], list):
            own += f", on nodes of {', '.join(f'{c:g}' for c in p['cores'])} cores"
        what.append(own)
    return [
        filled(
            f"{some['nodes']} nodes of {alike[0]:g} cores and {some['mbit']:g} Mbit/s on one machine, each in a "
            f"namespace of its own with a CPU quota; its load average while measuring was {min(loads):.1f} to "
            f"{max(loads):.1f}. The source sends at a rate, then as fast as `topology.max.spout.pending` lets it, in "
            f"turns of {' or '.join(f'{s:g}' for s in turns)} s: latency and traffic are of the former, the most "
            "tuples/s and the CPU of the latter, so what holds the source is the number of tuples under way, and never "
            "Storm's backpressure. " + "; ".join(what) + ". " + _sleeps(found)
        ),
        filled(
            "Storm's default is the placement that Storm made itself. All others are made from what was measured under "
            f"it, with the same part of each node to fill: B(n) is {ROOM:g} times the load of a node if all were "
            "filled alike. RAS is Storm's own class (`ras-default`), told the measured CPU of every executor, which is "
            "as good as declarations get. One pass applies them in this order, the next one backwards (ABBA), to the "
            "running topology. A window begins when every source task completes tuples and none fails any more, 3 s "
            "after the rate has changed. Latency is complete latency, from histograms with 10% between bounds."
        ),
    ]


def _sleeps(found: dict[str, Any]) -> str:
    """Sentence on how long executors sleep that find no tuple."""
    by_ms: defaultdict[int, list[str]] = defaultdict(list)
    for case in cases(found):
        by_ms[found["cases"][case]["parameters"]["sleep_ms"]].append(PROSE[case])
    told = "; ".join(f"{ms} ms in {' and '.join(names)}" for ms, names in sorted(by_ms.items()))
    return f"Executors that find no tuple sleep (`{SLEEP}`, {SLEEP_MS} ms by default): {told}."
