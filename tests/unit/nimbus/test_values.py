"""Addresses of Nimbus."""

from __future__ import annotations

import pytest

from stormpilot.errors import UsageError
from stormpilot.nimbus import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("nimbus-1", Address("nimbus-1", 6627)),
        ("nimbus-1:7000", Address("nimbus-1", 7000)),
        ("10.0.0.1:1", Address("10.0.0.1", 1)),
        ("[::1]:6627", Address("::1", 6627)),
        ("[2001:db8::5]", Address("2001:db8::5", 6627)),
    ],
)
def test_an_address_is_a_host_with_or_without_a_port(text: str, address: Address) -> None:
    assert Address.parse(text, "--nimbus") == address
    assert Address.parse(str(address), "--nimbus") == address


@pytest.mark.parametrize(
    "text", ["", ":6627", "host:", "host:no", "host:0", "host:65536", "host:-1", "2001:db8::5", "[::1", "::1"]
)
def test_what_is_no_address_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"--nimbus.*expected host or host:port"):
        Address.parse(text, "--nimbus")


@pytest.mark.parametrize(("host", "local"), [("127.0.0.5", True), ("localhost", True), ("192.0.2.1", False)])
def test_loopback_is_told_by_every_address_of_the_host(host: str, local: bool) -> None:
    assert Address(host).on_loopback is local


def test_a_host_that_does_not_resolve_is_not_on_loopback() -> None:
    assert not Address("no-such-host.invalid").on_loopback
