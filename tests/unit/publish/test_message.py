"""Messages of plans: what a decision, a plan and its plan set become in ZooKeeper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doubles.models import PAIRED, plan
from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import Promise
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import BasedOn, PlanMessage, plan_checksum
from stormpilot.publish.message import PlanSet, history_entry, plan_message

PLAN = plan(PAIRED)
(PLACEMENT,) = PLAN.topologies
GAIN = Decision(
    PLACEMENT.id, "publish", Reason.GAIN, "falls by 60%", 0.6, 0.1, moved_executors=2, inter_node_tps=(100.0, 40.0)
)
SET = PlanSet("r-1", 7, 1_000, ["z", PLACEMENT.id])


def message(decision: Decision = GAIN) -> PlanMessage:
    return plan_message(PLACEMENT, PLAN, decision, SET, "p-1", BasedOn(snapshot_version=3))


def test_a_plan_carries_its_epoch_and_the_checksum_by_which_the_plug_in_knows_it() -> None:
    m = message()
    assert (m.epoch, m.plan_set, m.plan_set_topologies) == (7, "r-1", sorted(["z", PLACEMENT.id]))
    assert m.workers == PLACEMENT.workers
    assert m.checksum == plan_checksum(PLACEMENT.id, "p-1", "r-1", 7, PLACEMENT.workers)
    assert plan_checksum(PLACEMENT.id, "p-1", "r-1", 8, PLACEMENT.workers) != m.checksum


def test_its_reason_is_a_sentence_and_a_code() -> None:
    assert (message().reason, message().reason_code) == ("GAIN: falls by 60%", "GAIN")


@pytest.mark.parametrize(
    ("tps", "before", "after"),
    [
        ((100.0, 40.0), {"inter_node_tps": 100.0}, {"inter_node_tps": 40.0}),
        ((None, 40.0), {}, {"inter_node_tps": 40.0}),
    ],
)
def test_only_metrics_that_are_known_are_expected(
    tps: tuple[float | None, float], before: dict[str, float], after: dict[str, float]
) -> None:
    expected = message(replace(GAIN, inter_node_tps=tps)).expected
    assert (expected.before, expected.after) == (before, after)


def test_the_history_keeps_what_was_promised_and_how_it_is_carried_out() -> None:
    promised = replace(
        GAIN, promise=Promise("inter_node_share", 0.5, 0.2, 0.04, 100.0), strategy=MoveStrategy("rolling", "x")
    )
    entry = history_entry(message(promised), promised, "n1:7")
    assert entry.effect is not None
    assert (entry.effect.before, entry.effect.predicted) == (0.5, 0.2)
    assert (entry.move_strategy, entry.moved_executors, entry.published_by) == ("rolling: x", 2, "n1:7")
    plain = history_entry(message(), GAIN, "n1:7")
    assert (plain.effect, plain.move_strategy) == (None, "")
