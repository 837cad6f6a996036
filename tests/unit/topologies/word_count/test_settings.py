"""Settings of the word counts."""

import pytest

from word_count.settings import Settings


def test_reads_the_keys_of_the_topology_configuration():
    conf = {"wordcount.rate.tps": 10, "wordcount.harmonic.terms": 5000, "topology.workers": 8}
    assert Settings.from_storm_conf(conf) == Settings(rate_tps=10, harmonic_terms=5000)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("wordcount.rate.tps", 0, "at least 0.001, got 0"),
        ("wordcount.rate.tps", "fast", "at least 0.001, got 'fast'"),
        ("wordcount.rate.schedule", "fast", "rates and seconds such as 60x120,20x30, got 'fast'"),
        ("wordcount.call.sentences", 0, "at least 1, got 0"),
        ("wordcount.word.bytes", -1, "at least 0, got -1"),
        ("wordcount.topics", True, "at least 1, got True"),
        ("wordcount.harmonic.terms", -1, "at least 0, got -1"),
        ("wordcount.hot.share", 1.5, "at most 1, got 1.5"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_key(key, value, says):
    with pytest.raises(ValueError, match=f"{key}: expected .*{says}"):
        Settings.from_storm_conf({key: value})
