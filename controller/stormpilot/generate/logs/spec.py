"""Specification of a synthetic log."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from stormpilot.generate.logs.shape import edges_of

MONDAY_MS = 1_735_516_800_000
"""2024-12-30 00:00 UTC, a Monday: logs begin 20 s after it, since windows do not keep to the clock."""
OFFSET_MS = 20_000
DAY_S = 86_400


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A log to make: every topology runs on nodes of its own and has truths of its own around these.

    The defaults are what the miners' tests recover at 30 days.
    """

    days: Annotated[float, Meta(gt=0, le=3650, description="how much time")] = 30.0
    window_s: Annotated[int, Meta(ge=1, le=3600, description="one measurement")] = 60
    start_ms: Annotated[int, Meta(ge=0, le=4_102_444_800_000, description="begin, ms since 1970")] = (
        MONDAY_MS + OFFSET_MS
    )
    topologies: Annotated[int, Meta(ge=1, le=100)] = 1
    nodes: Annotated[int, Meta(ge=2, le=1000, description="supervisors of each topology")] = 4
    parallelism: Annotated[int, Meta(ge=1, le=400, description="executors of the wide components")] = 6
    source_tps: Annotated[float, Meta(gt=0, le=1e6, description="mean of all spouts together")] = 400.0
    noise_ratio: Annotated[
        float, Meta(ge=0, le=0.2, description="standard deviation of a window's rate, as a part of it")
    ] = 0.04
    daily_ratio: Annotated[
        float, Meta(ge=0, le=0.9, description="how far the daily peak is above the mean, as a part of it")
    ] = 0.4
    weekend_ratio: Annotated[float, Meta(gt=0, le=2, description="rate of a Saturday against a Tuesday")] = 0.7
    drift_per_week_ratio: Annotated[float, Meta(ge=-0.2, le=0.2, description="growth per week")] = 0.005
    bursts_per_day: Annotated[
        float, Meta(ge=0, le=200, description="short surges; those over B(n) are overloads that end by themselves")
    ] = 16.0
    overload_windows: Annotated[
        int, Meta(ge=2, le=100, description="planted X(n): 95% of overloads that end by themselves are no longer")
    ] = 10
    overloads_per_day: Annotated[
        float, Meta(ge=0, le=24, description="lasting ones, which only a move ends: no miner may count them")
    ] = 0.5
    moves_per_day: Annotated[float, Meta(ge=0, le=100, description="moves for less traffic between nodes")] = 0.4
    failures_per_day: Annotated[
        float, Meta(ge=0, le=100, description="gaps in the log, executors that fall silent, nodes that go for a while")
    ] = 0.5
    cpu_limit_ratio: Annotated[float, Meta(gt=0, le=1, description="B(n) as configured while it was written")] = 0.8
    lowest_knee_ratio: Annotated[
        float, Meta(ge=0.3, le=0.9, description="latency leaves its band at a utilisation between this")
    ] = 0.62
    highest_knee_ratio: Annotated[float, Meta(ge=0.3, le=0.9, description="and this one, each node at its own")] = 0.76

    def __post_init__(self) -> None:
        if self.highest_knee_ratio < self.lowest_knee_ratio:
            raise ValueError("highest_knee_ratio is below lowest_knee_ratio")
        if self.windows < 1:
            raise ValueError(f"{self.days:g} days are shorter than one window of {self.window_s} s")
        if 1 + self.drift_per_week_ratio * self.days / 7 <= 0:
            raise ValueError(f"drift_per_week_ratio is {self.drift_per_week_ratio:g}: nothing is left of the rate")

    @property
    def windows(self) -> int:
        """Number of windows."""
        return int(self.days * DAY_S / self.window_s)

    @property
    def edge_rows(self) -> int:
        """Rows of table `edges`, before gaps: what a failure hides is not written."""
        return self.windows * self.topologies * edges_of(self.parallelism, self.nodes)

    def with_edge_rows(self, rows: int) -> Spec:
        """The same with as wide topologies as it takes for at least so many rows; ValueError when none is enough."""
        for parallelism in range(1, 401):
            spec = msgspec.structs.replace(self, parallelism=parallelism)
            if spec.edge_rows >= rows:
                return spec
        raise ValueError(f"{rows:,} edge rows need more than {self.days:g} days or {self.topologies} topologies")
