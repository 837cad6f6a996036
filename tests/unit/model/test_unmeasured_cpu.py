"""What was declared but never measured weighs executors; it does not forbid what Storm would run."""

from __future__ import annotations

import msgspec
import pytest

from builders import supervisor, topology
from stormpilot.model.constraints import misplaced, rest_stands_still
from stormpilot.model.unmeasured_cpu import FILLED_RATIO, with_guesses_that_fit
from stormpilot.model.values import Assigned, Exclusion, Model, Plan, Supervisor, Topology
from stormpilot.model.violations import violations
from stormpilot.planner import compute


def declared(t: Topology, *measured: str) -> Topology:
    """The topology with numbers that nobody measured, but those of these components."""
    executors = [msgspec.structs.replace(e, measured=e.component in measured) for e in t.executors]
    return msgspec.structs.replace(t, executors=executors)


def needed(model: Model, *, measured: bool) -> float:
    return sum(e.cpu_mhz for t in model.topologies for e in t.executors if e.measured == measured)


def nodes(n: int, mhz: float) -> list[Supervisor]:
    return [supervisor(name, mhz=mhz) for name in "abcdef"[:n]]


def test_guesses_that_fit_are_left_as_they_are() -> None:
    model = Model(supervisors=nodes(2, 1000.0), topologies=[declared(topology("t", {"x": 4}))])
    assert with_guesses_that_fit(model) is model


@pytest.mark.parametrize("planner", ["offline", "default"])
def test_a_first_plan_that_declared_cpu_forbids_is_made_all_the_same(planner: str) -> None:
    """23 executors at Storm's 10% of a core each, on three machines of two thirds of a core."""
    new = declared(topology("t", {"x": 3, "y": 20}, streams=[("x", "y")], workers=2))
    model = Model(supervisors=nodes(3, 533.0), topologies=[new])
    assert not isinstance(compute(model, planner, {}, seed=1, left_s=lambda: 10.0), Plan)
    fitting = with_guesses_that_fit(model)
    plan = compute(fitting, planner, {}, seed=1, left_s=lambda: 10.0)
    assert isinstance(plan, Plan)
    assert violations(fitting, plan) == []


def test_guesses_keep_their_ratio_and_measured_numbers_their_value() -> None:
    t = declared(topology("t", {"x": 2, "y": 2, "z": 1}, cpu_mhz={"x": 900.0, "y": 300.0, "z": 500.0}), "z")
    (found,) = with_guesses_that_fit(Model(supervisors=nodes(2, 1000.0), topologies=[t])).topologies
    cpu = {e.component: e.cpu_mhz for e in found.executors}
    assert cpu["z"] == 500.0
    assert cpu["x"] == pytest.approx(3 * cpu["y"])
    assert 2 * cpu["x"] + 2 * cpu["y"] == pytest.approx(FILLED_RATIO * 1500.0)


def test_a_topology_shrinks_to_what_its_own_workers_can_reach() -> None:
    model = Model(supervisors=nodes(4, 1000.0), topologies=[declared(topology("t", {"x": 20}, workers=1))])
    assert needed(with_guesses_that_fit(model), measured=False) == pytest.approx(FILLED_RATIO * 1000.0)


def test_topologies_that_nobody_measures_leave_room_for_a_new_one() -> None:
    """An old one without reports, taken at its word, would fill the cluster for ever."""
    old = declared(topology("old", {"x": 60}, workers=2))
    old = msgspec.structs.replace(
        old, assignment=[Assigned(start=e.start, supervisor="ab"[e.start % 2], port=6700) for e in old.executors]
    )
    new = declared(topology("new", {"x": 20}))
    found = with_guesses_that_fit(Model(supervisors=nodes(2, 1000.0), topologies=[old, new]))
    assert needed(found, measured=False) == pytest.approx(FILLED_RATIO * 2000.0)


def test_drained_supervisors_are_no_room() -> None:
    t = declared(topology("t", {"x": 20}))
    model = Model(supervisors=nodes(2, 1000.0), topologies=[t], exclusions=[Exclusion(supervisor="a")])
    assert needed(with_guesses_that_fit(model), measured=False) == pytest.approx(FILLED_RATIO * 1000.0)


def fits_on_c(model: Model) -> bool:
    """The worker on `a` goes to `c` as a whole, and nobody else moves."""
    plan = compute(rest_stands_still(model, misplaced(model)), "best", {}, seed=1, left_s=lambda: 2.0)
    assert isinstance(plan, Plan)
    t = model.topologies[0]
    before = {a.start: a.supervisor for a in t.assignment}
    after = {e: w.supervisor for p in plan.topologies for w in p.workers for e, _ in w.executors}
    return after == {s: "c" if at == "a" else at for s, at in before.items()}


@pytest.mark.parametrize("why", ["drain", "pin"])
def test_a_worker_that_must_leave_fits_somewhere_as_a_whole(why: str) -> None:
    """One of two workers began earlier and what its processes need to start was measured: more than the half."""
    t = topology("t", {"x": 6, "y": 6}, cpu_mhz={"x": 300.0, "y": 60.0}, workers=2)
    placed = [Assigned(start=e.start, supervisor="a" if e.component == "x" else "b", port=6700) for e in t.executors]
    t = msgspec.structs.replace(t, assignment=placed)
    if why == "pin":
        t = msgspec.structs.replace(
            t, executors=[msgspec.structs.replace(e, pin="c" if e.start == 1 else None) for e in t.executors]
        )
    drained = [Exclusion(supervisor="a", drained=True)] if why == "drain" else []
    model = Model(supervisors=nodes(3, 1000.0), topologies=[t], exclusions=drained)
    assert fits_on_c(with_guesses_that_fit(model, {"t"}))


def test_measured_overload_is_not_made_to_fit() -> None:
    model = Model(supervisors=nodes(1, 1000.0), topologies=[topology("t", {"x": 20})])
    assert with_guesses_that_fit(model) is model


def test_what_was_measured_too_short_is_a_guess() -> None:
    """Python processes that start: the rates are there, and many times what they will be."""
    starting = topology("t", {"x": 20})
    model = Model(supervisors=nodes(2, 1000.0), topologies=[starting, topology("u", {"x": 4})])
    assert needed(with_guesses_that_fit(model, {"t"}), measured=True) == pytest.approx(400.0 + FILLED_RATIO * 2000.0)
    placed = [Assigned(start=e.start, supervisor="a", port=6700) for e in model.topologies[1].executors]
    model = msgspec.structs.replace(
        model, topologies=[starting, msgspec.structs.replace(model.topologies[1], assignment=placed)]
    )
    assert needed(with_guesses_that_fit(model, {"t"}), measured=True) == pytest.approx(400.0 + FILLED_RATIO * 1600.0)
