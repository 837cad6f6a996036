"""Options are described from the class that has them, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from stormpilot.config.options import Option, broken_range, options_of
from stormpilot.planner import PLANNERS


@dataclass(frozen=True)
class Params:
    """`gain`: part that must be won (0: any). `restart_tps`: what a restart may cost. Other words follow."""

    gain: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    restart_tps: float = 0.0
    tries: Annotated[int | None, Meta(ge=1, description="Moves to try.", extra={"unit": "moves"})] = None
    kind: Literal["a", "b"] = "a"
    careful: bool = False


class Section(msgspec.Struct):
    """A section. `period_s`: between two cycles. And `names` in passing."""

    period_s: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    names: list[str] = []
    files: dict[str, str] = {}
    words: tuple[str, ...] = ()


def test_a_dataclass_is_described() -> None:
    gain, restart, tries, kind, careful = options_of(Params)
    assert gain == Option(
        name="gain", type="number", default=0.1, unit="", range="0 to below 1", meaning="part that must be won (0: any)"
    )
    assert (restart.unit, restart.range, restart.meaning) == ("tuples/s", "", "what a restart may cost")
    assert (tries.type, tries.unit, tries.range, tries.meaning) == (
        "whole number or none",
        "moves",
        "at least 1",
        "Moves to try.",
    )
    assert (kind.range, careful.type) == ("a, b", "true, false")


def test_a_struct_is_described() -> None:
    period, names, files, words = options_of(Section)
    assert (period.unit, period.range, period.default) == ("s", "above 0, at most 3600", 30.0)
    assert period.meaning == "between two cycles"
    assert (names.type, names.default, names.meaning) == ("list", [], "")
    assert (files.type, words.type) == ("map", "list"), "no words of Python"


@pytest.mark.parametrize(("value", "fits"), [(0.0, True), (0.5, True), (1.0, False), (-0.1, False)])
def test_ranges_are_told_apart(value: float, fits: bool) -> None:
    assert (broken_range(Params, "gain", value) is None) == fits
    if not fits:
        assert broken_range(Params, "gain", value) == "0 to below 1"


@pytest.mark.parametrize("value", [None, True, "text"])
def test_only_numbers_have_ranges(value: object) -> None:
    assert broken_range(Params, "tries", value) is None


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_can_be_described(name: str) -> None:
    for option in options_of(PLANNERS[name].params):
        assert option.type
        assert option.default is not None or "none" in option.type, option
        assert option.range or "number" not in option.type, "numbers are checked, so their range is shown"
        assert "None" not in option.meaning, "written none wherever it is given"
