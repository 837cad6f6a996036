"""Leaders, plans and settings on three real ZooKeepers that are killed and frozen: a register and election test.

Without Storm: candidates lead, raise the epoch and publish plans as controllers do, operators write settings, each
through proxies of its own; the checker of the soak judges the history.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import KazooException

from doubles.models import plan_message
from ensemble import Ensemble, ensemble
from scene import PATHS, until
from slow_proxy import SlowProxy
from soak import checker, history
from soak.history import History
from soak.operators import Pen
from soak.watcher import Watcher
from stormpilot import operate
from stormpilot.config import ApiSection, Config, ZooKeeperSection
from stormpilot.control.daemon import Daemon
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.settings import setting_key
from stormpilot.model.values import Infeasible
from stormpilot.observe.reader import Reader
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import ZooKeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults, pytest.mark.timeout(600)]

TOPOLOGY = "flights-1-1763690000"
NAMES = ("a", "b", "c")
FAULTS = 14
STILL_S = (1.0, 9.0)
"""Shorter and longer than the sessions of the candidates, which last 4 s."""
SESSION_S = 4.0


class Client(threading.Thread):
    """Works on a ZooKeeper of its own until stopped."""

    def __init__(self, name: str, servers: Ensemble, log: History, seed: int) -> None:
        super().__init__(daemon=True, name=name)
        self.proxies = servers.proxies(seed)
        self.zookeeper = ZooKeeper(",".join(p.address for p in self.proxies), session_timeout_s=SESSION_S)
        self.log = log
        self.chance = random.Random(f"{name} {seed}")
        self.done = 0
        self.stopping = threading.Event()
        self.zookeeper.start()

    def run(self) -> None:
        while not self.stopping.is_set():
            if self.zookeeper.wait_connected(0.5):
                with suppress(KazooException, UnreachableError, RefusedError):
                    self.work()

    def work(self) -> None:
        raise NotImplementedError("a subclass says what it writes and reads")

    def end(self) -> None:
        self.stopping.set()
        self.join(60)
        self.zookeeper.stop()
        for proxy in self.proxies:
            proxy.close()


class Publishing:
    """A leadership in which a plan is published every 50 ms, as long as the session stands."""

    def __init__(self, candidate: Candidate, publisher: Publisher, sessions_lost: int) -> None:
        self._candidate = candidate
        self._publisher = publisher
        self._sessions_lost = sessions_lost

    def run(self, *, once: bool) -> None:
        daemon, zookeeper = self._candidate, self._candidate.zookeeper
        epoch = self._publisher.epoch.number
        daemon.log.add("claim", controller=daemon.name, epoch=epoch, source="candidate")
        for _ in range(daemon.chance.randint(5, 60)):  # then another one may lead
            if daemon.stopping.is_set() or zookeeper.sessions_lost != self._sessions_lost:
                return
            (node,) = zookeeper.read([PATHS.plan(TOPOLOGY)])
            daemon.done += 1
            plan = plan_message(plan_id=f"{daemon.name}-{daemon.done}", topology_id=TOPOLOGY, epoch=epoch)
            versions = {} if node is None else {TOPOLOGY: node.version}
            self._publisher.publish([HistoryEntry(plan=plan, reason="GAIN", published_by=daemon.name)], versions)
            daemon.stopping.wait(0.05)


class Candidate(Daemon):
    """A controller process without cycles: its election is the real one."""

    def __init__(self, name: str, servers: Ensemble, log: History, seed: int) -> None:
        self.proxies = servers.proxies(seed)
        hosts = ",".join(p.address for p in self.proxies)
        section = ZooKeeperSection(hosts=hosts, session_timeout_s=SESSION_S)
        super().__init__(Config(zookeeper=section, api=ApiSection(enabled=False)), nothing, "default", "default")
        self.name, self.log, self.chance, self.done = name, log, random.Random(f"{name} {seed}"), 0
        self.stopping, self.zookeeper = self._stopping, self._zookeeper
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self.start = self._thread.start

    def _leadership(self, reader: Reader, publisher: Publisher, sessions_lost: int) -> Any:
        return Publishing(self, publisher, sessions_lost)

    def end(self) -> None:
        self.stop()
        self._thread.join(5)
        self.cut()
        self._thread.join(60)
        for proxy in self.proxies:
            proxy.close()


def nothing(*_: Any, **__: Any) -> Infeasible:
    """A planner that is never needed."""
    return Infeasible(planner="default", constraint="none", text="nothing is planned here")


class Steering(Client):
    """Writes modes and pauses of a few topologies, which others write too."""

    def work(self) -> None:
        pen, name = Pen(self.zookeeper, self.log), self.chance.choice(NAMES)
        mode = self.chance.choice(("advise", "act", "off", "default"))
        mode_path, pause_path = PATHS.mode(setting_key(name)), PATHS.pause(setting_key(name))
        match self.chance.randrange(4):
            case 0:
                pen.write("pause", pause_path, None, lambda o: operate.pause(o, name))
            case 1:
                pen.write("resume", pause_path, None, lambda o: operate.resume(o, name))
            case _:
                pen.write("mode", mode_path, None, lambda o: operate.mode(o, mode, name))
        self.done += 1
        time.sleep(0.02)


@contextmanager
def fault(
    servers: Ensemble, clients: Sequence[Client | Candidate], chance: random.Random, log: History
) -> Iterator[None]:
    """One fault from chance: servers killed or frozen, one or (no majority) two; or a client cut off."""
    kind = chance.choice(("killed", "frozen", "frozen", "majority killed", "majority frozen", "client cut off"))
    hit = chance.sample(servers.numbers, 2 if "majority" in kind else 1)
    cut: list[SlowProxy] = chance.choice(clients).proxies if "client" in kind else []
    told = {"name": kind, "slots": [], "topologies": [], "ends": [], "blocks": False}
    log.add("fault", n=0, phase="begin", **told)
    for server in hit if not cut else []:
        (servers.kill if "killed" in kind else servers.freeze)(server)
    for proxy in cut:
        proxy.cut()
    try:
        yield
    finally:
        for server in hit if not cut else []:
            (servers.start if "killed" in kind else servers.thaw)(server)
        for proxy in cut:
            proxy.mend()
        log.add("fault", n=0, phase="end", **told)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_setting_is_lost_and_no_epoch_has_two_leaders_while_zookeepers_are_killed_and_frozen(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    with ExitStack() as stack:
        servers = stack.enter_context(ensemble(tmp_path))
        log = stack.enter_context(History(tmp_path / "history.jsonl"))
        watcher = Watcher(servers.hosts, log)
        candidates = [Candidate(f"candidate-{n}", servers, log, seed * 100 + n) for n in range(3)]
        operators = [Steering(f"operator-{n}", servers, log, seed * 100 + 10 + n) for n in range(2)]
        clients: list[Client | Candidate] = [*candidates, *operators]
        for thread in (watcher, *clients):
            thread.start()
        until(lambda: all(c.done for c in operators), "operators to begin")
        operators[0].zookeeper.put(PATHS.topology(TOPOLOGY), b"{}")  # the watcher looks at what runs
        for _ in range(FAULTS):
            with fault(servers, clients, chance, log):
                time.sleep(chance.uniform(*STILL_S))  # the fault itself
            time.sleep(chance.uniform(0.0, 3.0))
        servers.wait()
        before = [c.done for c in operators]
        until(lambda: all(c.done > n for c, n in zip(operators, before, strict=True)), "operators to write again")
        published = sum(c.done for c in candidates)
        until(lambda: sum(c.done for c in candidates) > published, "a leader to publish again", 60)
        for client in clients:
            client.end()
        watcher.stop()

    records = history.read(log.path)
    print(checker.summary(records))
    assert checker.check(records) == []
    kinds = Counter(r["kind"] for r in records)
    writes = Counter(r["phase"] for r in records if r["kind"] == "write")
    assert len({r["epoch"] for r in records if r["kind"] == "claim"}) > 3, "leadership did not move"
    assert min(kinds["plan"], writes["ok"], kinds["settings"]) > 20, (kinds, writes)
