"""A ZooKeeper server whose answers are broken: one that ran out of memory leaves an answer out."""

from __future__ import annotations

from typing import Any

import pytest

from doubles.shim import until
from doubles.snapshots import cluster
from stormpilot.local.zookeeper import LocalZooKeeper

from .conftest import Play, Settings, Start

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


def test_an_answer_out_of_order_costs_a_session_and_not_the_controller(
    shared_zookeeper: LocalZooKeeper, start: Start, play: Play, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends kazoo's own thread, which never comes back by itself."""
    play(shared_zookeeper.hosts, cluster("a", "b"))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: controller.logged("leading"), "it to lead")
    connection = controller.daemon._zookeeper.client._connection
    read, broken = connection._read_response, []

    def out_of_order(*given: Any) -> Any:
        if not broken:
            broken.append(True)
            raise RuntimeError("xids do not match, expected 1886 received 1887")
        return read(*given)

    monkeypatch.setattr(connection, "_read_response", out_of_order)
    until(lambda: len(controller.logged("leading")) >= 2, "it to lead again")
    assert broken
    assert controller.running
