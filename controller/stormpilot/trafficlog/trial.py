"""Trial run: what the controller would have done over a period in mode `advise`, from the traffic log alone.

A proposal begins when a plan is proposed and ends when none was for `apart_s` (the cool-down): in mode `act` these
cycles would have been one move. What it would have saved is counted over the cycles in which it was proposed, at the
rates of each; what it would have cost, once, at its first cycle.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from stormpilot.trafficlog.place import LogPlace
from stormpilot.trafficlog.reading import LogRows
from stormpilot.trafficlog.schema import name_of

DECISION_COLUMNS = (
    *("topology_name", "mode", "action", "reason", "text", "moved_executors", "inter_node_tps"),
    *("planned_inter_node_tps", "total_tps", "restarted_workers", "held_up_tuples"),
)
OUTCOME_COLUMNS = ("topology_name", "metric", "before", "predicted", "measured", "verdict", "downtime_s")
WINDOW_COLUMNS = ("window_from", "topology_name", "measured", "total_tps", "inter_node_tps")
GAP_PERIODS = 3
"""A cycle stands for the time until the next one, but for no more than so many usual periods: then nothing decided."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Proposal:
    """A move that would have been made.

    `proposed_s` is how long it was proposed within `from_ms` to `to_ms`. The rates and shares are means over that time,
    None where nothing was measured. `moved_executors`, `restarted_workers` and `held_up_tuples` are what the move
    would have cost; the last two are None in a log of an earlier version.
    """

    reasons: list[str]
    text: str
    from_ms: int
    to_ms: int
    cycles: int
    proposed_s: float
    inter_node_tps: float | None
    planned_inter_node_tps: float | None
    inter_node_share: float | None
    planned_inter_node_share: float | None
    saved_tuples: float
    moved_executors: int
    restarted_workers: int | None
    held_up_tuples: float | None


@dataclass(frozen=True)
class Skipped:
    """Cycles in which nothing was proposed for one reason; `text` is what the last of them said."""

    reason: str
    cycles: int
    lasted_s: float
    text: str


@dataclass(frozen=True)
class Certainty:
    """Confidence of the figures.

    `moves` were made and judged in the period, `checked` of them by the share between nodes; `error_share` is the
    median of their distance between predicted and measured share (a part of one), `downtime_s` of their restarts. The
    share between nodes varied by itself between `low_share` and `high_share` (10th and 90th percentile of windows).
    """

    moves: int
    verdicts: dict[str, int]
    checked: int
    error_share: float | None
    downtime_s: float | None
    windows: int
    measured_windows: int
    low_share: float | None
    high_share: float | None


@dataclass(frozen=True)
class TopologyTrial:
    """A topology over the period.

    `inter_node_share` is as it ran, `followed_inter_node_share` as it would have been had every proposal been in place
    while it was proposed. `observed_s` is how long a controller decided, `published` how many plans it published all
    the same, `modes` how many cycles there were in each mode.
    """

    name: str
    ids: list[str]
    modes: dict[str, int]
    from_ms: int
    to_ms: int
    cycles: int
    observed_s: float
    total_tps: float | None
    inter_node_tps: float | None
    inter_node_share: float | None
    followed_inter_node_share: float | None
    saved_tuples: float
    moved_executors: int
    restarted_workers: int | None
    held_up_tuples: float | None
    published: int
    proposals: list[Proposal]
    skipped: list[Skipped]
    certainty: Certainty


@dataclass
class _Open:
    """A proposal that may go on."""

    rows: list[tuple[Row, float]] = field(default_factory=list)


def trial_run(
    place: LogPlace,
    from_ms: int,
    to_ms: int,
    apart_s: float,
    left_out: Callable[[str, Exception], None],
    names: Sequence[str] = (),
) -> list[TopologyTrial]:
    """Every topology that was decided about in the period, by name; `names`: only these, or ids (all)."""
    rows = LogRows(place, from_ms, to_ms, left_out)
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for topology_id in rows.topologies("decisions"):
        name = name_of(topology_id)
        if not names or name in names or topology_id in names:
            by_name[name].append(topology_id)
    trials = (_of_name(rows, name, ids, apart_s) for name, ids in sorted(by_name.items()))
    return [t for t in trials if t is not None]


def _of_name(rows: LogRows, name: str, ids: Sequence[str], apart_s: float) -> TopologyTrial | None:
    """The topology of these ids; its rows are the only ones in memory. None where it was not decided about."""
    decisions = {t: found for t in ids if (found := rows.of("decisions", "at", t, DECISION_COLUMNS))}
    if not decisions:
        return None
    return topology_trial(
        name,
        list(decisions),
        sorted((d for found in decisions.values() for d in found), key=lambda d: d["at"]),
        [o for t in decisions for o in rows.of("outcomes", "at", t, OUTCOME_COLUMNS)],
        [w for t in decisions for w in rows.of("windows", "window_to", t, WINDOW_COLUMNS)],
        apart_s,
    )


