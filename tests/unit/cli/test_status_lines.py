"""Lines of `stormpilot status` about one topology: the plan that waits for an operator, and words in the singular."""

from __future__ import annotations

import msgspec
import pytest
from rich.console import Console

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import plan_message
from doubles.snapshots import T0_MS, cluster, everywhere, topology
from stormpilot.cli import output
from stormpilot.cli.status import show
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import HistoryEntry, encode
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot
from stormpilot.operate.status import gather
from stormpilot.operate.views import proposals
from stormpilot.zookeeper.paths import Paths

ID = "flights-1-1763690000"
NOW_MS = T0_MS + 5_000_000


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print to what pytest captures, wide and plain."""
    monkeypatch.setattr(output, "console", Console(width=300, color_system=None, highlight=False))


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
        topologies={ID: topology(everywhere({("a", 6700): (1,)}))},
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


def test_proposals_that_are_older_than_the_published_plan_or_unreadable_are_none() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: NOW_MS), Paths()
    assert proposals(zookeeper, paths, seen()) == {}  # type: ignore[arg-type]
    zookeeper.put(paths.proposal(ID), encode(proposal(40)))
    assert list(proposals(zookeeper, paths, seen())) == [ID]  # type: ignore[arg-type]
    published = {ID: PublishedPlan(proposal(20, "p-10").plan, 1, NOW_MS)}
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
