"""The thread that reads a cluster beside a benchmark."""

from __future__ import annotations

import threading

import pytest

from benchmarks import second_reader
from benchmarks.second_reader import SecondReader
from stormpilot.errors import UnreachableError


class NoServers:
    """A session that nobody answers."""

    def __init__(self, _: str) -> None:
        self.stopped = False

    def start(self) -> None: ...

    def wait_connected(self, _: float) -> bool:
        return False

    def stop(self) -> None:
        self.stopped = True


class Counting(SecondReader):
    def __init__(self) -> None:
        self.readings = 0
        self.read_again = threading.Event()
        super().__init__("127.0.0.1:1", 40.0)

    def read(self) -> None:
        self.readings += 1
        if self.readings == 1:
            raise UnreachableError("ZooKeeper is away")
        self.read_again.set()


def test_a_reading_that_fails_ends_nothing_and_closing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_reader, "ZooKeeper", NoServers)
    monkeypatch.setattr(second_reader, "PERIOD_S", 0.01)
    reader = Counting()
    assert reader.read_again.wait(300)
    reader.close()
    assert reader.zookeeper.stopped  # type: ignore[attr-defined]
    assert not reader._thread.is_alive()
