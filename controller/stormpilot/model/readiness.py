"""Whether a topology is measured well enough to plan on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Readiness:
    """Whether a topology is measured well enough to plan on; if not, `text` says what is missing.

    `missing` are tasks without a usable report, `expected_at_ms` when the data should be complete (None: nobody knows),
    `over_limit`: it reports more than is read of one topology. `reports_age_s` the age of the oldest report among those
    expected. `memory` says how much its executors take, and where that number comes from.
    """

    ready: bool
    instrumented: bool = True
    text: str = ""
    missing: tuple[int, ...] = ()
    expected_at_ms: int | None = None
    reports_age_s: float | None = None
    over_limit: bool = False
    memory: str = ""
