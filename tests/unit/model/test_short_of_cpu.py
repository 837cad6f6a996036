"""Room where what runs needs more than B(n) of all nodes together."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import model
from stormpilot.model.short_of_cpu import with_room_for_what_runs
from stormpilot.model.values import Model


def nodes(limits_mhz: tuple[float, float, float] = (1000.0, 1000.0, 1000.0)) -> Model:
    """Nodes of 1250 MHz each."""
    m = model()
    supervisors = [
        msgspec.structs.replace(s, cores=1.0, mhz=1250.0, cpu_limit_mhz=limit)
        for s, limit in zip(m.supervisors, limits_mhz, strict=True)
    ]
    return msgspec.structs.replace(m, supervisors=supervisors)


def limits_mhz(m: Model) -> list[float]:
    return [s.limit_mhz for s in m.supervisors]


def test_limits_stay_where_what_runs_fits_into_them() -> None:
    m = nodes()
    assert with_room_for_what_runs(m, 2850.0) == (m, "")


def test_limits_rise_alike_to_what_all_need() -> None:
    m, text = with_room_for_what_runs(nodes((1200.0, 1000.0, 800.0)), 3300.0)
    assert limits_mhz(m) == pytest.approx([1250.0, 1250.0, 1048.0])
    assert text.startswith(
        "what runs needs 3,300 MHz, and the supervisors have 3,750 MHz, of which plans may fill 3,000"
    )


def test_limits_do_not_jump_where_the_load_passes_them() -> None:
    before, after = (with_room_for_what_runs(nodes(), mhz)[0] for mhz in (2857.0, 2858.0))
    assert limits_mhz(after) == pytest.approx(limits_mhz(before), rel=1e-3)


def test_nodes_are_never_filled_to_more_than_they_have() -> None:
    m, text = with_room_for_what_runs(nodes(), 9000.0)
    assert limits_mhz(m) == [1250.0] * 3
    assert "they fill up to 100% of every node" in text
