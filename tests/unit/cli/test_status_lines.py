"""Lines of `stormpilot status` about one topology: the plan that waits for an operator, and words in the singular."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import plan_message
from doubles.snapshots import T0_MS, cluster, everywhere, topology
from stormpilot.cli import output
from stormpilot.cli.status import show
from stormpilot.errors import RefusedError
from stormpilot.messages.controller_state import ConfiguredModes, ControllerState, TopologyView
from stormpilot.messages.core import HistoryEntry, StatusMessage, TopologySnapshot, encode
from stormpilot.messages.settings import ALL, DrainSetting, Hold, ModeSetting
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot
from stormpilot.observe.settings import Pending, Settings
from stormpilot.operate.plans import published_plan
from stormpilot.operate.status import gather
from stormpilot.operate.troubles import trouble_lines
from stormpilot.operate.views import proposals
from stormpilot.zookeeper.paths import Paths

ID = "flights-1-1763690000"
NOW_MS = T0_MS + 5_000_000


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print to what pytest captures, wide and plain."""
    monkeypatch.setattr(output, "console", Console(width=300, color_system=None, highlight=False))


def running() -> TopologySnapshot:
    """One executor, on the only slot."""
    whole = topology(everywhere({("a", 6700): (1,)}))
    return msgspec.structs.replace(whole, executors=[e for e in whole.executors if e.supervisor is not None])


def seen() -> StoreSnapshot:
    """One executor on the only slot; the controller had one cycle."""
    one = cluster("a")
    controller = ControllerState(
        controller="n1:7",
        version="0.1.0",
        epoch=3,
        started_at_ms=T0_MS,
        written_at_ms=NOW_MS - 5000,
        period_s=10.0,
        cycles=1,
        planner="best",
        sentence="",
        approval_max_age_s=3600.0,
    )
    return StoreSnapshot(
        cluster=msgspec.structs.replace(one, supervisors=[msgspec.structs.replace(one.supervisors[0], ports=[6700])]),
        topologies={ID: running()},
        controller=controller,
        contenders=("n1:7",),
    )


def proposal(age_s: int, plan_id: str = "p-9") -> HistoryEntry:
    plan = plan_message(topology_id=ID, plan_id=plan_id, created_at_ms=NOW_MS - age_s * 1000)
    return HistoryEntry(plan=plan, reason="GAIN")


@pytest.mark.parametrize(("age_s", "shown"), [(40, True), (4000, False)])
def test_a_proposed_plan_is_named_with_the_command_that_carries_it_out(
    age_s: int, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """In mode advise nothing said which plan waits, and how it is approved. One that is too old cannot be."""
    found = gather("zk", Paths(), seen(), [], {}, NOW_MS, {}, {ID: proposal(age_s)})
    (row,) = found["topologies"]
    assert (row["proposedPlan"], row["proposedAgeS"]) == (("p-9", 40.0) if shown else (None, None))
    show(found)
    text = "proposed plan: p-9, made 40 s ago; `stormpilot approve flights --plan p-9` carries it out"
    assert (text in capsys.readouterr().out) == shown


@pytest.mark.parametrize(("reason", "shown"), [("GAIN", True), ("NO_BETTER_PLAN", False)])
def test_no_plan_is_proposed_beside_the_sentence_that_none_is_better(reason: str, shown: bool) -> None:
    """What an earlier cycle proposed stood beside NO_BETTER_PLAN, with the command that carries it out."""
    now = seen()
    view = TopologyView(id=ID, name="flights", mode="advise", mode_from="default", action="skip", reason=reason)
    assert now.controller is not None
    now = replace(now, controller=msgspec.structs.replace(now.controller, topologies=[view]))
    (row,) = gather("zk", Paths(), now, [], {}, NOW_MS, {}, {ID: proposal(40)})["topologies"]
    assert (row["proposedPlan"] is not None) is shown


def test_a_proposal_of_what_is_paused_waits_for_more_than_approval(capsys: pytest.CaptureFixture[str]) -> None:
    """`approve` alone was named, and refuses it."""
    show(gather("zk", Paths(), replace(seen(), paused=frozenset({ALL})), [], {}, NOW_MS, {}, {ID: proposal(40)}))
    assert "--plan p-9` carries it out once it is resumed" in capsys.readouterr().out


def test_proposals_that_are_older_than_the_published_plan_or_unreadable_are_none() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: NOW_MS), Paths()
    assert proposals(zookeeper, paths, seen()) == {}  # type: ignore[arg-type]
    zookeeper.put(paths.proposal(ID), encode(proposal(40)))
    assert list(proposals(zookeeper, paths, seen())) == [ID]  # type: ignore[arg-type]
    published = {ID: PublishedPlan(proposal(20, "p-10").plan, 1, NOW_MS, transaction=1000)}
    later = StoreSnapshot(topologies=seen().topologies, plans=published)
    assert proposals(zookeeper, paths, later) == {}  # type: ignore[arg-type]
    zookeeper.put(paths.proposal(ID), b"{")
    assert proposals(zookeeper, paths, seen()) == {}  # type: ignore[arg-type]