def topology_trial(
    name: str,
    ids: Sequence[str],
    decisions: Sequence[Row],
    outcomes: Sequence[Row],
    windows: Sequence[Row],
    apart_s: float,
) -> TopologyTrial:
    """One topology, from its rows of the log in time order; at least one decision."""
    lasting = _lasting(decisions)
    proposals = _proposals(lasting, apart_s)
    saved = sum(p.saved_tuples for p in proposals)
    shares = [w for w in windows if w["total_tps"] and w["measured"] is not False]
    all_s = sum(_length_s(w) for w in shares)
    total = sum(w["total_tps"] * _length_s(w) for w in shares)
    between = sum((w["inter_node_tps"] or 0.0) * _length_s(w) for w in shares)
    observed_s = sum(s for _, s in lasting)
    # Proposals stand for all the time, windows for what was logged of it: both are held against that.
    saved_then = saved * min(1.0, all_s / observed_s) if observed_s else 0.0
    modes: defaultdict[str, int] = defaultdict(int)
    for d in decisions:
        modes[d["mode"]] += 1
    return TopologyTrial(
        name=name,
        ids=list(ids),
        modes=dict(modes),
        from_ms=decisions[0]["at"],
        to_ms=decisions[-1]["at"],
        cycles=len(decisions),
        observed_s=observed_s,
        total_tps=total / all_s if all_s else None,
        inter_node_tps=between / all_s if all_s else None,
        inter_node_share=between / total if total else None,
        followed_inter_node_share=max(0.0, between - saved_then) / total if total else None,
        saved_tuples=saved,
        moved_executors=sum(p.moved_executors for p in proposals),
        restarted_workers=_sum([p.restarted_workers for p in proposals]),
        held_up_tuples=_sum([p.held_up_tuples for p in proposals]),
        published=sum(d["action"] == "publish" for d in decisions),
        proposals=proposals,
        skipped=_skipped(lasting),
        certainty=_certainty(outcomes, windows, shares),
    )


def _lasting(decisions: Sequence[Row]) -> list[tuple[Row, float]]:
    """Every decision with the seconds that it stands for."""
    apart_s = [(b["at"] - a["at"]) / 1000 for a, b in itertools.pairwise(decisions)]
    usual_s = median(apart_s) if apart_s else 0.0
    lengths = [min(s, GAP_PERIODS * usual_s) for s in apart_s] + [usual_s]
    return list(zip(decisions, lengths, strict=True))


def _proposes(d: Row) -> bool:
    return d["action"] == "advise" and bool(d["moved_executors"])


def _proposals(lasting: Sequence[tuple[Row, float]], apart_s: float) -> list[Proposal]:
    found: list[_Open] = []
    for d, lasts_s in lasting:
        if not _proposes(d):
            continue
        if not found or d["at"] - found[-1].rows[-1][0]["at"] > apart_s * 1000:
            found.append(_Open())
        found[-1].rows.append((d, lasts_s))
    return [_proposal(o.rows) for o in found]


def _proposal(rows: Sequence[tuple[Row, float]]) -> Proposal:
    first, last = rows[0][0], rows[-1][0]
    known = [(d, s) for d, s in rows if d["inter_node_tps"] is not None and d["planned_inter_node_tps"] is not None]
    whole = [(d, s) for d, s in known if d["total_tps"]]
    now = sum(d["inter_node_tps"] * s for d, s in known)
    then = sum(d["planned_inter_node_tps"] * s for d, s in known)
    known_s = sum(s for _, s in known)
    total = sum(d["total_tps"] * s for d, s in whole)
    return Proposal(
        reasons=list(dict.fromkeys(d["reason"] for d, _ in rows)),
        text=last["text"] or "",
        from_ms=first["at"],
        to_ms=last["at"] + round(rows[-1][1] * 1000),
        cycles=len(rows),
        proposed_s=sum(s for _, s in rows),
        inter_node_tps=now / known_s if known_s else None,
        planned_inter_node_tps=then / known_s if known_s else None,
        inter_node_share=sum(d["inter_node_tps"] * s for d, s in whole) / total if total else None,
        planned_inter_node_share=sum(d["planned_inter_node_tps"] * s for d, s in whole) / total if total else None,
        saved_tuples=now - then,
        moved_executors=first["moved_executors"],
        restarted_workers=first["restarted_workers"],
        held_up_tuples=first["held_up_tuples"],
    )


def _skipped(lasting: Sequence[tuple[Row, float]]) -> list[Skipped]:
    """Reasons without a proposal, the longest first; a proposal that moves nothing is of these too."""
    by: defaultdict[str, list[tuple[Row, float]]] = defaultdict(list)
    for d, s in lasting:
        if d["action"] != "publish" and not _proposes(d):
            by[d["reason"]].append((d, s))
    found = [Skipped(r, len(rows), sum(s for _, s in rows), rows[-1][0]["text"] or "") for r, rows in by.items()]
    return sorted(found, key=lambda s: (-s.lasted_s, s.reason))


def _certainty(outcomes: Sequence[Row], windows: Sequence[Row], shares: Sequence[Row]) -> Certainty:
    verdicts: defaultdict[str, int] = defaultdict(int)
    for o in outcomes:
        verdicts[o["verdict"] or "not judged"] += 1
    errors = [
        abs(o["measured"] - o["predicted"])
        for o in outcomes
        if o["metric"] == "inter_node_share" and o["measured"] is not None and o["predicted"] is not None
    ]
    downtimes = [o["downtime_s"] for o in outcomes if o["downtime_s"] is not None]
    varied = sorted((w["inter_node_tps"] or 0.0) / w["total_tps"] for w in shares)
    return Certainty(
        moves=len(outcomes),
        verdicts=dict(verdicts),
        checked=len(errors),
        error_share=median(errors) if errors else None,
        downtime_s=median(downtimes) if downtimes else None,
        windows=len(windows),
        measured_windows=len(shares),
        low_share=varied[len(varied) // 10] if varied else None,
        high_share=varied[-1 - len(varied) // 10] if varied else None,
    )


def _length_s(window: Row) -> float:
    at = window["window_from"]
    return float(window["window_to"] / 1000 - at.timestamp())


def _sum(values: Sequence[float | None]) -> Any:
    """The sum; None where one of them is not known."""
    return None if any(v is None for v in values) else sum(v for v in values if v is not None)
