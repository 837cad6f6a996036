"""The input file: what is wrong is named with file, line, field and what was expected."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
import yaml

from sizing_problems import EXAMPLE, linear_topology
from stormpilot.errors import UsageError
from stormpilot.sizing.problem import Component, Problem, Slot, parse, read_problem

TEXT = EXAMPLE.read_text()


def error(text: str, name: str = "size.yaml") -> str:
    with pytest.raises(UsageError) as raised:
        parse(text, name)
    return str(raised.value)


def test_json_and_yaml_say_the_same() -> None:
    assert parse(json.dumps(yaml.safe_load(TEXT)), "size.json") == linear_topology()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("rate_tps: 100 ", "rate_tp: 100 ", "size.yaml:5: rate_tp: unknown key; did you mean rate_tps?"),
        ("rate_tps: 100 ", "rate_tps: 0 ", "size.yaml:5: rate_tps: expected a number > 0.0"),
        ("shuffle: even ", "shuffle: evn ", "size.yaml:6: shuffle: 'evn', expected one of local, even"),
        ("rate_tps: 100 ", "", "size.yaml:3: Object missing required field `rate_tps`"),
        ("{name: D2, slots: 2}", "{name: D2, slot: 2}", "size.yaml:11: vms[1].slot: unknown key; did you mean slots?"),
        ("{name: D2, slots: 2}", "{name: D2, slots: 0}", "size.yaml:11: vms[1].slots: expected a whole number >= 1"),
        (
            "{name: D2, slots: 2}",
            "{name: D 2, slots: 2}",
            "size.yaml:11: vms[1].name: expected letters, digits, dots, ",
        ),
        (
            "selectivity: 1.0",
            "selectivty: 1.0",
            "components[2].inputs[0].selectivty: unknown key; did you mean selectivity?",
        ),
        ("selectivity: 1.0", "selectivity: -1", "components[2].inputs[0].selectivity: expected a number >= 0.0"),
        (
            "grouping: SHUFFLE",
            "grouping: ALL",
            "components[2].inputs[0].grouping: 'ALL', expected one of SHUFFLE, LOCAL_OR_SHUFFLE",
        ),
        ("cpu_share: 0.0674", "cpu_share: 6.74", "models[3].points[0].cpu_share: expected a number <= 1.0"),
        ("threads: 20", "threads: 60", "models[3]: points: 35 threads after 60, expected a rising order"),
        (
            "- {threads: 1, rate_tps: 2, ",
            "- {threads: 2, rate_tps: 2, ",
            "the first has 2 threads, expected one thread",
        ),
        ("model: pi", "model: pie", "component pi: model pie is not there; did you mean pi?"),
        (
            "{component: file}",
            "{component: files}",
            "component blob: its input files is not a component; did you mean file?",
        ),
        ("inputs: [{component: source}]", "inputs: [{component: table}]", "is a cycle, expected none"),
        ("    model: pi\n", "", "component pi: neither of model and static given, expected one of them"),
        ("id: pi", "id: xml", "components: xml is there twice"),
        ("name: linear", "name: linear\nname: other", "size.yaml:5: name: given twice"),
        ("name: linear", "name: [", "not valid YAML"),
        ("schema: 1", "schema: 2", "schema: Invalid enum value 2"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, expected: str) -> None:
    assert old in TEXT
    found = error(TEXT.replace(old, new, 1))
    assert found.startswith("size.yaml")
    assert expected in found


def test_broken_json_names_the_line() -> None:
    assert error('{\n"name": \n}', "size.json").startswith("size.json:3: not valid JSON")


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("", ""),
        ("- 1", ""),
        ("just words", ""),
        ("{}", ""),
        ("zookeeper: {hosts: a}", ""),
        ('{"schema": 1, "supervisors": [], "topologies": [], "traffic": []}', "looks like a model (model.json), "),
        ('{"schema": 1, "planner": "best", "topologies": []}', "looks like a plan (plan.json), "),
    ],
)
def test_a_file_of_another_kind_is_told_which_one_is_expected(text: str, looks: str) -> None:
    assert error(text) == (
        f"size.yaml: {looks}expected a topology to size, with rate_tps, components, models, slot, vms and its name"
    )


def test_a_share_of_the_rate_is_of_sources_only() -> None:
    text = TEXT.replace("inputs: [{component: source}]", "inputs: [{component: source}]\n    source_share: 2.0", 1)
    assert "source_share is given, expected only where there are no inputs" in error(text)


def test_a_model_can_stand_in_a_file_of_its_own() -> None:
    """As `stormpilot profile` writes it: a whole file with one model, measured on the slot of that file."""
    with_file = yaml.safe_load(TEXT)
    pi = next(m for m in with_file["models"] if m["name"] == "pi")
    whole = linear_topology()
    other = Problem(
        name="pi",
        rate_tps=100.0,
        slot=whole.slot,
        vms=whole.vms,
        components=[Component(id="pi", model="pi")],
        models=[m for m in whole.models if m.name == "pi"],
    )
    with_file["models"][with_file["models"].index(pi)] = {"file": "pi.json"}
    text = yaml.safe_dump(with_file)
    assert parse(text, "size.yaml", {"pi.json": other}.__getitem__) == whole
    smaller = msgspec.structs.replace(other, slot=Slot(cpu_mhz=1200, memory_mb=3584))
    with pytest.raises(UsageError, match=r"cpu_mhz is 2400, and the model of pi.json was measured on a slot with 1200"):
        parse(text, "size.yaml", lambda _: smaller)
    with pytest.raises(UsageError, match=r"models\[1\]\.file: pi.json has 5 models, expected one"):
        parse(text, "size.yaml", lambda _: whole)


@pytest.mark.parametrize("files", [{"a.json": "a.json"}, {"a.json": "b/b.json", "b/b.json": "../a.json"}])
def test_files_that_name_each_other_are_refused(files: dict[str, str]) -> None:
    texts = {name: json.dumps({"name": name, "models": [{"file": named}]}) for name, named in files.items()}
    with pytest.raises(UsageError, match=r"a.json: the files in its models lead back to it"):
        read_problem(Path("a.json"), lambda path: texts[os.path.normpath(path)])
