"""Whole cycles over clusters that are legal and odd, with every planner: no error, and no plan that breaks a rule."""

from __future__ import annotations

import random

import pytest

from odd_clusters import OddWorld
from stormpilot.model.values import Plan
from stormpilot.model.violations import violations
from stormpilot.planner import PLANNERS

WRONG = {"PLANNER_FAILED", "CONSTRAINT_BROKEN"}


@pytest.mark.parametrize("flow", [False, True], ids=["pairs", "flows"])
@pytest.mark.parametrize("name", [n for n in PLANNERS if n != "exact"])
def test_odd_clusters_are_planned_or_left_as_they_are(name: str, flow: bool) -> None:
    plans = 0
    for seed in range(8):
        world = OddWorld(random.Random(f"{name} {seed}"), name, most_executors=40, flow=flow)
        world.tell(60)
        known = world.observation().belief
        assert known is not None
        assert not known.failed, seed
        for report in world.reports:
            for decision in report.decisions.values():
                assert decision.reason.value not in WRONG, f"{seed}: {decision}"
                now_tps, then_tps = decision.inter_node_tps
                if decision.reason.value == "GAIN" and now_tps is not None and then_tps is not None:
                    assert then_tps <= now_tps * (1 + 1e-9), f"{seed}: {decision}"
        for model, answer in world.plans:
            if isinstance(answer, Plan):
                plans += 1
                assert violations(model, answer, exact_workers=PLANNERS[name].exact_workers) == [], seed
    assert plans, "none was planned"
