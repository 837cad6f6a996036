"""Groupings that follow routes, put into a topology when it is submitted."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from streamparse import Bolt, Grouping, Spout, Topology

from stormpilot.errors import UsageError
from stormpilot.instrument import KeyedState
from stormpilot.instrument.topology import COLLECTOR_ID
from stormpilot.messages.handover import HANDOVER_KEY
from stormpilot.messages.routes import STANDBY_KEY
from stormpilot.submit.assembly import assemble, python_classes
from stormpilot.submit.routable import CLASS, add_standby, make_routable, mark_handovers, parse_standby


class Words(Spout):
    outputs: ClassVar[list[Any]] = ["word"]


class Count(Bolt):
    outputs: ClassVar[list[Any]] = ["word", "n"]


class Tally(Topology):
    words = Words.spec()
    upper = Count.spec(inputs=[words], par=2)
    count = Count.spec(inputs={upper: Grouping.fields("word")}, par=2)
    both = Count.spec(inputs={upper: Grouping.SHUFFLE, count: Grouping.ALL})
    top = Count.spec(inputs={count: Grouping.GLOBAL})
    near = Count.spec(inputs={count: Grouping.LOCAL_OR_SHUFFLE}, par=2, config={"topology.tasks": 4})


def topology() -> Any:
    return assemble(Tally, "prod", "stormpilot_run")[0]


def groupings(topology: Any, component: str) -> list[str]:
    return [
        g.custom_object.args_list[0].string_arg if g.custom_object else "as it was"
        for g in topology.bolts[component].common.inputs.values()
    ]


def test_shuffles_and_keys_follow_routes_and_nothing_else_changes() -> None:
    built = topology()
    assert make_routable(built) == ["count", "near", "upper"]
    assert groupings(built, "upper") == ["SHUFFLE"]
    assert groupings(built, "count") == ['FIELDS ["word"]']
    assert groupings(built, "near") == ["LOCAL_OR_SHUFFLE"]
    assert sorted(groupings(built, "both")) == ["SHUFFLE", "as it was"]
    assert groupings(built, "top") == ["as it was"]
    assert set(groupings(built, COLLECTOR_ID)) == {"as it was"}
    (grouping,) = built.bolts["upper"].common.inputs.values()
    assert grouping.custom_object.full_class_name == CLASS


def test_done_twice_it_changes_nothing_more() -> None:
    built = topology()
    assert make_routable(built) == make_routable(built)
    assert groupings(built, "count") == ['FIELDS ["word"]']


def test_the_class_of_the_topology_stays_as_it_was() -> None:
    make_routable(topology())
    assert groupings(topology(), "count") == ["as it was"]


def test_standby_executors_are_added_and_told_to_workers() -> None:
    built = topology()
    add_standby(built, {"count": 1}, make_routable(built), "tally.py")
    common = built.bolts["count"].common
    assert common.parallelism_hint == 3
    assert json.loads(common.json_conf)[STANDBY_KEY] == 1
    assert built.bolts["upper"].common.parallelism_hint == 2


@pytest.mark.parametrize(
    ("standby", "message"),
    [
        ({"top": 1}, r"tally\.py: --standby top=1: expected a bolt that can be routed: count, near, upper"),
        ({"words": 1}, "expected a bolt that can be routed"),
        ({"near": 1}, "it has topology.tasks = 4"),
    ],
)
def test_standby_where_it_cannot_be_is_refused(standby: dict[str, int], message: str) -> None:
    built = topology()
    with pytest.raises(UsageError, match=message):
        add_standby(built, standby, make_routable(built), "tally.py")


def test_standby_options_are_checked() -> None:
    assert parse_standby(["count=2", "a=b=1"]) == {"count": 2, "a=b": 1}
    for wrong in ("count", "count=", "count=0", "count=x", "=1", "count=2147483647"):
        with pytest.raises(UsageError, match="expected component=number"):
            parse_standby([wrong])


def test_a_bolt_that_hands_state_over_says_so_where_it_can_be_routed() -> None:
    class Keyed(KeyedState, Count):  # type: ignore[misc]
        def on_drain(self, partitions: list[int]) -> None:
            return None

    class Sums(Topology):
        words = Words.spec()
        kept = Keyed.spec(inputs={words: Grouping.fields("word")}, config={"site": "east"})
        fixed = Keyed.spec(inputs={words: Grouping.ALL})
        plain = Count.spec(inputs={words: Grouping.fields("word")})

    built = assemble(Sums, "prod", "stormpilot_run")[0]
    assert mark_handovers(built, python_classes(Sums), make_routable(built)) == ["kept"]
    assert json.loads(built.bolts["kept"].common.json_conf) == {"site": "east", HANDOVER_KEY: True}


@pytest.mark.parametrize("key", ["topology.tasks", "topology.max.task.parallelism"])
def test_standby_is_refused_where_the_topology_leaves_no_task_for_it(key: str) -> None:
    """Storm made as many tasks as before, and one of them got no tuples any more."""
    built = topology()
    with pytest.raises(UsageError, match=f"it has {key} = 1, so that Storm makes no task for it"):
        add_standby(built, {"count": 1}, make_routable(built), "tally.py", {key: 1})
