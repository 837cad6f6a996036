"""The Thrift topology made of a class of a project."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from streamparse import Bolt, JavaBolt, ShellBolt, Spout, Stream, Topology

from stormpilot.errors import UsageError
from stormpilot.instrument.topology import COLLECTOR_ID
from stormpilot.submit.assembly import assemble, has_java_components

RUNNER = "/venv/bin/stormpilot_run"


class Source(Spout):
    outputs: ClassVar[list[Any]] = ["line"]


class Parse(Bolt):
    outputs: ClassVar[list[Any]] = ["flight"]


class Flights(Topology):
    source = Source.spec(par={"prod": 3, "beta": 1})
    parse = Parse.spec(inputs=[source], par=2)
    node = ShellBolt.spec(command="node", script="count.js", inputs=[parse], outputs=["n"])


def test_parallelism_is_that_of_the_environment() -> None:
    topology, _ = assemble(Flights, "prod", RUNNER)
    assert topology.spouts["source"].common.parallelism_hint == 3
    assert topology.bolts["parse"].common.parallelism_hint == 2


def test_a_parallelism_without_the_environment_is_refused_by_component() -> None:
    with pytest.raises(UsageError, match=r"flights\.py: component source: par has no entry.*'dev'.*beta, prod"):
        assemble(Flights, "dev", RUNNER, where="flights.py")


def test_python_components_run_by_the_runner_with_the_serializer_and_others_as_they_were() -> None:
    topology, _ = assemble(Flights, "prod", RUNNER, serializer="msgpack")
    shell = topology.bolts["parse"].bolt_object.shell
    assert shell.execution_command == RUNNER
    assert shell.script.startswith("-s msgpack ")
    assert shell.script.endswith(".Parse")
    node = topology.bolts["node"].bolt_object.shell
    assert (node.execution_command, node.script) == ("node", "count.js")


def test_load_reporting_is_added_and_named() -> None:
    topology, reporting = assemble(Flights, "prod", RUNNER)
    assert sorted(reporting) == ["parse", "source"]
    assert topology.bolts[COLLECTOR_ID].bolt_object.shell.execution_command == RUNNER


def test_without_instrumentation_the_topology_has_what_its_class_has() -> None:
    topology, reporting = assemble(Flights, "prod", "streamparse_run", instrument=False)
    assert reporting == []
    assert set(topology.bolts) == {"parse", "node"}
    assert set(topology.bolts["parse"].common.streams) == {"default"}


def test_the_class_stays_as_it_was() -> None:
    before = repr(Flights.thrift_topology)
    assemble(Flights, "prod", RUNNER, serializer="json")
    assert repr(Flights.thrift_topology) == before


def test_a_name_that_collides_with_ours_is_refused_with_the_way_out() -> None:
    class Taken(Spout):
        outputs: ClassVar[list[Any]] = ["a", Stream(fields=["mine"], name="stormpilot_load")]

    class Other(Topology):
        source = Taken.spec()

    with pytest.raises(UsageError, match=r"other\.py: .*--no-instrument"):
        assemble(Other, "prod", RUNNER, where="other.py")


def test_java_components_are_noticed() -> None:
    class WithJava(Topology):
        source = Source.spec()
        sink = JavaBolt.spec(full_class_name="org.example.Sink", args_list=[], inputs=[source])

    assert has_java_components(WithJava)
    assert not has_java_components(Flights)


def test_components_report_whatever_their_runner_is_called() -> None:
    """`--runner /opt/app/run.sh` was submitted without any measurement."""
    topology, reporting = assemble(Flights, "prod", "/opt/app/run.sh")
    assert sorted(reporting) == ["parse", "source"]
    assert topology.bolts[COLLECTOR_ID].bolt_object.shell.execution_command == "/opt/app/run.sh"
