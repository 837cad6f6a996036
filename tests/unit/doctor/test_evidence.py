"""Where the doctor looks for Nimbus."""

from __future__ import annotations

import pytest

from stormpilot.doctor import evidence
from stormpilot.doctor.evidence import NimbusSaid, _addresses, _ask_nimbus
from stormpilot.errors import UsageError
from stormpilot.nimbus import Address


def test_nimbus_is_asked_at_the_port_that_storm_registered() -> None:
    """Another than the default: it was skipped, and nothing was wrong."""
    assert _addresses(None, ["n2:7001", "n1:7000"], "n1") == [Address("n1", 7000), Address("n2", 7001)]
    assert _addresses("n3:1", ["n1:7000"], "n1") == [Address("n3", 1)]
    assert _addresses(None, [], "n1") == [Address("n1")]
    assert _addresses(None, ["no address: x"], None) == []
    with pytest.raises(UsageError, match="--nimbus"):
        _addresses("n1:x", [], None)


def test_of_several_nimbuses_the_first_that_answers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(address: Address) -> NimbusSaid:
        return NimbusSaid(address=str(address), error="" if address.port == 7001 else f"{address}: refused")

    monkeypatch.setattr(evidence, "_ask_one", ask)
    down, up = Address("n1", 7000), Address("n2", 7001)
    assert _ask_nimbus([down, up]) == NimbusSaid(address="n2:7001")
    assert _ask_nimbus([down]) == NimbusSaid(address="n1:7000", error="n1:7000: refused")
    assert _ask_nimbus([]) is None
