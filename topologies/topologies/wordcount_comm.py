"""Word count bound by communication: many small tuples, next to no computation (N-Storm, sections 5.1 and 5.3)."""

from streamparse import Grouping, Topology

from word_count.bolts import CountWord, SplitSentence
from word_count.spout import SentenceSpout


class WordCountComm(Topology):
    """sentences -> split (any task) -> count (by word).

    In `cluster` and `standby` the parallelism is the paper's; in `standby` one task is the source, and the tasks of the
    others can be doubled by as many that stand by (`--standby`).
    """

    config = {
        "topology.workers": 8,
        "topology.acker.executors": 2,
        "topology.max.spout.pending": 1000,
        "topology.message.timeout.secs": 15,
        # An executor without tuples sleeps 1 ms at a time; Storm's default of 1000 would let it spin for a while first.
        "topology.bolt.wait.progressive.level2.count": 0,
        "wordcount.rate.tps": 100,
        "wordcount.sentence.words": 10,
        "wordcount.harmonic.terms": 0,
    }

    sentences = SentenceSpout.spec(par={"local": 2, "standby": 1, "cluster": 4})
    split = SplitSentence.spec(inputs=[sentences], par={"local": 6, "standby": 12, "cluster": 12})
    count = CountWord.spec(
        inputs={split: Grouping.fields("word")},
        par={"local": 12, "standby": 24, "cluster": 24},
        config={"topology.tick.tuple.freq.secs": 5},
    )
