"""Shared parts of the pages: style, frame, shares."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

CSS = """
body{font:15px/1.45 system-ui,sans-serif;max-width:1120px;margin:2rem auto;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem;margin-bottom:.2rem} h2{font-size:1.25rem;margin:2.4rem 0 .4rem;border-bottom:1px solid #d8dee5}
h3{font-size:1rem;margin:1.4rem 0 .2rem} .muted{color:#66727f} p{margin:.3rem 0}
table{border-collapse:collapse;margin:.4rem 0} td,th{padding:.18rem 1rem .18rem 0;text-align:right;vertical-align:top}
td:first-child,th:first-child,td.text,th.text{text-align:left}
th{color:#66727f;font-weight:600;border-bottom:1px solid #d8dee5}
nav a{margin-right:1rem} tr.default td{color:#66727f} svg{max-width:100%;height:auto} tr.best td{font-weight:600}
"""


def document(title: str, parts: Iterable[str]) -> str:
    """A page of these parts; it loads nothing from elsewhere."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(title)}</title><style>{CSS}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    head = "".join(f"<th class=text>{html.escape(c)}</th>" for c in columns)
    body = "".join("<tr>" + "".join(f"<td class=text>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def per_cent(ratio: float | None) -> str:
    """A part of one; in words where it is not known."""
    return "an unknown part" if ratio is None else f"{ratio:.1%}"
