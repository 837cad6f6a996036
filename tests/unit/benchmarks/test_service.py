"""The link in front of the storage service: what it lets through, and the delay of an answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks.profile.service import Link, Throttle, links


def test_bytes_of_all_connections_of_a_node_share_its_bandwidth() -> None:
    throttle = Throttle(1000.0)
    assert throttle.wait_s("a", 10.0, 500) == pytest.approx(0.5)
    assert throttle.wait_s("a", 10.0, 500) == pytest.approx(1.0)
    assert throttle.wait_s("b", 10.0, 500) == pytest.approx(0.5)


def test_bandwidth_that_nobody_used_is_not_saved_up() -> None:
    throttle = Throttle(1000.0)
    throttle.wait_s("a", 10.0, 500)
    assert throttle.wait_s("a", 99.0, 1000) == pytest.approx(1.0)


def test_more_requests_than_a_service_answers_wait_for_their_turn() -> None:
    throttle = Throttle(10.0)
    assert [throttle.wait_s("a", 5.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a service that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(4096):
                    connection.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10.0)


def test_answers_come_whole_and_not_before_the_delay(echo: int, free_port: Callable[[], int]) -> None:
    port = free_port()
    way = {("127.0.0.1", port): echo}
    with links(way, Link(0.2, 1e6)), socket.create_connection(("127.0.0.1", port), 60.0) as client:
        begin = time.monotonic()
        client.sendall(b"question")
        assert client.recv(4096) == b"question"
        assert time.monotonic() - begin >= 0.2
