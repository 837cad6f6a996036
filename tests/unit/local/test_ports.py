"""Ports that are held for a cluster."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from stormpilot.errors import UnreachableError
from stormpilot.local import ports
from stormpilot.local.ports import Reservation


def test_reservations_never_share_a_port() -> None:
    with closing(Reservation()) as one, closing(Reservation()) as other:
        ours, theirs = one.take(40), other.take(40)
        assert len({*ours, *theirs}) == 80


def test_server_with_reuseaddr_can_listen_on_a_held_port() -> None:
    """Storm's servers set SO_REUSEADDR, as all Java servers do on Linux."""
    with closing(Reservation()) as held, socket.socket() as server, socket.socket() as client:
        port = held.take()[0]
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", port))
        server.listen()
        client.connect(("127.0.0.1", port))


def test_skips_a_port_that_somebody_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Reservation()) as finder:
        free = finder.take(2)
    monkeypatch.setattr(ports, "FIRST", free[0])
    monkeypatch.setattr(ports, "LAST", free[1] + 1)
    with socket.socket() as server, closing(Reservation()) as held:
        server.bind(("127.0.0.1", free[0]))
        server.listen()
        assert held.take() == [free[1]] if free[1] == free[0] + 1 else free[0] not in held.take()


def test_says_so_when_ports_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Reservation()) as finder:
        first = finder.take()[0]
    monkeypatch.setattr(ports, "FIRST", first)
    monkeypatch.setattr(ports, "LAST", first + 1)
    with closing(Reservation()) as held, pytest.raises(UnreachableError, match="1 of 2 free ports"):
        held.take(2)


def test_closed_reservation_lets_its_ports_go() -> None:
    held = Reservation()
    port = held.take()[0]
    held.close()
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
