"""The clock of a core: whose word counts for which host."""

from __future__ import annotations

import msgspec

from doubles.snapshots import report, supervisor, topology
from stormpilot.observe.core_mhz import told_mhz


def test_the_last_word_from_a_host_that_is_gone_tells_nothing_of_another_one() -> None:
    snapshot = topology(dict.fromkeys(range(1, 7), ("b", 6700)))
    said = [(x.task, x) for x in report(60.0, host="host-old").tasks]
    live = [supervisor("b")]
    assert told_mhz(live, {snapshot.id: snapshot}, {snapshot.id: said}, former=["host-old"]) == {}
    assert told_mhz(live, {snapshot.id: snapshot}, {snapshot.id: said}) == {"b": 2000.0}, "a name of its own"


def test_a_topology_of_many_tasks_has_one_voice_for_a_host() -> None:
    """Of three topologies the one with most tasks says 9,000 MHz."""
    snapshots = {f"t{i}-1-1": topology(dict.fromkeys(range(1, 7), ("a", 6700)), name=f"t{i}") for i in range(3)}
    said = {
        t: [
            (x.task, msgspec.structs.replace(x, mhz=2000.0 if i else 9000.0))
            for x in report(60.0, tasks=(1, 2) if i else tuple(range(1, 7))).tasks
        ]
        for i, t in enumerate(snapshots)
    }
    assert told_mhz([supervisor("a")], snapshots, said) == {"a": 2000.0}
