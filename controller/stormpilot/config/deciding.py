"""The sections that say what may be moved, when, how much at once, and what happens after a move."""

from __future__ import annotations

import zoneinfo
from typing import Annotated, Literal

from msgspec import Meta, field

from stormpilot.config.rollout import MoveStrategyName
from stormpilot.config.section import ADVANCED, TIME_OF_DAY, Ratio, Seconds, SecondsOrZero, Section
from stormpilot.messages.settings import Mode


class BlackoutWindow(Section, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A time of the week in which nothing that runs is moved."""

    days: Annotated[
        list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]],
        Meta(description="days on which it begins; empty: every day"),
    ] = field(default_factory=list)
    from_: Annotated[str, Meta(pattern=TIME_OF_DAY, description="when it begins, HH:MM")]
    to: Annotated[
        str,
        Meta(
            pattern=TIME_OF_DAY,
            description="when it ends, HH:MM; on the next day when that is earlier",
        ),
    ]
    timezone: Annotated[str, Meta(description="of both times, e.g. Europe/Berlin")] = "UTC"

    def __post_init__(self) -> None:
        try:
            zoneinfo.ZoneInfo(self.timezone)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as e:
            raise ValueError(f"timezone is {self.timezone!r}, expected a name such as UTC or Europe/Berlin") from e


class DecideSection(Section, frozen=True, kw_only=True):
    """Changes that are allowed, and the gain that they need."""

    mode: Annotated[
        Mode,
        Meta(
            description="off, advise (plans are proposed, not applied) or act; for topologies that modes does not list"
        ),
    ] = "advise"
    modes: Annotated[
        dict[str, Mode], Meta(description="mode by name of the topology; `stormpilot mode` overrides it")
    ] = field(default_factory=dict)
    owner_modes: Annotated[
        tuple[Mode, ...],
        Meta(description="modes that owners may set in their topology's configuration (stormpilot.mode)"),
    ] = ("off", "advise")
    approve: Annotated[
        list[str],
        Meta(
            description="shell patterns of topology names: every plan that moves their running executors waits for "
            "`stormpilot approve`, also relief and drains; first plans, repairs and rollbacks do not wait"
        ),
    ] = field(default_factory=list)
    approval_max_age_s: Annotated[
        Seconds, Meta(description="an older proposed plan cannot be approved; it is planned again")
    ] = 900.0
    evict: Annotated[
        list[str],
        Meta(
            description="shell patterns of topology names: under the ResourceAwareScheduler these give up their plans "
            "where a topology that comes before them by guarantees and priorities waits for room; empty: none does"
        ),
    ] = field(default_factory=list)
    evict_approval: Annotated[
        bool, Meta(description="whether giving a plan up (decide.evict) waits for `stormpilot approve`")
    ] = True
    evict_after_s: Annotated[
        SecondsOrZero,
        Meta(extra=ADVANCED, description="how long a topology waits before others leave for it"),
    ] = 60.0
    request_max_age_s: Annotated[
        Seconds, Meta(extra=ADVANCED, description="a request that no leading controller acted on expires after so long")
    ] = 600.0
    discard_hold_s: Annotated[
        SecondsOrZero, Meta(description="after `stormpilot discard` the topology is on hold for so long")
    ] = 3600.0
    rollback_hold_s: Annotated[
        SecondsOrZero, Meta(description="after `stormpilot rollback` the topology is on hold for so long")
    ] = 1800.0
    include: Annotated[list[str], Meta(description="shell patterns of topology names that are managed; empty: all")] = (
        field(default_factory=list)
    )
    exclude: Annotated[list[str], Meta(description="shell patterns of topology names that are not managed")] = field(
        default_factory=list
    )
    ignored_storm_keys: Annotated[
        list[str],
        Meta(
            description="keys of Storm's schedulers that plans do not honour, and that hold no topology all the same: "
            "you accept that a plan may break them"
        ),
    ] = field(default_factory=list)
    cpu_limit_ratio: Annotated[
        float, Meta(gt=0, le=1, description="B(n): part of a node's CPU that planning may fill")
    ] = 0.8
    fill_ratio: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="part of B(n) that plans for GAIN and NEW_SUPERVISOR may fill; all other plans use all of "
            "B(n) where they need it",
        ),
    ] = 0.9
    overload_s: Annotated[
        SecondsOrZero,
        Meta(description="X(n): how long a node must be over B(n) before that alone is a reason to move"),
    ] = 60.0
    gain_threshold_ratio: Annotated[
        Ratio, Meta(description="R: inter-node traffic must fall by at least this part of itself")
    ] = 0.1
    consecutive_hits: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="cycles in a row in which a gain must show; for plans with restarts, as many again for each "
            "plan of the last hour after the first",
        ),
    ] = 2
    cool_down_s: Annotated[
        SecondsOrZero,
        Meta(
            description="cool-down: time after a plan in which a topology gets no plan for GAIN, OVERLOAD or "
            "NEW_SUPERVISOR"
        ),
    ] = 180.0
    repair_cool_down_s: Annotated[
        SecondsOrZero | None,
        Meta(
            extra=ADVANCED,
            description="cool-down after a repair; none: cool_down_s; 0: improved as soon as it is measured",
        ),
    ] = None
    restart_s: Annotated[
        SecondsOrZero,
        Meta(extra=ADVANCED, description="assumed downtime of a worker that restarts, until it was measured"),
    ] = 15.0
    payback_s: Annotated[
        Seconds,
        Meta(description="time in which the tuples saved between nodes must outnumber those that restarts hold up"),
    ] = 300.0
    move_strategy: Annotated[
        MoveStrategyName,
        Meta(
            description="how plans are carried out. auto: by rolling moves where possible; restart: always by "
            "restarts; rolling: a plan for GAIN, NEW_SUPERVISOR, REBALANCED or OTD never restarts a worker, other "
            "plans may"
        ),
    ] = "auto"
    rejected_retry_s: Annotated[
        SecondsOrZero,
        Meta(
            extra=ADVANCED,
            description="wait after a plan that the scheduler plug-in rejected; it doubles "
            "after each further one in a row, up to cool_down_s",
        ),
    ] = 30.0
    max_lost_supervisors_ratio: Annotated[
        Ratio, Meta(extra=ADVANCED, description="nothing is moved while this part of the supervisors, or more, is lost")
    ] = 0.4
    lost_supervisor_grace_s: Annotated[
        SecondsOrZero, Meta(extra=ADVANCED, description="a lost supervisor counts as gone for good after so long")
    ] = 600.0
    blackouts: Annotated[
        list[BlackoutWindow],
        Meta(
            description="times of the week (days, from, to, timezone) in which everything that moves running executors "
            "waits, except `approve` and `rollback`"
        ),
    ] = field(default_factory=list)


class VerifySection(Section, frozen=True, kw_only=True):
    """Verification of a move: the traffic after it is measured as long as before it, per tuple processed."""

    rollback: Annotated[
        bool, Meta(description="a move that made it worse, or whose workers do not stay up, is rolled back, once")
    ] = True
    noise_floor_ratio: Annotated[
        Ratio,
        Meta(
            extra=ADVANCED,
            description="a smaller relative change (or one below three times the measured noise) counts as no change",
        ),
    ] = 0.05
    least_gain_ratio: Annotated[
        Ratio,
        Meta(
            extra=ADVANCED,
            description="a move that gained less than this part of what was predicted counts as without gain",
        ),
    ] = 0.25
    back_off_s: Annotated[
        Seconds,
        Meta(extra=ADVANCED, description="wait after a move without gain; it doubles each time"),
    ] = 600.0
    max_back_off_s: Annotated[
        float, Meta(gt=0, le=604_800, extra=ADVANCED, description="the longest wait after moves without gain")
    ] = 21_600.0
    timeout_s: Annotated[
        Seconds,
        Meta(
            extra=ADVANCED,
            description="a move that is not applied and measured within this time and a window is not judged; where "
            "its workers do not stay up, it is rolled back",
        ),
    ] = 900.0


Limit = Annotated[int, Meta(ge=0, le=10_000_000)]


class BudgetSection(Section, frozen=True, kw_only=True):
    """Limits of moves within an hour. All moves count; GAIN, OVERLOAD, NEW_SUPERVISOR, REBALANCED, OTD keep to them."""

    topology_executors_per_hour: Annotated[
        Limit | None, Meta(description="executors of one topology that may move; none: any number")
    ] = None
    topology_workers_per_hour: Annotated[
        Limit | None, Meta(description="workers of one topology that may restart; none: any number")
    ] = None
    cluster_executors_per_hour: Annotated[
        Limit | None,
        Meta(
            description="executors of all topologies that may move, with those that rollouts have still to move; none: "
            "any number. Relief of overloaded nodes comes first, then the plan that saves most traffic between nodes"
        ),
    ] = None
    cluster_workers_per_hour: Annotated[
        Limit | None, Meta(description="workers of all topologies that may restart; none: any number")
    ] = None


class NewSupervisorsSection(Section, frozen=True, kw_only=True):
    """Treatment of a new or returned supervisor, once it has stayed."""

    enabled: Annotated[bool, Meta(description="move executors to supervisors that are new or came back")] = True
    stable_cycles: Annotated[
        int,
        Meta(
            ge=1, le=1000, extra=ADVANCED, description="cycles that a new supervisor must have stayed before it is used"
        ),
    ] = 3
    for_s: Annotated[Seconds, Meta(extra=ADVANCED, description="how long after that time supervisors count as new")] = (
        1800.0
    )
    gain_threshold_ratio: Annotated[
        Ratio,
        Meta(extra=ADVANCED, description="replaces decide.gain_threshold_ratio for a plan that uses new supervisors"),
    ] = 0.05
    busy_ratio: Annotated[
        Ratio,
        Meta(
            extra=ADVANCED, description="no gain is needed when the busiest node is filled to this part of B(n) or more"
        ),
    ] = 0.5
    relief_ratio: Annotated[
        Ratio,
        Meta(
            extra=ADVANCED,
            description="a plan that needs no gain has to lower the load of the busiest node by this part",
        ),
    ] = 0.2
    traffic_rise_ratio: Annotated[
        Ratio,
        Meta(
            extra=ADVANCED,
            description="a plan that needs no gain may raise inter-node traffic by at most this part of all tuples",
        ),
    ] = 0.1


class OtdSection(Section, frozen=True, kw_only=True):
    """The planner `otd` as a loop of its own: at most one executor moves at a time."""

    enabled: Annotated[
        bool,
        Meta(
            description="move one executor at a time, in a loop of its own; the main loop only places and repairs there"
        ),
    ] = False
    include: Annotated[list[str], Meta(description="shell patterns of the topologies that it has; empty: all")] = field(
        default_factory=list
    )
    period_s: Annotated[
        float, Meta(ge=1, le=3600, extra=ADVANCED, description="between two steps, each of at most one executor")
    ] = 5.0
    cool_down_s: Annotated[
        SecondsOrZero,
        Meta(extra=ADVANCED, description="cool-down of a topology after a move, since Storm restarts workers"),
    ] = 60.0
    switch_cool_down_s: Annotated[
        SecondsOrZero,
        Meta(
            extra=ADVANCED, description="cool-down after traffic was shifted to a standby executor: nothing restarted"
        ),
    ] = 10.0
    cpu_high: Annotated[
        Ratio, Meta(extra=ADVANCED, description="a worker is high when its node is above this part of B(n)")
    ] = 0.8
    cpu_low: Annotated[
        Ratio,
        Meta(
            extra=ADVANCED, description="a worker is low when its node is below this part of B(n) and its queue is low"
        ),
    ] = 0.6
    queue_high_tuples: Annotated[
        float, Meta(ge=0, le=1e12, extra=ADVANCED, description="a worker is high, too, when more tuples wait")
    ] = 10_000.0
    queue_low_tuples: Annotated[
        float, Meta(ge=0, le=1e12, extra=ADVANCED, description="fewer waiting tuples than this are a low queue")
    ] = 1_000.0
    threshold_asc_tps: Annotated[
        float,
        Meta(
            ge=0,
            le=1e12,
            extra=ADVANCED,
            description="for traffic alone an executor moves only when more than this is saved between nodes",
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.cpu_low < self.cpu_high:
            raise ValueError(f"cpu_low is {self.cpu_low:g}, expected a number above 0 and below cpu_high")
        if self.queue_low_tuples >= self.queue_high_tuples:
            raise ValueError(f"queue_low_tuples is {self.queue_low_tuples:g}, expected less than queue_high_tuples")
