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


@pytest.mark.parametrize("data", [b"", WRITTEN[:30], gzip.compress(bytes(10_000_000)), b"\x0b\x00\x01\x7f\xff\xff\xff"])
def test_a_broken_value_leaves_the_name(data: bytes) -> None:
    assert registered_address("n1", data) == "n1"
