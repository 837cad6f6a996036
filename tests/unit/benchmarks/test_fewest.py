"""The fewest nodes that hold a rate: which number is tried next, what holds, and what the page says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.headlines import fewest, fewest_page
from benchmarks.headlines.contenders import BEST, ours
from builders import assigned, supervisor, topology
from stormpilot.errors import UnreachableError
from stormpilot.model.values import Model, Plan, TopologyPlan, Worker


def trial(who: str, repetition: int, nodes: int, holds: bool) -> dict[str, Any]:
    """A placement on so many nodes that holds the rate, or does not."""
    window = {"throughput_tps": 100.0 if holds else 60.0, "mean_ms": 8.0, "failed": 0}
    window["cpu_per_node_percent"] = dict.fromkeys("abcd"[:nodes], 50.0)
    why = "" if holds else "60 tuples/s came through"
    return {
        **{"who": who, "repetition": repetition, "nodes": nodes, "holds": holds, "why": why},
        **{"windows": [window, window], "load_average": 1.0},
    }


def test_search_for_the_fewest_nodes_goes_on_until_a_placement_holds_the_rate() -> None:
    trials = [trial("best", 1, 1, False)]
    assert fewest.following(trials, "best", 1, 4) == 2
    assert fewest.following(trials, "best", 2, 4) == 1
    trials.append(trial("best", 1, 2, True))
    assert fewest.following(trials, "best", 1, 4) is None
    assert fewest.following([trial("ras", 1, n, False) for n in (1, 2, 3, 4)], "ras", 1, 4) is None


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ([(100.0, 8.0, 0), (99.5, 11.0, 0)], ""),
        ([(100.0, 8.0, 0), (98.0, 8.0, 0)], "98 tuples/s came through"),
        ([(100.0, 8.0, 0), (100.0, 13.0, 0)], "latency grew from 8 to 13 ms"),
        ([(100.0, 8.0, 2), (100.0, 8.0, 0)], "2 tuples failed"),
    ],
)
def test_rate_is_held_if_it_comes_through_and_no_queue_grows(windows: list[tuple[float, float, int]], why: str) -> None:
    figures = [{"throughput_tps": tps, "mean_ms": ms, "failed": failed} for tps, ms, failed in windows]
    assert fewest.why_not(figures, 100.0) == why


def test_a_placement_holds_the_rate_once_two_windows_do_however_slow_it_begins() -> None:
    """JVMs that have just started on full nodes let a twentieth through in the first window."""

    def told(*tps: float | None) -> tuple[int, str]:
        left = iter(tps)

        def measure() -> dict[str, Any]:
            if (found := next(left)) is None:
                raise UnreachableError("no tuple was acked in a window")
            return {"throughput_tps": found, "mean_ms": 8.0, "failed": 0}

        windows, why = fewest.judged(measure, 100.0)
        return len(windows), why

    assert told(5.0, None, 90.0, 100.0, 100.0) == (2, "")
    assert told(100.0, 100.0) == (2, ""), "and measures no more"
    assert told(100.0, 90.0, 100.0, 90.0, 100.0) == (2, "90 tuples/s came through")
    assert told(100.0, 90.0, 100.0, 90.0, None) == (0, "no tuple was acked in a window")
    assert told(60.0, 62.0) == (2, "60 tuples/s came through"), "two alike: the next ones would be, too"
    assert told(60.0, 70.0, 72.0) == (2, "70 tuples/s came through")


def test_fewest_nodes_are_a_headline_once_each_contender_has_an_answer() -> None:
    run = {"rate_tps": 100.0, "nodes": 4, "sleep_ms": 1, "cpu": "a processor"}
    run["trials"] = [trial("best", 1, 2, True), trial("default", 1, 3, True)]
    assert fewest_page.headline(run) == []
    run["trials"] += [trial("ras", 1, n, False) for n in (1, 2, 3, 4)] + [trial("best", 2, 3, True)]
    run["trials"] += [trial(fewest.UNLIMITED, 1, 1, True)]
    assert fewest.fewest(run, "ras") == [None]
    (told,) = fewest_page.headline(run)
    assert told[1] == "Storm default 3; Storm RAS more than there are; `best` 2, 3; `best without limit` 1"
    assert told[3] == "yes"
    run["trials"] += [trial("default", 2, 3, False), trial("default", 2, 4, True), trial("ras", 2, 3, True)]
    assert fewest_page.headline(run)[0][3] == "**no** (1 of 2)", "in each repetition"
    text = "\n".join(fewest_page.section(run))
    assert "| Storm default | 3 | 1 of 2 | 80 (60 to 100) | 8.0 (8.0 to 8.0) | 1.5 (1.5 to 1.5) | less came" in text
    assert "takes the CPU of 2.0 (2.0 to 2.0) nodes, on 1 that of 0.5 (0.5 to 0.5)" in text.replace("\n", " ")
    window = {"throughput_tps": 100.0, "polling_cores": 0.2}
    run[fewest.FILLED] = [{"at_rate": window, "saturated": {"throughput_tps": 250.0, "polling_cores": 0.04}}] * 2
    text = "\n".join(fewest_page.section(run))
    assert "CPU of 0.50 (0.50 to 0.50) nodes at the rate on one node" in text.replace("\n", " ")
    assert "of 0.10 (0.10 to 0.10) nodes when it carries as much as it can, 250 (250 to 250)" in text.replace("\n", " ")
    assert text.index("| Storm default | 4 |") < text.index("declared | 1 | 0 of 1 |") < text.index("| `best` | 2 |")


def test_best_without_a_limit_fills_a_node_that_best_does_not() -> None:
    t = topology("t", {"spout": 2, "bolt": 4}, streams=[("spout", "bolt")], workers=4)
    t = msgspec.structs.replace(t, executors=[msgspec.structs.replace(e, cpu_mhz=900.0) for e in t.executors])
    nodes = [supervisor(f"n{n}", 2, mhz=1000.0) for n in range(4)]
    model = Model(supervisors=nodes, topologies=[t], traffic=[])
    assert isinstance(fewest.planned(model, 1, "best", Path()), str)
    plan = fewest.planned(model, 1, fewest.UNLIMITED, Path())
    assert isinstance(plan, Plan)
    assert {w.supervisor for w in plan.topologies[0].workers} == {"n0"}


def test_plans_for_fewer_nodes_know_no_others() -> None:
    t = topology("t", {"spout": 2, "bolt": 4}, streams=[("spout", "bolt")], workers=4)
    model = Model(supervisors=[supervisor(f"n{n}", 2) for n in range(4)], topologies=[t], traffic=[])
    for fewer in (fewest.only, fewest.drained):
        plan = ours(fewer(assigned(ours_on(model), model), 2), BEST)
        assert isinstance(plan, Plan)
        assert {w.supervisor for w in plan.topologies[0].workers} <= {"n0", "n1"}


def ours_on(model: Model) -> Plan:
    """A placement that uses the last node."""
    slots = iter((s.id, p) for s in reversed(model.supervisors) for p in s.slots)
    workers = []
    for e in model.topologies[0].executors[:4]:
        node, port = next(slots)
        workers.append(Worker(supervisor=node, port=port, executors=[(e.start, e.end)]))
    rest = [(e.start, e.end) for e in model.topologies[0].executors[4:]]
    workers[0] = Worker(
        supervisor=workers[0].supervisor, port=workers[0].port, executors=[*workers[0].executors, *rest]
    )
    return Plan(topologies=[TopologyPlan(id="t", workers=workers)])
