"""A made-up language: the same sentence for the same number, word frequencies as in a natural one."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import NamedTuple

_SYLLABLES = [consonant + vowel for consonant in "bdfghklmnprstvz" for vowel in "aeiou"]


class Sentence(NamedTuple):
    """A sentence and the topic that it is about."""

    topic: str
    text: str


class Language:
    """Sentences by number.

    Parameters
    ----------
    seed : int
        Another seed, other sentences.
    vocabulary_words : int
        Distinct words; the n-th most frequent one occurs 1/n times as often as the first (Zipf's law).
    sentence_words : int
        Words of a sentence.
    topics : int
        Distinct topics, all as frequent.
    word_bytes : int
        Shorter words are filled up to this length.
    """

    def __init__(self, seed: int, vocabulary_words: int, sentence_words: int, topics: int, word_bytes: int = 0) -> None:
        self.words = [_word(rank).ljust(word_bytes, "-") for rank in range(vocabulary_words)]
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(vocabulary_words)))
        self._sentence_words = sentence_words
        self._topics = topics
        self._seed = seed

    def sentence(self, number: int) -> Sentence:
        """Return the sentence of this number."""
        rng = Random(f"{self._seed}/{number}")
        words = rng.choices(self.words, cum_weights=self._weights, k=self._sentence_words)
        return Sentence(topic_name(rng.randrange(self._topics)), " ".join(words))


def topic_name(number: int) -> str:
    """Return the key of a topic."""
    return f"topic-{number}"


def _word(rank: int) -> str:
    """Return the word of a rank: its digits to the base of the syllables, so that frequent words are short."""
    syllables = []
    while True:
        rank, digit = divmod(rank, len(_SYLLABLES))
        syllables.append(_SYLLABLES[digit])
        if not rank:
            return "".join(reversed(syllables))
        rank -= 1
