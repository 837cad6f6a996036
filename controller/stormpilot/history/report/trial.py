"""The report of a trial run as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from stormpilot.clock import utc
from stormpilot.history.report.style import document, table
from stormpilot.operate.trial import Obstacle
from stormpilot.trafficlog.trial import TopologyTrial
from stormpilot.trafficlog.trial_text import (
    PROPOSAL_COLUMNS,
    SKIPPED_COLUMNS,
    SUM_COLUMNS,
    certainty_lines,
    proposal_cells,
    skipped_cells,
    sum_cells,
    total_line,
)

TITLE = "Trial run"


def page(
    log: str, from_ms: int, to_ms: int, obstacles: Sequence[Obstacle] | None, topologies: Sequence[TopologyTrial]
) -> str:
    """The page; `obstacles` None: the installation was not looked at."""
    parts = [
        f"<h1>{TITLE}</h1><p class=muted>{utc(from_ms)} to {utc(to_ms)} UTC, from {html.escape(log)}</p>",
        f"<p>{html.escape(total_line(topologies))}</p>",
    ]
    if obstacles:
        rows = [[o.topology or "everywhere", o.text, o.fix] for o in obstacles]
        parts += ["<h2>Not set up as a trial run</h2>", table(["", "what", "how to set it"], rows)]
    parts += ["<h2>Topologies</h2>", table(SUM_COLUMNS, [sum_cells(t) for t in topologies])]
    for t in topologies:
        parts.append(f"<h2 id='{html.escape(t.name)}'>{html.escape(t.name)}</h2>")
        parts.append("<h3>What would have been done</h3>")
        cells = [proposal_cells(p) for p in t.proposals]
        parts.append(table(PROPOSAL_COLUMNS, cells) if cells else "<p>Nothing was proposed.</p>")
        if t.skipped:
            parts += [
                "<h3>What was not, and why</h3>",
                table(SKIPPED_COLUMNS, [skipped_cells(s) for s in t.skipped]),
            ]
        parts.append("<h3>How sure this is</h3>")
        parts += [f"<p>{html.escape(line)}</p>" for line in certainty_lines(t)]
    return document(TITLE, parts)
