"""Which nodes a trial gets, and what goes where."""

from __future__ import annotations

import re

import msgspec
import pytest

from doubles.snapshots import cluster, topology
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import ExecutorPart
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.trials.nodes import choose

BUSY = topology({1: ("a", 6700)}, name="other")


def seen(*supervisors: str, busy: bool = False) -> StoreSnapshot:
    return StoreSnapshot(cluster=cluster(*supervisors), topologies={BUSY.id: BUSY} if busy else {})


def test_two_that_run_nothing() -> None:
    nodes = choose(seen("a", "b", "c", busy=True), None, None)
    assert (nodes.component.id, nodes.others.id) == ("b", "c")


def test_a_host_is_busy_where_another_supervisor_of_it_runs_something() -> None:
    there = [*cluster("a", "a2", host="one").supervisors, *cluster("b", "c").supervisors]
    several = StoreSnapshot(
        cluster=msgspec.structs.replace(cluster("a"), supervisors=there), topologies={BUSY.id: BUSY}
    )
    nodes = choose(several, None, None)
    assert (nodes.component.id, nodes.others.id) == ("b", "c")
    with pytest.raises(RefusedError, match="other runs on one"):
        choose(several, "a2", None)


def test_those_that_were_asked_for_by_id_or_host() -> None:
    nodes = choose(seen("a", "b", "c"), "host-c", "a")
    assert (nodes.component.id, nodes.others.id) == ("c", "a")
    assert choose(seen("a", "b"), None, "a").component.id == "b"


def test_trials_of_our_own_do_not_count() -> None:
    assert choose(seen("a", "b", busy=True), "a", None, own={BUSY.id}).component.id == "a"


def test_another_host_where_there_is_one() -> None:
    found = StoreSnapshot(cluster=cluster("a", "b", host="one"))
    assert choose(found, None, None).others.id == "b"


@pytest.mark.parametrize(
    ("on", "error", "text"),
    [
        ("a", RefusedError, "--on: other runs on host-a, and a trial needs a node of its own"),
        ("z", UsageError, "--on: no supervisor is 'z' (there are: a, b)"),
        (None, RefusedError, "a trial needs two supervisors that run nothing; of 2 these are busy: a"),
    ],
)
def test_nodes_that_cannot_be_had_are_refused(on: str | None, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        choose(seen("a", "b", busy=True), on, None)
    with pytest.raises(UsageError, match="the same supervisor"):
        choose(seen("a", "b"), "a", "host-a")


def test_the_component_is_alone_on_its_slot() -> None:
    parts = [ExecutorPart(start=t, end=t, component=c) for t, c in enumerate(("source", "component", "component"), 1)]
    workers = choose(seen("a", "b"), None, None).workers(topology(executors=parts), "component")
    assert [(w.supervisor, w.port, w.executors) for w in workers] == [
        ("a", 6700, [(2, 2), (3, 3)]),
        ("b", 6700, [(1, 1)]),
    ]
