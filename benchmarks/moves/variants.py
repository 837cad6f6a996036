"""The ways to move executors that are compared, each on a topology that was just submitted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.moves.measured import Move
from stormpilot import operate
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import StatusMessage, TopologySnapshot
from stormpilot.messages.load import TaskLoad
from stormpilot.messages.rollouts import Rollout, workers_of
from stormpilot.nimbus import Nimbus
from stormpilot.operate import Operator
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

ROOT = Path(__file__).resolve().parents[2]
PATHS = Paths()
AT_MOST_S = 300.0
LOOK_S = 0.5
Slot = tuple[str, int]


@dataclass
class Bench:
    """The topology that runs: where it is, and how it is steered."""

    cluster: LocalCluster
    zookeeper: ZooKeeper
    folder: Path
    name: str
    topology_id: str = ""
    controller: subprocess.Popen[bytes] | None = None

    def operator(self) -> Operator:
        """Whoever moves by hand."""
        return Operator(self.zookeeper, PATHS, "bench-moves")

    def read(self, path: str, kind: Any) -> Any:
        """A message, None where there is none."""
        return self.operator().read(path, kind)[0]

    def snapshot(self) -> TopologySnapshot | None:
        """The topology as the scheduler tells it."""
        found: TopologySnapshot | None = self.read(PATHS.topology(self.topology_id), TopologySnapshot)
        return found

    def placed(self) -> dict[int, Slot]:
        """Slot of every executor that has one."""
        snapshot = self.snapshot()
        executors = snapshot.executors if snapshot else []
        return {e.start: (e.supervisor, e.port) for e in executors if e.supervisor and e.port is not None}

    def start(self, moves: str) -> None:
        """Start a controller that puts executors where `placement.json` says, as `decide.move_strategy` has it."""
        config = self.folder / "controller.yaml"
        settings = {
            "zookeeper": {"hosts": self.cluster.zookeeper_hosts},
            "cycle": {"period_s": 2, "poll_s": 1},
            "load": {"window_s": 10, "settle_s": 3},
            "decide": {
                "mode": "act",
                "move_strategy": moves,
                "consecutive_hits": 1,
                "cool_down_s": 0,
                "overload_s": 3600,
            },
            "rollout": {"task_refresh_s": 3, "step_interval_s": 1, "peer_limit_ratio": 1},
            "api": {"enabled": False},
        }
        config.write_bytes(msgspec.json.encode(settings))
        with (self.folder / "controller.log").open("ab") as log:
            self.controller = subprocess.Popen(
                [sys.executable, "-m", "doubles.placing_controller", config, self.folder / "placement.json"],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": f"{ROOT}/controller:{ROOT}/tests:{ROOT}/tests/support"},
            )

    def stop(self) -> None:
        """End the controller."""
        if self.controller is not None and self.controller.poll() is None:
            self.controller.terminate()
            self.controller.wait(20)

    def place(self, workers: Mapping[tuple[int, int], list[str]]) -> None:
        """(Number of the node, number of the slot) -> executors; the first has what is not named."""
        supervisors = self.cluster.description.supervisors
        wanted = {f"{supervisors[n].id}:{supervisors[n].slots[s]}": names for (n, s), names in workers.items()}
        whole = self.folder / "placement.new"
        whole.write_text(json.dumps(wanted))
        whole.replace(self.folder / "placement.json")


def until(what: str, done: Callable[[], Any], at_most_s: float = AT_MOST_S) -> None:
    """Wait for a condition; `UnreachableError` when that lasts too long."""
    deadline = time.monotonic() + at_most_s
    while True:
        try:
            if done():
                return
        except RefusedError:  # the topology is not known yet
            pass
        if time.monotonic() > deadline:
            raise UnreachableError(f"waited {at_most_s:.0f} s for {what}")
        time.sleep(LOOK_S)


class Variant(ABC):
    """One way to move; `standby` executors are submitted with it, `title` is its row."""

    title = ""
    standby: Mapping[str, int] = {}
    routable = True

    def prepare(self, bench: Bench) -> None:  # noqa: B027 (most have nothing to do then)
        """Before the topology is submitted."""

    def ready(self, bench: Bench) -> bool:
        """Whether the topology runs as it has to, once its tuples flow; if not, it is submitted again."""
        return True

    @abstractmethod
    def move(self, bench: Bench, number: int) -> Move:
        """Move, and return when it is carried out."""


@dataclass
class Rebalance(Variant):
    """Storm's own: `storm rebalance` to two workers and back to three; sources are off for `wait_s` before."""

    title: str = "`storm rebalance -w 0`"
    wait_s: int = 0
    routable = False

    def move(self, bench: Bench, number: int) -> Move:
        """See `Variant`."""
        before, begun_s = bench.placed(), time.time()
        workers = 2 if number % 2 == 0 else 3
        with Nimbus.connect_leader(bench.cluster.nimbus_address) as nimbus:
            nimbus.rebalance(bench.name, wait_s=self.wait_s, workers=workers)
        until("the rebalance", lambda: len(set(bench.placed().values())) == workers, 120 + self.wait_s)
        return Move(begun_s, time.time(), changed(before, bench.placed()))


