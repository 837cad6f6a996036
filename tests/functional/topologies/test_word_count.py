"""Both word counts in one process: the counts are those of the sentences, each word and topic has its task."""

from collections import Counter, defaultdict
from typing import Any

import pytest

from inprocess_storm import InProcessStorm, load_topology
from word_count.bolts import SplitSentence
from word_count.sentences import Language
from word_count.spout import SentenceSpout

SENTENCES = 200


class Run:
    """A word count with a clock of our own; remembers which task split the sentences of which topic."""

    def __init__(self, name: str, options: dict[str, Any] | None = None, **kwargs) -> None:
        self.now_s = 0.0
        self.split_by: defaultdict[str, set[int]] = defaultdict(set)
        self.acked: set[int] = set()
        run = self

        class Spout(SentenceSpout):
            def clock(self):
                return run.now_s

            def wall_clock(self):
                return run.now_s

            def sleep(self, seconds):
                pass

            def next_tuple(self):
                if self._next < SENTENCES or self._failed:
                    super().next_tuple()

            def ack(self, tup_id):
                run.acked.add(int(tup_id))

        class Split(SplitSentence):
            def wall_clock(self):
                return run.now_s

            def process(self, tup):
                run.split_by[tup.values[0]].add(self.task_id)
                super().process(tup)

        conf = {"wordcount.rate.tps": 200, "wordcount.harmonic.terms": 10, **(options or {})}
        self.topology = load_topology(name)
        self.storm = InProcessStorm(self.topology, conf=conf, replace={"sentences": Spout, "split": Split}, **kwargs)

    def second(self) -> None:
        """Let a second pass."""
        for _ in range(100):
            self.now_s += 0.01
            self.storm.next_tuples("sentences")

    @property
    def counts(self) -> Counter:
        """Words counted by all tasks together."""
        return sum((bolt.counts for bolt in self.storm.of("count")), Counter())


def spoken(run: Run) -> Counter:
    """Count the words of the sentences that were acknowledged, straight from the language."""
    language = Language(1, 2000, run.topology.config["wordcount.sentence.words"], 64)
    return Counter(word for number in run.acked for word in language.sentence(number).text.split())


@pytest.mark.parametrize("name", ["wordcount_comm", "wordcount_comp"])
def test_every_word_is_counted_once_at_the_task_of_that_word(name):
    run = Run(name)
    for _ in range(3):
        run.second()
    assert run.acked >= set(range(SENTENCES))
    assert run.counts == spoken(run)
    assert run.counts.total() == len(run.acked) * run.topology.config["wordcount.sentence.words"]
    distinct = [set(bolt.counts) for bolt in run.storm.of("count")]
    assert sum(map(len, distinct)) == len(set().union(*distinct))


def test_topics_have_tasks_of_their_own_in_the_form_bound_by_computation_only():
    comp, comm = Run("wordcount_comp"), Run("wordcount_comm")
    for run in (comp, comm):
        run.second()
    assert {len(tasks) for tasks in comp.split_by.values()} == {1}
    assert max(len(tasks) for tasks in comm.split_by.values()) > 1


def test_sentences_that_get_lost_are_emitted_again():
    lost = Counter()

    def loses(component, values):
        lost[component] += 1
        return component == "count" and lost[component] % 40 == 0

    run = Run("wordcount_comm", loses=loses)
    for _ in range(30):
        run.second()
        run.storm.time_out()
        if run.acked >= set(range(SENTENCES)):
            break
    assert run.acked >= set(range(SENTENCES))
    assert all(run.counts[word] >= n for word, n in spoken(run).items())


def test_the_environment_cluster_has_the_parallelism_of_the_paper():
    for name in ("wordcount_comm", "wordcount_comp"):
        storm = InProcessStorm(load_topology(name), env="cluster")
        assert (len(storm.of("split")), len(storm.of("count"))) == (12, 24)
        assert load_topology(name).config["topology.workers"] == 8


def test_sentences_follow_their_schedule_by_the_wall_clock():
    run = Run("wordcount_comm", {"wordcount.rate.schedule": "100x1,20x1"})
    run.second()
    first = len(run.acked)
    run.second()
    assert first == pytest.approx(100, abs=10)
    assert len(run.acked) - first == pytest.approx(20, abs=10)
