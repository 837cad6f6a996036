"""Sentences that are made up, the same for the same seed."""

from collections import Counter

import pytest

from word_count.sentences import Language


def test_the_same_number_is_the_same_sentence():
    forth = [Language(1, 500, 8, 16).sentence(n) for n in range(50)]
    back = [Language(1, 500, 8, 16).sentence(n) for n in reversed(range(50))]
    assert forth == back[::-1]
    assert len(set(forth)) == 50


def test_another_seed_says_something_else():
    assert Language(1, 500, 8, 16).sentence(0) != Language(2, 500, 8, 16).sentence(0)


def test_a_sentence_has_the_words_and_a_topic_that_were_asked_for():
    language = Language(1, 500, 8, 4)
    sentences = [language.sentence(n) for n in range(200)]
    assert {len(sentence.text.split()) for sentence in sentences} == {8}
    assert {sentence.topic for sentence in sentences} == {"topic-0", "topic-1", "topic-2", "topic-3"}


def test_every_word_of_the_language_is_another_one():
    words = Language(1, 20_000, 8, 4).words
    assert len(set(words)) == 20_000
    assert len(words[0]) <= len(words[-1])


def test_words_are_filled_up_to_the_length_that_was_asked_for():
    plain, long = Language(1, 500, 8, 4), Language(1, 500, 8, 4, word_bytes=100)
    assert {len(word) for word in long.words} == {100}
    assert [word.rstrip("-") for word in long.words] == plain.words


def test_word_frequencies_follow_zipfs_law():
    language = Language(1, 500, 10, 4)
    counts = Counter(word for n in range(3000) for word in language.sentence(n).text.split())
    first, second, tenth = (counts[language.words[rank]] for rank in (0, 1, 9))
    assert first / second == pytest.approx(2, rel=0.1)
    assert first / tenth == pytest.approx(10, rel=0.15)
