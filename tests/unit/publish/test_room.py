"""What a plan says of CPU and memory: the numbers of the model it was made for, few where executors are alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles.models import plan_message
from stormpilot.messages.controller_state import CapacityPart
from stormpilot.messages.core import PlanMessage, PlanRoom, SupervisorRoom, decode, encode
from stormpilot.messages.signing import signature, signed, signed_room
from stormpilot.model.subset import subset
from stormpilot.model.values import RESERVED_CPU, Assigned, Component, Executor, Model, Supervisor, Topology, Worker
from stormpilot.publish import room

FILE = Path(__file__).parents[2] / "contract" / "vectors" / "signature.json"
ROOMS: list[dict[str, Any]] = json.loads(FILE.read_text())["rooms"]


def topology(name: str, takes: list[tuple[float, float]], supervisor: str) -> Topology:
    return Topology(
        id=name,
        name=name,
        workers=1,
        components=[Component(id="x")],
        executors=[
            Executor(start=i, end=i, component="x", cpu_mhz=cpu, memory_mb=memory)
            for i, (cpu, memory) in enumerate(takes, 1)
        ],
        assignment=[Assigned(start=i, supervisor=supervisor, port=1) for i, _ in enumerate(takes, 1)],
    )


def supervisor(name: str, memory_mb: float = 4096.0, **more: Any) -> Supervisor:
    return Supervisor(
        id=name, host=name, slots=[1, 2], cores=2.0, mhz=1000.0, memory_mb=memory_mb, cpu_limit_mhz=1600.0, **more
    )


def capacity(name: str, cores_from: str, memory_from: str) -> CapacityPart:
    return CapacityPart(supervisor=name, host=name, cores=2.0, cores_from=cores_from, memory_from=memory_from)


MODEL = Model(
    supervisors=[supervisor("a"), supervisor("b"), supervisor("c", 0.0), supervisor("d")],
    topologies=[
        topology("t", [(100.9, 64.5), (100.2, 64.9), (30.0, 64.0)], "a"),
        topology("planned", [(500.0, 500.0)], "a"),
        topology("storms", [(300.5, 1000.0)], "b"),
    ],
)
CAPACITIES = {
    "a": capacity("a", "declared", "declared"),
    "b": capacity("b", "declared", "measured"),
    "c": capacity("c", "measured", "unlimited"),
    "d": capacity("d", "declared", "declared"),
}


def test_supervisors_are_looked_through_once_for_all_that_have_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[set[str]] = []
    monkeypatch.setattr(room, "subset", lambda model, ids: looked.append({*ids}) or subset(model, ids))
    rooms = room.PlanRooms(MODEL, ["t", "planned"], CAPACITIES)
    found = {**rooms.of(["t"]), **rooms.of(["planned"])}
    assert looked == [{"t", "planned"}]
    assert found == rooms.of(["planned", "t"])
    assert rooms.of(["storms"])["storms"].supervisors != found["t"].supervisors, "it has none yet"


def test_what_was_declared_is_never_exceeded_and_what_others_without_a_plan_take_is_gone() -> None:
    (found,) = room.PlanRooms(MODEL, ["planned"], CAPACITIES).of(["t"]).values()
    assert found == PlanRoom(
        executors=[(2, 100, 64), (1, 30, 64)],
        supervisors=[
            SupervisorRoom(
                supervisors=["a", "d"], cpu_mhz=1600, cpu_most_mhz=2000, memory_mb=4096, memory_most_mb=4096
            ),
            SupervisorRoom(supervisors=["b"], cpu_mhz=1300, cpu_most_mhz=1700, memory_mb=3096, memory_most_mb=0),
            SupervisorRoom(supervisors=["c"], cpu_mhz=1600, cpu_most_mhz=0, memory_mb=0, memory_most_mb=0),
        ],
    )


def test_declared_cpu_is_a_reservation_where_the_model_has_it_as_one() -> None:
    reserving = [msgspec.structs.replace(s, resources={RESERVED_CPU: 400.0}) for s in MODEL.supervisors]
    model = msgspec.structs.replace(MODEL, supervisors=reserving)
    assert room.PlanRooms(model, [], {}).of(["t"])["t"].cpu_reserved
    assert not room.PlanRooms(MODEL, [], {}).of(["t"])["t"].cpu_reserved


def test_a_plan_of_very_many_executors_fits_into_a_znode(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 100_000
    takes = [(float(i * 7919 % 4001), float(i * 104729 % 997)) for i in range(count)]
    model = Model(supervisors=[supervisor("a")], topologies=[topology("t", takes, "a")])
    (found,) = room.PlanRooms(model, [], {}).of(["t"]).values()
    assert found.executors == [
        (count, round(sum(c for c, _ in takes) / count), round(sum(m for _, m in takes) / count))
    ]
    ends = [(i + 1, i + 1) for i in range(count)]
    many = {"workers": [Worker(supervisor="a", port=1, executors=ends)]}
    few = takes[: room.MOST_RUNS]
    model = Model(supervisors=[supervisor("a")], topologies=[topology("t", few, "a")])
    (exact,) = room.PlanRooms(model, [], {}).of(["t"]).values()
    assert len(exact.executors) == room.MOST_RUNS
    message = plan_message(room=exact, **many)
    assert decode(encode(message), PlanMessage, "plan") == message


@pytest.mark.parametrize("vector", ROOMS)
def test_what_is_signed_of_it_is_that_of_the_plug_in(vector: dict[str, Any]) -> None:
    plan = msgspec.convert({"planner": "", **vector["plan"]}, PlanMessage)
    assert plan.room is not None
    assert signed_room(plan) == vector["text"]
    assert signed(plan, vector["key"].encode()) == plan


def test_the_signature_of_the_plan_is_that_of_earlier_versions_and_its_room_has_one_of_its_own() -> None:
    key = b"0123456789abcdef"
    bare = plan_message(checksum="c")
    told = msgspec.structs.replace(bare, room=PlanRoom(executors=[(4, 10, 20)]))
    assert signature(bare, key) == signed(told, key).signature
    first, second = signed(told, key).room, signed(msgspec.structs.replace(told, room=PlanRoom()), key).room
    assert first is not None
    assert second is not None
    assert len({"", first.signature, second.signature}) == 3
