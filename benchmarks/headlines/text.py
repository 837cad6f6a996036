"""Paragraphs, tables and names of the page of headlines."""

from __future__ import annotations

import textwrap

WIDTH = 118
WHO = {"default": "Storm default", "ras": "Storm RAS, measured CPU declared"}
"""Storm's contenders in words; ours are told by the names of their planners."""


def table(head: list[str], lines: list[list[str]]) -> str:
    """A table of the page."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def filled(text: str) -> str:
    """A paragraph of the page."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
