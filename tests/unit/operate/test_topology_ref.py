"""Name or id: which topology is meant, and under which key settings are written."""

from __future__ import annotations

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import plan_message
from doubles.snapshots import T0_MS, cluster, topology
from stormpilot import operate
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import HistoryEntry, TopologySnapshot, Worker, encode
from stormpilot.messages.settings import ALL, name_of_setting_key, setting_key
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate import Operator
from stormpilot.operate.plans import published_plan
from stormpilot.operate.thresholds import set_threshold
from stormpilot.operate.topology_ref import AmbiguousTopologyError, UnknownTopologyError, topology_ref
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()
OLD, NEW = "flights-9-1763690000", "flights-10-1763699999"
PLACE = dict.fromkeys(range(1, 7), ("a", 6700))


def snapshot(topology_id: str, name: str = "flights", launched_at_ms: int = T0_MS) -> TopologySnapshot:
    return topology(PLACE, name=name, id=topology_id, launched_at_ms=launched_at_ms)


RESUBMITTED = {OLD: snapshot(OLD), NEW: snapshot(NEW, launched_at_ms=T0_MS + 1)}


def operator(*snapshots: TopologySnapshot, dry_run: bool = False) -> Operator:
    zookeeper = MemoryZooKeeper(lambda: T0_MS)
    zookeeper.put(PATHS.cluster, encode(cluster("a", "b")))
    for s in snapshots:
        zookeeper.put(PATHS.topology(s.id), encode(s))
    return Operator(zookeeper, PATHS, "anna", now_ms=T0_MS, dry_run=dry_run)  # type: ignore[arg-type]


def seen(o: Operator) -> StoreSnapshot:
    return Reader(o.zookeeper, PATHS).read()


def test_name_is_that_of_the_topology_launched_last_whatever_the_text_order_of_ids() -> None:
    assert topology_ref(RESUBMITTED, "flights").id == NEW


@pytest.mark.parametrize("topology_id", [OLD, NEW])
def test_id_is_always_that_topology(topology_id: str) -> None:
    assert topology_ref(RESUBMITTED, topology_id).id == topology_id


def test_plan_of_a_name_is_looked_for_at_the_topology_launched_last() -> None:
    o = operator(*RESUBMITTED.values())
    workers = [Worker(supervisor="a", port=6700, executors=[(t, t) for t in PLACE])]
    plan = plan_message(plan_id="p-new", topology_id=NEW, workers=workers)
    o.zookeeper.put(PATHS.proposal(NEW), encode(HistoryEntry(plan=plan, reason="GAIN")))  # type: ignore[attr-defined]
    assert published_plan(o.zookeeper, PATHS, "flights").plan.plan_id == "p-new"
    with pytest.raises(RefusedError, match=f"there is no plan for {OLD}"):
        published_plan(o.zookeeper, PATHS, OLD)


def test_a_proposal_that_cannot_be_read_hides_no_published_plan() -> None:
    o = operator(*RESUBMITTED.values())
    o.zookeeper.put(PATHS.proposal(NEW), b"{")  # type: ignore[attr-defined]
    with pytest.raises(RefusedError, match="there is no plan for flights; its proposal cannot be read: /stormpilot"):
        published_plan(o.zookeeper, PATHS, "flights")
    workers = [Worker(supervisor="a", port=6700, executors=[(t, t) for t in PLACE])]
    plan = plan_message(plan_id="p-1", topology_id=NEW, workers=workers)
    sealed = msgspec.structs.replace(plan, checksum=plan.expected_checksum())
    o.zookeeper.put(PATHS.plan(NEW), encode(sealed))  # type: ignore[attr-defined]
    found = published_plan(o.zookeeper, PATHS, "flights")
    assert (found.plan.plan_id, found.proposal) == ("p-1", False)
    assert "its proposal cannot be read: /stormpilot" in found.unread


def test_topology_named_as_the_id_of_another_one_is_refused_with_a_reference_to_each() -> None:
    both = {OLD: snapshot(OLD), "imposter-1": snapshot("imposter-1", name=OLD)}
    with pytest.raises(AmbiguousTopologyError, match="use flights for the first, imposter-1 for the second"):
        topology_ref(both, OLD)
    assert topology_ref(both, "flights").id == OLD
    assert topology_ref(both, "imposter-1").name == OLD


