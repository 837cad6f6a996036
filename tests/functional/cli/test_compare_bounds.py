"""The bound of `plan compare`: below every plan that keeps the hard constraints, whatever planners were held to."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doubles.commands import Run
from doubles.models import HALF, model, topology
from stormpilot.cli import compare
from stormpilot.cli.compare import Bound, summed_up
from stormpilot.cli.traffic import flow_of
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Assigned, Component, Edge, Executor, Model, SharedMemory, Supervisor, Topology


def restricted(way: str) -> Model:
    """Executors that planners keep apart, and plans need not: 100 tuples/s.

    By their wish for nodes, by the CPU with which they only look for tuples, by one's wish for a site, and by room that
    is set aside for memory that is shared.
    """
    supervisors = [
        Supervisor(id=s, host=s, slots=[1, 2], cores=1.0, mhz=mhz, memory_mb=400.0, site=site)
        for s, mhz, site in (("a", 1000.0, None), ("b", 1000.0, "east"), ("c", 4000.0 if way == "nodes" else 1.0, None))
    ]
    polling = {"polling_mhz": 400.0} if way == "polling" else {}
    mhz = {"nodes": 800.0, "polling": 600.0, "site": 400.0, "memory": 10.0}[way]
    executors = [
        Executor(start=i, end=i, component=c, cpu_mhz=mhz, memory_mb=m, **polling)
        for i, c, m in ((1, "x", 50.0), (2, "y", 150.0), (3, "z", 150.0))
    ][: 3 if way == "memory" else 2]
    components = [Component(id="x", kind="spout"), Component(id="y"), Component(id="z")]
    if way == "site":
        components[1] = msgspec.structs.replace(components[1], site="east", site_required=False)
        supervisors[1] = msgspec.structs.replace(supervisors[1], mhz=500.0)
    at = {"nodes": "ccc", "polling": "aaa", "site": "aaa", "memory": "baa"}[way]
    whole = Topology(
        id="t-1",
        name="t",
        workers=2,
        components=components,
        executors=executors,
        favored_nodes=["a", "b"] if way == "nodes" else [],
        shared_memory=[SharedMemory(name="m", components=["x"], node_mb=140.0)] if way == "memory" else [],
        assignment=[Assigned(start=e.start, supervisor=s, port=1) for e, s in zip(executors, at, strict=False)],
    )
    rates = ((1, 2, 1.0), (2, 3, 100.0)) if way == "memory" else ((1, 2, 100.0),)
    traffic = [Edge(topology="t-1", from_=a, to=b, rate=rate) for a, b, rate in rates]
    return Model(supervisors=supervisors, topologies=[whole], traffic=traffic)


@pytest.mark.parametrize(("way", "least"), [("nodes", 0.0), ("polling", 0.0), ("site", 0.0), ("memory", 1.0)])
def test_what_is_proved_of_a_restricted_model_is_no_bound_of_the_model(
    run: Run, tmp_path: Path, way: str, least: float
) -> None:
    """The present placement keeps all constraints, and was below what was called the proved optimum."""
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(restricted(way)))
    how = ("--planner", "exact", "--budget", "5", "--traffic", "measured", "-f", "json")
    done = run("plan", "compare", "--model", tmp_path / "m.json", *how).json()
    rows = {r["planner"]: r for r in done["rows"]}
    assert rows["present"]["state"] == "planned", rows
    assert rows["exact"]["metrics"]["inter_node_tps"] >= 100.0
    assert done["bound"]["kind"] != "proved optimum"
    assert done["bound"]["interNodeTps"] == least


def test_a_bound_above_a_plan_is_none() -> None:
    """Whatever was wrong when it was proved."""
    compiled = compile_model(model(topology(HALF)))
    proof = Bound(kind="proved optimum", inter_node_tps=201.0, by="exact")
    bound = summed_up("m", 1.0, compiled, [], proof).bound
    assert bound is not None
    assert (bound.kind, bound.inter_node_tps, bound.by) == ("least found", 200.0, "present")


def test_a_plan_by_whose_flows_a_node_lacks_cpu_is_no_measure_of_others() -> None:
    compiled = compile_model(model(topology(HALF)))
    flow = flow_of(compiled, "flow")
    assert flow is not None
    by_flow = ({"flow_inter_node_tps": tps, "flow_max_load_ratio": load} for tps, load in ((100.0, 1.0), (50.0, 1.27)))
    full, over = (
        compare.Run(planner=p, seed=0, state="planned", time_s=1.0, metrics=metrics)
        for p, metrics in zip(("best", "sam"), by_flow, strict=True)
    )
    found = summed_up("m", 1.0, compiled, [full, over], None, flow)
    assert found.bound is not None
    assert found.bound.by == "best"
    assert {r.planner: r.gap for r in found.rows if r.planner != "present"} == {"sam": None, "best": 0.0}
