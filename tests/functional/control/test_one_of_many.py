"""One topology that cannot be placed, among others that can."""

from __future__ import annotations

import pytest

from doubles.world import NEAR, SPREAD, World


@pytest.mark.parametrize("reason", ["GAIN", "REPAIR"])
def test_a_topology_whose_site_is_gone_keeps_no_other_from_its_plan(reason: str) -> None:
    """All that runs is planned together: each was told that there is no plan, in every cycle."""
    w = World("a", "b")
    good, odd = w.submit(SPREAD), w.submit({("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}, name="odd")
    w.tell(60)
    if reason == "REPAIR":
        w.place(good, {("a", 6700): (1, 4, 6)})  # its other worker lost its slot, and the plug-in finds none
    w.configure(odd, {"site": "gone"}, component="sink")
    w.wanted[good] = NEAR
    w.tell(240)
    assert reason in [r.decisions[good].reason for r in w.reports]
    assert w.decision(odd).reason == "INFEASIBLE"
