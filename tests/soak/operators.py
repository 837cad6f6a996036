"""The operator of a soak: verbs from a seed, each written into the history with what was acknowledged."""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import KazooException

from scene import PATHS
from soak.history import History
from soak.world import JOBS, SoakScene
from stormpilot import operate
from stormpilot.errors import StormpilotError, UnreachableError
from stormpilot.messages.settings import pin_key, setting_key
from stormpilot.operate import Operator
from stormpilot.operate.change import Change
from stormpilot.zookeeper.client import ZooKeeper

REST_S = (1.0, 5.0)
NUMBERS = itertools.count(1)
"""Of writes, over all operators of this process."""
Verb = Callable[[Operator], Change]


def _remove(path: str, operator: Operator) -> Change:
    """Take a setting back, whichever it is."""
    return operator.set("clear", path, path, None, "over")


class Pen:
    """Writes settings in the name of one operator, and tells the history before and after."""

    def __init__(self, zookeeper: ZooKeeper, history: History) -> None:
        self._zookeeper = zookeeper
        self._history = history

    def operator(self, number: int, *, dry_run: bool = False, now_ms: int | None = None) -> Operator:
        """The same person as ever, whose reason names the write."""
        more = {} if now_ms is None else {"now_ms": now_ms}
        return Operator(self._zookeeper, PATHS, "soak", f"number {number}", dry_run, **more)

    def write(self, verb: str, path: str, rule: Any, do: Verb) -> None:
        """Write one setting: what is to be written comes from a dry run, so that it is told before it is tried."""
        number = next(NUMBERS)
        trial = self.operator(number, dry_run=True)
        try:
            planned = do(trial)
        except StormpilotError:
            return  # refused before anything was written
        fields = {"op": number, "verb": verb, "path": path, "rule": rule}
        self._history.add("write", phase="begin", value=planned.after, **fields)
        try:
            change = do(self.operator(number, now_ms=trial.now_ms))
        except UnreachableError:
            self._history.add("write", phase="unknown", value=planned.after, **fields)
        except StormpilotError:
            self._history.add("write", phase="refused", value=planned.after, **fields)
        else:
            phase = "ok" if change.changed else "refused"
            self._history.add("write", phase=phase, value=change.after, **fields)


class Shift(threading.Thread):
    """An operator at work until stopped; rests while `resting` is set."""

    def __init__(self, scene: SoakScene, history: History, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._scene = scene
        self._history = history
        self._chance = chance
        self._zookeeper = ZooKeeper(scene.cluster.zookeeper_hosts, session_timeout_s=20)
        self._zookeeper.start()
        self._pen = Pen(self._zookeeper, history)
        self._stopping = threading.Event()
        self.resting = threading.Event()
        self._hosts = {s.id: s.host for s in scene.cluster.description.supervisors}

    def run(self) -> None:
        while not self._stopping.wait(self._chance.uniform(*REST_S)):
            if not self.resting.is_set():
                with suppress(StormpilotError):  # no answer to what it looks up: nothing is asked
                    self._one()

    def stop(self) -> None:
        """End the shift."""
        self._stopping.set()
        self.join(120)

    def clear(self) -> None:
        """Take back everything that restricts, until all of it is acknowledged."""
        for path in sorted(p for p in self._scene.settings() if p.count("/") > 4 and "nobody-" not in p):
            self._pen.write("clear", path, None, functools.partial(_remove, path))

    def close(self) -> None:
        """End the session."""
        self._zookeeper.stop()

    # --- one verb -----------------------------------------------------------------------------------------------------

    def _one(self) -> None:
        chance, job = self._chance, self._chance.choice(JOBS)
        component, supervisor = chance.choice(job.components), chance.choice(sorted(self._hosts))
        host, name = self._hosts[supervisor], job.name
        every = chance.choice((None, name))
        pinned = {"kind": "pin", "topology": name, "component": component, "supervisor": supervisor}
        mode = chance.choice(("advise", "act", "act", "default"))
        pin_path, drain_path = PATHS.pin(pin_key(name, component)), PATHS.drain(host)
        drained = self._scene.zookeeper.children([PATHS.drain()])[0] if chance.random() < 0.5 else ["?"]
        pause_path = PATHS.pause(setting_key(every))

        def resume() -> None:
            self._pen.write("resume", pause_path, None, lambda o: operate.resume(o, every))

        def undrain() -> None:
            self._pen.write("undrain", drain_path, None, lambda o: operate.undrain(o, host))

        verbs: list[Callable[[], None]] = [
            lambda: self._pen.write("pause", pause_path, None, lambda o: operate.pause(o, every)),
            *[resume] * 3,
            lambda: self._pen.write("mode", PATHS.mode(setting_key(name)), None, lambda o: operate.mode(o, mode, name)),
            lambda: self._pen.write("pin", pin_path, pinned, lambda o: operate.pin(o, name, component, supervisor)),
            lambda: self._pen.write("unpin", pin_path, None, lambda o: operate.unpin(o, name, component)),
            *[undrain] * 2,
            lambda: self._ask("replan", name, lambda o: operate.replan(o, name)),
            lambda: self._ask("rollback", name, lambda o: operate.rollback(o, name)),
            lambda: self._ask("approve", name, lambda o: operate.approve(o, name)),
            lambda: self._ask("discard", name, lambda o: operate.discard(o, name)),
        ]
        if not drained:  # two drained hosts leave too little room
            rule = {"kind": "drain", "host": host}
            verbs.append(lambda: self._pen.write("drain", drain_path, rule, lambda o: operate.drain(o, host)))
        try:
            chance.choice(verbs)()
        except (KazooException, StormpilotError):
            return  # what it had to read first was away

    def _ask(self, verb: str, topology: str, do: Verb) -> None:
        try:
            do(self._pen.operator(next(NUMBERS)))
        except StormpilotError as e:
            result = f"{type(e).__name__}: {e}"
        else:
            result = "asked"
        self._history.add("asked", verb=verb, topology=topology, result=result)
