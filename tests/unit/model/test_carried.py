"""The rate that a placement carries."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import HALF, SPREAD, model, topology
from stormpilot.model.carried import Capacity, carried_ratio
from stormpilot.model.closed_loop import growth
from stormpilot.model.compiled import compile_model


def test_first_full_node_ends_it_while_others_stay_as_they_are() -> None:
    """800 MHz of flights and 400 of wordcount on the busiest node, where the CPU that is left goes to flights alone."""
    beside = {("a", 2): (1, 3, 2), ("b", 2): (4,)}
    c = compile_model(model(topology(HALF), topology(beside, name="wordcount", cpu_mhz=100.0)))
    load = dict.fromkeys(("flights", "wordcount"), 0.0)
    for t in c.model.topologies:
        load[t.name] = max(
            sum(e.cpu_mhz for e, a in zip(t.executors, t.assignment, strict=True) if a.supervisor == s.id)
            for s in c.model.supervisors
        )
    has_mhz = c.model.supervisors[0].cpu_mhz
    found = Capacity(c).carried(c.current, 0)
    assert found.ratio == pytest.approx((has_mhz - load["wordcount"]) / load["flights"])
    assert "has no CPU left" in found.bound
    assert carried_ratio(c, c.current) == pytest.approx(has_mhz / (load["wordcount"] + load["flights"]))


def test_an_executor_ends_it_where_it_fills_a_core() -> None:
    """However much CPU a node has: an executor is one thread."""
    one = model(topology(SPREAD, cpu_mhz=400.0))
    large = msgspec.structs.replace(
        one, supervisors=[msgspec.structs.replace(s, cores=64.0, mhz=1000.0) for s in one.supervisors]
    )
    c = compile_model(large)
    found = Capacity(c).carried(c.current, 0)
    assert found.ratio == pytest.approx(2.5)
    assert found.bound.endswith("fills a core")


def test_processes_of_several_tasks_fill_a_core_each() -> None:
    """Python tasks of one executor: 1,600 MHz of cores of 1,000, and no queue."""
    one = model(topology(SPREAD, cpu_mhz=1600.0))
    (t,) = one.topologies
    several = [msgspec.structs.replace(e, lanes=4) for e in t.executors]
    large = msgspec.structs.replace(
        one,
        supervisors=[msgspec.structs.replace(s, cores=64.0, mhz=1000.0, cpu_limit_mhz=None) for s in one.supervisors],
        topologies=[msgspec.structs.replace(t, executors=several)],
    )
    c = compile_model(large)
    found = Capacity(c).carried(c.current, 0)
    assert found.ratio == pytest.approx(2.5) == carried_ratio(c, c.current)
    assert found.bound.endswith("fills 4 cores")
    assert growth(large, {t.id})[t.id] == pytest.approx(2.5)


def test_rate_is_that_of_the_sources() -> None:
    c = compile_model(model())
    found = Capacity(c).carried(c.current, 0)
    kinds = {x.id: x.kind for x in c.model.topologies[0].components}
    spouts = {e.start for e in c.model.topologies[0].executors if kinds[e.component] == "spout"}
    assert found.tps == pytest.approx(found.ratio * sum(e.rate for e in c.model.traffic if e.from_ in spouts))


def test_what_is_only_declared_does_not_grow() -> None:
    """A guess of 400 MHz is no load that follows the rate."""
    one = model(topology(SPREAD, cpu_mhz=400.0))
    guessed = [msgspec.structs.replace(e, measured=False) for e in one.topologies[0].executors]
    c = compile_model(
        msgspec.structs.replace(one, topologies=[msgspec.structs.replace(one.topologies[0], executors=guessed)])
    )
    assert Capacity(c).carried(c.current, 0).bound.startswith("more than")
