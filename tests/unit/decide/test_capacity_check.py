"""What is published fits beside what stays, however many plans must be held one after the other until it does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builders import supervisor
from stormpilot.decide.capacity_check import hold_what_does_not_fit
from stormpilot.decide.predict import Prediction
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.model.load import node_load_mhz, planned_load_mhz
from stormpilot.model.values import (
    Assigned,
    Component,
    Executor,
    Model,
    Plan,
    Topology,
    TopologyPlan,
    Worker,
)

NODES = 4
WHERE = st.integers(0, NODES - 1)


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Model, Plan, dict[str, Prediction]]:
    """Topologies of one executor each, every one with a port of its own on every node; each is to go somewhere."""
    nodes = [supervisor(f"n{n}", 9, mhz=draw(st.sampled_from([200.0, 400.0, 700.0]))) for n in range(NODES)]
    topologies, plans, predictions = [], [], {}
    for t in range(draw(st.integers(2, 7))):
        name, now, then = f"t{t}", draw(WHERE), draw(WHERE)
        cpu_mhz, later_mhz = (draw(st.sampled_from([0.1, 100.0, 150.3, 250.0])) for _ in range(2))
        topologies.append(
            Topology(
                id=name,
                name=name,
                workers=1,
                components=[Component(id="c", kind="spout")],
                executors=[Executor(start=1, end=1, component="c", cpu_mhz=cpu_mhz)],
                assignment=[Assigned(start=1, supervisor=f"n{now}", port=nodes[now].slots[t])],
            )
        )
        worker = Worker(supervisor=f"n{then}", port=nodes[then].slots[t], executors=[(1, 1)])
        plans.append(TopologyPlan(id=name, workers=[worker]))
        predictions[name] = Prediction(0.0, 0.0, 0.0, 1, {1: later_mhz})
    return Model(supervisors=nodes, topologies=topologies, traffic=[]), Plan(topologies=plans), predictions


@given(rounds())
def test_what_is_left_fits_and_nothing_more_need_be_held(case: tuple[Model, Plan, dict[str, Prediction]]) -> None:
    model, plan, predictions = case
    plans = {p.id: p for p in plan.topologies}
    wanted = {t: Decision(t, "publish", Reason.GAIN, "", moved_executors=1) for t in plans}
    answer = hold_what_does_not_fit(model, wanted, plans, predictions)
    moving = {t: plans[t] for t, d in answer.items() if d.action != "skip"}
    assert all(d.reason is Reason.INSUFFICIENT_CPU for d in answer.values() if d.action == "skip")
    if len(moving) < len(plans):
        now_mhz, limit_mhz = node_load_mhz(model), {s.id: s.limit_mhz for s in model.supervisors}
        gone_to = {w.supervisor for p in moving.values() for w in p.workers}
        for s, mhz in planned_load_mhz(model, moving).items():
            assert s not in gone_to or mhz <= max(limit_mhz[s], now_mhz[s]) + 1e-6
    assert hold_what_does_not_fit(model, answer, plans, predictions) == answer
