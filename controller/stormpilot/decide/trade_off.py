"""Trade-off of a move: what it saves for as long as that is expected to last, against what its kind of move costs."""

from __future__ import annotations

from dataclasses import dataclass

from stormpilot.decide.budget import HOUR_MS
from stormpilot.printable import tuples


@dataclass(frozen=True)
class TradeOff:
    """`saved_tps` fewer tuples/s between nodes for `lasts_s`, against `held_up` tuples by what `by` says."""

    saved_tps: float
    lasts_s: float
    held_up: float
    by: str

    @property
    def saved(self) -> float:
        """Tuples that are not sent between nodes."""
        return self.saved_tps * self.lasts_s

    @property
    def text(self) -> str:
        """Its terms, as `explain` shows them."""
        return (
            f"{tuples(self.saved_tps)} tuples/s less between nodes, taken to last {self.lasts_s:.0f} s, are "
            f"{tuples(self.saved)} tuples; {tuples(self.held_up)} are held up by {self.by}"
        )


def expected_s(payback_s: float, plans_within_the_hour: int) -> float:
    """Time for which a gain is taken to last: `decide.payback_s`, less where the plans of the last hour lasted less."""
    return min(payback_s, HOUR_MS / 1000 / (plans_within_the_hour + 1))
