"""Plans for the step that comes, as the controller's proactive planning makes them (model/forecast.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stormpilot.history.mine.findings import Mined
from stormpilot.messages.thresholds import Profile, Thresholds
from stormpilot.model.forecast import Forecast, forecast_of
from stormpilot.model.values import Model


@dataclass(frozen=True)
class Coming:
    """A `play.Coming` from what was mined, by topology name.

    What is not known well enough (`max_error_ratio`) stays as it was measured. Planned for is the step that comes, or
    `lead_s` (`history.lead_s`) where that is longer.
    """

    profiles: Mapping[str, Profile]
    thresholds: Mapping[str, Thresholds]
    max_error_ratio: float
    lead_s: float = 0.0

    def __call__(self, model: Model, from_ms: int, to_ms: int) -> Forecast:
        """The model of the step before, moved from its middle to the most until the end of the one that comes."""
        names = {t.id: t.name for t in model.topologies}
        middle_ms = from_ms - (to_ms - from_ms) // 2
        return forecast_of(
            model,
            {t: self.profiles[n] for t, n in names.items() if n in self.profiles},
            {t: self.thresholds[n] for t, n in names.items() if n in self.thresholds},
            middle_ms,
            max(to_ms - middle_ms, self.lead_s * 1000) / 1000,
            self.max_error_ratio,
        )


def coming_of(mined: Sequence[Mined], max_error_ratio: float, lead_s: float) -> Coming:
    """From what `stormpilot trafficlog mine -o` wrote."""
    return Coming(
        {m.thresholds.topology_name: m.profile for m in mined if m.profile is not None},
        {m.thresholds.topology_name: m.thresholds for m in mined},
        max_error_ratio,
        lead_s,
    )


def looks_ahead(mined: Sequence[Mined], from_ms: int) -> list[str]:
    """Topologies whose profile was made from time that is replayed too: their forecasts know the outcome."""
    return sorted(m.thresholds.topology_name for m in mined if m.profile is not None and m.profile.to_ms > from_ms)


def without_forecast(mined: Sequence[Mined], max_error_ratio: float) -> list[str]:
    """Why no forecast is made for topologies, a line each: no profile, or one that was not tested well enough."""
    lines = []
    for m in mined:
        error = None if m.profile is None else m.profile.forecast_error_ratio
        if m.profile is None:
            why = "no profile of its week was mined"
        elif error is None:
            why = "its profile was never tested"
        elif error > max_error_ratio:
            why = f"its profile is off by {error:.1%}, history.max_forecast_error_ratio is {max_error_ratio:.1%}"
        else:
            continue
        lines.append(f"no forecasts for {m.thresholds.topology_name}: {why}")
    return sorted(lines)
