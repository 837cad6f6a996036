"""HTML page of the result of `stormpilot assess`."""

from __future__ import annotations

import html
from collections.abc import Sequence

from stormpilot.history.report.style import document, table

TITLE = "What stormpilot would win here"


def page(intro: str, columns: Sequence[str], rows: Sequence[Sequence[str]], sum_line: str, said: Sequence[str]) -> str:
    """The page.

    Parameters
    ----------
    intro
        Whose cluster it is, in a sentence.
    columns, rows
        The topologies.
    sum_line
        All of them together.
    said
        What is held, and what the figures rest on, a sentence each.
    """
    parts = [
        f"<h1>{TITLE}</h1><p class=muted>{html.escape(intro)}</p>",
        f"<p>{html.escape(sum_line)}</p>",
        f"<h2>Topologies</h2>{table(columns, rows)}",
        "<h2>What is left as it is, and how sure this is</h2>",
        *(f"<p>{html.escape(line)}</p>" for line in said),
    ]
    return document(TITLE, parts)
