"""How fast a topology that holds its sources may become."""

from __future__ import annotations

import pytest

from doubles.models import HALF, SPREAD, model, topology
from stormpilot.model.closed_loop import MOST_GROWTH, Demand, grown, growth


def test_growth_ends_where_the_nodes_are_full() -> None:
    """Three nodes of 1000 MHz; 800 MHz are held, 400 MHz of another topology are not."""
    two = model(topology(SPREAD), topology(HALF, name="wordcount", cpu_mhz=100.0))
    assert growth(two, ["flights-1"]) == {"flights-1": pytest.approx((3000 - 400) / 800)}


def test_growth_ends_where_an_executor_fills_a_core() -> None:
    assert growth(model(topology(cpu_mhz=400.0), limit_mhz=9000.0), ["flights-1"]) == {"flights-1": 2.5}


def test_growth_is_bounded() -> None:
    assert growth(model(topology(cpu_mhz=1.0)), ["flights-1"]) == {"flights-1": MOST_GROWTH}


def test_nothing_grows_on_full_nodes_or_without_a_closed_loop() -> None:
    assert growth(model(topology(cpu_mhz=800.0)), ["flights-1"]) == {}
    assert growth(model(), []) == {}


def test_grown_model_has_the_cpu_at_the_higher_rate_and_nothing_else_changed() -> None:
    one = model()
    more = grown(one, {"flights-1": 2.0})
    assert [e.cpu_mhz for e in more.topologies[0].executors] == [400.0] * 4
    assert (more.traffic, more.supervisors) == (one.traffic, one.supervisors)
    assert grown(one, {}) is one


@pytest.mark.parametrize(("wants", "times"), [(1.5, 1.5), (9.0, 2.5), (0.8, 2.5)])
def test_growth_ends_at_the_demand_where_that_is_known(wants: float, times: float) -> None:
    """No more than the room allows; a demand below what gets through now says nothing."""
    one = model(topology(cpu_mhz=400.0), limit_mhz=9000.0)
    found = growth(one, ["flights-1"], {"flights-1": Demand(wants, "it ran so")})
    assert found == {"flights-1": pytest.approx(times)}
