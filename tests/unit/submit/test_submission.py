"""The runner that a submission chooses; what is sent is tested against a Nimbus in tests/functional/submit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from stormpilot.errors import UsageError
from stormpilot.nimbus import Address
from stormpilot.submit.project import Environment
from stormpilot.submit.submission import default_runner

LOCAL, REMOTE = Address("127.0.0.1"), Address("192.0.2.1")


def runner(conf: dict[str, Any], nimbus: Address, instrument: bool = True, **values: Any) -> str:
    return default_runner(conf, Environment("prod", values, "config.json: envs.prod"), "flights", nimbus, instrument)


def test_a_virtualenv_of_the_environment_is_used() -> None:
    assert runner({}, REMOTE, virtualenv_root="/venvs") == "/venvs/flights/bin/stormpilot_run"
    assert runner({"use_virtualenv": True}, LOCAL, virtualenv_root="/venvs") == "/venvs/flights/bin/stormpilot_run"
    named = {"use_virtualenv": True, "virtualenv_name": "shared"}
    assert runner(named, REMOTE, virtualenv_root="/venvs") == "/venvs/shared/bin/stormpilot_run"


def test_without_instrumentation_it_is_streamparses_own_runner() -> None:
    assert runner({}, REMOTE, instrument=False, virtualenv_root="/venvs") == "/venvs/flights/bin/streamparse_run"
    assert runner({"use_virtualenv": False}, REMOTE, instrument=False) == "streamparse_run"


def test_a_virtualenv_without_its_root_is_refused_by_field() -> None:
    with pytest.raises(UsageError, match=r"config\.json: envs\.prod: virtualenv_root is missing"):
        runner({}, REMOTE)


def test_without_a_virtualenv_it_comes_from_the_path_of_the_worker_hosts() -> None:
    assert runner({"use_virtualenv": False}, REMOTE) == "stormpilot_run"


@pytest.mark.parametrize("conf", [{}, {"use_virtualenv": False}])
def test_beside_a_local_nimbus_it_is_that_of_this_interpreter(conf: dict[str, Any]) -> None:
    assert runner(conf, LOCAL) == str(Path(sys.executable).parent / "stormpilot_run")
