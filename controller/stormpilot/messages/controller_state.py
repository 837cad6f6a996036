"""State of the controller in ZooKeeper: what the last cycle said of each topology; `status` and the doctor read it."""

from __future__ import annotations

from typing import Literal

import msgspec

from stormpilot.messages.core import Message, Part
from stormpilot.messages.settings import Mode


class Restart(Part, frozen=True, kw_only=True):
    """Duration of one move of ours, seconds.

    `applied_s` from publishing until the plug-in said applied, `recovery_s` until every restarted task reported
    again, `downtime_s` the median over those tasks of the time without work; `tasks` is how many they were.
    """

    plan_id: str
    topology: str
    at_ms: int
    applied_s: float
    recovery_s: float
    downtime_s: float
    tasks: int


class ChosenThreshold(Part, frozen=True, kw_only=True):
    """A threshold that holds for a topology, and where it comes from; `of` names the supervisor where it has one."""

    name: str
    of: list[str] = msgspec.field(default_factory=list)
    value: float
    source: Literal["operator", "owner", "mined", "configured"]
    text: str = ""


class TopologyView(Part, frozen=True, kw_only=True):
    """A topology as the controller sees it: the last decision (`action`, `reason` code, number against threshold).

    `inter_*` are measured for the present placement, null while nothing is measured; `planned_inter_node_tps` is what
    the newest plan would have; `reports_age_s` the age of the oldest of the load reports that are expected, `missing`
    how many tasks have none. `restart_s` is how long a worker is taken to stand still when it restarts, known from
    `restart_moves` moves (0: configured); `effect` says what the last move won. `threshold_from` says where `threshold`
    comes from, `thresholds` lists all that hold instead of the configured ones; empty: as configured. `recommendation`
    says what replay recommends, and whether it is planned by. `move_strategy` says how the plan is carried out and why,
    `held_up_*` how many tuples that holds up, `not_emptied` what cannot be routed around. `sources` says what holds the
    sources back, or that nothing does. `trade_off` weighs what the plan saves against what the move holds up,
    `expectation` is what it does to latency and to the rate that is carried. `memory` says how much its executors
    take, and whether that is declared or measured. `size` is another number of threads and slots that is proposed,
    with its reason code.
    """

    id: str
    name: str
    mode: Mode
    action: Literal["publish", "advise", "skip"]
    reason: str
    text: str = ""
    value: float | None = None
    threshold: float | None = None
    since_ms: int = 0
    inter_node_tps: float | None = None
    inter_node_share: float | None = None
    inter_worker_share: float | None = None
    total_tps: float | None = None
    planned_inter_node_tps: float | None = None
    moved_executors: int = 0
    reports_age_s: float | None = None
    missing: int = 0
    next_at_ms: int | None = None
    restart_s: float | None = None
    restart_moves: int = 0
    effect: str = ""
    mode_from: str = ""
    threshold_from: str = ""
    thresholds: list[ChosenThreshold] = msgspec.field(default_factory=list)
    recommendation: str = ""
    move_strategy: str = ""
    held_up_by_restarts: float = 0.0
    held_up_by_steps: float = 0.0
    not_emptied: list[str] = msgspec.field(default_factory=list)
    sources: str = ""
    memory: str = ""
    trade_off: str = ""
    expectation: str = ""
    size: str = ""

    @property
    def sentence(self) -> str:
        """The decision as one sentence."""
        return f"{self.reason}: {self.text}" if self.text else self.reason


class CapacityPart(Part, frozen=True, kw_only=True):
    """Capacity of a supervisor in the model. `cores_from` and `memory_from`: declared, measured or default.

    `memory_mb` 0 (from: unlimited) limits nothing. `sharing` is by how many supervisors of its host what was measured
    there is divided (0: of an earlier version).
    """

    supervisor: str
    host: str
    cores: float
    cores_from: str
    memory_mb: float = 0.0
    memory_from: str = ""
    sharing: int = 0


class GonePart(Part, frozen=True, kw_only=True):
    """A supervisor that was there within `decide.lost_supervisor_grace_s` and is not now; last seen at `seen_ms`.

    `host` is empty in what an earlier version wrote.
    """

    supervisor: str
    seen_ms: int
    host: str = ""


class ConfiguredModes(Part, frozen=True, kw_only=True):
    """Modes that the configuration gives: `decide.mode`, `decide.modes` by topology's name, `decide.owner_modes`."""

    mode: Mode
    by_name: dict[str, Mode] = msgspec.field(default_factory=dict)
    owner_modes: list[Mode] = msgspec.field(default_factory=list)


class ControllerState(Message, frozen=True, kw_only=True):
    """`controller`: who leads, what the last cycle said; older than a few periods = the controller is down or stuck.

    `task_refresh_s` is its `rollout.task_refresh_s`; None: rolling moves are off, or it is of an older version.
    `approval_max_age_s` is its `decide.approval_max_age_s`. By `modes`, and the settings of operators, the plug-in
    knows which new topologies may get a plan soon; None: it is of an older version, and any may. It
    is stuck where its last cycle is older than `stuck_after_s` (None: of an older version). Who leads next has
    `supervisors_gone` from it, for the guard against mass failures. `short_of_cpu` is a sentence where what runs needs
    more than plans may fill.
    """

    controller: str
    version: str
    epoch: int
    started_at_ms: int
    written_at_ms: int
    period_s: float
    cycles: int
    planner: str
    sentence: str
    problems: list[str] = msgspec.field(default_factory=list)
    counters: dict[str, int] = msgspec.field(default_factory=dict)
    topologies: list[TopologyView] = msgspec.field(default_factory=list)
    restarts: list[Restart] = msgspec.field(default_factory=list)
    task_refresh_s: float | None = None
    approval_max_age_s: float | None = None
    capacities: list[CapacityPart] = msgspec.field(default_factory=list)
    modes: ConfiguredModes | None = None
    stuck_after_s: float | None = None
    supervisors_gone: list[GonePart] = msgspec.field(default_factory=list)
    short_of_cpu: str = ""
