"""Drains, pins and exclusions in the model, and who runs where it may not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from doubles.models import PAIRED, SPREAD, model, topology
from doubles.models import plan as plan_in
from stormpilot.messages.settings import ExcludeSetting, PinSetting
from stormpilot.model.constraints import constrained, misplaced, rest_keeps_its_nodes, rest_stands_still
from stormpilot.model.values import Exclusion, Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute


def pinned(component: str, supervisor: str, task: int | None = None, name: str = "flights") -> PinSetting:
    return PinSetting(topology=name, component=component, supervisor=supervisor, task=task)


def pins_of(m: Model) -> dict[int, str | None]:
    return {e.start: e.pin for e in m.topologies[0].executors}


def test_without_settings_the_model_is_the_very_same() -> None:
    m = model()
    assert constrained(m, (), (), ()) is m


def test_nothing_may_run_on_a_supervisor_of_a_drained_host() -> None:
    m = constrained(model(), {"host-a", "host-nowhere"}, (), ())
    assert m.exclusions == [Exclusion(supervisor="a", drained=True)]
    assert misplaced(m) == {"flights-1": [1, 2]}


def test_pin_of_a_task_wins_over_one_of_its_component() -> None:
    m = constrained(model(), (), [pinned("x", "b"), pinned("x", "c", task=2)], ())
    assert pins_of(m) == {1: "b", 2: "c", 3: None, 4: None}
    assert misplaced(m) == {"flights-1": [1, 2]}


def test_pin_to_a_supervisor_that_is_lost_binds_nobody() -> None:
    m = constrained(model(), (), [pinned("x", "gone"), pinned("x", "gone", name="other")], ())
    assert set(pins_of(m).values()) == {None}


def test_exclusion_of_a_host_a_supervisor_a_topology_a_component() -> None:
    settings = [
        ExcludeSetting(host="host-a", topology="flights", component="y"),
        ExcludeSetting(supervisor="b", topology="flights"),
        ExcludeSetting(supervisor="c", topology="unknown"),
        ExcludeSetting(supervisor="c"),
    ]
    m = constrained(model(), (), (), settings)
    assert m.exclusions == [
        Exclusion(supervisor="a", topology="flights-1", component="y"),
        Exclusion(supervisor="b", topology="flights-1"),
        Exclusion(supervisor="c"),
    ]
    assert misplaced(m) == {"flights-1": [3, 4]}  # x may stay on a


@pytest.mark.parametrize("way", [{"drained": True}, {"kept_for": "other"}, {}])
def test_exclusion_of_one_component_binds_that_one_alone_whatever_its_reason(way: dict[str, Any]) -> None:
    m = replace(model(), exclusions=[Exclusion(supervisor="b", component="x", **way)])
    assert violations(m, plan_in(SPREAD)) == []  # x on a, y on b
    found = violations(m, plan_in({("b", 1): (1, 2, 3, 4)}))
    assert [v.executors for v in found] == [[("flights-1", e)] for e in (1, 2)]
    assert isinstance(compute(m, "default", {}, seed=0), Plan)


def test_fixed_workers_are_never_misplaced() -> None:
    m = constrained(model(topology(PAIRED)), {"host-a"}, (), ())
    fixed = rest_stands_still(m, {"flights-1": [2]})
    assert fixed.topologies[0].fixed_workers == [("a", 1)]
    assert misplaced(fixed) == {}


def test_executors_of_a_component_that_needs_a_site_are_misplaced_elsewhere() -> None:
    m = model()
    t = m.topologies[0]

    def asking(site: str, required: bool) -> Model:
        components = [replace(c, site=site, site_required=required) if c.id == "y" else c for c in t.components]
        supervisors = [replace(s, site={"a": "east", "b": "west"}.get(s.id)) for s in m.supervisors]
        return replace(m, supervisors=supervisors, topologies=[replace(t, components=components)])

    assert misplaced(asking("east", required=True)) == {"flights-1": [3, 4]}  # on b
    assert misplaced(asking("west", required=True)) == {}
    assert misplaced(asking("east", required=False)) == {}  # a wish
    assert misplaced(asking("north", required=True)) == {}  # nowhere to go


def test_plan_with_the_rest_standing_still_moves_only_who_must_leave() -> None:
    m = constrained(model(topology(SPREAD)), {"host-a"}, (), ())
    plan = compute(rest_stands_still(m, misplaced(m)), "online", {"alpha": 0.0}, seed=1)
    assert not hasattr(plan, "constraint"), plan
    assert violations(m, plan) == []  # type: ignore[arg-type]
    workers = {(w.supervisor, w.port): w.executors for w in plan.topologies[0].workers}  # type: ignore[union-attr]
    assert workers.pop(("b", 1)) == [(3, 3), (4, 4)]
    assert {s for s, _ in workers} <= {"b", "c"}


def test_where_the_rest_cannot_stand_still_it_keeps_its_nodes() -> None:
    drained = constrained(model(topology(SPREAD)), {"host-a"}, (), ())
    limits = {"a": 1000.0, "b": 700.0, "c": 300.0}  # room for one more on b, for one on c
    m = replace(drained, supervisors=[replace(s, cpu_limit_mhz=limits[s.id]) for s in drained.supervisors])
    assert isinstance(compute(rest_stands_still(m, misplaced(m)), "best", {}, seed=1), Infeasible)
    plan = compute(rest_keeps_its_nodes(m, misplaced(m)), "best", {}, seed=1)
    assert isinstance(plan, Plan)
    assert violations(m, plan) == []
    node = {start: w.supervisor for w in plan.topologies[0].workers for start, _ in w.executors}
    assert (node[3], node[4]) == ("b", "b")
    assert sorted((node[1], node[2])) == ["b", "c"]


def over_its_limits(**of_b: float) -> Model:
    """Host a is drained; b is over a limit by what runs there, in a worker of a topology with two on a."""
    t = replace(topology({("a", 1): (1,), ("b", 1): (3, 4), ("a", 2): (2,)}), workers=3)
    m = constrained(model(t), {"host-a"}, (), ())
    return replace(m, supervisors=[replace(s, **of_b) if s.id == "b" else s for s in m.supervisors])


@pytest.mark.parametrize("of_b", [{"cpu_limit_mhz": 390.0}, {"memory_mb": 190.0}])
def test_node_over_its_limits_neither_hinders_a_drain_elsewhere_nor_takes_anybody(of_b: dict[str, float]) -> None:
    """200 MHz and 100 MB each; b has 3 and 4."""
    m = over_its_limits(**of_b)
    for standing in (rest_stands_still(m, misplaced(m)), rest_keeps_its_nodes(m, misplaced(m))):
        plan = compute(standing, "best", {}, seed=1)
        assert isinstance(plan, Plan), plan
        assert violations(standing, plan) == []
        workers = {(w.supervisor, w.port): w.executors for w in plan.topologies[0].workers}
        assert sorted(e for (s, _), es in workers.items() if s == "b" for e in es) == [(3, 3), (4, 4)]
        assert sorted(e for (s, _), es in workers.items() if s == "c" for e in es) == [(1, 1), (2, 2)]


def test_worker_on_a_port_that_its_supervisor_no_longer_has_does_not_hinder_a_drain() -> None:
    """Ports were taken from the supervisor's list; until its worker is gone, Storm's assignment still names them."""
    t = topology({("a", 1): (1, 2), ("b", 9): (3,), ("b", 1): (4,)})
    m = constrained(model(replace(t, workers=3)), {"host-a"}, (), ())
    plan = compute(rest_stands_still(m, misplaced(m)), "best", {}, seed=1)
    assert isinstance(plan, Plan), plan
    assert violations(m, plan) == []
    assert [(4, 4)] in [w.executors for w in plan.topologies[0].workers if (w.supervisor, w.port) == ("b", 1)]
