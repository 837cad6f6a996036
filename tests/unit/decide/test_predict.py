"""What a plan will make of traffic and CPU, by measured pairs and by flows."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import PAIRED, SPREAD, Slots, model, plan, topology
from stormpilot.decide.predict import predict
from stormpilot.model.values import Input, Model

ALONE: Slots = {("a", 1): (1, 2, 3), ("b", 1): (4,)}
"""Both sources beside one of the two targets."""


def shuffled(slots: Slots, cpu_mhz: dict[int, float]) -> Model:
    """1 and 2 send to 3 and 4 by a shuffle."""
    t = topology(slots)
    components = [t.components[0], msgspec.structs.replace(t.components[1], inputs=[Input(component="x")])]
    executors = [msgspec.structs.replace(e, cpu_mhz=cpu_mhz.get(e.start, 10.0)) for e in t.executors]
    return model(msgspec.structs.replace(t, components=components, executors=executors))


def test_measured_pairs_and_cpu_stay_where_nothing_is_shuffled() -> None:
    for traffic in ("flow", "measured"):
        seen = predict(model(), plan(PAIRED), traffic)  # type: ignore[arg-type]
        assert seen.inter_node_tps == (1000.0, 0.0)
        assert (seen.moved, seen.total_tps) == (2, 1000.0)
        assert set(seen.cpu_mhz.values()) == {200.0}


def test_a_shuffle_goes_where_its_sender_is() -> None:
    on = shuffled(SPREAD, {3: 800.0, 4: 200.0})
    assert predict(on, plan(ALONE), "measured").new_tps == pytest.approx(200.0)
    assert predict(on, plan(ALONE), "flow").new_tps == pytest.approx(0.0)


def test_cpu_follows_the_tuples_and_its_sum_stays() -> None:
    on = shuffled(SPREAD, {3: 800.0, 4: 200.0})
    seen = predict(on, plan(ALONE), "flow")
    assert seen.cpu_mhz[3] > 950.0
    assert seen.cpu_mhz[4] <= 0.0
    assert sum(seen.cpu_mhz.values()) == pytest.approx(1020.0)
    assert predict(on, plan(ALONE), "measured").cpu_mhz[3] == 800.0


def test_what_does_not_move_is_foreseen_as_it_was_measured() -> None:
    """However far the flow model is from what was measured: it is the difference that counts."""
    on = shuffled(ALONE, {3: 100.0, 4: 900.0})
    seen = predict(on, plan(ALONE), "flow")
    assert seen.now_tps == seen.new_tps
    assert seen.cpu_mhz == pytest.approx({1: 10.0, 2: 10.0, 3: 100.0, 4: 900.0})


def test_what_runs_nowhere_has_no_present() -> None:
    t = msgspec.structs.replace(topology(), assignment=[])
    seen = predict(model(t), plan(PAIRED), "flow")
    assert seen.inter_node_tps == (None, 0.0)
