"""The section about what is mined from history: whether, within which ranges and how long it is used."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from stormpilot.config.enough import Enough
from stormpilot.config.renamed import RENAMED
from stormpilot.config.section import ADVANCED, Ratio, Section, in_words

RANGES: dict[str, tuple[float, float]] = {
    "decide.gain_threshold_ratio": (0.02, 0.5),
    "decide.overload_s": (10.0, 3600.0),
    "decide.cpu_limit_ratio": (0.3, 0.95),
    "decide.restart_s": (1.0, 600.0),
    "verify.noise_floor_ratio": (0.01, 0.5),
    "otd.cpu_high": (0.4, 1.0),
    "otd.cpu_low": (0.1, 0.9),
    "otd.queue_high_tuples": (10.0, 1e7),
    "otd.queue_low_tuples": (1.0, 1e6),
    "otd.threshold_asc_tps": (0.1, 1e6),
}
"""Range of each threshold, by its name; mined values outside of it become its nearer end, others are refused."""

OF_TOPOLOGIES = tuple(name for name in RANGES if name != "decide.cpu_limit_ratio")
"""Thresholds that a topology can have. B(n) is of a supervisor, on which other topologies run too."""


class HistorySection(Section, frozen=True, kw_only=True):
    """Use of thresholds and profiles that were mined from the traffic log, and planning ahead."""

    use_thresholds: Annotated[
        bool, Meta(description="take thresholds that were mined from a topology's history instead of those given here")
    ] = True
    max_age_days: Annotated[
        float,
        Meta(gt=0, le=3650, description="thresholds and profiles of data that ends longer ago are not used any more"),
    ] = 45.0
    ranges: Annotated[
        dict[str, tuple[float, float]],
        Meta(
            extra=ADVANCED,
            description="smallest and largest value of a mined or set threshold, by name; the others keep their range",
        ),
    ] = field(default_factory=dict)
    owner_thresholds: Annotated[
        tuple[str, ...],
        Meta(
            extra=ADVANCED,
            description="thresholds that owners may set in their topology's configuration (stormpilot.thresholds); not "
            "decide.cpu_limit_ratio, which is of a supervisor",
        ),
    ] = ("decide.gain_threshold_ratio",)
    use_recommendation: Annotated[
        bool, Meta(description="plan a topology with the planner and parameters that replay recommends for it")
    ] = False
    enough: Annotated[
        dict[str, int | float],
        Meta(
            extra=ADVANCED, description="how much of the log a mined number needs, by name (span_h, noise_windows, ...)"
        ),
    ] = field(default_factory=dict)
    proactive: Annotated[
        bool, Meta(description="plan for the highest rates of the next lead_s, where profiles are accurate enough")
    ] = False
    max_forecast_error_ratio: Annotated[
        Ratio, Meta(extra=ADVANCED, description="a profile whose tested error is larger is not used")
    ] = 0.15
    lead_s: Annotated[float, Meta(ge=60, le=86_400, extra=ADVANCED, description="how far ahead is planned")] = 1800.0

    def __post_init__(self) -> None:
        for name, (least, most) in self.ranges.items():
            if name in RENAMED:
                raise ValueError(f"ranges: {name} is now {RENAMED[name]}")
            if name not in RANGES:
                raise ValueError(f"ranges: {name} is no threshold, expected one of {', '.join(RANGES)}")
            if not least <= most:
                raise ValueError(f"ranges: {name} is {least:g} to {most:g}, expected the smaller number first")
        for name in self.owner_thresholds:
            if name not in OF_TOPOLOGIES:
                what = "is of a supervisor, not of a topology" if name in RANGES else "is no threshold"
                raise ValueError(f"owner_thresholds: {name} {what}, expected one of {', '.join(OF_TOPOLOGIES)}")

        self.needs()

    def needs(self) -> Enough:
        """The least that mining believes; `ValueError` for what is no such number."""
        for name in self.enough:
            if name not in Enough.__struct_fields__:
                raise ValueError(f"enough: {name} is unknown, expected one of {', '.join(Enough.__struct_fields__)}")
        try:
            return msgspec.convert(self.enough, Enough)
        except msgspec.ValidationError as e:
            expected, _, name = str(e).rstrip("`").rpartition(" - at `$.")
            raise ValueError(f"enough: {name}: {in_words(expected)}") from e

    def range_of(self, name: str) -> tuple[float, float]:
        """Least and most that the threshold may be."""
        return self.ranges.get(name, RANGES[name])
