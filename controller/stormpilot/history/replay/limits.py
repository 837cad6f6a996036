"""B(n) that was mined beside the one that replay recommends: where they differ, and which holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stormpilot.history.replay.values import Setting
from stormpilot.messages.thresholds import CPU_LIMIT_RATIO, ThresholdEntry
from stormpilot.model.values import Value

DIFFER = 0.05
"""Without an interval a mined B(n) differs from another one when it is further away than this."""


class LimitDifference(Value, frozen=True, kw_only=True, rename="camel"):
    """A supervisor whose mined B(n) is another one than that which replay recommends; `low` to `high` its interval."""

    supervisor: str
    mined: float
    replayed: float
    low: float | None = None
    high: float | None = None
    proposed: bool = False

    @property
    def text(self) -> str:
        """For people."""
        sure = "" if self.low is None or self.high is None else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.mined:.3f}{sure}{', proposed' if self.proposed else ''} on {self.supervisor}"


def differing(entries: Iterable[ThresholdEntry], setting: Setting | None, configured: float) -> list[LimitDifference]:
    """Where a mined B(n) is not that of a setting (or, where it has none, the configured one)."""
    of_setting = None if setting is None else setting.decide.get("cpu_limit_ratio")
    replayed = configured if of_setting is None else float(of_setting)
    found = []
    for e in entries:
        if e.name != CPU_LIMIT_RATIO or e.scope != "supervisor" or e.source == "default" or e.value is None:
            continue
        low, high = (e.value - DIFFER, e.value + DIFFER) if e.low is None or e.high is None else (e.low, e.high)
        if not low <= replayed <= high:
            found.append(
                LimitDifference(
                    supervisor=e.of[0],
                    mined=e.value,
                    replayed=replayed,
                    low=e.low,
                    high=e.high,
                    proposed=e.source == "proposed",
                )
            )
    return sorted(found, key=lambda d: d.supervisor)


def sentences(differences: Sequence[LimitDifference]) -> list[str]:
    """Sentences for people, one for each direction."""
    lines = []
    if below := [d for d in differences if d.mined < d.replayed]:
        lines.append(
            f"B(n) of {below[0].replayed:g} is above what was mined: {', '.join(d.text for d in below)}. Replay counts "
            "a node as overloaded from the B(n) in the log on, mining from where latency rises. The lower one holds"
            + (", a proposed one from `thresholds freeze` on" if any(d.proposed for d in below) else "")
        )
    if above := [d for d in differences if d.mined > d.replayed]:
        lines.append(
            f"B(n) of {above[0].replayed:g} is below what was mined: {', '.join(d.text for d in above)}. Latency does "
            "not ask for so low a limit, but peaks within a step or a growing load may. The lower one holds"
        )
    return lines
