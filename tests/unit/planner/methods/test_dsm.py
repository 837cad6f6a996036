"""`dsm`: threads round robin over a list of slots, node after node (S17 7.2)."""

from __future__ import annotations

from builders import located, supervisor, topology

from stormpilot.model.values import Model, Plan
from stormpilot.planner import compute


def figure_4() -> Model:
    """The paper's sample: 5, 4, 3 and 5 threads on three VMs with two slots each."""
    return Model(
        supervisors=[supervisor(f"v{i}", 2) for i in (1, 2, 3)],
        topologies=[topology("t", {"B": 5, "O": 4, "Y": 3, "G": 5}, workers=6)],
    )


def test_the_sample_of_the_paper() -> None:
    """B on the first five slots; O from the sixth on and around; then Y, then G, each where the last one ended."""
    answer = compute(figure_4(), "dsm")
    assert isinstance(answer, Plan)
    slots = [(f"v{v}", port) for v in (1, 2, 3) for port in (6700, 6701)]
    where = located(answer)
    assert [slots.index(where[task]) for task in range(1, 18)] == [i % 6 for i in range(17)]


def test_slots_of_a_node_stand_together_where_default_takes_one_of_each() -> None:
    model = Model(
        supervisors=[supervisor("v1", 2), supervisor("v2", 2)], topologies=[topology("t", {"a": 4}, workers=2)]
    )
    ours, theirs = compute(model, "dsm"), compute(model, "default")
    assert isinstance(ours, Plan)
    assert isinstance(theirs, Plan)
    assert {node for node, _ in located(ours).values()} == {"v1"}
    assert {node for node, _ in located(theirs).values()} == {"v1", "v2"}


def test_each_topology_gets_a_slot() -> None:
    many = [topology(f"t{i}", {"a": 4}, workers=4) for i in range(3)]
    answer = compute(Model(supervisors=[supervisor("v1", 2), supervisor("v2", 2)], topologies=many), "dsm")
    assert isinstance(answer, Plan)
    assert [len(t.workers) for t in answer.topologies] == [2, 1, 1]
