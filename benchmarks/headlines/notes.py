"""Notes below the table of placements: what was not carried, how often each was measured, why a figure is missed."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.headlines.cases import AIM
from benchmarks.headlines.contenders import LATENCY, WHO
from benchmarks.headlines.figures import PROSE, cases, cpu, latency, measured, most, pairs, spread, stays_as_it_is
from benchmarks.headlines.phases import unevenness
from stormpilot.config import DecideSection

ONLINE_CLAIM, ONLINE_WANTED = "20% to 30% lower than default [A13]", -0.20
CARRIED, CAUGHT_UP = 0.95, 1.2
"""Of the rate: from the one on it counts as carried, from the other on what had waited before came through as well."""


def notes(found: dict[str, Any]) -> list[str]:
    """Notes on this run: failed tuples, passes that were cut short."""
    told = []
    failed = sum(o[p]["failed"] for q in found["passes"] for o in q["measured"] for p in ("at_rate", "saturated"))
    told.append(f"Failed tuples in all windows: {failed}.")
    for case in cases(found):
        rate_tps = found["cases"][case]["parameters"]["rate_tps"]
        short = {
            who: least
            for who, ones in measured(found, case).items()
            if (least := min(one["at_rate"]["throughput_tps"] for one in ones)) < CARRIED * rate_tps
        }
        if short:
            who = ", ".join(f"{WHO.get(w, f'`{w}`')} {tps:,.0f}" for w, tps in short.items())
            told.append(
                f"The {PROSE[case]} did not carry its {rate_tps:g} tuples/s in each window under {who} (the least, "
                "tuples/s): its latency there is that of a full topology."
            )
        late = {
            WHO.get(who, f"`{who}`")
            for who, ones in measured(found, case).items()
            if any(one["at_rate"]["throughput_tps"] > CAUGHT_UP * rate_tps for one in ones)
        }
        if late:
            told.append(
                f"In a window of the {PROSE[case]} under {', '.join(sorted(late))} more came through than was sent: "
                "tuples that had waited since the move, with the latency of that."
            )
    for case in cases(found):
        planned = found["cases"][case]["placements"]
        counts = {w: len(measured(found, case).get(w, [])) for w, p in planned.items() if not p["why"]}
        span = sorted({min(counts.values()), max(counts.values())})
        said = " to ".join(map(str, span))
        times = "once" if said == "1" else f"{said} times"
        fewer = f"; the aim is {AIM} (`--full`)" if span[0] < AIM else ""
        told.append(f"The {PROSE[case]} was measured {times} under each{fewer}.")
        if stays_as_it_is(found, case):
            told.append(
                f"On the {PROSE[case]} `best` leaves everything where Storm's default placed it, for it finds nothing "
                "better: what differs between the two there is how much a figure varies by itself."
            )
            continue
        to_default = pairs(found, case, "best", "default", latency)
        if to_default and statistics.median(to_default) >= 0:
            beside = _beside(found, case, "best", "default")
            told.append(f"`best` is not below default on the {PROSE[case]}: {beside}.{_left_alone(found, case)}")
        told += _online_misses(found, case) + _no_less_latency(found, case)
        missed = pairs(found, case, "best", "online", latency)
        if missed and statistics.median(missed) >= 0:
            ones = measured(found, case)
            shares = [spread([o["at_rate"]["inter_node_share"] for o in ones[w]], ".0%") for w in ("best", "online")]
            why = (
                ""
                if found["cases"][case]["parameters"].get("cpu_by_place")
                else " The likely reason: plans balance the CPU that was measured under Storm's placement; what tuples "
                "between nodes cost follows the placement, and was not in the model (`load.cpu_by_place` was off)."
            )
            told.append(
                f"`best` is not below `online` on the {PROSE[case]}: between nodes it leaves {shares[0]}, `online` "
                f"{shares[1]}, and its nodes are not equally busy when full (CPU of {cpu(ones['best'])}).{why}"
            )
    return told


def _beside(found: dict[str, Any], case: str, who: str, other: str) -> str:
    """Differences of two placements at the rate, in words."""
    ones = measured(found, case)

    def both(get: Callable[[dict[str, Any]], float], form: str) -> str:
        here, there = (format(statistics.median(get(o) for o in ones[w]), form) for w in (who, other))
        return f"{here} against {there}"

    def busiest(one: dict[str, Any]) -> float:
        return float(max(one["at_rate"]["cpu_per_node_percent"].values()) / 100)

    here, there = ([latency(o) for o in ones[w]] for w in (who, other))
    overlap = "overlap" if min(here) <= max(there) and min(there) <= max(here) else "do not overlap"
    return (
        f"{both(lambda o: o['at_rate']['inter_node_share'], '.0%')} between nodes; the busiest node is used to "
        f"{both(busiest, '.0%')}, {both(lambda o: unevenness(o['at_rate']), '.2f')} times the mean one; the passes "
        f"{overlap} ({min(here):.1f} to {max(here):.1f}, {min(there):.1f} to {max(there):.1f} ms)"
    )


def _left_alone(found: dict[str, Any], case: str) -> str:
    """A sentence where a controller would not move for what `best` saves; empty where it would."""
    ones, least = measured(found, case), DecideSection().gain_threshold_ratio
    best, default = (statistics.median(o["at_rate"]["inter_node_share"] for o in ones[w]) for w in ("best", "default"))
    saves = 1 - best / default if default else 0.0
    if saves >= least:
        return ""
    return (
        f" A controller would leave it as it is: {max(saves, 0.0):.0%} less traffic between nodes is below the "
        f"{least:.0%} of `decide.gain_threshold_ratio`."
    )


def _online_misses(found: dict[str, Any], case: str) -> list[str]:
    """Note where `online` does not have what its source claims: what it changed, and whether tuples waited at all."""
    missed = pairs(found, case, "online", "default", latency)
    if not missed or statistics.median(missed) <= ONLINE_WANTED:
        return []
    ones = measured(found, case)
    online, default = (
        statistics.median(o["at_rate"]["inter_node_share"] for o in ones[w]) for w in ("online", "default")
    )
    waits = statistics.median(o["at_rate"]["p99_ms"] / latency(o) for o in ones["default"])
    return [
        f"`online` is not {-ONLINE_WANTED:.0%} below default on the {PROSE[case]}: between nodes it leaves "
        f"{online:.0%}, default {default:.0%}; under default the p99 is {waits:.1f} times the mean (near 1 where no "
        "tuple waits)."
    ]


def _no_less_latency(found: dict[str, Any], case: str) -> list[str]:
    """Note where the plan for the least latency has no less of it than `best`: how little is between the two."""
    missed = pairs(found, case, LATENCY, "best", latency)
    if not missed or statistics.median(missed) < 0:
        return []
    ones = measured(found, case)
    ours, best = (f"{statistics.median(most(o) for o in ones[w]):,.0f}" for w in (LATENCY, "best"))
    return [
        f"`{LATENCY}` is not below `best` on the {PROSE[case]}: {_beside(found, case, LATENCY, 'best')}. Where even "
        f"nodes cost next to no traffic `best` takes them by itself. The most is {ours} against {best} tuples/s."
    ]
