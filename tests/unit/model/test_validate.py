"""Everything that is wrong with a model document; errors are exactly what reader and compiler refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from doubles.models import model, topology
from random_models import models
from stormpilot.errors import UsageError
from stormpilot.model.compiled import compile_model
from stormpilot.model.validate import Problem, shortened, validate
from stormpilot.model.values import Model

Change = Callable[[dict[str, Any]], object]


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(model(topology())))
    return found


def problems(change: Change, level: str = "error") -> list[tuple[str, str]]:
    changed = document()
    change(changed)
    return [(p.field, p.text) for p in validate(changed)[1] if p.level == level]


def refused(changed: dict[str, Any]) -> bool:
    try:
        read = msgspec.convert(changed, Model)
        if read.schema != 1:
            return True
        compile_model(read)
    except (msgspec.ValidationError, UsageError):
        return True
    return False


BROKEN: list[tuple[Change, str, str]] = [
    (lambda d: d["supervisors"][1].update(cores="4"), "supervisors[1].cores", "expected `float`, got `str`"),
    (lambda d: d["supervisors"][0].pop("slots"), "supervisors[0].slots", "is missing, expected a list"),
    (lambda d: d["topologies"][0]["executors"][2].pop("start"), "topologies[0].executors[2].start", "is missing"),
    (lambda d: d["traffic"][0].pop("from"), "traffic[0].from", "is missing, expected a whole number"),
    (
        lambda d: d["topologies"][0]["components"][0].update(kind="sink"),
        "topologies[0].components[0].kind",
        "expected one of spout, bolt, system",
    ),
    (lambda d: d.update(schema=2), "schema", "this version reads 1"),
    (lambda d: d.pop("topologies"), "topologies", "is missing, expected a list"),
    (lambda d: d["supervisors"][1].update(id="a"), "supervisors[1].id", "'a' is there twice"),
    (lambda d: d["supervisors"][0].update(slots=[1, 1]), "supervisors[0].slots[1]", "1 is there twice"),
    (lambda d: d["supervisors"][2].update(mhz=-1), "supervisors[2].mhz", "is -1, expected a number > 0"),
    (lambda d: d["supervisors"][2].update(cores=0), "supervisors[2].cores", "is 0, expected a number > 0"),
    (lambda d: d["supervisors"][2].update(memory_mb=1e308), "supervisors[2].memory_mb", "at most 1e+12"),
    (
        lambda d: d["supervisors"][0].update(slots=[1, 2**31]),
        "supervisors[0].slots[1]",
        "is 2147483648, expected a port",
    ),
    (lambda d: d["topologies"][0].update(workers=2**40), "topologies[0].workers", "at most 2147483647"),
    (lambda d: d["topologies"][0].update(priority=-(2**40)), "topologies[0].priority", "at most 2147483647"),
    (lambda d: d["supervisors"][2].update(cpu_limit_mhz=-1), "supervisors[2].cpu_limit_mhz", "is -1"),
    (lambda d: d["topologies"].append(d["topologies"][0]), "topologies[1].id", "'flights-1' is there twice"),
    (lambda d: d["topologies"][0].update(workers=0), "topologies[0].workers", "is 0, expected at least 1"),
    (
        lambda d: d["topologies"][0].update(worker_executors=2**63 - 1),
        "topologies[0].worker_executors",
        "is 9223372036854775807, expected at least 1, at most 2147483647",
    ),
    (
        lambda d: d["topologies"][0]["assignment"].append({"start": 1, "supervisor": "c", "port": 1}),
        "topologies[0].assignment[4].start",
        "executor 1 is assigned twice",
    ),
    (lambda d: d["topologies"][0]["executors"][1].update(start=1), "topologies[0].executors[1].start", "1 is there"),
    (lambda d: d["topologies"][0]["executors"][1].update(end=0), "topologies[0].executors[1].end", "is 0, expected"),
    (lambda d: d["topologies"][0]["executors"][1].update(end=10**9), "topologies[0].executors[1].end", "1000000 tasks"),
    (
        lambda d: d["topologies"][0]["executors"][1].update(start=2**40, end=2**40),
        "topologies[0].executors[1].start",
        "is 1099511627776, expected 0 to 2147483647",
    ),
    (
        lambda d: d["topologies"][0]["executors"][0].update(start=-4) or d["traffic"][0].update({"from": -4}),
        "topologies[0].executors[0].start",
        "is -4, expected 0 to",
    ),
    (
        lambda d: d["topologies"][0]["executors"][0].update(end=2),
        "topologies[0].executors[1].start",
        "is 2, but the executor of tasks 1 to 2 has that task too",
    ),
    (lambda d: d["topologies"][0]["executors"][1].update(component="z"), "topologies[0].executors[1].component", "'z'"),
    (lambda d: d["topologies"][0]["executors"][1].update(cpu_mhz=-5), "topologies[0].executors[1].cpu_mhz", "is -5"),
    (lambda d: d["topologies"][0]["components"][1].update(id="x"), "topologies[0].components[1].id", "'x' is there"),
    (lambda d: d["topologies"][0].update(apart=[["x", "x"]]), "topologies[0].apart[0]", "'x' is apart from itself"),
    (lambda d: d["topologies"][0].update(apart=[["x", "z"]]), "topologies[0].apart[0]", "lists no component 'z'"),
    (lambda d: d["topologies"][0].update(fixed_workers=[["c", 1]]), "topologies[0].fixed_workers[0]", "c:1 holds no"),
    (lambda d: d["traffic"][1].update({"from": 77}), "traffic[1].from", "no executor that starts at task 77"),
    (lambda d: d["traffic"][1].update({"to": 77}), "traffic[1].to", "no executor that starts at task 77"),
    (lambda d: d["traffic"][1].update(topology="gone"), "traffic[1].topology", "there is no topology 'gone'"),
    (lambda d: d["traffic"][0].update(rate=-1), "traffic[0].rate", "is -1, expected tuples/s >= 0"),
    (lambda d: d["traffic"][0].update(rate=1e308), "traffic[0].rate", "is 1e+308, expected tuples/s >= 0, at most"),
]


@pytest.mark.parametrize(("change", "field", "said"), BROKEN)
def test_what_is_wrong_is_named_by_its_field_and_refused_by_planning_too(change: Change, field: str, said: str) -> None:
    found = problems(change)
    assert any(f == field and said in text for f, text in found), found
    changed = document()
    change(changed)
    assert refused(changed)


def test_everything_is_named_at_once() -> None:
    def change(d: dict[str, Any]) -> None:
        d["topologies"][0]["workers"] = 0
        d["traffic"][0]["rate"] = -1.0
        d["traffic"][1]["to"] = 9
        d["supervisors"][0]["mhz"] = -3.0

    assert [f for f, _ in problems(change)] == [
        "supervisors[0].mhz",
        "topologies[0].workers",
        "traffic[0].rate",
        "traffic[1].to",
    ]


def test_wrong_types_are_named_all_together() -> None:
    def change(d: dict[str, Any]) -> None:
        d["topologies"][0]["id"] = 5
        d["topologies"][0]["executors"][0]["end"] = "one"
        d["topologies"][0]["components"][0]["bundle"] = 0
        d["traffic"][0] = []

    assert [f for f, _ in problems(change)] == [
        "topologies[0].id",
        "topologies[0].components[0].bundle",
        "topologies[0].executors[0].end",
        "traffic[0]",
    ]


@pytest.mark.parametrize("value", [[], 5, "model", None])
def test_what_is_no_object_is_said(value: object) -> None:
    read, (problem,) = validate(value)
    assert read is None
    assert problem.field == "(document)"


WARNED: list[tuple[Change, str, str]] = [
    (lambda d: [s.update(slots=[]) for s in d["supervisors"]], "supervisors", "no supervisor has a slot"),
    (lambda d: d["supervisors"][0].update(cpu_limit_mhz=9e9), "supervisors[0].cpu_limit_mhz", "more than the 2,000"),
    (lambda d: [s.update(cpu_limit_mhz=100) for s in d["supervisors"]], "supervisors", "need 800 MHz"),
    (lambda d: d["supervisors"][0].update(cpu_limit_mhz=399), "supervisors[0]", "needs 400 MHz of the 399 MHz"),
    (lambda d: d["topologies"][0]["components"][0].update(site="x"), "topologies[0].components[0].site", "site 'x'"),
    (lambda d: d["topologies"][0]["executors"][0].update(measured=False), "topologies[0].executors", "never measured"),
    (lambda d: d["topologies"][0]["executors"][0].update(pin="q"), "topologies[0].executors[0].pin", "'q'"),
    (lambda d: d.update(traffic=[]), "topologies[0]", "has no traffic"),
    (lambda d: d["traffic"].pop(), "topologies[0].executors", "1 executor of x neither sends nor receives"),
    (lambda d: d["topologies"][0].update(workers=9), "topologies[0].workers", "9 workers for 4 executors"),
    (
        lambda d: d["topologies"][0].update(executors=[], assignment=[]) or d.update(traffic=[]),
        "topologies[0]",
        "no ex",
    ),
    (lambda d: d["topologies"][0]["assignment"][0].update(port=9), "topologies[0].assignment", "a:9"),
    (lambda d: d["topologies"][0]["assignment"].pop(), "topologies[0].assignment", "1 of 4 executors run nowhere"),
    (
        lambda d: d["topologies"].append({**d["topologies"][0], "id": "other-1"}),
        "topologies[1].assignment",
        "other-1 runs on a:1, and so does flights-1",
    ),
    (
        lambda d: d["topologies"][0]["components"][1]["inputs"][0].update(component="q"),
        "topologies[0].components[1].inputs[0].component",
        "receives from 'q'",
    ),
    (
        lambda d: d["topologies"][0]["components"][1]["inputs"][0].update(grouping="SHUFLE"),
        "topologies[0].components[1].inputs[0].grouping",
        "'SHUFLE' is none of SHUFFLE, LOCAL_OR_SHUFFLE,",
    ),
    (lambda d: d.update(exclusions=[{"supervisor": "q"}]), "exclusions[0].supervisor", "no supervisor 'q'"),
    (
        lambda d: d.update(exclusions=[{"supervisor": "a", "topology": "q"}]),
        "exclusions[0].topology",
        "no topology 'q'",
    ),
    (
        lambda d: d.update(exclusions=[{"supervisor": "a", "component": "q"}]),
        "exclusions[0].component",
        "no component 'q'",
    ),
]


@pytest.mark.parametrize(("change", "field", "said"), WARNED)
def test_what_is_probably_not_meant_is_a_warning_and_planned(change: Change, field: str, said: str) -> None:
    found = problems(change, "warning")
    assert any(f.startswith(field) and said in text for f, text in found), found
    assert problems(change) == []
    changed = document()
    change(changed)
    assert not refused(changed)


def test_a_sound_model_has_no_problems() -> None:
    assert validate(document())[1] == []


@settings(max_examples=50, deadline=None)
@given(models())
def test_models_that_compile_have_no_errors(any_model: Model) -> None:
    compile_model(any_model)
    read, found = validate(json.loads(msgspec.json.encode(any_model)))
    assert read == any_model
    assert [p for p in found if p.level == "error"] == []


def test_hundreds_that_are_alike_are_counted() -> None:
    alike = [Problem(level="error", kind="traffic", field=f"traffic[{i}].to", text="gone") for i in range(100)]
    kept = shortened(alike, most=3)
    assert [p.field for p in kept] == ["traffic[0].to", "traffic[1].to", "traffic[2].to", "..."]
    assert kept[-1].text == "and 97 more of this kind (traffic)"
