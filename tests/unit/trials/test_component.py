"""The trial topology as it is sent."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from inprocess_storm import PROJECT
from stormpilot.errors import UsageError
from stormpilot.nimbus import Address
from stormpilot.trials.component import Specimen, check_tuples, jar_with_resources, submission

NIMBUS = Address("127.0.0.1", 6627)


def sent(specimen: Specimen, threads: int = 3) -> Any:
    return submission(specimen, threads, NIMBUS, {}, "stormpilot_run")


def python(name: str = "micro_tasks.pi:Pi", **fields: Any) -> Specimen:
    return Specimen(name=name, project=PROJECT, environment="local", **fields)


def inputs(part: Any) -> set[tuple[str, str]]:
    return {(i.componentId, i.streamId) for i in part.common.inputs}


def test_source_component_and_sink_of_a_python_class() -> None:
    made = sent(python())
    (source,) = made.topology.spouts.values()
    component, sink = made.topology.bolts["component"], made.topology.bolts["sink"]
    assert source.spout_object.shell.script == "-s json stormpilot.instrument.trial.TrialSource"
    assert component.bolt_object.shell.script == "-s json micro_tasks.pi.Pi"
    assert sink.bolt_object.shell.script == "-s json stormpilot.instrument.trial.TrialSink"
    assert [p.common.parallelism_hint for p in (source, component, sink)] == [2, 3, 2]
    assert inputs(component) == {("source", "default")}
    assert inputs(sink) == {("component", "default")}
    assert made.name == "profile-Pi"
    assert made.conf["topology.workers"] == 2
    assert made.conf["topology.acker.executors"] == 1


def test_tuples_and_their_fields_are_those_that_were_given() -> None:
    made = sent(python(fields=("topic", "text"), tuples=[["a", "b"]], config={"micro.pi.digits": 50}))
    assert made.topology.spouts["source"].common.streams["default"].output_fields == ["topic", "text"]
    assert made.conf["stormpilot.trial.tuples"] == [["a", "b"]]
    assert json.loads(made.topology.bolts["component"].common.json_conf)["micro.pi.digits"] == 50


def test_a_component_that_sends_nothing_has_no_sink() -> None:
    made = sent(python("word_count.bolts:CountWord"))
    assert set(made.topology.bolts) == {"component"}


def test_a_java_class_with_its_arguments_and_outputs(tmp_path: Path) -> None:
    jar = tmp_path / "job.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/example/Parse.class", b"")
    made = sent(Specimen(name="org.example.Parse", jar=jar, outputs=("a", "b"), arguments=(3, "x")))
    component = made.topology.bolts["component"]
    java = component.bolt_object.java_object
    assert java.full_class_name == "org.example.Parse"
    assert [a.string_arg if a.long_arg is None else a.long_arg for a in java.args_list] == [3, "x"]
    assert component.common.streams["default"].output_fields == ["a", "b"]
    assert (made.name, made.jar) == ("profile-Parse", jar)


def test_a_java_jar_gets_the_folder_that_python_components_start_in(tmp_path: Path) -> None:
    jar, merged = tmp_path / "job.jar", tmp_path / "merged.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/example/Parse.class", b"code")
    merged.write_bytes(jar_with_resources(jar))
    with zipfile.ZipFile(merged) as archive:
        assert archive.namelist() == ["org/example/Parse.class", "resources/"]
        assert archive.read("org/example/Parse.class") == b"code"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("micro_tasks.pi.Pi", "expected module:Class"),
        ("micro_tasks.pi:Py", "module micro_tasks.pi has no Py"),
        ("micro_tasks.pi:viete", "micro_tasks.pi:viete is no class"),
        ("micro_tasks.pie:Pi", "module micro_tasks.pie cannot be imported: ModuleNotFoundError"),
        ("micro_tasks.source:NumberSource", "is no streamparse Bolt"),
    ],
)
def test_what_cannot_be_tested_is_named(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        sent(python(name))


@pytest.mark.parametrize("rows", [{}, [], [["a", "b"], ["a"]], ["ab"]])
def test_tuples_that_do_not_fit_the_fields_are_refused(rows: Any) -> None:
    with pytest.raises(UsageError, match=r"t\.json: .*expected a list of"):
        check_tuples(rows, ("x", "y"), "t.json")


def test_too_many_tuples_are_refused() -> None:
    with pytest.raises(UsageError, match="a sample will do"):
        check_tuples([["x" * 1000]] * 300, ("text",), "t.json")
    with pytest.raises(UsageError, match=r"t\.json: 60\d,\d{3} bytes as JSON"):  # as Nimbus gets it, with escapes
        check_tuples([["\u6f22" * 1000]] * 100, ("text",), "t.json")


def test_the_limit_of_the_environments_own_spouts_does_not_hold_the_source(tmp_path: Path) -> None:
    options = {"topology.max.spout.pending": 20, "topology.tick.tuple.freq.secs": 2}
    (tmp_path / "config.json").write_text(
        json.dumps({"envs": {"prod": {"nimbus": "storm.example", "options": options}}})
    )
    (tmp_path / "src").symlink_to(PROJECT / "src")
    specimen = Specimen(name="micro_tasks.pi:Pi", project=tmp_path, environment="prod")
    conf = submission(specimen, 1, NIMBUS, {}, "stormpilot_run").conf
    assert conf["topology.max.spout.pending"] is None
    assert conf["topology.tick.tuple.freq.secs"] == 2
    given = submission(specimen, 1, NIMBUS, {"topology.max.spout.pending": 5}, "stormpilot_run").conf
    assert given["topology.max.spout.pending"] == 5


def test_a_virtualenv_that_nobody_made_is_refused(tmp_path: Path) -> None:
    """streamparse makes one for each topology, and the profile's has none."""
    (tmp_path / "config.json").write_text(
        json.dumps({"envs": {"prod": {"nimbus": "storm.example", "virtualenv_root": "/data/virtualenvs"}}})
    )
    (tmp_path / "src").symlink_to(PROJECT / "src")
    specimen = Specimen(name="micro_tasks.pi:Pi", project=tmp_path, environment="prod")
    far = Address("storm.example", 6627)
    with pytest.raises(UsageError, match="-O virtualenv_name=NAME, or give --runner"):
        submission(specimen, 1, far, {}, None)
    named = submission(specimen, 1, far, {"virtualenv_name": "flights"}, None)
    assert named.runner == "/data/virtualenvs/flights/bin/stormpilot_run"
    assert submission(specimen, 1, far, {}, "/opt/run").runner == "/opt/run"
