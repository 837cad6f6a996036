"""The address of a Nimbus by what Storm keeps of it in ZooKeeper."""

from __future__ import annotations

import base64
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormpilot.doctor.registered import registered_address

WRITTEN = base64.b64decode(
    "H4sIAAAAAAAA/+NmYGRgYOA0NDLXMwBCQw4GJgaGyG8cDMzZbGdEmRhYGLgZWIEqWI30LPSMORjYGEAAADtiB1I2AAAA"
)
"""What a Nimbus of Storm 2.8.3 at 127.0.0.1:23030 wrote to `/storm/nimbuses/127.0.0.1`."""


@pytest.mark.parametrize("data", [WRITTEN, gzip.decompress(WRITTEN)])
def test_the_port_is_in_the_value_of_the_znode(data: bytes) -> None:
    """Its name has none: where Nimbus listens at another port than the default one, it was not found."""
    assert registered_address("127.0.0.1", data) == "127.0.0.1:23030"


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(gzip.compress)))
def test_a_value_of_another_kind_leaves_the_name(data: bytes) -> None:
    found = registered_address("n1", data)
    assert found == "n1" or ":" in found


HOST = b"\x0b\x00\x01\x00\x00\x00\x02n2"
PORT = b"\x08\x00\x02\x00\x00\x1a\x03"


@pytest.mark.parametrize("port", [6659, 70_000, -1])
def test_fields_are_told_by_their_numbers_and_those_of_newer_storms_are_passed_over(port: int) -> None:
    more = [b"\x02\x00\x04\x01", b"\x0a\x00\x09" + bytes(8), b"\x0b\x00\x0a\x00\x00\x00\x01x"]
    data = b"".join([more[0], PORT[:3] + port.to_bytes(4, "big", signed=True), *more[1:], HOST, b"\x00"])
    assert registered_address("n1", data) == f"n2:{port}"
    assert registered_address("n1", gzip.compress(data)) == f"n2:{port}"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        WRITTEN[:30],
        gzip.compress(bytes(10_000_000), mtime=0),
        b"\x0b\x00\x01\x7f\xff\xff\xff",  # a string of 2 GiB
        b"\x0b\x00\x01\xff\xff\xff\xff",  # and of -1 byte
        b"\x0b\x00\x01\x00\x00\x00\x02\xff\xfe" + PORT + b"\x00",
        HOST + b"\x0f\x00\x03\x01\x7f\xff\xff\xff" + PORT + b"\x00",  # a list
        HOST + b"\x00",
        PORT + b"\x00",
    ],
)
def test_a_broken_value_leaves_the_name(data: bytes) -> None:
    assert registered_address("n1", data) == "n1"
