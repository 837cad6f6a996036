"""A streamparse project on disk: every error names the file, the field and what was expected."""

from __future__ import annotations

import builtins
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from stormpilot.errors import UsageError
from stormpilot.nimbus import Address
from stormpilot.submit.project import Project

TOPOLOGY = """
from streamparse import Topology
from parts import Source, Parse

class Flights(Topology):
    source = Source.spec()
    parse = Parse.spec(inputs=[source])
"""
PARTS = """
from streamparse import Bolt, Spout

class Source(Spout):
    outputs = ["line"]

class Parse(Bolt):
    outputs = []
"""


def make_project(folder: Path, config: Any = None, **files: str) -> Path:
    config = {"topology_specs": "topologies/", "envs": {"prod": {"nimbus": "nimbus-1"}}} if config is None else config
    (folder / "topologies").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    (folder / "src" / "parts.py").write_text(PARTS)
    for name, text in (files or {"flights": TOPOLOGY}).items():
        (folder / "topologies" / f"{name}.py").write_text(text)
    return folder


# --- config.json ------------------------------------------------------------------------------------------------------


def test_a_folder_without_config_json_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.json not found.*--project"):
        Project.read(tmp_path)


def test_wrong_json_is_refused_with_line_and_column(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", '{\n  "envs": {,}\n}')
    with pytest.raises(UsageError, match=r"config\.json, line 2, column 12"):
        Project.read(project)


@pytest.mark.parametrize("text", ["[]", "3", '"x"'])
def test_json_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="expected a JSON object"):
        Project.read(make_project(tmp_path / "p", text))


def test_another_configuration_file_can_be_named(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"envs": {"beta": {}}}))
    assert Project.read(project, other).environment(None).name == "beta"


# --- environments -----------------------------------------------------------------------------------------------------


def read(tmp_path: Path, envs: Any) -> Project:
    return Project.read(make_project(tmp_path / "p", {"topology_specs": "topologies", "envs": envs}))


def test_the_only_environment_needs_no_name(tmp_path: Path) -> None:
    assert read(tmp_path, {"prod": {}}).environment(None).name == "prod"


def test_one_of_several_environments_must_be_named(tmp_path: Path) -> None:
    project = read(tmp_path, {"prod": {}, "beta": {}})
    assert project.environment("beta").name == "beta"
    with pytest.raises(UsageError, match=r"beta, prod.*-e"):
        project.environment(None)


def test_an_unknown_environment_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.json: envs has no entry 'dev' \(it has: beta, prod\)"):
        read(tmp_path, {"prod": {}, "beta": {}}).environment("dev")


@pytest.mark.parametrize("envs", [None, {}, []])
def test_a_configuration_without_environments_is_refused_by_field(tmp_path: Path, envs: Any) -> None:
    with pytest.raises(UsageError, match=r"config\.json: envs is missing"):
        read(tmp_path, envs).environment(None)


def test_an_environment_that_is_no_object_is_refused_by_field(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"envs\.prod: expected an object"):
        read(tmp_path, {"prod": "nimbus-1"}).environment(None)


@pytest.mark.parametrize("values", [{}, {"nimbus": ""}, {"nimbus": None}, {"nimbus": 6627}])
def test_a_missing_nimbus_is_refused_by_field(tmp_path: Path, values: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMPARSE_NIMBUS", raising=False)
    with pytest.raises(UsageError, match=r"config\.json: envs\.prod: nimbus is missing"):
        read(tmp_path, {"prod": values}).environment(None).nimbus()


def test_nimbus_of_the_process_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = read(tmp_path, {"prod": {"nimbus": "a:1"}}).environment(None)
    monkeypatch.delenv("STREAMPARSE_NIMBUS", raising=False)
    assert environment.nimbus() == Address("a", 1)
    monkeypatch.setenv("STREAMPARSE_NIMBUS", "b")
    assert environment.nimbus() == Address("b", 6627)


# --- topology files ---------------------------------------------------------------------------------------------------


def test_the_only_topology_needs_no_name(tmp_path: Path) -> None:
    name, file = Project.read(make_project(tmp_path / "p")).topology_file(None)
    assert (name, file.name) == ("flights", "flights.py")


def test_one_of_several_topologies_must_be_named(tmp_path: Path) -> None:
    project = Project.read(make_project(tmp_path / "p", a=TOPOLOGY, b=TOPOLOGY))
    assert project.topology_file("b")[0] == "b"
    with pytest.raises(UsageError, match=r"2 topology files \(a, b\).*-n"):
        project.topology_file(None)


def test_an_unknown_topology_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"wordcount\.py not found \(topologies there: flights\)"):
        Project.read(make_project(tmp_path / "p")).topology_file("wordcount")


