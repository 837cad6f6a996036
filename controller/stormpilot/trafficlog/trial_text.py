"""A trial run in words and cells, for the command and for the page."""

from __future__ import annotations

from collections.abc import Sequence

from stormpilot.clock import utc
from stormpilot.printable import counted
from stormpilot.trafficlog.trial import Proposal, Skipped, TopologyTrial

SUM_COLUMNS = (
    *("topology", "observed", "tuples/s", "between nodes", "if followed", "proposals"),
    *("executors moved", "workers restarted", "tuples held up", "tuples saved"),
)
PROPOSAL_COLUMNS = (
    *("from (UTC)", "proposed for", "reason", "between nodes", "planned", "share", "planned share"),
    *("executors moved", "workers restarted", "tuples held up", "tuples saved"),
)
SKIPPED_COLUMNS = ("reason", "lasted", "cycles", "the last of them")


def sum_cells(t: TopologyTrial) -> list[str]:
    """One topology over the period."""
    return [
        t.name,
        lasting(t.observed_s),
        _count(t.total_tps),
        _share(t.inter_node_share),
        _share(t.followed_inter_node_share),
        str(len(t.proposals)),
        str(t.moved_executors),
        _count(t.restarted_workers),
        _count(t.held_up_tuples),
        _count(t.saved_tuples),
    ]


def proposal_cells(p: Proposal) -> list[str]:
    """One proposal."""
    return [
        utc(p.from_ms),
        lasting(p.proposed_s),
        ", ".join(p.reasons),
        _count(p.inter_node_tps),
        _count(p.planned_inter_node_tps),
        _share(p.inter_node_share),
        _share(p.planned_inter_node_share),
        str(p.moved_executors),
        _count(p.restarted_workers),
        _count(p.held_up_tuples),
        _count(p.saved_tuples),
    ]


def skipped_cells(s: Skipped) -> list[str]:
    """One reason why nothing was proposed."""
    return [s.reason, lasting(s.lasted_s), str(s.cycles), s.text]


def total_line(topologies: Sequence[TopologyTrial]) -> str:
    """Gain and cost of all proposals together."""
    proposals = sum(len(t.proposals) for t in topologies)
    if not proposals:
        return "Nothing would have been moved."
    saved, moved = sum(t.saved_tuples for t in topologies), sum(t.moved_executors for t in topologies)
    held_up = [t.held_up_tuples for t in topologies]
    cost = "" if any(h is None for h in held_up) else f", which holds up {sum(h or 0 for h in held_up):,.0f} tuples"
    return (
        f"{counted(proposals, 'move')} would have been made ({counted(moved, 'executor')}{cost}); "
        f"{saved:,.0f} tuples would have stayed within a node that went between nodes."
    )


def certainty_lines(t: TopologyTrial) -> list[str]:
    """Confidence of the figures of a topology."""
    c, lines = t.certainty, []
    if c.moves:
        verdicts = ", ".join(f"{n} {v}" for v, n in sorted(c.verdicts.items()))
        downtime = "" if c.downtime_s is None else f"; a restart took {c.downtime_s:.1f} s (median)"
        lines.append(f"{counted(c.moves, 'plan')} applied in this time: {verdicts}{downtime}.")
    else:
        lines.append("What restarts hold up is counted with `decide.restart_s`: no restart was measured.")
    if c.checked and c.error_share is not None:
        lines.append(
            f"{counted(c.checked, 'move')} checked: the share between nodes was off by {c.error_share:.1%} in the "
            "median from what was predicted."
        )
    else:
        what = "The share between nodes was measured after none of them" if c.moves else "No move was made in this time"
        lines.append(f"{what}, so no prediction was checked.")
    if c.low_share is not None and c.high_share is not None:
        lines.append(
            f"By itself the share between nodes was {c.low_share:.0%} to {c.high_share:.0%} (10th to 90th percentile "
            f"of {c.measured_windows} windows; {c.windows - c.measured_windows} were not measured whole)."
        )
    else:
        lines.append("No window was measured: what it sent between nodes is not known.")
    span_s = (t.to_ms - t.from_ms) / 1000
    if span_s - t.observed_s > 0.01 * span_s and span_s - t.observed_s > 60:
        lines.append(f"For {lasting(span_s - t.observed_s)} of it no controller decided.")
    if len(t.proposals) > 1:
        lines.append("After the first move the later ones might not have been needed: their cost is an upper bound.")
    return lines


def lasting(seconds: float) -> str:
    """A duration in its two largest units."""
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (s, "s")) if n]
    return " ".join(parts[:2]) or "0 s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
