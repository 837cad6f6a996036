"""Paragraphs and tables of the pages that benchmarks write."""

from __future__ import annotations

import textwrap

WIDTH = 118


def table(head: list[str], lines: list[list[str]]) -> str:
    """A table of a page."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def filled(text: str) -> str:
    """A paragraph of a page."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
