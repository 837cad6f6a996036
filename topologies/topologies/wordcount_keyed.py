"""Word count whose counts follow their keys when work moves to another task (docs/concepts/rolling-moves.md)."""

from streamparse import Grouping, Topology

from word_count.bolts import SplitSentence
from word_count.keyed import KeyedCountWord
from word_count.spout import SentenceSpout


class WordCountKeyed(Topology):
    """sentences -> split (any task) -> count (by word): submit it with `--routable` or `--standby count=2`."""

    config = {
        "topology.workers": 4,
        "topology.acker.executors": 2,
        "topology.max.spout.pending": 1000,
        "topology.bolt.wait.progressive.level2.count": 0,
        "wordcount.rate.tps": 30,
        "wordcount.sentence.words": 10,
        "wordcount.harmonic.terms": 0,
    }

    sentences = SentenceSpout.spec(par={"local": 1, "standby": 1, "cluster": 4})
    split = SplitSentence.spec(inputs=[sentences], par={"local": 4, "standby": 4, "cluster": 12})
    count = KeyedCountWord.spec(
        inputs={split: Grouping.fields("word")},
        par={"local": 2, "standby": 2, "cluster": 12},
        config={"topology.tick.tuple.freq.secs": 2},
    )