def test_a_configuration_without_topology_specs_is_refused_by_field(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.json: topology_specs is missing"):
        Project.read(make_project(tmp_path / "p", {"envs": {}})).topology_file(None)


# --- topology classes -------------------------------------------------------------------------------------------------


def load(project: Path, name: str | None = None) -> Any:
    read = Project.read(project)
    return read.load_topology(read.topology_file(name)[1])


def test_a_topology_is_loaded_with_what_it_imports_from_the_sources(tmp_path: Path) -> None:
    assert sorted(load(make_project(tmp_path / "p")).thrift_bolts) == ["parse"]


def test_two_projects_with_modules_of_the_same_name_do_not_meet(tmp_path: Path) -> None:
    first, second = make_project(tmp_path / "a"), make_project(tmp_path / "b")
    (second / "src" / "parts.py").write_text(PARTS.replace("line", "word"))
    outputs = [load(p).thrift_spouts["source"].common.streams["default"].output_fields for p in (first, second)]
    assert outputs == [["line"], ["word"]]


def test_a_folder_without_an_init_file_stays_in_its_project(tmp_path: Path) -> None:
    """A namespace package has no file: the classes of the first project were submitted for the second."""
    outputs = []
    for name, column in (("a", "line"), ("b", "word")):
        topology = TOPOLOGY.replace("from parts", "from bolts.parts")
        project = make_project(tmp_path / name, flights=topology)
        (project / "src" / "bolts").mkdir()
        (project / "src" / "bolts" / "parts.py").write_text(PARTS.replace("line", column))
        (project / "src" / "bolts" / "deep").mkdir()
        (project / "src" / "bolts" / "deep" / "more.py").touch()
        file = project / "topologies" / "flights.py"
        file.write_text(f"import bolts.deep.more\n{file.read_text()}")
        if name == "b":
            (project / "src" / "bolts" / "__init__.py").touch()
        outputs.append(load(project).thrift_spouts["source"].common.streams["default"].output_fields)
    assert outputs == [["line"], ["word"]]
    assert not [name for name in sys.modules if name.partition(".")[0] == "bolts"]


@pytest.mark.parametrize(("specs", "installed"), [("topologies/", "venv"), (".", "venv"), ("topologies/", "src/venv")])
def test_what_is_installed_in_the_project_stays_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, specs: str, installed: str
) -> None:
    """NumPy and others in a virtualenv of the project failed when a second topology was loaded."""
    project = make_project(tmp_path / "p", {"topology_specs": specs, "envs": {}})
    folder = project / installed / "lib" / "python3.11" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "only_once.py").write_text("import builtins\nassert not hasattr(builtins, 'only_once')\n")
    (folder / "only_once.py").open("a").write("builtins.only_once = True\n")
    (project / "src" / "parts.py").write_text(f"import only_once\n{PARTS}")
    (project / specs / "flights.py").write_text(TOPOLOGY)
    monkeypatch.syspath_prepend(folder)
    try:
        for _ in range(2):
            assert sorted(load(project, "flights").thrift_bolts) == ["parse"]
        assert "parts" not in sys.modules
    finally:
        sys.modules.pop("only_once", None)
        vars(builtins).pop("only_once", None)


def test_loading_leaves_path_and_modules_as_they_were(tmp_path: Path) -> None:
    path, modules = list(sys.path), set(sys.modules)
    load(make_project(tmp_path / "p"))
    assert sys.path == path
    assert {"parts", "flights"}.isdisjoint(set(sys.modules) - modules)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import streamparse\nimport no_such_module\n", r"bad\.py, line 2: ModuleNotFoundError.*no_such_module"),
        ("def broken(:\n", r"bad\.py, line 1: SyntaxError"),
        ("from parts import Parse\nspec = Parse.spec(par=-1)\n", r"bad\.py, line 2: ValueError.*-1"),
        ("x = 1\n\n\ny = z\n", r"bad\.py, line 4: NameError"),
        ("x = 1\nopen('no/such/file')\n", r"bad\.py, line 2: FileNotFoundError.*no/such/file"),
        ("raise RuntimeError('set FLIGHTS')\n", r"bad\.py, line 1: RuntimeError: set FLIGHTS"),
        ("import sys\nsys.exit('set FLIGHTS')\n", r"bad\.py, line 2: SystemExit: set FLIGHTS"),
        ("x = 1\n", r"bad\.py defines no class derived from streamparse\.Topology"),
    ],
)
def test_a_wrong_topology_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(make_project(tmp_path / "p", bad=text))


def test_a_topology_file_that_is_none_is_refused_by_name_and_not_waited_for(tmp_path: Path) -> None:
    """A pipe is waited for without end, a device fills the memory."""
    project = make_project(tmp_path / "p")
    os.mkfifo(project / "topologies" / "pipe.py")
    (project / "topologies" / "zero.py").symlink_to("/dev/zero")
    (project / "topologies" / "folder.py").mkdir()
    read = Project.read(project)
    for name, what in {"pipe": "is a pipe", "zero": "is a device", "folder": "Is a directory"}.items():
        with pytest.raises(UsageError, match=rf"{name}\.py cannot be read: {what}.*, expected a file"):
            read.load_topology(read.topology_file(name)[1])
