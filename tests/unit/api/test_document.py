"""Fields of requests on the page of the API: the routes refuse every other name."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import msgspec
import pytest

from stormpilot.api import reads
from stormpilot.api.verbs import Body, body_of
from stormpilot.api.whatif import WhatIfBody
from stormpilot.operate import Change
from stormpilot.operate.verbs import VERBS, verb_named

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "api.md").read_text("utf-8")
HEAD, _, REST = PAGE.partition("| POST `/api/v1/...` |")[2].partition("\n|---|---|\n")
ROWS = [row.strip("|").split("|") for row in REST.partition("\n\n")[0].splitlines()]
QUERY = ("since_ms", "limit", "operators")
BODIES: dict[str, type[msgspec.Struct]] = {v.name.replace(" ", "/"): body_of(v) for v in VERBS if v.over_http}
BODIES |= {"what-if": WhatIfBody, "config/reload": Body}


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def fields(*kinds: type[msgspec.Struct]) -> set[str]:
    """Names as they are sent."""
    return {f.encode_name for kind in kinds for f in msgspec.structs.fields(kind)}


def test_every_route_that_changes_something_has_a_row() -> None:
    assert {route for routes, _ in ROWS for route in words(routes)} == set(BODIES)


@pytest.mark.parametrize(("routes", "cell"), ROWS, ids=lambda cell: cell.strip())
def test_a_row_has_the_fields_of_its_routes(routes: str, cell: str) -> None:
    assert words(cell) - fields(Body) == fields(*(BODIES[route] for route in words(routes))) - fields(Body)


def test_the_head_has_the_fields_of_every_verb() -> None:
    assert words(HEAD) == fields(Body)


def test_the_example_is_accepted() -> None:
    data, route = re.search(r"-d '([^']+)' http://[^/]+/api/v1/(\S+)", PAGE).groups()  # type: ignore[union-attr]
    assert msgspec.json.decode(data, type=body_of(verb_named(route))).dry_run


def test_no_name_is_as_it_is_in_our_code() -> None:
    kinds: list[type[msgspec.Struct]] = [*BODIES.values(), Change]
    ours = {f.name for kind in kinds for f in msgspec.structs.fields(kind)} - fields(*kinds)
    assert "request_id" in ours and not ours & words(PAGE)


def test_the_parameters_of_audit_are_those_of_its_route() -> None:
    hints = typing.get_type_hints(reads.audit_records.fn, include_extras=True)
    taken = {getattr(hint, "__metadata__", [None])[0].name or name for name, hint in hints.items() if name in QUERY}
    (asked,) = re.findall(r"`audit\?([^`]+)`", PAGE)
    assert {p.partition("=")[0] for p in asked.split("&")} <= taken
