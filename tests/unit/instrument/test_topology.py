"""Load stream and collector, added to a topology of a user."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from streamparse import Bolt, Grouping, JavaBolt, ShellBolt, Spout, Stream, Topology

from stormpilot.instrument import load_reporting
from stormpilot.instrument.topology import COLLECTOR_CLASS, COLLECTOR_ID, add_load_reporting


class Source(Spout):
    outputs: ClassVar[list[Any]] = ["line", Stream(fields=["why"], name="errors")]


class Parse(Bolt):
    outputs: ClassVar[list[str]] = ["flight"]


def make_topology() -> type[Topology]:
    class Flights(Topology):
        source = Source.spec()
        parse = Parse.spec(inputs=[source], par=2)
        node = ShellBolt.spec(command="node", script="count.js", inputs=[parse], outputs=["n"])
        java = JavaBolt.spec(full_class_name="org.example.Sink", args_list=[], inputs=[parse])

    return Flights


def streams(topology: Any, component: str) -> set[str]:
    return set((topology.spouts.get(component) or topology.bolts[component]).common.streams)


def test_python_components_get_the_load_stream_and_keep_their_own() -> None:
    topology = make_topology().thrift_topology
    assert add_load_reporting(topology) == ["source", "parse"]
    assert streams(topology, "source") == {"default", "errors", "stormpilot_load"}
    assert streams(topology, "parse") == {"default", "stormpilot_load"}


def test_java_and_other_shell_components_are_left_alone() -> None:
    topology = make_topology().thrift_topology
    add_load_reporting(topology)
    assert streams(topology, "node") == {"default"}
    assert streams(topology, "java") == set()
    assert topology.bolts["node"].bolt_object.shell.execution_command == "node"


def test_the_collector_hears_every_reporting_component_with_one_task() -> None:
    topology = make_topology().thrift_topology
    add_load_reporting(topology, runner="/venv/bin/stormpilot_run", script_arguments="-s json ")
    bolt = topology.bolts[COLLECTOR_ID]
    heard = {(i.componentId, i.streamId): grouping for i, grouping in bolt.common.inputs.items()}
    assert heard == {
        ("source", "stormpilot_load"): Grouping.GLOBAL,
        ("parse", "stormpilot_load"): Grouping.GLOBAL,
    }
    assert bolt.common.parallelism_hint == 1
    assert bolt.bolt_object.shell.execution_command == "/venv/bin/stormpilot_run"
    assert bolt.bolt_object.shell.script == f"-s json {COLLECTOR_CLASS}"


def test_the_collector_is_marked_for_the_planner_and_asks_for_little_cpu() -> None:
    topology = make_topology().thrift_topology
    add_load_reporting(topology)
    conf = json.loads(topology.bolts[COLLECTOR_ID].common.json_conf)
    assert conf["stormpilot.role"] == "collector"
    assert conf["topology.tasks"] == 1  # a topology-wide topology.tasks would give it more
    assert 0 < conf["topology.component.cpu.pcore.percent"] < 10


def test_doing_it_twice_changes_nothing_more() -> None:
    topology = make_topology().thrift_topology
    first = add_load_reporting(topology)
    before = repr(topology)
    assert add_load_reporting(topology) == first
    assert repr(topology) == before


def test_a_topology_without_python_components_stays_as_it_is() -> None:
    class Other(Topology):
        source = Source.spec()

    topology = Other.thrift_topology
    topology.spouts["source"].spout_object.shell.execution_command = "node"
    assert add_load_reporting(topology) == []
    assert topology.bolts == {}


def test_a_stream_of_the_users_with_our_name_is_refused() -> None:
    class Taken(Spout):
        outputs: ClassVar[list[Any]] = ["a", Stream(fields=["mine"], name="stormpilot_load")]

    class Other(Topology):
        source = Taken.spec()

    with pytest.raises(ValueError, match=r"'source'.*stormpilot_load"):
        add_load_reporting(Other.thrift_topology)


@pytest.mark.parametrize("kind", [Source, Parse])
def test_a_component_of_the_users_with_our_name_is_refused(kind: Any) -> None:
    body: dict[str, Any] = {"source": Source.spec(), "parse": None}
    body["parse"] = Parse.spec(inputs=[body["source"]])
    body["mine"] = kind.spec(name=COLLECTOR_ID, **({"inputs": [body["parse"]]} if kind is Parse else {}))
    other = type(Topology)("Other", (Topology,), body)
    with pytest.raises(ValueError, match=COLLECTOR_ID):
        add_load_reporting(other.thrift_topology)


def test_the_decorator_adds_stream_and_collector_for_people_who_keep_sparse_submit() -> None:
    flights = load_reporting(make_topology())
    assert COLLECTOR_ID in flights.thrift_bolts
    assert flights.thrift_bolts[COLLECTOR_ID].bolt_object.shell.execution_command == "streamparse_run"
    assert "stormpilot_load" in flights.thrift_spouts["source"].common.streams


def test_sparse_submit_still_sets_serializer_and_path_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """What streamparse does to the class before it submits must reach the collector too."""
    from streamparse.util import set_topology_serializer

    flights = load_reporting(make_topology())
    set_topology_serializer({"serializer": "msgpack"}, {}, flights)
    assert flights.thrift_bolts[COLLECTOR_ID].bolt_object.shell.script == f"-s msgpack {COLLECTOR_CLASS}"
