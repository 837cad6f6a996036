"""Planners are compiled before the first plan is wanted; each plan is checked, and each failure is a reason."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from doubles.models import PAIRED, model, plan, subject, topology
from stormpilot.config import parse
from stormpilot.control import planner_client
from stormpilot.control.current_config import CurrentConfig
from stormpilot.decide.reasons import Reason
from stormpilot.model.values import RESERVED_CPU, Infeasible, Model, Plan
from stormpilot.planner import compute
from stormpilot.planner_process import PlannerLostError
from stormpilot.tuning.recommendation import Choice


def said(compute: planner_client.Compute, wanted: Callable[[], bool]) -> list[str]:
    with capture_logs() as captured:
        planner_client.warm_up(compute, ["a", "b"], {"a": {"alpha": 0.5}}, wanted)
    return [entry["event"].partition(";")[0] for entry in captured]


def test_nothing_is_said_where_no_planner_is_new() -> None:
    """A configuration that was read again has mostly the planners that are compiled already."""
    with capture_logs() as captured:
        planner_client.warm_up(Asked(), set(), {}, lambda: True)
    assert captured == []


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which everything takes ten seconds."""
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(planner_client.time, "monotonic", lambda: next(clock))


class Asked:
    """Answers, or fails where it is told to; `stopped` from then on."""

    def __init__(self, fails: str = "") -> None:
        self.params: dict[str, Mapping[str, Any]] = {}
        self.fails = fails
        self.stopped = False

    def __call__(
        self, model: Model, planner: str, params: Mapping[str, Any], *, seed: int, left_s: Callable[[], float]
    ) -> Plan | Infeasible:
        self.params[planner] = params
        if planner == self.fails:
            self.stopped = True
            raise RuntimeError("its process ended")
        return Infeasible(constraint="tiny", text="")


@pytest.mark.usefixtures("slow")
def test_every_planner_is_asked_with_its_parameters_and_the_log_says_that_all_are_compiled() -> None:
    compute = Asked()
    assert said(compute, lambda: True) == ["preparing planners", "planners are ready"]
    assert compute.params == {"a": {"alpha": 0.5}, "b": {}}


@pytest.mark.usefixtures("slow")
def test_a_planner_that_fails_is_told_and_the_others_are_compiled_all_the_same() -> None:
    compute = Asked(fails="a")
    assert said(compute, lambda: True) == ["preparing planners", "planner failed on a tiny model"]
    assert set(compute.params) == {"a", "b"}


@pytest.mark.usefixtures("slow")
def test_a_controller_that_ends_meanwhile_says_nothing_of_the_failure_and_asks_no_more() -> None:
    compute = Asked(fails="a")
    assert said(compute, lambda: not compute.stopped) == ["preparing planners"]
    assert set(compute.params) == {"a"}


# --- plans ------------------------------------------------------------------------------------------------------------


class Planning:
    """A planner process: answers by what `answers` says of each call, in order, and keeps what it was asked."""

    def __init__(self, *answers: Plan | Infeasible | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Mapping[str, Any], Model]] = []

    def __call__(
        self, model: Model, planner: str, params: Mapping[str, Any], *, seed: int, left_s: Callable[[], float]
    ) -> Plan | Infeasible:
        self.asked.append((planner, params, model))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


NO_ROOM = Infeasible(constraint="cpu", text="too much")


def client(compute: Planning) -> planner_client.PlannerClient:
    config = parse("planner: {params: {alpha: 0.7}}", "test.yaml")
    return planner_client.PlannerClient(CurrentConfig(config, "online", "default"), compute)


def test_there_is_room_for_as_many_workers_as_the_resource_aware_scheduler_makes() -> None:
    """Four executors of 50 points do not fit on a node of 100, whatever number of workers the owner asks for."""
    new = topology({})
    parts = [msgspec.structs.replace(c, resources={RESERVED_CPU: 50.0}) for c in new.components]
    whole = model(msgspec.structs.replace(new, workers=1, components=parts))
    for points, room in ((100.0, True), (50.0, False)):
        nodes = [msgspec.structs.replace(s, resources={RESERVED_CPU: points}) for s in whole.supervisors]
        assert client(compute).has_room(msgspec.structs.replace(whole, supervisors=nodes)) is room


