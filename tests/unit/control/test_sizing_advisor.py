"""Stories of growing and shrinking: the controller proposes a size when the rate leaves what runs, and says it once."""

from __future__ import annotations

from pathlib import Path

import pytest

from doubles.world import World
from stormpilot.config import parse
from stormpilot.control import sizing_advisor
from stormpilot.decide.events import EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.errors import UsageError

FILE = """\
name: flights
rate_tps: 100
slot: {cpu_mhz: 1000, memory_mb: 1000}
vms: [{name: node, slots: 4}]
shuffle: even
components:
  - {id: source, static: {threads: 1, cpu_share: 0, memory_share: 0}}
  - {id: parse, model: parse, inputs: [{component: source}]}
  - {id: sink, static: {threads: 1, cpu_share: 0, memory_share: 0}, inputs: [{component: parse}]}
  - {id: collector, static: {threads: 1, cpu_share: 0, memory_share: 0}, inputs: [{component: sink, selectivity: 0}]}
models:
  - name: parse
    points: [{threads: 1, rate_tps: 80, cpu_share: 0.8, memory_share: 0.1}]
"""
"""One thread does 80/s, and `flights` has two of them: 160/s."""
SLOTS = {("a", 6700): (1, 2, 4, 5, 6), ("b", 6700): (3,)}
BUSY = {(1, 2): 75.0, (1, 3): 75.0, (2, 4): 75.0, (3, 4): 75.0}


def world(tmp_path: Path, text: str = FILE, after_s: float = 60) -> tuple[World, str]:
    """`flights` in two slots, at 100/s, with a file about it."""
    file = tmp_path / "flights.yaml"
    file.write_text(text)
    w = World("a", "b", settings=f"sizing: {{files: {{flights: {file}}}, after_s: {after_s:g}}}\n")
    return w, w.submit(SLOTS)


def size(w: World, topology_id: str) -> str:
    (view,) = [v for v in w.state().topologies if v.id == topology_id]
    return view.size


def kinds(w: World) -> list[EventKind]:
    return [e.kind for e in w.events if e.kind in (EventKind.SIZE_PROPOSED, EventKind.SIZE_FITS)]


def test_size_that_fits_is_not_spoken_of(tmp_path: Path) -> None:
    w, t = world(tmp_path)
    w.tell(200)
    assert size(w, t) == ""
    assert kinds(w) == []


def test_other_places_are_proposed_where_shuffles_leave_the_far_thread_idle(tmp_path: Path) -> None:
    w, t = world(tmp_path, FILE.replace("shuffle: even\n", ""))
    w.tell(200)
    assert "its threads support 80/s of each source, 100/s come, 125% of that: other places; threads and" in size(w, t)
    assert "apply-size" not in size(w, t), "the controller places them: a size would change nothing"


def test_growth_is_proposed_once_the_rate_has_been_there_long_enough(tmp_path: Path) -> None:
    w, t = world(tmp_path)
    w.tell(100)
    w.traffic = dict(BUSY)
    w.tell(50)
    assert size(w, t) == ""
    w.tell(100)
    assert size(w, t).startswith("SCALE_UP: its threads support 160/s of each source, 150/s come")
    assert "parse 2 to 3 threads" in size(w, t)
    w.tell(200)
    assert kinds(w) == [EventKind.SIZE_PROPOSED]
    assert w.plan(t) is None or "SCALE" not in w.plan(t).reason.code  # type: ignore[union-attr]


def test_proposal_ends_with_the_rate_that_it_was_for(tmp_path: Path) -> None:
    w, t = world(tmp_path)
    w.traffic = dict(BUSY)
    w.tell(200)
    w.traffic = {pair: tps * 2 / 3 for pair, tps in BUSY.items()}
    w.tell(100)
    assert size(w, t) == ""
    assert kinds(w) == [EventKind.SIZE_PROPOSED, EventKind.SIZE_FITS]


def carried_out(tmp_path: Path) -> tuple[World, str]:
    """A world in which a size was proposed, and carried out since."""
    w, t = world(tmp_path)
    w.traffic = dict(BUSY)
    w.tell(200)
    w.place(t, {("a", 6700): (1, 4, 5, 6), ("b", 6700): (3,), ("b", 6701): (2,)})
    w.tell(80)
    return w, t


