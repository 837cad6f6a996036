"""Entry of a finding, with its evidence, or the default and the missing data. No engine in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stormpilot.config import Config
from stormpilot.config.enough import Enough
from stormpilot.history.mine.log import Row
from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import Scope, ThresholdEntry

NOT_KNOWN, FINE = "not known", "the default is fine"
"""Beginnings of the text of every default: nobody knows a better one, or it was examined and is right."""


@dataclass(frozen=True)
class MiningCriteria:
    """Criteria of mined numbers: defaults, floors and caps of `config`; who mined which log, and when."""

    config: Config = field(default_factory=Config)
    now_ms: int = 0
    by: str = ""
    log: str = ""

    @property
    def enough(self) -> Enough:
        """The least that is believed."""
        return self.config.history.needs()


def lacking(row: Row | None, enough: Enough | None, *needs: tuple[str, int, str]) -> str:
    """Why the rows behind a number are too few; empty when they are enough. `enough`: its span counts too."""
    if row is None:
        return f"no {needs[0][2]}"
    missing = [f"{row[column]} {what}, {least} needed" for column, least, what in needs if row[column] < least]
    if enough is not None:
        span_h = (ms(row["last"]) - ms(row["first"])) / 3_600_000
        if span_h < enough.span_h * 0.98:  # a day's windows begin with the first one's end
            missing.append(f"{span_h:.3g} hours, {enough.span_h:g} needed")
    return "; ".join(missing)


def entry(
    name: str,
    row: Row | None,
    value: float | None,
    text: str | None,
    why: str,
    *,
    default: float | None = None,
    interval: tuple[float | None, float | None] = (None, None),
    by: str = "",
    proposed: bool = False,
    scope: Scope = "topology",
    of: Sequence[str] = (),
) -> ThresholdEntry:
    """A mined number, or the default when `why` says what is lacking.

    `interval`: between which values it lies in most draws of days. `by`: the B(n) that it rests on. `proposed`: it
    waits for an operator.
    """
    low, high = (None, None) if why else interval
    if why and not why.startswith((NOT_KNOWN, FINE)):
        why = f"{NOT_KNOWN}: {why}"
    return ThresholdEntry(
        name=name,
        scope=scope,
        of=list(of),
        value=default if why else value,
        unit=th.UNITS.get(name, ""),
        source="default" if why else "proposed" if proposed else "mined",
        low=low,
        high=high,
        days=0 if row is None or why else _days(row),
        by="" if why else by,
        rows=0 if row is None else row["rows"],
        from_ms=0 if row is None else ms(row["first"]),
        to_ms=0 if row is None else ms(row["last"]),
        text=why or text or "",
    )


def _days(row: Row) -> int:
    """On how many days the number rests, where that is known: what its interval is drawn from."""
    if row.get("samples"):
        return len({s[0] for s in row["samples"] if s is not None})
    return len(row.get("by_day", ())) or int(row.get("days") or 0)


def ms(at: datetime) -> int:
    """Milliseconds since 1970."""
    return round(at.timestamp() * 1000)