class Switch(Variant):
    """Input of one task goes to a standby in another worker, and back with the next move."""

    title = "route switch"
    standby = {"b_forward": 1, "d_count": 1}  # noqa: RUF012

    def move(self, bench: Bench, number: int) -> Move:
        """See `Variant`."""
        begun_s = time.time()
        component = "b_forward" if number % 2 == 0 else "d_count"
        view = next(v for v in operate.routes(bench.operator(), bench.topology_id) if v.component == component)
        operate.shift_route(bench.operator(), bench.topology_id, component, view.active[-1], view.standby[0])
        reports: dict[int, TaskLoad] = {}

        def over() -> bool:
            now = operate.loads(bench.operator(), bench.topology_id)
            idle = [t for t, load in now.items() if t in reports and operate.idle(reports[t], load)]
            reports.update({t: v for t, v in now.items() if t not in reports or v.seq > reports[t].seq})
            operate.settle(bench.operator(), bench.topology_id, idle, 10_000)
            return not operate.unfinished(bench.operator(), bench.topology_id)

        until("the task to drain", over, 60)
        return Move(begun_s, time.time(), 1)


@dataclass
class Planned(Variant):
    """Everything that can be routed goes to one node and back; `moves` as `decide.move_strategy`."""

    title: str = ""
    moves: str = "restart"

    def prepare(self, bench: Bench) -> None:
        """Storm's own scheduler deals it out like this; the controller does it itself, to have it in its history."""
        bench.place({(0, 0): [], (1, 0): ["b_forward:0", "d_count:0"], (2, 0): ["b_forward:1", "d_count:1"]})
        bench.start(self.moves)
        # of a controller that led this cluster before, the state is still there
        begun_ms = time.time() * 1000
        until("the controller to lead", lambda: self._state_ms(bench) > begun_ms, 90)

    def ready(self, bench: Bench) -> bool:
        """See `Variant`: where Nimbus did not wait for the first plan, there is no way back to it."""
        return bool(operate.history(bench.operator(), bench.topology_id))

    def _state_ms(self, bench: Bench) -> int:
        state: ControllerState | None = bench.read(PATHS.controller, ControllerState)
        return 0 if state is None else state.written_at_ms

    def move(self, bench: Bench, number: int) -> Move:
        """See `Variant`."""
        before, begun_s = bench.placed(), time.time()
        if number == 0:
            bench.place({(0, 0): [], (0, 1): ["b_forward:0", "d_count:0"], (0, 2): ["b_forward:1", "d_count:1"]})
        else:
            operate.rollback(bench.operator(), bench.topology_id, self._steps_back(bench))
        until("the plan to be applied", lambda: self._applied(bench, begun_s))
        after = bench.placed()
        m: Rollout | None = bench.read(PATHS.rollout(bench.topology_id), Rollout)
        note = f"{len(m.steps)} steps, {m.outcome}" if m is not None and m.started_at_ms >= begun_s * 1000 else ""
        if self.moves == "rolling" and not note.endswith("DONE"):
            raise UnreachableError(f"the rolling move ended as {note or 'a restart'}: {m.text if m else ''}")
        return Move(begun_s, time.time(), changed(before, after), note)

    def _steps_back(self, bench: Bench) -> int:
        """Distance in the history to the other placement; between them are those of single steps."""
        kept = operate.history(bench.operator(), bench.topology_id)
        now = workers_of(kept[0].entry.plan.workers)
        for back, step in enumerate(kept):
            if step.entry.rollout_of == "" and workers_of(step.entry.plan.workers) != now:
                return back
        raise UnreachableError("the history has no other placement")

    def _applied(self, bench: Bench, begun_s: float) -> bool:
        m: Rollout | None = bench.read(PATHS.rollout(bench.topology_id), Rollout)
        if m is not None and m.running:
            return False
        kept = operate.history(bench.operator(), bench.topology_id)
        if not kept:
            return False
        status: StatusMessage | None = bench.read(PATHS.status(bench.topology_id), StatusMessage)
        newest = kept[0].entry
        return (
            status is not None
            and newest.plan.created_at_ms >= begun_s * 1000
            and newest.rollout_of == ""
            and (status.plan_id, status.state) == (newest.plan.plan_id, "applied")
        )


def variants() -> dict[str, Callable[[], Variant]]:
    """Variants, by the name on the command line; what others are judged by comes first."""
    return {
        "rebalance-30": lambda: Rebalance("`storm rebalance`, its default of 30 s", 30),
        "rebalance": Rebalance,
        "assignment": lambda: Planned("assignment change (restarts)", "restart"),
        "switch": Switch,
        "rolling": lambda: Planned("rolling moves", "rolling"),
    }


def changed(before: Mapping[int, Slot], after: Mapping[int, Slot]) -> int:
    """Number of executors that run in another slot."""
    return sum(1 for e, slot in after.items() if before.get(e) != slot)