def test_size_that_was_carried_out_is_judged_by_what_came_after_it(tmp_path: Path) -> None:
    """What waited meanwhile comes at once; whether that is the rate is known once it has been there long enough."""
    w, t = carried_out(tmp_path)
    assert w.decision(t).reason is not Reason.INSUFFICIENT_METRICS
    assert size(w, t) == ""
    w.tell(100)
    assert size(w, t).startswith("SCALE_UP: its threads support 160/s of each source, 150/s come")
    w.traffic = {pair: tps * 2 / 3 for pair, tps in BUSY.items()}
    w.tell(100)
    assert kinds(w) == [EventKind.SIZE_PROPOSED, EventKind.SIZE_PROPOSED, EventKind.SIZE_FITS]


def test_proposal_ends_also_where_the_size_was_carried_out_meanwhile(tmp_path: Path) -> None:
    w, _ = carried_out(tmp_path)
    w.traffic = {pair: tps * 2 / 3 for pair, tps in BUSY.items()}
    w.tell(100)
    assert kinds(w) == [EventKind.SIZE_PROPOSED, EventKind.SIZE_FITS]


def test_fewer_slots_are_proposed_at_night(tmp_path: Path) -> None:
    w, t = world(tmp_path)
    w.traffic = {pair: tps / 3 for pair, tps in BUSY.items()}
    w.tell(200)
    assert size(w, t) == "", "what runs for 50/s has a slot for itself, and the source another one"
    w.traffic = {pair: tps / 6 for pair, tps in BUSY.items()}
    w.tell(200)
    assert size(w, t).startswith("SCALE_DOWN: ")
    assert "slots 2 to 1" in size(w, t)


def test_file_that_cannot_be_used_is_told_and_disturbs_nothing(tmp_path: Path) -> None:
    w, t = world(tmp_path, FILE.replace("rate_tps: 100", "rate_tps: none"))
    w.tell(100)
    assert size(w, t).startswith("not known: ")
    assert "rate_tps" in size(w, t)


def test_topology_that_changed_since_its_file_was_written_is_told(tmp_path: Path) -> None:
    w, t = world(tmp_path, FILE.replace("id: sink", "id: db").replace("component: sink", "component: db"))
    w.tell(100)
    assert size(w, t) == "not known: the running topology has no component db, which its file has"


def test_size_that_cannot_be_computed_is_told_and_disturbs_nothing(tmp_path: Path) -> None:
    w, t = world(tmp_path, FILE.replace("rate_tps: 80,", "rate_tps: 0.0005,"))
    w.tell(100)
    assert size(w, t).startswith("not known: 125/s are 250,000 times what one slot takes")


def test_fault_of_the_adviser_disturbs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*args: object, **more: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(sizing_advisor, "advise", faulty)
    w, t = world(tmp_path)
    w.tell(100)
    assert size(w, t) == "not known: ZeroDivisionError: division by zero"


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    w, t = world(tmp_path, after_s=0)
    w.tell(100)
    assert size(w, t) == ""
    (tmp_path / "flights.yaml").write_text(FILE.replace("rate_tps: 80", "rate_tps: 50"))
    w.tell(30)
    assert size(w, t).startswith("SCALE_UP: its threads support 100/s")


def test_file_is_read_again_when_one_that_it_names_changes(tmp_path: Path) -> None:
    named = tmp_path / "parse.yaml"
    named.write_text(FILE)
    w, t = world(tmp_path, FILE.split("models:")[0] + "models: [{file: parse.yaml}]\n", after_s=0)
    w.tell(100)
    assert size(w, t) == ""
    named.write_text(FILE.replace("rate_tps: 80", "rate_tps: 50"))
    w.tell(30)
    assert size(w, t).startswith("SCALE_UP: its threads support 100/s")


def test_bounds_that_would_swing_are_refused() -> None:
    with pytest.raises(UsageError, match=r"is used to 0\.8, expected that between them"):
        parse("sizing: {up_ratio: 0.7}\n", "controller.yaml")
