"""The tables of `make bench-headlines` and its page: every figure with its spread and what the source claimed."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.headlines import changing, fewest_page, network_page
from benchmarks.headlines.cases import LONG_SLEEP_MS, SETTINGS, SLEEP, SLEEP_MS, measured_on
from benchmarks.headlines.contenders import LATENCY, ROOM, WHO
from benchmarks.markdown import WIDTH, filled, table

PROSE = {
    "chain": "reference chain",
    SETTINGS: "reference chain, other settings",
    "wordcount": "`wordcount_comm`",
    "flights": "`flights`",
}
CARRIED, CAUGHT_UP = 0.95, 1.2
"""Of the rate: from the one on it counts as carried, from the other on what had waited before came through as well."""
HEAD = ["topology", "placement", "n", "mean ms", "p99 ms", "between nodes", "most tuples/s", "CPU of nodes then"]
NUMBERS_HEAD = ["number", "here", "claimed", "reached", "page and command"]
OWN = "this page, `make bench-headlines`"
ONLINE_CLAIM, ONLINE_WANTED = "20% to 30% lower than default [A13]", -0.20


def measured(found: dict[str, Any], case: str) -> dict[str, list[dict[str, Any]]]:
    """Placement -> what was measured under it, in the order of measuring."""
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for one_pass in found["passes"]:
        if one_pass["case"] == case:
            for one in one_pass["measured"]:
                rows[one["who"]].append(one)
    return dict(rows)


def cases(found: dict[str, Any]) -> list[str]:
    """The topologies that were measured."""
    return list(dict.fromkeys(p["case"] for p in found["passes"] if p["measured"]))


def spread(values: Sequence[float], form: str) -> str:
    """Median, and least and most where there are several."""
    middle = format(statistics.median(values), form)
    return middle if len(values) == 1 else f"{middle} ({min(values):{form}} to {max(values):{form}})"


def pairs(
    found: dict[str, Any], case: str, who: str, other: str, get: Callable[[dict[str, Any]], float]
) -> list[float]:
    """Relative difference of `who` to `other` in each pass that has both."""
    changes = []
    for one_pass in found["passes"]:
        if one_pass["case"] == case:
            values = {one["who"]: get(one) for one in one_pass["measured"]}
            if who in values and other in values:
                changes.append(values[who] / values[other] - 1)
    return changes


def _latency(one: dict[str, Any]) -> float:
    return float(one["at_rate"]["mean_ms"])


def _most(one: dict[str, Any]) -> float:
    return float(one["saturated"]["throughput_tps"])


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
                    spread([_latency(o) for o in ones], ",.1f"),
                    spread([o["at_rate"]["p99_ms"] for o in ones], ",.0f"),
                    spread([o["at_rate"]["inter_node_share"] for o in ones], ".0%"),
                    spread([_most(o) for o in ones], ",.0f"),
                    _cpu(ones),
                ]
            )
    return lines


def _cpu(ones: Sequence[dict[str, Any]]) -> str:
    """CPU of the least and of the most busy node while as much as goes comes through, in the mean of the passes."""
    nodes = [sorted(one["saturated"]["cpu_per_node_percent"].values()) for one in ones]
    least, most = (sum(of[n] for of in nodes) / len(nodes) for n in (0, -1))
    return f"{least:.0f}% to {most:.0f}%"


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
            pairs(found, case, "online", "default", _latency),
            ONLINE_CLAIM,
            lambda x: x <= ONLINE_WANTED,
        )
        add(
            f"{name}: mean latency, `best` to `online`",
            pairs(found, case, "best", "online", _latency),
            "ours: below `online`",
            lambda x: x < 0,
        )
        stays = _stays(found, case)
        add(
            f"{name}: mean latency, `best` to default",
            [] if stays else pairs(found, case, "best", "default", _latency),
            "ours: below default",
            lambda x: x < 0,
        )
        add(
            f"{name}: mean latency, `{LATENCY}` to `best`",
            pairs(found, case, LATENCY, "best", _latency),
            "ours: below `best`",
            lambda x: x < 0,
        )
        for other, words in (("default", "default"), ("ras", "RAS"))[stays:]:
            add(
                f"{name}: most tuples/s, `best` to {words}",
                pairs(found, case, "best", other, _most),
                "ours: more on the same nodes",
                lambda x: x > 0,
            )
    return lines


def _stays(found: dict[str, Any], case: str) -> bool:
    """Whether the plan of `best` is the placement of Storm's default."""
    metrics = found["cases"][case]["placements"].get("best", {}).get("metrics") or {}
    return bool(metrics.get("moved_executors") == 0)


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
        table(NUMBERS_HEAD, summary(found)),
        *_not_measured(found),
    ]
    if found["passes"]:
        paragraphs += ["## Placements on isolated nodes", *_setting(found), table(HEAD, rows(found))]
        paragraphs += [filled(text) for text in _notes(found)]
    if found.get("fewest"):
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
    return "".join(f"; {' and '.join(names)}: {c}" for c, names in by_cpu.items() if c != found["machine"]["cpu"])


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
        what.append(own)
    return [
        filled(
            f"{some['nodes']} nodes of {some['cores']:g} cores and {some['mbit']:g} Mbit/s on one machine, each in a "
            f"namespace of its own with a CPU quota; its load average while measuring was {min(loads):.1f} to "
            f"{max(loads):.1f}. The source sends at a rate, then as fast as `topology.max.spout.pending` lets it, in "
            f"turns of {' or '.join(f'{s:g}' for s in turns)} s: latency and traffic are of the former, the most "
            "tuples/s and the CPU of the latter, so what holds the source is the number of tuples under way, and never "
            "Storm's backpressure. " + "; ".join(what) + ". " + _sleeps(found)
        ),
        filled(
            "Storm's default is the placement that Storm made itself. All others are made from what was measured under "
            f"it, with the same room on each node: B(n) is {ROOM:g} times the load of a node if all were loaded alike. "
            "RAS is Storm's own class (`ras-default`), told the measured CPU of every executor, which is as good as "
            "declarations get. One pass applies them in this order, the next one backwards (ABBA), to the running "
            "topology. A window begins when every source task completes tuples and none fails any more, 3 s after the "
            "rate has changed. Latency is complete latency, from histograms with 10% between bounds."
        ),
    ]


