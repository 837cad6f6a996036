"""A proposal lies there until anything newer is published for its topology."""

from __future__ import annotations

from doubles.world import NEAR, SPREAD, World
from stormpilot.messages.core import encode
from stormpilot.messages.settings import ModeSetting


def test_proposal_goes_with_the_first_plan_that_is_published_after_it() -> None:
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="advise")))
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(10)
    proposed = w.proposal(t)
    assert proposed is not None
    assert proposed.plan.reason_code == "GAIN"
    assert w.plan(t) is None
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="act")))
    assert w.tell(10) == ["GAIN"]
    published = w.plan(t)
    assert published is not None
    assert (published.reason_code, published.reason.split(":")[0]) == ("GAIN", "GAIN")
    assert published.created_at_ms > proposed.plan.created_at_ms
    assert w.proposal(t) is None
