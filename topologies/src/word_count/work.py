"""The computation of the second form: a harmonic number per sentence, long for the topics that are hot just now."""

from __future__ import annotations

from random import Random

from word_count.sentences import topic_name
from word_count.settings import Settings


class HotTopics:
    """Which topics are hot: a random share of them, another one each period, the same in every task."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._period: int | None = None
        self._hot: frozenset[str] = frozenset()

    def terms(self, topic: str, now: float) -> int:
        """Return how many terms a sentence of `topic` costs at `now` (seconds since 1970)."""
        settings = self._settings
        period = int(now // settings.shift_period_s)
        if period != self._period:
            count = round(settings.hot_share * settings.topics)
            hot = Random(f"{settings.seed}/{period}").sample(range(settings.topics), count)
            self._hot = frozenset(map(topic_name, hot))
            self._period = period
        return int(settings.harmonic_terms * (settings.hot_factor if topic in self._hot else 1))


def harmonic(terms: int) -> float:
    """Return 1 + 1/2 + ... + 1/terms."""
    return sum(1 / k for k in range(1, terms + 1))
