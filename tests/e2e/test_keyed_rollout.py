"""Whole plans by rolling moves under a Python component that counts in memory: every count is right at the end."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolling_scene import ROLLOUT_S, RollingScene
from scene import REPOSITORY, scene_on, until
from stormpilot import operate
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.rollouts import workers_of
from stormpilot.nimbus import Nimbus
from stormpilot.submit import submit_topology
from word_count.sentences import Language
from word_count.settings import Settings

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(5400)]

PLANS = 4
WORDS = 10
OPTIONS = {
    "topology.workers": 3,
    "topology.acker.executors": 1,
    "topology.message.timeout.secs": 300,
    "stormpilot.report.secs": 1,
    "wordcount.rate.tps": 30,
    "wordcount.sentence.words": WORDS,
}
FIRST, SECOND = ["split:0", "split:1", "count:0"], ["split:2", "split:3", "count:1"]


class Counting(RollingScene):
    """The word count whose counts follow their keys."""

    @property
    def counts(self) -> Path:
        return self.folder / "counts"

    def submit_counting(self) -> None:
        self.counts.mkdir()
        self.topology_id = submit_topology(
            REPOSITORY / "topologies",
            "wordcount_keyed",
            "local",
            options=OPTIONS | {"wordcount.counts.dir": str(self.counts)},
            nimbus=str(self.cluster.nimbus_address),
            override_name="kept",
            routable=True,
        )
        wanted = {"sentences": 1, "split": 4, "count": 2}
        until(lambda: self.reporting(*wanted) == wanted, "every task to report")

    def by_task(self) -> dict[int, Counter[str]]:
        """What each task holds, as it showed last."""
        return {int(f.stem): Counter(json.loads(f.read_text())) for f in self.counts.glob("*.json")}

    def back(self) -> None:
        """Ask for the placement before the present one: a whole plan as well."""
        kept = operate.history(self.operator(), self.topology_id)
        now = workers_of(kept[0].entry.plan.workers)
        steps = next(
            i for i, k in enumerate(kept) if not k.entry.rollout_of and workers_of(k.entry.plan.workers) != now
        )
        operate.rollback(self.operator(), self.topology_id, steps)

    def rolled(self, after_ms: int) -> int:
        """Wait for the end of the rollout that began after this time; when it began."""

        def over() -> bool:
            m = self.rollout()
            return m is not None and not m.running and m.started_at_ms > after_ms

        until(over, "the plan to be carried out", ROLLOUT_S)
        m = self.rollout()
        assert m is not None
        assert (m.outcome, len(m.steps)) == ("DONE", 2), m.text
        until(self.applied, "the plan to be applied")
        return m.started_at_ms


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Counting]:
    """What is routed runs on nodes of its own, far from the spout; the controller knows a better place."""
    spec = ClusterSpec(name=f"keyed-rolling-{os.getpid()}", supervisors=3, slots=4, cpu_points=400, conf=PATIENT)
    with scene_on(spec, tmp_path, Counting) as scene:
        scene.configure()
        scene.place(a0=[], b0=FIRST, c0=SECOND)
        scene.lead()
        scene.submit_counting()
        yield scene


def test_plans_by_rolling_moves_lose_no_count(counting: Counting) -> None:
    """Every task of `count` ends and starts anew with each plan, and what it counted is with whoever has its keys."""
    begun_ms = 0
    sentences = counting.of("sentences")
    pids = {t.pid for t in counting.loads() if t.component == "count"}
    nodes = counting.nodes_of("split", "count")
    for n in range(PLANS):
        if n == 0:
            counting.place(a0=[], a1=FIRST, a2=SECOND)
        else:
            counting.back()
        begun_ms = counting.rolled(begun_ms)
        now, before = counting.nodes_of("split", "count"), nodes
        nodes = now
        assert all(now[e] != before[e] for e in before), "every executor that can be routed is on another node"
        running = {t.pid for t in counting.loads() if t.component == "count"}
        assert not running & pids, "every task counts in a new process"
        pids = running

    with Nimbus.connect(counting.cluster.nimbus_address) as nimbus:
        nimbus.deactivate("kept")
    settings = Settings.from_storm_conf(OPTIONS)
    language = Language(settings.seed, settings.vocabulary_words, settings.sentence_words, settings.topics)

    def right() -> bool:
        """Whether the counts are those of all sentences, some of which come after Nimbus is asked to stop the spout."""
        emitted, shown = counting.of("sentences").emitted, sum(counting.by_task().values(), Counter())
        if shown.total() != WORDS * emitted:
            return False
        return shown == Counter(word for n in range(emitted) for word in language.sentence(n).text.split())

    until(right, "the counts of all sentences to be shown, each once")
    until(lambda: counting.of("sentences").completed == counting.of("sentences").emitted, "every sentence to be acked")
    end = counting.of("sentences")
    assert (end.pid, end.failed) == (sentences.pid, 0)
    held = counting.by_task()
    assert sum(map(len, held.values())) == len(sum(held.values(), Counter())), "each word is counted by one task alone"
    assert all(held.values()), "each task has keys"
