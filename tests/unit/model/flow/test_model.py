"""Traffic follows the placement: where shuffled tuples go, what they cause further on, and the CPU that they take."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np
import pytest

from builders import supervisor, topology, traffic
from stormpilot.model.compiled import Ints, compile_model
from stormpilot.model.cost import evaluate
from stormpilot.model.flow.model import flow_model, follows_placement, predicted
from stormpilot.model.values import Assigned, Component, CpuLaw, Edge, Executor, Input, Model, Supervisor, Topology

CORE_MHZ = 10_000.0


def placed(model: Model, **workers: tuple[str, int]) -> Ints:
    """A placement by start task: `t1=("n1", 6700)`."""
    c = compile_model(model)
    slots = c.slot_numbers()
    return np.array([slots[workers[f"t{start}"]] for start in c.start], dtype=np.int64)


def shuffled(
    targets: int,
    *,
    grouping: str = "SHUFFLE",
    rate_tps: float = 30.0,
    cpu_mhz: float = 100.0,
    nodes: list[Supervisor] | None = None,
    loadaware: bool = True,
) -> Model:
    """One spout (task 1) that shuffles `rate_tps`, measured as an even split, to bolts (tasks 2, 3, ...)."""
    t = topology("t", {"spout": 1, "bolt": targets}, streams=[("spout", "bolt")], workers=4, cpu_mhz=cpu_mhz)
    components = [
        msgspec.structs.replace(c, inputs=[msgspec.structs.replace(i, grouping=grouping) for i in c.inputs])
        for c in t.components
    ]
    t = msgspec.structs.replace(t, components=components, loadaware=loadaware)
    rates = {(1, 2 + i): rate_tps / targets for i in range(targets)}
    return Model(supervisors=nodes or [supervisor("n1"), supervisor("n2")], topologies=[t], traffic=traffic("t", rates))


def test_rates_whose_square_is_nothing_leave_the_cpu_as_it_is() -> None:
    placement = {"t1": ("n1", 6700), "t2": ("n1", 6700), "t3": ("n1", 6701)}
    model = shuffled(2, rate_tps=1e-300)
    assert flow_model(model).predict(placed(model, **placement)).total_tps == pytest.approx(1e-300)


class TestScopes:
    """A tuple goes no further than it must."""

    def test_target_in_the_own_worker_takes_everything(self) -> None:
        model = shuffled(3)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n1", 6701), t4=("n2", 6700)))
        assert p.received_tps.tolist() == [0, 30, 0, 0]
        assert (p.inter_node_tps, p.inter_worker_tps, p.total_tps) == (0, 0, 30)

    def test_targets_in_the_own_worker_share_evenly(self) -> None:
        model = shuffled(3)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n1", 6700), t4=("n2", 6700)))
        assert p.received_tps.tolist() == [0, 15, 15, 0]

    def test_without_target_in_the_worker_those_on_the_supervisor_take_everything(self) -> None:
        model = shuffled(3)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6701), t3=("n1", 6702), t4=("n2", 6700)))
        assert p.received_tps.tolist() == [0, 15, 15, 0]
        assert (p.inter_node_tps, p.inter_worker_tps) == (0, 30)

    def test_without_target_on_the_supervisor_those_in_the_rack_take_everything(self) -> None:
        nodes = [supervisor("n1", rack="a"), supervisor("n2", rack="a"), supervisor("n3", rack="b")]
        model = shuffled(3, nodes=nodes)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n2", 6700), t3=("n3", 6700), t4=("n3", 6701)))
        assert p.received_tps.tolist() == [0, 30, 0, 0]
        assert (p.inter_node_tps, p.network_cost_tps) == (30, 60)

    def test_without_target_in_the_rack_all_take_their_share(self) -> None:
        nodes = [supervisor("n1", rack="a"), supervisor("n2", rack="b"), supervisor("n3", rack="c")]
        model = shuffled(3, nodes=nodes)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n2", 6700), t3=("n3", 6700), t4=("n3", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 10, 10, 10])
        assert p.network_cost_tps == pytest.approx(90)

    def test_racks_that_storm_does_not_know_cost_and_draw_no_tuples(self) -> None:
        nodes = [supervisor("n1", rack="a"), supervisor("n2", rack="a"), supervisor("n3", rack="b")]
        nodes = [msgspec.structs.replace(n, storm_rack="/default-rack") for n in nodes]
        model = shuffled(3, nodes=nodes)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n2", 6700), t3=("n3", 6700), t4=("n3", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 10, 10, 10])
        assert p.network_cost_tps == pytest.approx(10 * 2 + 20 * 3)

    def test_another_supervisor_on_the_same_host_is_not_local_but_no_network_either(self) -> None:
        nodes = [supervisor("n1", host="h"), supervisor("n2", host="h"), supervisor("n3")]
        model = shuffled(2, nodes=nodes)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n2", 6700), t3=("n3", 6700)))
        assert p.received_tps.tolist() == [0, 15, 15]
        assert p.inter_node_tps == 15

    def test_executor_with_two_tasks_gets_twice_as_much(self) -> None:
        model = shuffled(2)
        t = model.topologies[0]
        wide = [msgspec.structs.replace(e, end=4) if e.start == 3 else e for e in t.executors]
        model = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, executors=wide)])
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n2", 6700), t3=("n2", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 10, 20])


class TestSpill:
    """An executor is one thread, or a few: what it cannot take goes to the next scope."""

    def hot(self, total_cores: float, **more: object) -> Model:
        """Three bolts that together need so many cores for 30 tuples/s, all of it for tuples."""
        return shuffled(3, cpu_mhz=total_cores * CORE_MHZ / 3, **more)  # type: ignore[arg-type]

    def test_local_target_is_filled_up_to_one_core_and_the_rest_goes_on(self) -> None:
        model = self.hot(1.5)  # a core is 20 tuples/s
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700), t4=("n2", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 20, 5, 5])
        assert p.inter_node_tps == pytest.approx(10)
        assert p.cpu_mhz[1] == pytest.approx(CORE_MHZ)
        assert p.full_mhz == pytest.approx(0.5 * CORE_MHZ)  # 10 of 30 tuples/s, of 1.5 cores in all

    def test_local_target_with_two_processes_is_filled_up_to_two_cores(self) -> None:
        model = self.hot(1.5)
        t = model.topologies[0]
        two = [msgspec.structs.replace(e, lanes=2) if e.start == 2 else e for e in t.executors]
        model = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, executors=two)])
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700), t4=("n2", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 30, 0, 0])
        assert (p.inter_node_tps, p.full_mhz) == (0, 0)

    def test_spills_to_the_supervisor_before_the_cluster(self) -> None:
        model = self.hot(1.5)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n1", 6701), t4=("n2", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 20, 10, 0])
        assert (p.inter_node_tps, p.full_mhz) == pytest.approx((0, 0.5 * CORE_MHZ))

    def test_nothing_is_full_where_targets_have_room(self) -> None:
        model = self.hot(0.9)
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700), t4=("n2", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 30, 0, 0])
        assert p.full_mhz == 0

    def test_what_nobody_can_take_is_spread_over_all(self) -> None:
        model = self.hot(6.0)  # a core is 5 tuples/s
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700), t4=("n2", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 10, 10, 10])

    def test_a_slower_node_is_full_earlier(self) -> None:
        slow = msgspec.structs.replace(supervisor("n1"), mhz=CORE_MHZ / 2, cores=4.0)
        model = self.hot(1.5, nodes=[slow, supervisor("n2")])
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700), t4=("n2", 6701)))
        assert p.received_tps.tolist() == pytest.approx([0, 10, 10, 10])

    def test_local_or_shuffle_never_leaves_the_worker(self) -> None:
        model = self.hot(6.0, grouping="LOCAL_OR_SHUFFLE")
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700), t4=("n2", 6701)))
        assert p.received_tps.tolist() == [0, 30, 0, 0]


class TestGroupings:
    """Which traffic follows, and which is as it was."""

    SPREAD: ClassVar = {"t1": ("n1", 6700), "t2": ("n1", 6700), "t3": ("n2", 6700), "t4": ("n2", 6701)}

    @pytest.mark.parametrize(
        ("grouping", "loadaware", "received_tps"),
        [
            ("SHUFFLE", True, [30, 0, 0]),
            ("SHUFFLE", False, [10, 10, 10]),
            ("NONE", True, [10, 10, 10]),
            ("LOCAL_OR_SHUFFLE", True, [30, 0, 0]),
            ("LOCAL_OR_SHUFFLE", False, [30, 0, 0]),
        ],
    )
    def test_shuffles(self, grouping: str, loadaware: bool, received_tps: list[float]) -> None:
        model = shuffled(3, grouping=grouping, loadaware=loadaware)
        p = flow_model(model).predict(placed(model, **self.SPREAD))
        assert p.received_tps[1:].tolist() == pytest.approx(received_tps)

    def test_local_or_shuffle_without_load_spreads_over_all_when_the_worker_has_none(self) -> None:
        model = shuffled(3, grouping="LOCAL_OR_SHUFFLE", loadaware=False)
        p = flow_model(model).predict(placed(model, **{**self.SPREAD, "t1": ("n1", 6703)}))
        assert p.received_tps[1:].tolist() == pytest.approx([10, 10, 10])
        assert p.inter_node_tps == pytest.approx(20)

    @pytest.mark.parametrize("grouping", ["FIELDS", "ALL", "GLOBAL", "DIRECT", "CUSTOM_OBJECT"])
    def test_other_groupings_keep_their_measured_split(self, grouping: str) -> None:
        model = shuffled(2, grouping=grouping)
        model = msgspec.structs.replace(model, traffic=traffic("t", {(1, 2): 7.0, (1, 3): 23.0}))
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700)))
        assert p.received_tps.tolist() == [0, 7, 23]
        assert p.inter_node_tps == 23
        assert not follows_placement(model)

    def test_traffic_without_subscription_is_as_measured(self) -> None:
        model = shuffled(2)
        model = msgspec.structs.replace(
            model, traffic=[Edge(topology="t", from_=1, to=3, rate=9.0, stream="__ack_init")]
        )
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700)))
        assert p.received_tps.tolist() == [0, 0, 9]

    def test_edge_without_stream_between_components_of_two_rules_is_as_measured(self) -> None:
        model = shuffled(2)
        t = model.topologies[0]
        bolt = msgspec.structs.replace(
            t.components[1],
            inputs=[Input(component="spout"), Input(component="spout", stream="keyed", grouping="FIELDS")],
        )
        model = msgspec.structs.replace(
            model, topologies=[msgspec.structs.replace(t, components=[t.components[0], bolt])]
        )
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700)))
        assert p.received_tps.tolist() == [0, 15, 15]

    def test_shuffled_traffic_is_what_planning_on_flows_is_for(self) -> None:
        assert follows_placement(shuffled(2))
        assert not follows_placement(shuffled(2, loadaware=False))
        assert not follows_placement(shuffled(2, grouping="NONE"))


def chain(first: str = "SHUFFLE", second: str = "SHUFFLE") -> Model:
    """spout (1) -> middle (2, 3) -> end (4, 5): the middle sends two tuples for each it gets; measured evenly."""
    executors = [
        Executor(start=s, end=s, component=c, cpu_mhz=100.0)
        for s, c in enumerate(["spout", "middle", "middle", "end", "end"], start=1)
    ]
    t = Topology(
        id="t",
        name="t",
        workers=4,
        components=[
            Component(id="spout", kind="spout"),
            Component(id="middle", inputs=[Input(component="spout", grouping=first)]),
            Component(id="end", inputs=[Input(component="middle", grouping=second)]),
        ],
        executors=executors,
    )
    rates = {(1, 2): 10.0, (1, 3): 10.0, (2, 4): 10.0, (2, 5): 10.0, (3, 4): 10.0, (3, 5): 10.0}
    return Model(supervisors=[supervisor("n1"), supervisor("n2")], topologies=[t], traffic=traffic("t", rates))


class TestPropagation:
    """What arrives decides what is sent on and what CPU it takes."""

    APART: ClassVar = {
        "t1": ("n1", 6700),
        "t2": ("n1", 6700),
        "t3": ("n2", 6700),
        "t4": ("n1", 6701),
        "t5": ("n2", 6700),
    }

    def test_output_and_cpu_follow_the_input_along_the_chain(self) -> None:
        model = chain()
        p = flow_model(model).predict(placed(model, **self.APART))
        assert p.received_tps.tolist() == pytest.approx([0, 20, 0, 40, 0])
        assert p.cpu_mhz.tolist() == pytest.approx([100, 200, 0, 200, 0])
        assert p.node_load_mhz.tolist() == pytest.approx([500, 0])
        assert (p.inter_node_tps, p.inter_worker_tps) == pytest.approx((0, 40))

    def test_keyed_stream_after_a_shuffle_keeps_what_each_target_gets(self) -> None:
        model = chain(second="FIELDS")
        model = msgspec.structs.replace(
            model,
            traffic=traffic("t", {(1, 2): 10.0, (1, 3): 10.0, (2, 4): 2.0, (2, 5): 18.0, (3, 4): 2.0, (3, 5): 18.0}),
        )
        p = flow_model(model).predict(placed(model, **self.APART))
        assert p.received_tps.tolist() == pytest.approx([0, 20, 0, 4, 36])
        assert p.inter_node_tps == pytest.approx(36)  # all of it from task 2, which gets everything now

    def test_executors_with_keys_of_their_own_keep_their_rates(self) -> None:
        model = chain(first="FIELDS")
        model = msgspec.structs.replace(
            model, traffic=traffic("t", {(1, 2): 15.0, (1, 3): 5.0, (2, 4): 30.0, (2, 5): 30.0, (3, 4): 1.0})
        )
        p = flow_model(model).predict(placed(model, **self.APART))
        assert p.received_tps.tolist() == pytest.approx([0, 15, 5, 60, 1])  # task 3 sends 1 to the 5 in its worker
        assert p.received_tps.tolist()[3:] == pytest.approx([60, 1])

    def test_idle_executors_tell_what_an_executor_costs_without_tuples(self) -> None:
        model = shuffled(3)
        t = model.topologies[0]
        mhz = {1: 100.0, 2: 400.0, 3: 40.0, 4: 40.0}
        executors = [msgspec.structs.replace(e, cpu_mhz=mhz[e.start]) for e in t.executors]
        model = msgspec.structs.replace(
            model,
            topologies=[msgspec.structs.replace(t, executors=executors)],
            traffic=traffic("t", {(1, 2): 30.0}),
        )
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n2", 6700), t3=("n2", 6701), t4=("n2", 6702)))
        assert p.cpu_mhz[1:].sum() == pytest.approx(480)
        assert p.cpu_mhz[1:].tolist() == pytest.approx([160, 160, 160])
        alone = flow_model(model).predict(
            placed(model, t1=("n1", 6700), t2=("n2", 6700), t3=("n1", 6700), t4=("n2", 6702))
        )
        assert alone.cpu_mhz[2] == pytest.approx(400, rel=0.02)
        assert alone.cpu_mhz[1] == pytest.approx(40, rel=0.1)

    def test_declared_cpu_stays_as_declared(self) -> None:
        model = shuffled(2)
        t = model.topologies[0]
        executors = [msgspec.structs.replace(e, measured=False) for e in t.executors]
        model = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, executors=executors)])
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n2", 6700)))
        assert p.received_tps.tolist() == [0, 30, 0]
        assert p.cpu_mhz.tolist() == [100, 100, 100]

    def test_streams_in_a_circle_settle(self) -> None:
        """b sends half of what it gets back to a, which hands on everything: 10 from outside make 20."""
        t = Topology(
            id="t",
            name="t",
            workers=2,
            components=[
                Component(id="spout", kind="spout"),
                Component(id="a", inputs=[Input(component="spout"), Input(component="b")]),
                Component(id="b", inputs=[Input(component="a")]),
            ],
            executors=[
                Executor(start=s, end=s, component=c, cpu_mhz=10.0)
                for s, c in [(1, "spout"), (2, "a"), (3, "b"), (4, "b")]
            ],
        )
        rates = {(1, 2): 10.0, (2, 3): 10.0, (2, 4): 10.0, (3, 2): 5.0, (4, 2): 5.0}
        model = Model(supervisors=[supervisor("n1"), supervisor("n2")], topologies=[t], traffic=traffic("t", rates))
        p = flow_model(model).predict(placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n1", 6700), t4=("n2", 6700)))
        assert p.received_tps.tolist() == pytest.approx([0, 20, 20, 0])
        assert p.inter_node_tps == pytest.approx(0)

    @staticmethod
    def circle(cpu_mhz: float = 10.0) -> Model:
        """Task 3 sends 8 tuples to 2 for each that it gets from there."""
        t = topology("t", {"spout": 1, "a": 1, "b": 2}, streams=[("spout", "a"), ("a", "b")], cpu_mhz=cpu_mhz)
        inputs = {
            "a": [Input(component="spout"), Input(component="b", stream="again", grouping="FIELDS")],
            "b": [Input(component="a"), Input(component="a", stream="k", grouping="FIELDS")],
        }
        components = [msgspec.structs.replace(c, inputs=inputs.get(c.id, [])) for c in t.components]
        rates = {
            "default": {(1, 2): 10.0, (2, 4): 40.0},
            "k": {(2, 3): 10.0, (2, 4): 50.0},
            "again": {(3, 2): 80.0, (4, 2): 10.0},
        }
        return Model(
            supervisors=[supervisor("n1"), supervisor("n2")],
            topologies=[msgspec.structs.replace(t, components=components)],
            traffic=[msgspec.structs.replace(e, stream=s) for s, own in rates.items() for e in traffic("t", own)],
        )

    def test_streams_in_a_circle_do_not_multiply_where_some_executor_sends_more_than_it_gets(self) -> None:
        """Task 3 sends 8 tuples for each that it gets, and gets five times as many: as many go round as before.

        Else what goes round would grow from pass to pass, to 1e42 tuples/s.
        """
        model = self.circle()
        beside = placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n1", 6700), t4=("n2", 6700))
        flow = flow_model(model)
        p = flow.predict(beside)
        assert p.received_tps.tolist() == pytest.approx([0, 100, 50, 50])
        assert p.total_tps == pytest.approx(200)
        assert p.inter_node_tps == pytest.approx(50 + 100 * (50 / 9) / (10 + 400 + 50 / 9))
        assert flow.pairs(beside)[2].sum() == pytest.approx(200)

    def test_cpu_by_places_counts_tuples_that_go_in_a_circle_as_often_as_they_do(self) -> None:
        """What goes round is held to what was measured, in the CPU that tuples cost too."""
        model = self.circle(cpu_mhz=500.0)
        together = [Assigned(start=e, supervisor="n1", port=6700) for e in (1, 2, 3, 4)]
        (t,) = model.topologies
        t = msgspec.structs.replace(t, assignment=together, cpu_law=CpuLaw(far_mhz=1.0))
        model = msgspec.structs.replace(model, topologies=[t])
        flow = flow_model(model)
        beside = placed(model, t1=("n1", 6700), t2=("n1", 6700), t3=("n1", 6700), t4=("n2", 6700))
        assert flow.places_mhz(beside).sum() == pytest.approx(flow.predict(beside).inter_node_tps)


def test_predicted_model_says_the_same_in_pairs() -> None:
    model = chain()
    c = compile_model(model)
    plan = c.plan_of(placed(model, **TestPropagation.APART))
    after = predicted(model, plan)
    assert {(e.from_, e.to): e.rate for e in after.traffic} == pytest.approx({(1, 2): 20.0, (2, 4): 40.0})
    assert {e.start: e.cpu_mhz for e in after.topologies[0].executors} == pytest.approx(
        {1: 100, 2: 200, 3: 0, 4: 200, 5: 0}
    )
    assert evaluate(after, plan)["inter_worker_tps"] == pytest.approx(40)
