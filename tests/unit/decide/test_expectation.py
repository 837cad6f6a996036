"""Latency and rate that a plan is expected to bring, beside those of what runs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from doubles.models import PAIRED, SPREAD, Slots, model, plan, topology
from stormpilot.decide.expectation import Expectation, expectations
from stormpilot.decide.trade_off import TradeOff
from stormpilot.model.cost import current_plan
from stormpilot.model.values import Edge, Input, Model

BESIDE_3: Slots = {("a", 1): (1, 2, 3), ("b", 1): (4,)}
BESIDE_4: Slots = {("a", 1): (1, 2, 4), ("b", 1): (3,)}


def shuffled(slots: Slots, cpu_mhz: dict[int, float]) -> Model:
    """1 and 2 send to 3 and 4 by a shuffle, on nodes of many cores."""
    t = topology(slots)
    components = [t.components[0], msgspec.structs.replace(t.components[1], inputs=[Input(component="x")])]
    executors = [msgspec.structs.replace(e, cpu_mhz=cpu_mhz.get(e.start, 10.0)) for e in t.executors]
    on = model(msgspec.structs.replace(t, components=components, executors=executors))
    return msgspec.structs.replace(
        on, supervisors=[msgspec.structs.replace(s, cores=64.0, mhz=2000.0) for s in on.supervisors]
    )


def expected(on: Model, slots: Slots) -> Expectation:
    return expectations(on, plan(slots), "flow", ["flights-1"])["flights-1"]


def test_an_executor_is_not_expected_to_do_more_than_all_the_work() -> None:
    """80% went to 3, where the model gives all to 4, which is near: by the plan 3 gets all of it, and not 180%."""
    found = expected(shuffled(BESIDE_4, {3: 800.0, 4: 200.0}), BESIDE_3)
    assert found.carried_tps == pytest.approx((2500.0, 2000.0), rel=0.02)
    assert found.bound == "flights: y [3,3] fills a core"


def test_what_stays_is_expected_as_it_was_measured() -> None:
    found = expected(shuffled(BESIDE_4, {3: 800.0, 4: 200.0}), BESIDE_4)
    assert found.carried_tps == pytest.approx((2500.0, 2500.0))


def test_text_has_what_is_sent_beside_what_could_be() -> None:
    """Less room for growth is no fall: both rates are above that of now."""
    text = expectations(model(), plan(PAIRED), "measured", ["flights-1"])["flights-1"].text
    assert "carries at most " in text
    assert " tuples/s from its sources, which send 1,000 now (then " in text
    alone = expectations(model(topology(SPREAD)), plan(SPREAD), "measured", ["flights-1"])["flights-1"]
    assert alone.shortfall == ""


class Counted(list[Edge]):
    """Traffic that counts how often it is looked through."""

    passes = 0

    def __iter__(self) -> Iterator[Edge]:
        Counted.passes += 1
        return super().__iter__()


def test_traffic_is_looked_through_a_few_times_however_many_topologies_there_are() -> None:
    """Once for each of them, three times over, in the controller's own thread: seconds for a thousand."""
    many = [topology({("a", i): (1, 2), ("b", i): (3, 4)}, name=f"t{i}") for i in range(1, 51)]
    known = model(*many)
    wide = [msgspec.structs.replace(s, slots=[*range(1, 51)]) for s in known.supervisors]
    known = msgspec.structs.replace(known, supervisors=wide)
    plan = current_plan(known)
    assert plan is not None
    Counted.passes = 0
    counted = msgspec.structs.replace(known, traffic=Counted(known.traffic))
    assert len(expectations(counted, plan, "measured", [t.id for t in many])) == 50
    assert Counted.passes <= 10


def test_rates_of_a_few_tuples_a_minute_are_not_told_as_none() -> None:
    slow = Expectation((1.0, 1.0), (0.5, 0.25), "n1 has no CPU left", 0.42)
    assert "carries at most 0.5 -> 0.25 tuples/s from its sources, which send 0.42 now" in slow.text
    assert slow.shortfall.startswith("the plan would carry 0.25 of 0.42 tuples/s from its sources")
    saved = TradeOff(0.02, 600.0, 1.5, "restarts").text
    assert saved == "0.02 tuples/s less between nodes, taken to last 600 s, are 12 tuples; 1.5 are held up by restarts"


def test_what_rounding_leaves_of_a_gain_is_told_as_none() -> None:
    for left_tps in (0.1 + 0.2 - 0.3, 0.3 - (0.1 + 0.2)):
        text = TradeOff(left_tps, 600.0, 0.0, "restarts").text
        assert text == "0 tuples/s less between nodes, taken to last 600 s, are 0 tuples; 0 are held up by restarts"
