"""Leaders, plans and settings on three real ZooKeepers that are killed and frozen: a register and election test.

Without Storm: candidates lead, raise the epoch and publish plans as controllers do, operators write settings, each
through proxies of its own; the checker of the soak judges the history.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from kazoo.exceptions import KazooException
from kazoo.recipe.lock import Lock

from doubles.models import plan_message
from ensemble import Ensemble, ensemble
from scene import PATHS, until
from slow_proxy import SlowProxy
from soak import checker, history
from soak.history import History
from soak.operators import Pen
from soak.watcher import Watcher
from stormpilot import operate
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.settings import setting_key
from stormpilot.publish.epoch import Epoch, raise_epoch
from stormpilot.publish.publisher import DeposedError, Publisher
from stormpilot.zookeeper.client import ZooKeeper

pytestmark = [pytest.mark.cluster, pytest.mark.faults, pytest.mark.timeout(600)]

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
                with suppress(KazooException, UnreachableError, DeposedError, RefusedError):
                    self.work()

    def work(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self.stopping.set()
        self.join(60)
        self.zookeeper.stop()
        for proxy in self.proxies:
            proxy.close()


class Candidate(Client):
    """Leads when elected, as `control/daemon.py` does, and publishes plans until it leads no more."""

    def work(self) -> None:
        self.zookeeper.ensure([PATHS.leader, PATHS.plan_history(TOPOLOGY)])
        lock = Lock(self.zookeeper.client, PATHS.leader, self.name)
        if not lock.acquire(timeout=2):
            return
        sessions_lost = self.zookeeper.sessions_lost
        try:
            epoch = raise_epoch(self.zookeeper, PATHS).bound_to(f"{PATHS.leader}/{lock.node}")
            self.log.add("claim", controller=self.name, epoch=epoch.number, source="candidate")
            self._publish(epoch, sessions_lost)
        finally:
            with suppress(KazooException):
                lock.release()

    def _publish(self, epoch: Epoch, sessions_lost: int) -> None:
        publisher = Publisher(self.zookeeper, PATHS, epoch)
        for _ in range(self.chance.randint(5, 60)):  # then another one may lead
            if self.stopping.is_set() or self.zookeeper.sessions_lost != sessions_lost:
                return
            (node,) = self.zookeeper.read([PATHS.plan(TOPOLOGY)])
            self.done += 1
            plan = plan_message(plan_id=f"{self.name}-{self.done}", topology_id=TOPOLOGY, epoch=epoch.number)
            versions = {} if node is None else {TOPOLOGY: node.version}
            publisher.publish([HistoryEntry(plan=plan, reason="GAIN", published_by=self.name)], versions)
            time.sleep(0.05)  # a plan every cycle, not one after the other


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
def fault(servers: Ensemble, clients: list[Client], chance: random.Random, log: History) -> Iterator[None]:
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
        clients: list[Client] = [*candidates, *operators]
        for thread in (watcher, *clients):
            thread.start()
        for _ in range(FAULTS):
            with fault(servers, clients, chance, log):
                time.sleep(chance.uniform(*STILL_S))  # the fault itself
            time.sleep(chance.uniform(0.0, 3.0))
        servers.wait()
        before = [c.done for c in operators]
        until(lambda: all(c.done > n for c, n in zip(operators, before, strict=True)), "operators to write again")
        published = sum(c.done for c in candidates)
        until(lambda: sum(c.done for c in candidates) > published, "a leader to publish again")
        for client in clients:
            client.stop()
        watcher.stop()

    records = history.read(log.path)
    print(checker.summary(records))
    assert checker.check(records) == []
    kinds = Counter(r["kind"] for r in records)
    writes = Counter(r["phase"] for r in records if r["kind"] == "write")
    assert len({r["epoch"] for r in records if r["kind"] == "claim"}) > 3, "leadership did not move"
    assert min(kinds["plan"], writes["ok"], kinds["settings"]) > 20, (kinds, writes)
