"""Options and their precedence, against what streamparse itself makes of the same project."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from stormpilot.errors import UsageError
from stormpilot.submit.options import parse_options, read_options, resolve_options
from stormpilot.submit.project import Environment


def environment(**values: Any) -> Environment:
    return Environment("prod", {"workers": ["w1", "w2"], "use_virtualenv": False, **values}, "config.json: envs.prod")


def never() -> list[str]:
    raise AssertionError("Nimbus was asked")


def resolve(given: Any = None, config: Any = None, env: Environment | None = None) -> dict[str, Any]:
    return resolve_options(given or {}, config or {}, env or environment(), "flights", never)


def test_command_line_wins_over_class_and_class_over_environment() -> None:
    env = environment(options={"a": "env", "b": "env", "c": "env"})
    options = resolve({"a": "cli"}, {"a": "class", "b": "class"}, env)
    assert (options["a"], options["b"], options["c"]) == ("cli", "class", "env")


def test_workers_and_ackers_default_to_the_number_of_worker_hosts() -> None:
    options = resolve()
    assert (options["topology.workers"], options["topology.acker.executors"]) == (2, 2)
    assert resolve({"topology.workers": 7})["topology.workers"] == 7
    assert resolve({"topology.acker.executors": 0})["topology.acker.executors"] == 0


def test_nimbus_is_asked_for_its_supervisors_where_nobody_lists_workers() -> None:
    env = environment(workers=[])
    options = resolve_options({}, {}, env, "flights", lambda: ["s1", "s2", "s3"])
    assert options["storm.workers.list"] == ["s1", "s2", "s3"]
    assert options["topology.workers"] == 3


def test_debug_raises_the_log_level_of_components() -> None:
    assert resolve({"topology.debug": True}, {"pystorm.log.level": "error"})["pystorm.log.level"] == "debug"


CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {}, {}),
    ({}, {"topology.workers": 5}, {"options": {"topology.workers": 3, "x": [1]}}),
    ({"topology.debug": True}, {}, {"log": {"level": "INFO", "path": "/log", "file": "f", "max_bytes": 5}}),
    ({}, {}, {"log": {"backup_count": 3, "max_bytes": "many"}, "log_path": "/old", "log_file": "old.log"}),
    ({"storm.workers.list": "a,b,c"}, {}, {}),
    ({"storm.workers.list": ["a"]}, {"topology.acker.executors": None}, {"user": "storm"}),
    ({"sudo_user": "me"}, {}, {"use_virtualenv": True, "virtualenv_root": "/venvs", "virtualenv_name": "v"}),
    ({}, {}, {"virtualenv_flags": "-p python3", "install_virtualenv": True}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("given", "config", "values"), CASES)
def test_options_are_those_that_streamparse_would_send(
    given: dict[str, Any], config: dict[str, Any], values: dict[str, Any]
) -> None:
    from streamparse.cli.common import resolve_options as streamparse_resolves

    class Topology:
        pass

    Topology.config = config  # type: ignore[attr-defined]
    env = environment(nimbus="n", **values)
    theirs = streamparse_resolves(copy.deepcopy(given), copy.deepcopy(env.values), Topology, "flights")
    assert resolve(given, config, env) == theirs


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "text", ["a=1", "a=1.5", "a=true", "a=yes", "a=[1, x]", "a={b: 2}", "a=x=y", "a=", "a=010", "a='7'", "a.b=~"]
)
def test_values_are_read_as_streamparse_reads_them(text: str) -> None:
    import argparse

    from streamparse.cli.common import add_options

    parser = argparse.ArgumentParser()
    add_options(parser)
    assert parse_options([text]) == parser.parse_args(["-o", text]).options


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_an_option_without_key_and_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected key=value"):
        parse_options([text])


def test_a_value_that_is_no_yaml_is_refused_by_key() -> None:
    with pytest.raises(UsageError, match=r"option topology\.x"):
        parse_options(["topology.x=[1"])


@pytest.mark.parametrize("text", ["a=2026-01-01", "a=.inf", "a=.nan"])
def test_a_value_that_json_cannot_hold_is_refused_by_key(text: str) -> None:
    with pytest.raises(UsageError, match=r"option a: .*JSON"):
        resolve(parse_options([text]))


def test_options_of_a_file_are_a_mapping_in_yaml_or_json(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("topology.workers: 3\nlist: [1, 2]\n")
    assert read_options(file) == {"topology.workers": 3, "list": [1, 2]}
    file.write_text('{"topology.workers": 4}')
    assert read_options(file) == {"topology.workers": 4}
    file.write_text("# nothing\n")
    assert read_options(file) == {}


@pytest.mark.parametrize("text", ["- a\n", "just text", "1: 2\n", "a: [\n"])
def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"options\.yaml"):
        read_options(file)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml cannot be read"):
        read_options(tmp_path / "absent.yaml")
