"""Why executors are where they are, by the traffic that the controller plans with."""

from __future__ import annotations

import msgspec

from doubles.models import HALF, SPREAD, Slots, model, plan_message, topology
from stormpilot.config import Config, DecideSection, PlannerSection
from stormpilot.messages.core import Worker
from stormpilot.model.values import Component, Input, Model
from stormpilot.operate.explanation import Explained, explained

ID = "flights-1"
FLOW = Config(decide=DecideSection(fill_ratio=1.0))
MEASURED = Config(decide=DecideSection(fill_ratio=1.0), planner=PlannerSection(traffic="measured"))


def shuffling(slots: Slots, cpu_mhz: float = 200.0, limit_mhz: float = 1000.0) -> Model:
    """The double's topology with a shuffle between its components: tuples go wherever a target is near."""
    y = Component(id="y", inputs=[Input(component="x", grouping="SHUFFLE")])
    t = topology(slots, cpu_mhz=cpu_mhz)
    return model(msgspec.structs.replace(t, components=[t.components[0], y]), limit_mhz=limit_mhz)


def verdicts(found: Explained | None) -> dict[int, str]:
    assert found is not None
    return {e.start: e.verdict for e in found.executors}


def test_placement_is_explained_with_the_flow_model_that_plans_are_made_with() -> None:
    """Both sources have a target beside them, which takes all: nothing is better. Measured pairs say the opposite."""
    found, by_pairs = explained(shuffling(HALF), ID, FLOW), explained(shuffling(HALF), ID, MEASURED)
    assert found is not None and by_pairs is not None
    assert (found.traffic, by_pairs.traffic) == ("flow", "measured")
    assert verdicts(found)[2] == "tie"
    assert verdicts(by_pairs)[2] == "improvable"
    assert sum(e.leaving_tps for e in found.executors) == 0.0
    assert sum(e.leaving_tps for e in by_pairs.executors) == 400.0


def test_a_wish_for_a_site_that_the_placement_gives_up_forbids_nothing() -> None:
    whole = model(topology(HALF))
    (t,) = whole.topologies
    wishes = [msgspec.structs.replace(c, site="nowhere", site_required=False) for c in t.components]
    wished = msgspec.structs.replace(whole, topologies=[msgspec.structs.replace(t, components=wishes)])
    assert verdicts(explained(wished, ID, MEASURED)) == verdicts(explained(whole, ID, MEASURED))
    assert verdicts(explained(wished, ID, MEASURED))[2] == "improvable"


def test_what_no_shuffle_follows_is_explained_by_measured_pairs() -> None:
    found = explained(model(topology(SPREAD)), ID, FLOW)
    assert found is not None
    assert found.traffic == "measured"


def test_a_node_above_its_limit_is_named_with_its_numbers() -> None:
    """By the CPU that the flow takes there, against B(n) itself, whatever headroom voluntary plans leave."""
    wide = Config(decide=DecideSection(fill_ratio=0.5))
    found = explained(model(topology(SPREAD, cpu_mhz=303.0), limit_mhz=600.0), ID, wide)
    assert found is not None
    assert [(n.supervisor, n.host, round(n.ratio, 3)) for n in found.over_limit] == [
        ("a", "host-a", 1.01),
        ("b", "host-b", 1.01),
    ]
    assert (found.over_limit[0].load_mhz, found.over_limit[0].limit_mhz) == (606.0, 600.0)
    within = explained(model(topology(SPREAD, cpu_mhz=300.0), limit_mhz=600.0), ID, wide)
    assert within is not None
    assert within.over_limit == []


def test_a_proposed_plan_is_explained_as_it_places_executors() -> None:
    workers = [Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in HALF.items()]
    found = explained(shuffling(SPREAD), ID, FLOW, plan_message(topology_id=ID, workers=workers))
    assert found is not None
    assert {e.start: e.supervisor for e in found.executors} == {1: "a", 2: "a", 3: "a", 4: "b"}
    gone = [Worker(supervisor="z", port=1, executors=[(1, 4)])]
    assert explained(shuffling(SPREAD), ID, FLOW, plan_message(topology_id=ID, workers=gone)) is None
    assert explained(shuffling(SPREAD), "other-1", FLOW) is None


def test_a_topology_is_explained_while_executors_of_another_run_nowhere() -> None:
    """Of the other one, which is being repaired, neither executors nor traffic are looked at."""
    lost = topology(SPREAD, name="lost")
    both = model(topology(HALF), msgspec.structs.replace(lost, assignment=lost.assignment[1:]))
    assert explained(both, ID, MEASURED) == explained(model(topology(HALF)), ID, MEASURED)
    assert explained(both, lost.id, MEASURED) is None


def test_of_two_topologies_in_one_slot_one_is_explained() -> None:
    """They were seen at different moments; where the other one runs by now is not known."""
    both = model(topology(HALF), topology(HALF, name="late"))
    assert explained(both, ID, MEASURED) == explained(model(topology(HALF)), ID, MEASURED)
    assert explained(both, "late-1", MEASURED) is None