def test_what_there_is_one_of_is_told_in_the_singular(capsys: pytest.CaptureFixture[str]) -> None:
    show(gather("zk", Paths(), seen(), [], {}, NOW_MS))
    text = capsys.readouterr().out
    assert "1 cycle, the last 5 s ago" in text
    assert "1 supervisor, 1 slot\n" in text
    assert "(1 of 1 slot used, 1 executor)" in text


@pytest.mark.parametrize("published", [False, True])
def test_a_proposal_that_is_too_old_is_no_plan_for_other_commands_either(published: bool) -> None:
    """`status` knew of none; `plan show`, `explain` and the page went on about it."""
    zookeeper, paths, now = MemoryZooKeeper(lambda: NOW_MS), Paths(), seen()
    assert now.cluster is not None
    assert now.controller is not None
    zookeeper.put(paths.cluster, encode(now.cluster))
    zookeeper.put(paths.topology(ID), encode(now.topologies[ID]))
    zookeeper.put(paths.controller, encode(now.controller))
    if published:
        plan = proposal(5000, "p-1").plan
        zookeeper.put(paths.plan(ID), encode(msgspec.structs.replace(plan, checksum=plan.expected_checksum())))
    zookeeper.put(paths.proposal(ID), encode(proposal(40)))
    assert published_plan(zookeeper, paths, ID, NOW_MS).proposal  # type: ignore[arg-type]
    zookeeper.put(paths.proposal(ID), encode(proposal(4000)))
    if published:
        assert published_plan(zookeeper, paths, ID, NOW_MS).plan.plan_id == "p-1"  # type: ignore[arg-type]
    else:
        with pytest.raises(RefusedError, match="its proposal p-9 is 67 min old: too old to be approved"):
            published_plan(zookeeper, paths, ID, NOW_MS)  # type: ignore[arg-type]


def gathered(**fields: Any) -> dict[str, Any]:
    """What is shown of the one topology with these settings."""
    return gather("zk", Paths(), replace(seen(), **fields), [], {}, NOW_MS)


def test_what_was_asked_for_a_topology_that_is_gone_holds_nothing() -> None:
    """A hold of a killed topology stood there by its id for half an hour, beside the one submitted anew."""
    hold = Hold(topology_id="flights-0-1", since_ms=NOW_MS, until_ms=NOW_MS + 60_000, cause="rollback")
    settings = Settings(holds={"flights-0-1": hold}, requests={"flights-0-1": Pending(None, 0)})
    assert gathered(settings=settings)["notes"] == []


def test_a_mode_set_for_all_is_shown_before_the_next_cycle() -> None:
    """While the controller was down, the row had the mode of the last cycle, below "everything: advise"."""
    for_all = {ALL: ModeSetting(mode="advise", by="ops", since_ms=NOW_MS)}
    (row,) = gathered(modes=for_all)["topologies"]
    assert (row["mode"], row["modeFrom"]) == ("advise", "operator, for all")
    own = {"flights": ModeSetting(mode="act", by="ops", since_ms=NOW_MS)}
    (row,) = gathered(modes=for_all | own)["topologies"]
    assert (row["mode"], row["modeFrom"]) == ("act", "operator")


