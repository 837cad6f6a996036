"""The configuration keys of both word counts, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pacing import RateSchedule

_KEYS = {
    "rate_tps": "wordcount.rate.tps",
    "rate_schedule": "wordcount.rate.schedule",
    "call_sentences": "wordcount.call.sentences",
    "sentence_words": "wordcount.sentence.words",
    "word_bytes": "wordcount.word.bytes",
    "vocabulary_words": "wordcount.vocabulary.words",
    "topics": "wordcount.topics",
    "seed": "wordcount.seed",
    "harmonic_terms": "wordcount.harmonic.terms",
    "hot_share": "wordcount.hot.share",
    "hot_factor": "wordcount.hot.factor",
    "shift_period_s": "wordcount.shift.period.secs",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a user; the field's key in the topology configuration is in `_KEYS`.

    Attributes
    ----------
    rate_tps
        Sentences per second over all tasks of the spout, replays included.
    rate_schedule
        Rates that take turns instead, such as `60x120,20x30`: 60 a second for 120 s, then 20 for 30 s.
    call_sentences
        Most sentences of one call of Storm, which hands over acknowledgements, and looks at
        `topology.max.spout.pending`, between two calls.
    sentence_words, vocabulary_words
        Words of a sentence, and distinct words of the language.
    word_bytes
        Least length of a word: shorter ones are filled up.
    topics
        Distinct keys of sentences.
    seed
        Of the sentences and of which topics are hot.
    harmonic_terms
        Terms that are added up per sentence of an ordinary topic; 0 = no computation.
    hot_share, hot_factor
        Share of the topics that are hot, and how many times the terms their sentences cost.
    shift_period_s
        Seconds after which other topics are hot.
    """

    rate_tps: float = 100.0
    rate_schedule: str = ""
    call_sentences: int = 20
    sentence_words: int = 10
    word_bytes: int = 0
    vocabulary_words: int = 2000
    topics: int = 64
    seed: int = 1
    harmonic_terms: int = 0
    hot_share: float = 0.125
    hot_factor: float = 8.0
    shift_period_s: float = 60.0

    def __post_init__(self) -> None:
        for name, least in (
            ("rate_tps", 0.001),
            ("call_sentences", 1),
            ("sentence_words", 1),
            ("word_bytes", 0),
            ("vocabulary_words", 1),
            ("topics", 1),
            ("harmonic_terms", 0),
            ("hot_share", 0),
            ("hot_factor", 0),
            ("shift_period_s", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
                raise ValueError(f"{_KEYS[name]}: expected a number of at least {least}, got {value!r}")
        if self.rate_schedule:
            try:
                RateSchedule(self.rate_schedule)
            except ValueError as e:
                raise ValueError(f"{_KEYS['rate_schedule']}: {e}") from None
        if self.hot_share > 1:
            raise ValueError(f"{_KEYS['hot_share']}: expected at most 1, got {self.hot_share!r}")

    @classmethod
    def from_storm_conf(cls, storm_conf: Mapping[str, Any]) -> Settings:
        """Read the keys that are set; a wrong value is a ValueError that names its key."""
        found = {field.name: storm_conf.get(_KEYS[field.name]) for field in fields(cls)}
        return cls(**{name: value for name, value in found.items() if value is not None})