def _sleeps(found: dict[str, Any]) -> str:
    """Sentence on how long executors sleep that find no tuple."""
    by_ms: defaultdict[int, list[str]] = defaultdict(list)
    for case in cases(found):
        by_ms[found["cases"][case]["parameters"].get("sleep_ms", LONG_SLEEP_MS)].append(PROSE[case])
    told = "; ".join(f"{ms} ms in {' and '.join(names)}" for ms, names in sorted(by_ms.items()))
    return f"Executors that find no tuple sleep (`{SLEEP}`, {SLEEP_MS} ms by default): {told}."


def _notes(found: dict[str, Any]) -> list[str]:
    """Notes on this run: failed tuples, passes that were cut short."""
    notes = []
    failed = sum(o[p]["failed"] for q in found["passes"] for o in q["measured"] for p in ("at_rate", "saturated"))
    notes.append(f"Failed tuples in all windows: {failed}.")
    for case in cases(found):
        rate_tps = found["cases"][case]["parameters"]["rate_tps"]
        short = {
            who: least
            for who, ones in measured(found, case).items()
            if (least := min(one["at_rate"]["throughput_tps"] for one in ones)) < CARRIED * rate_tps
        }
        if short:
            who = ", ".join(f"{WHO.get(w, f'`{w}`')} {tps:,.0f}" for w, tps in short.items())
            notes.append(
                f"The {PROSE[case]} did not carry its {rate_tps:g} tuples/s in each window under {who} (the least, "
                "tuples/s): its latency there is that of a full topology."
            )
        late = {
            WHO.get(who, f"`{who}`")
            for who, ones in measured(found, case).items()
            if any(one["at_rate"]["throughput_tps"] > CAUGHT_UP * rate_tps for one in ones)
        }
        if late:
            notes.append(
                f"In a window of the {PROSE[case]} under {', '.join(sorted(late))} more came through than was sent: "
                "tuples that had waited since the move, with the latency of that."
            )
    for case in cases(found):
        planned = found["cases"][case]["placements"]
        counts = {w: len(measured(found, case).get(w, [])) for w, p in planned.items() if not p["why"]}
        least, most = min(counts.values()), max(counts.values())
        said = f"{least}" if least == most else f"{least} to {most}"
        times = "once" if said == "1" else f"{said} times"
        notes.append(f"The {PROSE[case]} was measured {times} under each; the aim is five (`--full` has six).")
        if _stays(found, case):
            notes.append(
                f"On the {PROSE[case]} `best` leaves everything where Storm's default placed it, for it finds nothing "
                "better: what differs between the two there is how much a figure varies by itself."
            )
            continue
        to_default = pairs(found, case, "best", "default", _latency)
        if to_default and statistics.median(to_default) >= 0:
            ones = measured(found, case)
            shares = [spread([o["at_rate"]["inter_node_share"] for o in ones[w]], ".0%") for w in ("best", "default")]
            notes.append(
                f"`best` is not below default on the {PROSE[case]}: between nodes it leaves {shares[0]}, default "
                f"{shares[1]}. Why its latency is above that of default is not known."
            )
        missed = pairs(found, case, "best", "online", _latency)
        if missed and statistics.median(missed) >= 0:
            ones = measured(found, case)
            shares = [spread([o["at_rate"]["inter_node_share"] for o in ones[w]], ".0%") for w in ("best", "online")]
            why = (
                ""
                if found["cases"][case]["parameters"].get("cpu_by_place")
                else " The likely reason: plans balance the CPU that was measured under Storm's placement; what tuples "
                "between nodes cost follows the placement, and was not in the model (`load.cpu_by_place` was off)."
            )
            notes.append(
                f"`best` is not below `online` on the {PROSE[case]}: between nodes it leaves {shares[0]}, `online` "
                f"{shares[1]}, and its nodes are not equally busy when full (CPU of {_cpu(ones['best'])}).{why}"
            )
    return notes
