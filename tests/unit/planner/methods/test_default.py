"""Storm's own placement as our baseline: round robin over workers, workers interleaved over nodes."""

from __future__ import annotations

from stormpilot.model.values import Component, Executor, Model, Plan, Supervisor, Topology
from stormpilot.planner import compute


def test_executors_are_dealt_round_robin_and_workers_interleaved_over_nodes() -> None:
    """Six executors over three workers, these over two nodes: 1,4 to n0, 2,5 to n1, 3,6 to n0."""
    m = Model(
        supervisors=[
            Supervisor(id=f"n{i}", host=f"h{i}", slots=[6700, 6701], cores=1.0, mhz=1000.0, memory_mb=0.0)
            for i in range(2)
        ],
        topologies=[
            Topology(
                id="t",
                name="t",
                workers=3,
                components=[Component(id="c", kind="spout")],
                executors=[Executor(start=i, end=i, component="c", cpu_mhz=10.0) for i in range(1, 7)],
            )
        ],
    )
    answer = compute(m, "default")
    assert isinstance(answer, Plan)
    placed = {(w.supervisor, tuple(s for s, _ in w.executors)) for w in answer.topologies[0].workers}
    assert placed == {("n0", (1, 4)), ("n1", (2, 5)), ("n0", (3, 6))}
