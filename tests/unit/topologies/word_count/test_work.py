"""The work of a sentence, and the topics that are hot."""

from collections import Counter

import pytest

from word_count.sentences import topic_name
from word_count.settings import Settings
from word_count.work import HotTopics, harmonic

SETTINGS = Settings(topics=64, harmonic_terms=1000, hot_share=0.125, hot_factor=8, shift_period_s=60)
TOPICS = [topic_name(n) for n in range(64)]


def test_harmonic_numbers_are_right():
    assert harmonic(0) == 0
    assert harmonic(1) == 1
    assert harmonic(4) == pytest.approx(25 / 12)


def test_a_share_of_the_topics_is_hot():
    hot = HotTopics(SETTINGS)
    assert Counter(hot.terms(topic, now=0.0) for topic in TOPICS) == {8000: 8, 1000: 56}


def test_the_same_topics_are_hot_in_every_task_for_one_period():
    one, other = HotTopics(SETTINGS), HotTopics(SETTINGS)
    other.terms(TOPICS[0], now=1e6)
    assert [one.terms(topic, 120.0) for topic in TOPICS] == [other.terms(topic, 179.9) for topic in TOPICS]


def test_other_topics_are_hot_in_the_next_period():
    hot = HotTopics(SETTINGS)
    assert [hot.terms(topic, 0.0) for topic in TOPICS] != [hot.terms(topic, 60.0) for topic in TOPICS]


def test_without_terms_nothing_is_computed():
    hot = HotTopics(Settings(harmonic_terms=0))
    assert {hot.terms(topic, 0.0) for topic in TOPICS} == {0}
