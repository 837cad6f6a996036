"""Thresholds that operators freeze: what was mined, and what was only proposed."""

from __future__ import annotations

import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import cluster
from stormpilot.config import Config
from stormpilot.errors import RefusedError
from stormpilot.messages.core import TopologySnapshot, decode, encode
from stormpilot.messages.settings import ThresholdSetting, setting_key
from stormpilot.messages.thresholds import CPU_LIMIT_RATIO, ThresholdEntry, Thresholds
from stormpilot.operate import Operator
from stormpilot.operate.thresholds import (
    freeze_threshold,
    mined_entries,
    set_threshold,
    shown_thresholds,
    unset_threshold,
)
from stormpilot.zookeeper.paths import Paths

ID = "flights-1-1700000000"
PATHS = Paths()


def limit(supervisor: str, source: str) -> ThresholdEntry:
    return ThresholdEntry(name=CPU_LIMIT_RATIO, scope="supervisor", of=[supervisor], value=0.55, source=source)  # type: ignore[arg-type]


@pytest.fixture
def operator() -> Operator:
    store = MemoryZooKeeper(lambda: 1_000)
    for folder in (PATHS.topology(), PATHS.thresholds()):
        store.ensure([folder])
    snapshot = TopologySnapshot(written_at_ms=1, id=ID, name="flights", workers=1, components=[], executors=[])
    store.put(PATHS.topology(ID), encode(snapshot))
    entries = [limit("a", "mined"), limit("b", "proposed"), limit("c", "default")]
    found = Thresholds(topology_id=ID, topology_name="flights", mined_at_ms=1, from_ms=0, to_ms=1, entries=entries)
    store.put(PATHS.thresholds(ID), encode(found))
    return Operator(store, PATHS, "anna", now_ms=5_000)


def test_a_proposed_threshold_is_accepted_by_freezing_it(operator: Operator) -> None:
    freeze_threshold(operator, "flights", CPU_LIMIT_RATIO, "b")
    key = ThresholdSetting(topology=setting_key("flights"), name=CPU_LIMIT_RATIO, of=["b"]).key
    node = operator.zookeeper.read([PATHS.threshold_setting(key)])[0]
    assert node is not None
    setting = decode(node.data, ThresholdSetting, "setting")
    assert (setting.value, setting.frozen, setting.by) == (0.55, True, "anna")
    with pytest.raises(RefusedError, match="was not mined, there is nothing to freeze"):
        freeze_threshold(operator, "flights", CPU_LIMIT_RATIO, "c")


def test_freezing_all_that_was_mined_accepts_no_proposal(operator: Operator) -> None:
    assert [e.of for e in mined_entries(operator, "flights")] == [["a"]]


def test_limit_of_a_node_is_shown_as_it_holds_for_all_topologies_on_it(operator: Operator) -> None:
    """What another topology says of the node may be lower."""
    other = TopologySnapshot(written_at_ms=1, id="b-1-17", name="b", workers=1, components=[], executors=[])
    operator.zookeeper.put(PATHS.topology(other.id), encode(other))
    lower = ThresholdSetting(topology=setting_key("b"), name=CPU_LIMIT_RATIO, of=["a"], value=0.4, by="ops")
    operator.zookeeper.put(PATHS.threshold_setting(lower.key), encode(lower))
    rows, _, _ = shown_thresholds(operator, "flights", Config())
    assert [(r.value, r.source) for r in rows if r.name == CPU_LIMIT_RATIO and r.of == ["a"]] == [(0.4, "operator")]


def test_a_threshold_of_a_supervisor_is_of_one_that_there_is(operator: Operator) -> None:
    """By its id, or by its host as pins have it; and a name that no topology has is told."""
    operator.zookeeper.put(PATHS.cluster, encode(cluster("a", "b")))
    change = set_threshold(operator, "flights", CPU_LIMIT_RATIO, 0.6, "host-a")
    assert change.text == "flights: decide.cpu_limit_ratio of a is 0.6 from now on"
    assert unset_threshold(operator, "flights", CPU_LIMIT_RATIO, "host-a").changed, "named as it was set"
    assert freeze_threshold(operator, "flights", CPU_LIMIT_RATIO, "host-a").text.startswith("flights: ")
    with pytest.raises(RefusedError, match="'host-nowhere' is no supervisor"):
        set_threshold(operator, "flights", CPU_LIMIT_RATIO, 0.6, "host-nowhere")
    text = set_threshold(operator, "fligths", "decide.overload_s", 60.0).text
    assert text.endswith("; no topology of that name runs now (there are: flights)")
