"""The table of reasons is complete, and the only place where sets of reasons are written."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles.models import NOW_MS, plan_message, status, subject
from stormpilot.config import DecideSection
from stormpilot.decide.admit import IN_ORDER, admit
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.reasons import Reason, reasons_table, row_of
from stormpilot.messages.settings import Hold

PACKAGE = Path(__file__).resolve().parents[3] / "controller" / "stormpilot"
TABLE = PACKAGE / "decide" / "reasons.py"


def reasons_in(node: ast.AST) -> list[str]:
    """The members of `Reason` that stand directly in a collection."""
    elements: list[ast.expr | None] = []
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        elements = [*node.elts]
    elif isinstance(node, ast.Dict):
        elements = [*node.keys]
    return [
        e.attr
        for e in elements
        if isinstance(e, ast.Attribute) and isinstance(e.value, ast.Name) and e.value.id == "Reason"
    ]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if path != TABLE and "Reason" in text:
            yield path, ast.parse(text)


@pytest.mark.parametrize("reason", list(Reason))
def test_member_has_the_name_and_the_row_of_its_code(reason: Reason) -> None:
    assert reason.name == reason.value == reason.row.code
    assert row_of(reason.value) is reason.row
    assert Reason(reason.value) is reason
    assert reason.row.meaning
    assert bool(reason.row.question) == (reason.row.kind == "gate")


def test_rows_of_one_gate_stand_together() -> None:
    questions = [row.question for row in reasons_table() if row.kind == "gate"]
    assert len(list(itertools.groupby(questions))) == len(set(questions))


def test_code_that_is_not_known_has_no_row() -> None:
    assert row_of("") is None


def test_no_set_of_reasons_is_written_outside_of_the_table() -> None:
    gates = {r.name for r in IN_ORDER}  # the functions of the gates, one per reason: not a set that means something
    found = [(str(path), names) for path, tree in modules() for n in ast.walk(tree) if len(names := reasons_in(n)) > 1]
    assert [(Path(path).name, set(names)) for path, names in found] == [("admit.py", gates)]


def test_every_reason_is_given_somewhere() -> None:
    given = {
        node.attr
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason"
    }
    assert given == {r.name for r in Reason}


def test_gates_are_asked_in_the_order_of_the_table() -> None:
    """Everything is closed; what is asked first answers, and opens."""
    config = DecideSection(cool_down_s=600, exclude=["fl*"])
    hold = Hold(topology_id="flights-1", since_ms=0, until_ms=NOW_MS * 2, cause="discard")
    fields = {
        "mode": "off",
        "paused": True,
        "frozen": "a pin",
        "unsupported": "gpu",
        "blackout": "night",
        "hold": hold,
        "not_ready": "no",
    }
    plan = plan_message(age_s=5)
    moving, applied = status("moving"), status("applied")
    asked = []
    state = {**fields, "plan": plan, "status": moving, "silent": 1}
    opened = [("mode", "act"), None, ("paused", False), ("frozen", None), ("unsupported", None), None]
    opened += [("blackout", None), ("hold", None), ("status", applied), ("plan", None), ("silent", 0)]
    lost = ["x", "y"]
    for change in [*opened, ("not_ready", None)]:
        found = admit(subject(**state), LostSupervisors(lost, 3), config, NOW_MS)  # type: ignore[arg-type]
        assert found is not None
        asked.append(found.reason)
        if found.reason is Reason.EXCLUDED:
            config = DecideSection(cool_down_s=600)
        elif found.reason is Reason.MASS_FAILURE:
            lost = []
        elif change is not None:
            state[change[0]] = change[1]
    assert admit(subject(**state), LostSupervisors(lost, 3), config, NOW_MS) is None  # type: ignore[arg-type]
    assert asked == sorted(asked, key=lambda r: r.order)
    assert len(asked) == 12