def test_there_is_room_for_no_more_workers_than_there_are_slots() -> None:
    """What does not fit is told at once: with more workers than slots it took the whole budget to find that out."""
    whole = model(topology({}))
    nodes = [msgspec.structs.replace(s, slots=s.slots[:1]) for s in whole.supervisors]
    compute = Planning(NO_ROOM)
    assert not client(compute).has_room(msgspec.structs.replace(whole, supervisors=nodes))
    ((_, _, asked),) = compute.asked
    assert len(nodes) < len(asked.topologies[0].executors)
    assert asked.topologies[0].workers == len(nodes)


def test_a_plan_that_keeps_every_constraint_is_the_answer() -> None:
    compute = Planning(plan(PAIRED))
    assert client(compute).plan(model()) == plan(PAIRED)
    assert [(p, params) for p, params, _ in compute.asked] == [("online", {"alpha": 0.7})]


def test_first_plans_are_made_by_their_own_planner_without_its_parameters() -> None:
    compute = Planning(plan(PAIRED))
    client(compute).plan(model(), first=True)
    assert [(p, params) for p, params, _ in compute.asked] == [("default", {})]


@pytest.mark.parametrize(
    ("answer", "reason", "text"),
    [
        (NO_ROOM, Reason.INFEASIBLE, "online: cpu: too much"),
        (RuntimeError("gone"), Reason.PLANNER_FAILED, "online: RuntimeError: gone"),
        (
            plan({("z", 1): (1, 2, 3, 4)}),
            Reason.CONSTRAINT_BROKEN,
            "online: slot-exists: z:1 is no slot of a live supervisor",
        ),
    ],
)
def test_what_goes_wrong_in_a_planner_is_a_reason(answer: Any, reason: Reason, text: str) -> None:
    assert client(Planning(answer)).plan(model()) == (reason, text)


def test_a_failure_is_logged_with_its_trace_once() -> None:
    planners = client(Planning(RuntimeError("a"), RuntimeError("a"), RuntimeError("b")))
    with capture_logs() as lines:
        for _ in range(3):
            planners.plan(model())
    assert [x["event"] for x in lines] == ["planner failed"] * 2


def test_the_whole_room_is_used_only_where_there_is_no_plan_with_less() -> None:
    roomy, whole = model(limit_mhz=500.0), model()
    compute = Planning(NO_ROOM, plan(PAIRED))
    assert client(compute).plan_with_room(roomy, whole, first=False) == (plan(PAIRED), whole)
    compute = Planning(plan(PAIRED))
    assert client(compute).plan_with_room(roomy, whole, first=False) == (plan(PAIRED), roomy)


def test_a_planner_that_fails_is_not_asked_again_with_more_room() -> None:
    compute = Planning(RuntimeError("gone"))
    answer, _ = client(compute).plan_with_room(model(limit_mhz=500.0), model(), first=False)
    assert answer == (Reason.PLANNER_FAILED, "online: RuntimeError: gone")


def test_survivors_stay_where_they_are_if_that_can_be() -> None:
    degraded = model(msgspec.structs.replace(subject(missing_slots=1).topology, workers=3))
    compute = Planning(NO_ROOM, plan(PAIRED))
    answer, _ = client(compute).plan_with_room(degraded, degraded, first=False)
    assert answer == plan(PAIRED)
    assert [bool(m.topologies[0].fixed_workers) for _, _, m in compute.asked] == [True, False]


def test_a_planner_that_hangs_is_not_asked_again_for_the_same_plan() -> None:
    """Each try took its time and more: a repair of a topology asked it four times."""
    degraded = model(msgspec.structs.replace(subject(missing_slots=1).topology, workers=3))
    compute = Planning(PlannerLostError("no answer"))
    (reason, _), _ = client(compute).plan_with_room(degraded, degraded, first=False)
    assert (reason, len(compute.asked)) == (Reason.PLANNER_FAILED, 1)


def test_where_the_recommended_planner_finds_none_the_configured_one_is_asked() -> None:
    choice = Choice("best", "best", {"effort": 2})
    compute = Planning(NO_ROOM, plan(PAIRED))
    there = model()
    assert client(compute).plan_with_room(there, there, first=False, choice=choice) == (plan(PAIRED), there)
    assert [p for p, _, _ in compute.asked] == ["best", "online"]


def test_a_reload_changes_the_planner() -> None:
    compute = Planning(plan(PAIRED))
    planners = client(compute)
    planners.current.use(parse("", "new.yaml"), "best", "default")
    planners.plan(model())
    assert [(p, params) for p, params, _ in compute.asked] == [("best", {})]