def test_topology_whose_name_is_its_id_is_not_ambiguous() -> None:
    assert topology_ref({"flights": snapshot("flights")}, "flights").id == "flights"


def test_unknown_topology_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownTopologyError, match=r"no topology is named 'nights' \(there are: flights\)"):
        topology_ref(RESUBMITTED, "nights")
    with pytest.raises(UnknownTopologyError, match="tells of none; where topologies run, stormpilot doctor tells"):
        topology_ref({}, "nights")


def test_unknown_topology_is_not_denied_where_topologies_cannot_be_read() -> None:
    """It was: "the plug-in tells of none", of a cluster full of topologies that this login may not read."""
    with pytest.raises(UnknownTopologyError, match=r"named 'nights' \(words-1-1, words-2-1 cannot be read\)"):
        topology_ref({}, "nights", ["words-2-1", "words-1-1"])
    world = operator(snapshot(OLD))
    world.zookeeper.put(PATHS.topology("words-1-1"), b"{")  # type: ignore[attr-defined]
    at = r"\(there are: flights; words-1-1 cannot be read\)"
    with pytest.raises(UnknownTopologyError, match=at):
        world.topology("nights")
    with pytest.raises(UnknownTopologyError, match=at):
        published_plan(world.zookeeper, PATHS, "nights")


def test_settings_given_by_id_hold_for_the_topology_of_that_id() -> None:
    o = operator(*RESUBMITTED.values())
    changes = [operate.mode(o, "act", NEW), operate.pause(o, NEW), operate.pin(o, NEW, "sink", "b")]
    changes += [operate.exclude(o, "b", topology=NEW, component="parse")]
    assert [c.text.split(":")[0] for c in changes] == ["flights", "flights", "flights/sink", "flights/parse"]
    now = seen(o)
    mode = now.mode_setting("flights")
    assert mode is not None
    assert mode.mode == "act"
    assert now.is_paused("flights")
    assert [p.topology for p in now.settings.pins] == ["flights"]
    assert [x.topology for x in now.settings.exclusions] == ["flights"]
    back = [operate.resume(o, NEW), operate.mode(o, "default", NEW), operate.unpin(o, NEW, "sink")]
    back += [operate.include(o, "b", topology=NEW, component="parse")]
    assert all(c.changed for c in back)
    now = seen(o)
    assert (now.paused, dict(now.modes), now.settings.pins, now.settings.exclusions) == (frozenset(), {}, (), ())


def test_threshold_set_by_id_holds_for_the_topology_of_that_id() -> None:
    o = operator(*RESUBMITTED.values())
    set_threshold(o, NEW, "decide.gain_threshold_ratio", 0.3)
    assert [t.topology for t in seen(o).settings.thresholds] == ["flights"]


def test_setting_by_an_ambiguous_reference_is_refused() -> None:
    o = operator(snapshot(OLD), snapshot("imposter-1", name=OLD))
    with pytest.raises(AmbiguousTopologyError):
        operate.pause(o, OLD)
    operate.pause(o, "imposter-1")
    assert seen(o).is_paused(OLD)
    assert not seen(o).is_paused("flights")


def test_setting_may_be_made_before_its_topology_comes() -> None:
    o = operator()
    operate.mode(o, "off", "flights")
    assert list(seen(o).modes) == ["flights"]
    for name in ("", "a/b", "."):
        with pytest.raises(UsageError, match="is not the name of a topology"):
            operate.pause(o, name)


def test_settings_of_a_topology_named_like_the_key_of_all_hold_for_it_alone() -> None:
    o = operator(snapshot("all-1", name=ALL), snapshot(NEW))
    operate.pause(o, ALL)
    operate.mode(o, "off", ALL)
    set_threshold(o, ALL, "decide.gain_threshold_ratio", 0.3)
    now = seen(o)
    assert now.is_paused(ALL)
    assert not now.is_paused("flights")
    assert now.modes.get(ALL) is None
    assert now.mode_setting(ALL) is not None
    assert [t.topology for t in now.settings.thresholds] == [setting_key(ALL)]
    operate.pause(o)
    assert seen(o).is_paused("flights")


@pytest.mark.parametrize("name", [ALL, "%5Fall", "%", "100%", "flights", "_all_of_it", "%25"])
def test_key_of_a_name_is_its_own_and_leads_back_to_it(name: str) -> None:
    key = setting_key(name)
    assert key != setting_key(None)
    assert name_of_setting_key(key) == name
