"""Overload: when it is relieved, measured or forecast, and what a relief promises."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.models import HALF, NOW_MS, SPREAD, Slots, model, plan_message, subject, topology
from doubles.verdicts import CROSSED, judged, one, shuffled
from stormpilot.config import DecideSection, VerifySection
from stormpilot.decide.criteria import TopologyCriteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Reason
from stormpilot.messages.moves import MoveState, Spent
from stormpilot.model.values import Model
from stormpilot.printable import counted


def overloaded_story(seconds: float, slots: Slots, move: MoveState | None = None, **terms: Any) -> Decision:
    """Node a holds 1200 of 1000 MHz since `seconds`; the plan is `slots`."""
    busy = topology({("a", 1): (1, 3), ("b", 1): (2, 4)}, cpu_mhz=600.0)
    on = model(busy)
    memory = Memory().observe(on, NOW_MS - int(seconds * 1000)).observe(on, NOW_MS)
    return one(judged([subject(busy, move=move)], slots, memory=memory, on=on, **terms))


def test_lasting_overload_is_relieved_even_at_the_price_of_traffic() -> None:
    decision = overloaded_story(61, {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)})
    assert (decision.action, decision.reason) == ("publish", Reason.OVERLOAD)
    assert "a overloaded" in decision.text


def test_short_overload_is_left_alone() -> None:
    decision = overloaded_story(59, {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)})
    assert (decision.action, decision.reason) == ("skip", Reason.NO_BETTER_PLAN)


@pytest.mark.parametrize(
    ("left", "plans", "seconds", "reason"),
    [
        ([3], 1, 119, Reason.HEADROOM),
        ([3], 1, 120, Reason.OVERLOAD),
        ([3], 4, 299, Reason.HEADROOM),
        ([3], 4, 300, Reason.OVERLOAD),
        ([1], 4, 61, Reason.OVERLOAD),
    ],
)
def test_relief_brings_back_what_a_node_was_relieved_of_for_an_overload_that_lasts_longer(
    left: list[int], plans: int, seconds: float, reason: Reason
) -> None:
    """Executor 3 left c because that was overloaded, and a is with it now: whose key is hot turns within minutes."""
    spent = [
        Spent(at_ms=NOW_MS - 600_000 - i, executors=1, workers=1, plan=f"p-{i}", left=left, relieved=["c"])
        for i in range(plans)
    ]
    move = MoveState(topology_id="flights-1", spent=spent)
    relief: Slots = {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)}
    d = overloaded_story(seconds, relief, move=move, spent={"flights-1": spent})
    assert d.reason is reason
    if reason is Reason.HEADROOM:
        assert (d.action, d.until_ms) == ("skip", NOW_MS + 1000)
        assert d.text == (
            f"a overloaded for {seconds} s; 1 executor would come back to c, which was left 10 min ago because it was "
            f"overloaded: not before {seconds + 1} s of overload ({counted(plans, 'plan')} moved it within the hour)"
        )


def test_relief_of_an_overload_that_is_only_predicted_does_not_tell_when_it_may_bring_executors_back() -> None:
    """It said that the node is overloaded, for 0 s, with an end that was later in each cycle."""
    spent = [Spent(at_ms=NOW_MS - 600_000, executors=1, workers=1, plan="p-1", left=[3], relieved=["c"])]
    move = MoveState(topology_id="flights-1", spent=spent)
    relief: Slots = {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)}
    busy = subject(topology({("a", 1): (1, 3), ("b", 1): (2, 4)}, cpu_mhz=600.0), move=move)
    d = one(judged([busy], relief, on=model(busy.topology), spent={"flights-1": spent}, coming={"a": 1.2}))
    assert (d.reason, d.until_ms) == (Reason.HEADROOM, None)
    assert d.text.startswith("a will be overloaded; 1 executor would come back to c")


def test_overload_that_the_plan_does_not_lower_is_no_reason() -> None:
    decision = overloaded_story(61, {("a", 2): (1, 3), ("b", 1): (2, 4)})
    assert (decision.action, decision.reason) == ("skip", Reason.NO_BETTER_PLAN)


def test_overload_that_is_forecast_is_relieved_before_it_comes() -> None:
    """Nothing is overloaded yet: the load is that of a forecast, in which a will have 1200 of 1000 MHz."""
    then = topology({("a", 1): (1, 3), ("b", 1): (2, 4)}, cpu_mhz=600.0)
    relief: Slots = {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)}
    decision = one(judged([subject(then)], relief, on=model(then), coming={"a": 1.2}))
    assert (decision.action, decision.reason) == ("publish", Reason.OVERLOAD)
    assert decision.text.startswith("a will be overloaded: 120% of B(n)")
    assert (decision.value, decision.threshold) == (1.2, 1.0)
    assert decision.promise is not None and decision.promise.nodes == ["a"]
    without = one(judged([subject(then)], relief, on=model(then)))
    assert (without.action, without.reason) == ("skip", Reason.NO_BETTER_PLAN)
    no_help = one(judged([subject(then)], {("a", 2): (1, 3), ("b", 1): (2, 4)}, on=model(then), coming={"a": 1.2}))
    assert (no_help.action, no_help.reason) == ("skip", Reason.NO_BETTER_PLAN)


def test_move_for_a_forecast_promises_what_can_be_measured_soon_after_it() -> None:
    """The forecast has twice the CPU and traffic; the effect is looked at before that is there."""
    slots: Slots = {("a", 1): (1, 3), ("b", 1): (2, 4)}
    now, then = topology(slots, cpu_mhz=300.0), topology(slots, cpu_mhz=600.0)
    measured, predicted = model(now), model(then)
    predicted = msgspec.structs.replace(
        predicted, traffic=[msgspec.structs.replace(e, rate=2 * e.rate) for e in predicted.traffic]
    )
    relief: Slots = {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)}
    decision = one(judged([subject(then)], relief, on=predicted, coming={"a": 1.2}, measured=measured))
    assert decision.reason is Reason.OVERLOAD
    promise = decision.promise
    assert promise is not None
    assert (promise.before, promise.predicted) == (pytest.approx(0.3), pytest.approx(0.15))  # of 2000 MHz
    assert promise.throughput_tps == sum(e.rate for e in measured.traffic)
    spread = model(topology(SPREAD, cpu_mhz=300.0))
    more = msgspec.structs.replace(spread, traffic=predicted.traffic)
    gain = one(judged([subject()], HALF, on=more, measured=spread)).promise
    assert gain is not None
    assert (gain.metric, gain.before, gain.predicted) == ("inter_node_share", 1.0, pytest.approx(0.2))
    assert gain.throughput_tps == 1000.0


def test_overload_that_ends_is_forgotten() -> None:
    busy, calm = topology(SPREAD, cpu_mhz=600.0), topology(SPREAD, cpu_mhz=100.0)
    memory = Memory().observe(model(busy), 0).observe(model(calm), 50_000).observe(model(busy), 60_000)
    own = TopologyCriteria(DecideSection(overload_s=60), VerifySection())
    assert own.overloaded(memory.overloaded_since_ms, 100_000) == set()
    assert own.overloaded(memory.overloaded_since_ms, 120_000) == {"a", "b"}


def test_overload_relief_and_repairs_may_use_the_headroom() -> None:
    tight = {"a": 100.0, "b": 100.0, "c": 100.0}
    relief = overloaded_story(61, {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)}, room_mhz=tight)
    assert (relief.action, relief.reason) == ("publish", Reason.OVERLOAD)
    lost = one(judged([subject(missing_slots=1, plan=plan_message())], SPREAD, room_mhz=tight))
    assert (lost.action, lost.reason) == ("publish", Reason.REPAIR)


def uneven(slots: Slots = CROSSED) -> Model:
    """Target 3 gets 800 tuples/s and uses 800 MHz for them, target 4 200 of each: by a shuffle, as both are apart."""
    t = shuffled(slots).topology
    executors = [msgspec.structs.replace(e, cpu_mhz={3: 800.0, 4: 200.0}.get(e.start, 10.0)) for e in t.executors]
    return model(msgspec.structs.replace(t, executors=executors), limit_mhz=500.0)


def test_relief_that_only_measured_cpu_promises_is_none() -> None:
    """Target 3 leaves the overloaded node, but the targets share the tuples anew: its load comes after it."""
    running: Slots = {("a", 1): (1, 2, 3), ("b", 1): (4,)}
    moved: Slots = {("a", 1): (1, 2, 4), ("b", 1): (3,)}
    on = uneven(running)
    memory = Memory().observe(on, NOW_MS - 100_000)
    who = subject(on.topologies[0])
    by_pairs = one(judged([who], moved, on=on, memory=memory, traffic="measured"))
    assert by_pairs.reason is Reason.OVERLOAD
    by_flows = one(judged([who], moved, on=on, memory=memory, traffic="flow"))
    assert by_flows.reason is not Reason.OVERLOAD


def test_relief_is_foreseen_where_tuples_will_go() -> None:
    """Beside target 3 both sources send to it alone; when the busier one leaves, most of the load does."""
    running: Slots = {("a", 1): (1, 2, 3), ("b", 1): (4,)}
    on = uneven(running)
    memory = Memory().observe(on, NOW_MS - 100_000)
    relieved = one(
        judged([subject(on.topologies[0])], {("a", 1): (2, 3), ("b", 1): (1, 4)}, on=on, memory=memory, traffic="flow")
    )
    assert relieved.reason is Reason.OVERLOAD
    assert relieved.promise is not None
    assert relieved.promise.predicted < relieved.promise.before


def test_move_for_load_promises_less_load_on_the_relieved_nodes() -> None:
    """Node a has 1200 of its 2000 MHz in use; one of the two executors leaves."""
    promise = overloaded_story(61, {("a", 1): (1,), ("b", 1): (2, 4), ("c", 1): (3,)}).promise
    assert promise is not None
    assert (promise.metric, promise.nodes) == ("load_ratio", ["a"])
    assert (promise.before, promise.predicted) == (pytest.approx(0.6), pytest.approx(0.3))
