"""Docstrings name their thing: the first line begins with a noun, not with a clause such as "what is left"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BEGINS = re.compile(r'"""\s*(What|Who|How)\b')
CLAUSE = re.compile(r"\s*(What|Who|How)\b")


def clauses(source: str) -> Iterator[str]:
    """Docstrings, those below a name of a module or class among them, that begin with such a clause."""
    if not BEGINS.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                match statement:
                    case ast.Expr(ast.Constant(str(text))) if CLAUSE.match(text):
                        yield text.strip().splitlines()[0]


@pytest.mark.parametrize("folder", ["controller", "benchmarks", "tools", "topologies"])
def test_docstrings_begin_with_a_noun(folder: str) -> None:
    found = {str(p.relative_to(ROOT)): list(clauses(p.read_text())) for p in (ROOT / folder).rglob("*.py")}
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_a_clause_is_found() -> None:
    source = '"""Rates."""\nLIMIT = 3\n"""How many."""\n\n\ndef left():\n    """What is left."""\n'
    assert list(clauses(source)) == ["How many.", "What is left."]
