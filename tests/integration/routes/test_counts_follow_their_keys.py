"""Twenty moves of a Python component that counts in memory, under load: every count is right at the end."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.local.words import wait_until
from scene import REPOSITORY
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.load import TaskLoad
from stormpilot.nimbus import Nimbus
from stormpilot.operate import Operator
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.paths import Paths
from word_count.sentences import Language
from word_count.settings import Settings

pytestmark = pytest.mark.cluster

NAME = "wordcount-keyed"
MOVES = 20
DRAIN_AT_MOST_MS = 300_000
CONF = {"stormpilot.report.secs": 0.5, "wordcount.rate.tps": 40, "topology.max.spout.pending": 100}


class Counting:
    """The running word count: four tasks of `count`, two of which get words at first."""

    def __init__(self, cluster: LocalCluster, connection: ZooKeeper, topology_id: str, counts: Path):
        self.cluster = cluster
        self.connection = connection
        self.id = topology_id
        self.counts = counts
        self.reported: dict[int, TaskLoad] = {}
        wait_until(lambda: len(self.loads("count")) == 4 and self.loads("sentences"), "every task to report")

    def operator(self) -> Operator:
        return Operator(self.connection, Paths(), "test")

    def loads(self, component: str) -> list[TaskLoad]:
        try:
            found = operate.loads(self.operator(), self.id).values()
        except RefusedError:
            return []
        return [t for t in found if t.component == component]

    def view(self) -> operate.RouteView:
        return next(v for v in operate.routes(self.operator(), self.id) if v.component == "count")

    def finish(self) -> None:
        """Drive what is open to its end, as the commands and the controller do."""

        def over() -> bool:
            now = {t.task: t for t in self.loads("count")}
            idle = [t for t, load in now.items() if t in self.reported and operate.idle(self.reported[t], load)]
            self.reported |= {t: load for t, load in now.items() if load.seq > getattr(self.reported.get(t), "seq", 0)}
            change = operate.settle(self.operator(), self.id, idle, DRAIN_AT_MOST_MS)
            assert "not handed over" not in change.text and "did not" not in change.text, change.text
            return not operate.unfinished(self.operator(), self.id)

        wait_until(over, "tasks to drain and state to arrive")

    def rests(self) -> bool:
        """Whether no bolt did anything between its last two reports."""
        bolts = {t.task: t for t in self.loads("split") + self.loads("count")}
        before, self.reported = self.reported, bolts
        time.sleep(2 * CONF["stormpilot.report.secs"])
        return all(t in before and operate.idle(before[t], load) for t, load in bolts.items())

    def counted(self) -> Counter[str]:
        return sum((Counter(c) for c in self.by_task().values()), Counter())

    def by_task(self) -> dict[int, dict[str, int]]:
        return {int(f.stem): json.loads(f.read_text()) for f in self.counts.glob("*.json")}


@pytest.fixture
def counting(cluster: LocalCluster, tmp_path: Path) -> Iterator[Counting]:
    connection = connect(cluster.zookeeper_hosts)
    topology_id = submit_topology(
        REPOSITORY / "topologies",
        "wordcount_keyed",
        "local",
        options=CONF | {"wordcount.counts.dir": str(tmp_path)},
        nimbus=str(cluster.nimbus_address),
        override_name=NAME,
        standby={"count": 2},
    )
    try:
        yield Counting(cluster, connection, topology_id, tmp_path)
    finally:
        connection.stop()
        with Nimbus.connect(cluster.nimbus_address) as nimbus:
            nimbus.kill(NAME, wait_s=0)
        wait_until(lambda: not cluster.workers(), "the workers to end")


@pytest.mark.long
def test_twenty_moves_lose_no_count(counting: Counting) -> None:
    """Two at a time: to standby tasks, to and from tasks that count already; each count is where its key goes."""
    rng = random.Random(7)
    pids = {t.task: t.pid for t in counting.loads("count")}
    moves = 0
    while moves < MOVES:
        view = counting.view()
        if moves % 10 == 8:
            task = rng.choice(view.active)
            operate.deactivate_task(counting.operator(), counting.id, "count", task)
            counting.finish()
            operate.activate_task(counting.operator(), counting.id, "count", task)
            moves += 2
        else:
            for from_, to in zip(view.active, view.standby, strict=True):
                operate.shift_route(counting.operator(), counting.id, "count", from_, to)
                moves += 1
        counting.finish()
        time.sleep(0.2)  # some words for the tasks that have them now

    with Nimbus.connect(counting.cluster.nimbus_address) as nimbus:
        nimbus.deactivate(NAME)
    wait_until(counting.rests, "every sentence to be counted")
    (spout,) = counting.loads("sentences")
    assert spout.failed == 0
    emitted = sum(sum(t.received.get("default", ([], []))[1]) for t in counting.loads("split"))
    settings = Settings.from_storm_conf({"wordcount.sentence.words": 10})
    language = Language(settings.seed, settings.vocabulary_words, settings.sentence_words, settings.topics)
    expected = Counter(word for n in range(emitted) for word in language.sentence(n).text.split())
    wait_until(lambda: counting.counted().total() >= expected.total(), "the last counts to be shown")
    assert counting.counted() == expected
    held = [word for counts in counting.by_task().values() for word in counts]
    assert len(held) == len(set(held)), "each word is counted by one task alone"
    assert {t.task: t.pid for t in counting.loads("count")} == pids, "nothing restarted"
    assert {t for t, counts in counting.by_task().items() if counts} == set(counting.view().active)
