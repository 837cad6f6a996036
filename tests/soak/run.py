"""A soak: a real cluster, two controllers, faults and operators from a seed, a history, and the checker at the end.

python -m soak.run --minutes 90 --seed 1 --out build/soak
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from scene import until
from soak import checker, faults, history
from soak.history import History
from soak.operators import Shift
from soak.watcher import Watcher, read_logs
from soak.world import SoakScene, world
from stormpilot.errors import StormpilotError

SETTLE_S = 180.0
"""How long the system may take until it works again when all faults are over."""
TOGETHER = 0.3
"""How often a second fault begins while the first one lasts."""


class Soak:
    """One run in a world that stands."""

    def __init__(self, scene: SoakScene, log: History, watcher: Watcher, seed: int) -> None:
        self._scene = scene
        self._watcher = watcher
        self._log = log
        self._chance = random.Random(f"faults {seed}")
        self._shift = Shift(scene, log, random.Random(f"operator {seed}"))
        self._faults = 0

    def run(self, seconds: float) -> None:
        """Faults and operators for so long; then everything is taken back, and the world has to come to rest."""
        end = time.monotonic() + seconds
        self._shift.start()
        while time.monotonic() < end:
            assert self._watcher.is_alive(), "nobody watches any more: what comes now would not be in the history"
            assert self._shift.is_alive(), "the operator is gone"
            self._some_faults()
            if self._chance.random() < 0.3:
                self._settle("in between")
            time.sleep(self._chance.uniform(0.5, 4.0))  # the pause between faults, drawn as they are
        self._shift.stop()
        self._shift.clear()
        self._settle("in the end", everything=True)
        self._shift.close()

    def _some_faults(self) -> None:
        first = self._begin(())
        if first is None:
            return
        second = self._begin((first[1].touches,)) if self._chance.random() < TOGETHER else None
        began_s = time.monotonic()
        for number, fault in sorted((one for one in (first, second) if one), key=lambda one: one[1].lasts_s):
            time.sleep(max(0.0, began_s + fault.lasts_s - time.monotonic()))  # the fault itself
            self._end(number, fault)

    def _begin(self, taken: tuple[str, ...]) -> tuple[int, faults.Fault] | None:
        draws = list(faults.FAULTS)
        try:
            (draw,) = self._chance.choices(draws, weights=list(faults.FAULTS.values()))
            fault = draw(self._scene, self._chance)
        except (*faults.RETRIED, StormpilotError, AssertionError):
            return None  # the world cannot be read just now
        if fault is None or (fault.touches and fault.touches in taken):
            return None
        self._faults += 1
        self._tell(self._faults, fault, "begin")
        try:
            fault.begin()
        except (*faults.RETRIED, StormpilotError) as e:
            print(f"fault {self._faults}: {fault.name} could not begin: {e}", flush=True)
        if fault.zxids:
            self._log.add("hostile", zxids=fault.zxids)
        return self._faults, fault

    def _end(self, number: int, fault: faults.Fault) -> None:
        until(lambda: self._tried(fault), f"{fault.name} to be over", SETTLE_S)
        self._tell(number, fault, "end")

    def _tried(self, fault: faults.Fault) -> bool:
        try:
            fault.end()
        except (*faults.RETRIED, StormpilotError):
            return False
        return True

    def _tell(self, number: int, fault: faults.Fault, phase: str) -> None:
        print(f"{self._log.now_s():7.1f} s  fault {number} {phase}s: {fault.name} {fault.touches}", flush=True)
        touched = {"slots": fault.slots, "topologies": fault.topologies, "ends": fault.ends, "blocks": fault.blocks}
        self._log.add("fault", n=number, name=fault.name, phase=phase, **touched)

    # --- coming to rest -----------------------------------------------------------------------------------------------

    def _settle(self, when: str, *, everything: bool = False) -> None:
        """Wait until everything works; what does not in time goes into the history."""
        self._shift.resting.set()
        deadline = time.monotonic() + SETTLE_S
        problems = self._problems(everything)
        while problems and time.monotonic() < deadline:
            time.sleep(1)
            problems = self._problems(everything)
        self._log.add("settled", when=when, problems=[f"{when}: {p}" for p in problems])
        print(f"{self._log.now_s():7.1f} s  settled {when}: {problems or 'all works'}", flush=True)
        self._shift.resting.clear()

    def _problems(self, everything: bool) -> list[str]:
        scene = self._scene
        try:
            state, snapshots = scene.state(), scene.snapshots()
            found = [] if scene.leads() else ["no controller leads"]
            if scene.cluster.pid("nimbus") is None:
                found.append("Nimbus does not run")
            if state is None or scene.leader() is None:
                found.append("the leader is none of ours")
            placed = {(e.supervisor, e.port) for s in snapshots.values() for e in s.executors}
            if len(snapshots) < len(scene.ids()) or (None, None) in placed:
                found.append("executors are without a slot")
            if {(w.supervisor, w.port) for w in scene.cluster.workers()} != placed:
                found.append("workers do not run where executors are placed")
            if everything:
                found += [f"{s.name}: its plan is not in force" for i, s in snapshots.items() if not scene.applied(i)]
        except (*faults.RETRIED, StormpilotError, AttributeError) as e:
            return [f"cannot be read: {e}"]
        return found


def main() -> int:
    """Run it, check its history, print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=90.0, help="how long faults go on")
    parser.add_argument("--seed", type=int, default=1, help="decides faults, their order and length, and verbs")
    parser.add_argument("--out", type=Path, default=Path("build/soak"), help="folder for the history and the logs")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster ends with us
    folder = asked.out / f"seed-{asked.seed}"
    shutil.rmtree(folder, ignore_errors=True)  # logs of an earlier run are none of this history
    path = folder / "history.jsonl"
    with world(folder, f"soak-{asked.seed}") as scene, History(path) as log:
        log.add("start", seed=asked.seed, minutes=asked.minutes)
        watcher = Watcher(scene.cluster.zookeeper_hosts, log, scene.cluster)
        watcher.start()
        try:
            Soak(scene, log, watcher, asked.seed).run(asked.minutes * 60)
        finally:
            watcher.stop()
            read_logs(log, [c.log for c in scene.controllers])
            print(f"looks that ZooKeeper did not answer: {watcher.lost_looks}")
    return 1 if checker.report(history.read(path)) else 0


if __name__ == "__main__":
    sys.exit(main())
