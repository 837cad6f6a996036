"""The health check of containers asks as the configuration says: it knew plain HTTP at the default port only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stormpilot.api.probe import asked
from stormpilot.config import ApiSection

from .conftest import Api
from .test_server import Serve, serve

__all__ = ["serve"]  # a fixture


@pytest.mark.parametrize("tls", [False, True])
def test_it_asks_by_tls_where_the_controller_serves_so(
    api: Api, serve: Serve, certificate: tuple[str, str], tls: bool
) -> None:
    pair = {"cert_file": certificate[0], "key_file": certificate[1]} if tls else {}
    address = serve(api, **pair).address
    assert address is not None
    section = ApiSection(port=address[1], **pair)
    ready, text = asked(section)
    assert ready, text
    assert text.startswith("leading")
    api.zookeeper.up = False
    assert asked(section) == (False, "ZooKeeper is not connected")


def test_an_address_that_means_all_of_the_machine_is_asked_at_loopback(api: Api, serve: Serve) -> None:
    address = serve(api, host="0.0.0.0", insecure=True).address
    assert address is not None
    assert asked(ApiSection(host="0.0.0.0", port=address[1], insecure=True))[0]


def test_one_that_serves_nothing_is_as_well_as_can_be_told() -> None:
    assert asked(ApiSection(enabled=False))[0]
    assert asked(ApiSection(port=0))[0]


def test_as_a_command(tmp_path: Path) -> None:
    file = tmp_path / "controller.yaml"
    file.write_text("api: {port: 1}")
    for arguments, said in (([file], "127.0.0.1:1 does not answer"), ([], "usage: "), ([tmp_path / "x"], "x")):
        command = [sys.executable, "-m", "stormpilot.api.probe", *map(str, arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, "")
        assert said in done.stdout