def test_a_mode_that_was_taken_back_is_not_shown_until_the_next_cycle() -> None:
    """While the controller was down, `mode default` left what the last cycle had seen of an operator in the row."""
    view = TopologyView(id=ID, name="flights", mode="act", mode_from="operator", action="skip", reason="COOL_DOWN")
    known = seen().controller
    assert known is not None
    said = ConfiguredModes(mode="advise", by_name={}, owner_modes=["off"])
    (row,) = gathered(controller=msgspec.structs.replace(known, topologies=[view], modes=said))["topologies"]
    assert (row["mode"], row["modeFrom"]) == ("advise", "controller.yaml: decide.mode")


def test_wishes_of_an_owner_that_cannot_be_read_are_shown_beside_the_mode() -> None:
    """The cycle told of the approval; status decides the mode anew by the settings of now, and left it out."""
    known, conf = seen().controller, {"stormpilot.approval": "yes", "stormpilot.priority": "high"}
    assert known is not None
    said = msgspec.structs.replace(known, modes=ConfiguredModes(mode="advise", by_name={}, owner_modes=["off"]))
    flights = msgspec.structs.replace(running(), config=conf)
    (row,) = gathered(controller=said, topologies={ID: flights})["topologies"]
    assert row["modeFrom"] == (
        "controller.yaml: decide.mode; stormpilot.approval is 'yes', expected true or false: moves wait for an "
        "operator; stormpilot.priority is 'high', expected an integer from 0 to 2147483647: topology.priority holds"
    )


def test_notes_are_what_the_command_prints_of_settings() -> None:
    """The web page told of pauses only: not of drains, holds, or a request that nobody acts on."""
    settings = Settings(drains={"host-a": DrainSetting(host="host-a", since_ms=NOW_MS, by="ops")})
    (note,) = gathered(settings=settings)["notes"]
    assert note == {"head": "drained", "text": "host-a: 1 of flights to be moved (by ops 0 s ago)"}
    gone = msgspec.structs.replace(cluster("b"), supervisors=[])  # its worker may still run there
    missing = note["text"].replace("moved", "moved, no supervisor is on a host of that name now")
    assert gathered(settings=settings, cluster=gone)["notes"] == [{**note, "text": missing}]


def test_topologies_in_trouble_come_first_and_notes_name_them() -> None:
    """The one that was down stood at its place in the alphabet, below three hundred others."""
    whole = running()
    down = msgspec.structs.replace(whole.executors[0], supervisor=None, port=None)
    many = {
        "a-1-1": msgspec.structs.replace(whole, id="a-1-1", name="a"),
        "b-1-1": msgspec.structs.replace(whole, id="b-1-1", name="b"),
        "c-1-1": msgspec.structs.replace(whole, id="c-1-1", name="c", executors=[down]),
    }
    rejected = StatusMessage(topology_id="b-1-1", state="rejected", code="PORT_UNKNOWN", since_ms=1, written_at_ms=1)
    shown = gathered(topologies=many, statuses={"b-1-1": rejected}, unreadable_topologies=frozenset({"x-1-1"}))
    assert [t["name"] for t in shown["topologies"]] == ["c", "x-1-1", "b", "a"]
    assert shown["notes"] == [
        {"head": "run nowhere", "text": "1 of 1 executor of c"},
        {"head": "not read", "text": "x-1-1"},
        {"head": "rejected", "text": "b"},
    ]


def test_more_topologies_in_trouble_than_fit_are_counted() -> None:
    rows = [{"unplaced": 1, "executors": 1, "plan": None, "state": None, "name": f"t{n}"} for n in range(8)]
    assert trouble_lines(rows) == [
        ("run nowhere", ", ".join(f"1 of 1 executor of t{n}" for n in range(5)) + " and 3 more topologies")
    ]
