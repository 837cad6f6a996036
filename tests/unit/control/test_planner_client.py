"""Planners compile before the first plan is wanted; the log says so when they did, and only then."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from stormpilot.control import planner_client
from stormpilot.model.values import Infeasible, Model, Plan


def said(compute: planner_client.Compute, wanted: Callable[[], bool]) -> list[str]:
    with capture_logs() as captured:
        planner_client.warm_up(compute, ["a", "b"], {"a": {"alpha": 0.5}}, wanted)
    return [entry["event"] for entry in captured]


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
    assert said(compute, lambda: True) == ["planners are compiled"]
    assert compute.params == {"a": {"alpha": 0.5}, "b": {}}


@pytest.mark.usefixtures("slow")
def test_a_planner_that_fails_is_told_and_the_others_are_compiled_all_the_same() -> None:
    compute = Asked(fails="a")
    assert said(compute, lambda: True) == ["planner failed on a tiny model"]
    assert set(compute.params) == {"a", "b"}


@pytest.mark.usefixtures("slow")
def test_a_controller_that_ends_meanwhile_says_nothing_of_it_and_asks_no_more() -> None:
    compute = Asked(fails="a")
    assert said(compute, lambda: not compute.stopped) == []
    assert set(compute.params) == {"a"}
