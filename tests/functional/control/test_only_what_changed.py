"""On a large cluster only what changed is planned and judged; what is kept from cycle to cycle changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot.messages.controller_state import ControllerState
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.observe.last_good import LastGood
from stormpilot.observe.load import LoadHistory
from stormpilot.observe.plausible import read_message

NODES = tuple("abcdefgh")


def slots(i: int, port: int = 0) -> Slots:
    """Two workers of the i-th topology, on nodes next to each other."""
    here, there = NODES[i % 8], NODES[(i + 1) % 8]
    return {(here, 6700 + 2 * (i // 8) + port): (1, 4, 5, 6), (there, 6701 + 2 * (i // 8) - port): (2, 3)}


class LargeWorld(World):
    """A dozen topologies; the planner leaves all as they run, `asked` are those that it was asked about."""

    max_skips = 5

    def __init__(self) -> None:
        super().__init__(*NODES)
        self.asked: list[set[str]] = []
        self.planner = self._as_it_runs
        self.ids = [self.submit(slots(i), name=f"job{i:02}") for i in range(12)]

    def _as_it_runs(self, model: Model) -> Plan:
        self.asked.append({t.id for t in model.topologies})
        return plan_in(model, {})


def test_topology_that_runs_elsewhere_is_planned_alone_and_the_others_keep_their_reasons() -> None:
    w = LargeWorld()
    w.tell(80)
    assert w.asked[0] == set(w.ids)
    since = len(w.asked)
    w.place(w.ids[3], {("h", 6700): (1, 2, 3, 4, 5, 6)})
    w.tell(60)
    assert {w.ids[3]} in w.asked[since:]
    assert len([group for group in w.asked[since:] if len(group) > 1]) <= 1, "all, once in six cycles"
    views = {v.id: v for v in w.state().topologies}
    assert {v.reason for v in views.values()} == {"NO_BETTER_PLAN"}
    assert [v.since_ms for t, v in views.items() if t != w.ids[3]] == [views[w.ids[0]].since_ms] * 11


def test_nothing_is_planned_while_nothing_changes() -> None:
    w = LargeWorld()
    w.tell(50)
    since = len(w.asked)
    w.tell(60)
    assert len(w.asked) - since <= 1, "six cycles of reports with the same rates"


Step = Callable[[LargeWorld], object]
STEPS: tuple[Step, ...] = (
    lambda w: w.place(w.ids[2], {("g", 6700): (1, 2, 3, 4, 5, 6)}),
    lambda w: w.traffic.update({(1, 2): 90.0, (1, 3): 10.0}),
    lambda w: w.kill(w.ids.pop(5)),
    lambda w: setattr(w, "cores", 0.15),
    lambda w: w.configure(w.ids[1], {"stormpilot.mode": "advise"}),
    lambda w: w.ids.append(w.submit({("f", 6703): (1, 2, 3, 4, 5, 6)}, name="late")),
    lambda w: w.supervisors(*NODES[:-1]),
    lambda w: w.zookeeper.put(w.paths.topology(w.ids[0]), b"nonsense"),
    lambda w: w.new_leader(),
)


def story() -> list[tuple[object, ControllerState]]:
    """What is decided and told after each step."""
    w, told = LargeWorld(), []
    w.tell(60)
    for step in STEPS:
        step(w)
        for _ in range(4):
            w.tell(10)
            told.append((dict(w.reports[-1].decisions), w.state()))
    return told


def test_what_is_kept_from_cycle_to_cycle_changes_no_decision_and_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = story()

    def afresh(self: LastGood, node: Any, kind: Any, path: str) -> Any:
        message = read_message(node, kind, path)
        self._messages[path] = node.data, message
        return message

    monkeypatch.setattr(LastGood, "read", afresh)
    monkeypatch.setattr(LoadHistory, "_begin", lambda *_: None)
    assert story() == kept


def test_a_cycle_that_plans_for_long_leaves_the_next_one_enough_to_plan_on() -> None:
    w = LargeWorld()
    w.tell(80)
    as_it_runs = w.planner

    def slow(model: Model) -> Plan | Infeasible:
        w.pass_time(w.config.load.window_s)
        return as_it_runs(model)

    w.planner = slow
    w.traffic = {pair: 2 * tps for pair, tps in w.traffic.items()}
    for _ in range(6):
        since = len(w.asked)
        w.tell(10)
        if len(w.asked) > since:
            w.tell(10)
            assert {d.reason.value for d in w.reports[-1].decisions.values()} == {"NO_BETTER_PLAN"}
            return
    raise AssertionError("nothing was planned")
