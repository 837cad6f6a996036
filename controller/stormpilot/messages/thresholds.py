"""Findings from a topology's history: messages `thresholds/<topology-id>` and `profiles/<topology-id>`.

Written by `stormpilot trafficlog mine` and `replay`, read by the controller, which never waits for them. The rules of
`core.py` hold here too. A threshold that the controller uses is named as the setting of `controller.yaml` that it
stands in for; its unit and range are that setting's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from stormpilot.messages.core import Message, Part

GAIN_RATIO = "decide.gain_threshold_ratio"
"""R: of a topology."""
OVERLOAD_S = "decide.overload_s"
"""X(n): of a supervisor, or of a topology for all its supervisors."""
CPU_LIMIT_RATIO = "decide.cpu_limit_ratio"
"""B(n) / CPU(n): of a supervisor."""
RESTART_S = "decide.restart_s"
"""Downtime of a worker that restarts: of a topology."""
NOISE_FLOOR_RATIO = "verify.noise_floor_ratio"
"""Noise, of a topology."""
OTD_CPU_HIGH = "otd.cpu_high"
OTD_CPU_LOW = "otd.cpu_low"
OTD_QUEUE_HIGH = "otd.queue_high_tuples"
OTD_QUEUE_LOW = "otd.queue_low_tuples"
OTD_ASC = "otd.threshold_asc_tps"
CONTROLS = (
    *(GAIN_RATIO, OVERLOAD_S, CPU_LIMIT_RATIO, RESTART_S, NOISE_FLOOR_RATIO),
    *(OTD_CPU_HIGH, OTD_CPU_LOW, OTD_QUEUE_HIGH, OTD_QUEUE_LOW, OTD_ASC),
)
"""Names that the controller takes instead of its configuration."""

NOISE_RATIO = "noise_ratio"
"""Of a topology: 1.4826 x MAD / median of its inter-node traffic while the placement stayed."""
SELECTIVITY = "selectivity"
"""Of an edge: tuples that arrive per tuple that the component it comes from receives (a spout: emits)."""
CPU_INTERCEPT_MHZ = "cpu_intercept_mhz"
"""Of a component: CPU of one executor at rate 0."""
CPU_MHZ_PER_TPS = "cpu_mhz_per_tps"
"""Of a component: CPU of one executor per tuple/s that it receives (a spout: emits); x 1000 / MHz of a core = ms."""
FORECAST_ERROR_RATIO = "forecast_error_ratio"
"""Of a topology: median of |rate - forecast| / rate over windows that the profile was not made from."""
"""Names that are not settings."""
UNITS = {
    NOISE_RATIO: "",
    SELECTIVITY: "tuples/tuple",
    CPU_INTERCEPT_MHZ: "MHz",
    CPU_MHZ_PER_TPS: "MHz per tuple/s",
    FORECAST_ERROR_RATIO: "",
    GAIN_RATIO: "",
    OVERLOAD_S: "s",
    CPU_LIMIT_RATIO: "",
    RESTART_S: "s",
    NOISE_FLOOR_RATIO: "",
    OTD_CPU_HIGH: "",
    OTD_CPU_LOW: "",
    OTD_QUEUE_HIGH: "tuples",
    OTD_QUEUE_LOW: "tuples",
    OTD_ASC: "tuples/s",
}

Scope = Literal["topology", "supervisor", "component", "edge"]
HOURS_OF_WEEK = 168
MAX_PROFILE_EDGES = 1500
"""More edges do not fit a znode; the busiest are kept."""
_HOUR_MS = 3_600_000
_MONDAY_AFTER_EPOCH_H = 72  # 1970-01-01 was a Thursday


class ThresholdEntry(Part, frozen=True, kw_only=True):
    """One number with its evidence.

    `of` says which one of its scope: nothing for the topology, [supervisor id], [component], or [from component,
    stream, to component]. `source` is `default` where there was too little data: `value` is the default then (null
    for a finding without one), and `text` says what was lacking. A `proposed` one is never in force by itself: it waits
    for an operator. `rows` of the log, from `from_ms` to `to_ms`; `low` and `high`: between them the value lies for 90%
    of draws of `days` (null: not known). `by`: whose B(n) says what an overload is, the `logged` or the `mined` one.
    """

    name: str
    scope: Scope = "topology"
    of: list[str] = msgspec.field(default_factory=list)
    value: float | None = None
    unit: str = ""
    source: Literal["mined", "proposed", "default"] = "mined"
    low: float | None = None
    high: float | None = None
    days: int = 0
    by: str = ""
    rows: int = 0
    from_ms: int = 0
    to_ms: int = 0
    text: str = ""


class PerformancePoint(Part, frozen=True, kw_only=True):
    """`threads` of a component alone in one worker sustained `rate_tps` with so much CPU and memory (`size`).

    `by`: whose B(n) the node was not over, the `logged` or the `mined` one. `low_tps` and `high_tps`: between them the
    rate lies for 90% of draws of `days` (null: not known).
    """

    component: str
    threads: int
    rate_tps: float
    cpu_mhz: float
    memory_mb: float
    low_tps: float | None = None
    high_tps: float | None = None
    days: int = 0
    rows: int = 0
    by: str = "logged"


class Recommendation(Part, frozen=True, kw_only=True):
    """Best candidate of replay; scores are in the words of `text`, lower is better.

    `held_out_score` and `default_held_out_score` are of days that it was not chosen by; null: none were held out. The
    gain on these `held_out_days`, as a part of the default's score, lies between `gain_low_ratio` and `gain_high_ratio`
    for 90% of draws of days (null: not known).
    """

    planner: str
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    score: float
    default_score: float | None = None
    held_out_score: float | None = None
    default_held_out_score: float | None = None
    windows: int = 0
    from_ms: int = 0
    to_ms: int = 0
    replayed_at_ms: int = 0
    held_out_days: int = 0
    gain_low_ratio: float | None = None
    gain_high_ratio: float | None = None
    text: str = ""


class Thresholds(Message, frozen=True, kw_only=True):
    """`thresholds/<topology-id>`: what the log from `from_ms` to `to_ms` says; `by` and `log` name who mined which."""

    topology_id: str
    topology_name: str
    mined_at_ms: int
    from_ms: int
    to_ms: int
    by: str = ""
    log: str = ""
    entries: list[ThresholdEntry] = msgspec.field(default_factory=list)
    performance: list[PerformancePoint] = msgspec.field(default_factory=list)
    recommendation: Recommendation | None = None

    def entry(self, name: str, scope: Scope = "topology", *of: str) -> ThresholdEntry | None:
        """The entry of that name, None without one."""
        wanted = (name, scope, list(of))
        return next((e for e in self.entries if (e.name, e.scope, e.of) == wanted), None)


class EdgeProfile(Part, frozen=True, kw_only=True):
    """Rate between two components by hour of the week (`hour_of_week`), null where none was seen; `weeks` seen."""

    from_: str = msgspec.field(name="from")
    stream: str
    to: str
    rate_tps: Annotated[list[float | None], msgspec.Meta(min_length=HOURS_OF_WEEK, max_length=HOURS_OF_WEEK)]
    weeks: int = 0
    forecast_error_ratio: float | None = None


class Profile(Message, frozen=True, kw_only=True):
    """`profiles/<topology-id>`: what a week of the topology is like; `forecast_error_ratio` null = never tested.

    Between `forecast_error_low` and `forecast_error_high` it lies for 90% of draws of the days tested on.
    """

    topology_id: str
    topology_name: str
    mined_at_ms: int
    from_ms: int
    to_ms: int
    rows: int = 0
    forecast_error_ratio: float | None = None
    forecast_error_low: float | None = None
    forecast_error_high: float | None = None
    edges: Annotated[list[EdgeProfile], msgspec.Meta(max_length=MAX_PROFILE_EDGES)] = msgspec.field(
        default_factory=list
    )


def hour_of_week(at_ms: int) -> int:
    """0 to 167: hours since Monday 00:00 UTC."""
    return (at_ms // _HOUR_MS + _MONDAY_AFTER_EPOCH_H) % HOURS_OF_WEEK
