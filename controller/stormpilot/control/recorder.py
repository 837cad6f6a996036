"""Records of cycles: the controller's state for `stormpilot status`, and rows in the traffic log."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

import stormpilot
from stormpilot.api.health import fresh_for_s
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.decision_rows import decision_row, outcome_row
from stormpilot.decide.policy import configured_modes
from stormpilot.decide.report import CycleReport
from stormpilot.errors import UnreachableError
from stormpilot.logs import line
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import encode
from stormpilot.model.values import Model
from stormpilot.observe.observer import Observation
from stormpilot.operate.status import FAILED
from stormpilot.printable import without_login
from stormpilot.trafficlog import models, retention
from stormpilot.trafficlog.rows import log_window
from stormpilot.trafficlog.writer import TrafficLog

log = structlog.get_logger(__name__)
HOUSEKEEPING_MS = 600_000
MERGING_RATIO = 0.1
"""Part of a period in which files of the traffic log are merged; never more than `MERGING_MAX_S`."""
MERGING_MAX_S = 3.0
MOST_CHARACTERS = 500


@dataclass
class Recorder:
    """Keeps the records of one controller process, over all its leaderships.

    `counters` tells what the observer did not believe, cumulative. `before` is the state that the leadership before
    this one left, of another controller perhaps.
    """

    current: CurrentConfig
    name: str
    started_at_ms: int
    cycles: int = 0
    state: ControllerState | None = None
    before: ControllerState | None = None
    _since: dict[str, tuple[object, int]] = field(default_factory=dict)
    _traffic_log: TrafficLog | None = None
    _house: retention.Housekeeping | None = None
    _window_from_ms: int = 0
    _housekeeping_ms: int = 0
    _failing: bool = False

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        """Open the traffic log; one that does not answer is tried again later, and keeps nobody from leading."""
        settings = self.current.config.traffic_log
        if settings.dir is None:
            return
        try:
            self._traffic_log = kept = TrafficLog(settings.dir)
        except UnreachableError as e:
            log.warning("traffic log: nothing is written until it answers", why=e)
            return
        self._house = retention.Housekeeping(kept.place)
        self._guarded(lambda: retention.remove_leftovers(kept.place))

    def record(
        self,
        report: CycleReport,
        observation: Observation,
        epoch: int,
        counters: Mapping[str, int],
        took_ms: float,
        now_ms: Callable[[], int],
        put: Callable[[bytes], None],
    ) -> None:
        """Record a cycle; `put` writes the controller's `state`, with the time of its end by the clock `now_ms`."""
        self.cycles += 1
        self._to_traffic_log(report, observation, epoch, took_ms)
        for t, d in report.decisions.items():
            key = (d.action, d.reason)
            if self._since.get(t, (None, 0))[0] != key:
                self._since[t] = (key, observation.at_ms)
        self._since = {t: s for t, s in self._since.items() if t in report.decisions}
        readiness = {} if observation.belief is None else observation.belief.readiness
        views = report.views(readiness, {t: at_ms for t, (_, at_ms) in self._since.items()})
        problems = [why for _, why in sorted(observation.seen.problems.items())]
        event, fields = report.sentence(took_ms)
        self.state = ControllerState(
            **self._common(epoch, line(event, fields)),
            written_at_ms=now_ms(),
            problems=problems[:20],
            counters={**counters, **self._log_counters()},
            topologies=views,
            restarts=list(report.restarts),
            capacities=[] if observation.belief is None else list(observation.belief.capacities),
            short_of_cpu="" if observation.belief is None else observation.belief.short_of_cpu,
            approval_max_age_s=self.current.config.decide.approval_max_age_s,
            stuck_after_s=fresh_for_s(self.current.config),
            supervisors_gone=list(report.gone),
            task_refresh_s=None
            if self.current.config.decide.move_strategy == "restart"
            else self.current.config.rollout.task_refresh_s,
        )
        put(encode(self.state))

    def record_failure(self, why: str, epoch: int, put: Callable[[bytes], None]) -> None:
        """Write why a cycle failed in place of its sentence; the time stays that of the last one that was complete.

        Before the first cycle of a leadership what the one before had learned stays, for the next cycle to take it up.
        """
        own = self.state if self.state is not None and self.state.epoch == epoch else None
        now = self._common(epoch, f"{FAILED}{why[:MOST_CHARACTERS]}")
        last = own or self.before or self.state
        if last is None:
            put(encode(ControllerState(**now, written_at_ms=self.started_at_ms)))
        else:
            put(encode(msgspec.structs.replace(last, **now)))

    def _common(self, epoch: int, sentence: str) -> dict[str, Any]:
        """Fields that the controller's state has after every cycle, complete or not."""
        return {
            "controller": self.name,
            "version": stormpilot.__version__,
            "epoch": epoch,
            "started_at_ms": self.started_at_ms,
            "period_s": self.current.config.cycle.period_s,
            "cycles": self.cycles,
            "planner": self.current.planner,
            "sentence": sentence,
            "modes": configured_modes(self.current.config.decide),
        }

    def flush(self, now_ms: int) -> None:
        """Write what the traffic log holds (at the end of a leadership); a window begins with the next one."""
        self._window_from_ms = 0
        if self._traffic_log is not None:
            self._traffic_log.flush(now_ms)
            self._house = retention.Housekeeping(self._traffic_log.place)  # another controller may merge from now on

    def _log_counters(self) -> dict[str, int]:
        kept = self._traffic_log
        return {} if kept is None else {"log_rows_written": kept.rows_written, "log_rows_lost": kept.rows_lost}

    def _to_traffic_log(self, report: CycleReport, observation: Observation, epoch: int, took_ms: float) -> None:
        now_ms = observation.at_ms
        if self._traffic_log is None and self.current.config.traffic_log.dir is not None:
            if self._housekeeping_ms and not _over(self._housekeeping_ms, now_ms, HOUSEKEEPING_MS):
                return
            self._housekeeping_ms = now_ms
            self._open()
        if self._traffic_log is None:
            return
        made = defaultdict[int, list[str]](list)
        for t, entry in report.plans.items():
            made[id(report.models[t])].append(entry.plan.plan_id)
        for model in {id(m): m for m in report.models.values()}.values():
            if plan_ids := made[id(model)]:
                self._keep_model(plan_ids, model)
        for t in report.decisions:
            self._traffic_log.add("decisions", [decision_row(report, t, epoch, took_ms)], t)
        for move in report.ended:
            self._traffic_log.add("outcomes", [outcome_row(report, move)], move.topology_id)
        if self._window_from_ms == 0:
            self._window_from_ms = now_ms
        if _over(self._window_from_ms, now_ms, self.current.config.load.window_s * 1000):
            self._window_from_ms = now_ms
            log_window(self._traffic_log, observation)
            self._traffic_log.flush(now_ms)
            self._keep_house(now_ms)
        elif self._house is not None and self._house.behind:
            self._merge(self._house, now_ms)

    def _keep_model(self, plan_ids: Sequence[str], model: Model) -> None:
        folder = None if self._traffic_log is None else self._traffic_log.place.local
        if folder is not None:
            self._guarded(lambda: models.keep(folder, plan_ids, model))

    def _merge(self, house: retention.Housekeeping, now_ms: int) -> None:
        until_s = time.monotonic() + min(MERGING_RATIO * self.current.config.cycle.period_s, MERGING_MAX_S)
        self._guarded(lambda: house.merge(now_ms, lambda: time.monotonic() >= until_s))

    def _keep_house(self, now_ms: int) -> None:
        assert self._house is not None
        settings, house = self.current.config.traffic_log, self._house
        self._merge(house, now_ms)
        if _over(self._housekeeping_ms, now_ms, HOUSEKEEPING_MS):
            self._housekeeping_ms = now_ms
            self._guarded(lambda: house.enforce(now_ms, settings.retention_days, settings.max_mb))

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as e:  # noqa: BLE001 (whatever is in that folder must not stop a cycle)
            if not self._failing:
                folder = without_login(str(self.current.config.traffic_log.dir))
                log.warning("traffic log: the folder cannot be kept in order", dir=folder, why=e)
            self._failing = True
        else:
            self._failing = False


def _over(from_ms: int, now_ms: int, length_ms: float) -> bool:
    """Whether a time is over; one that begins later than now was begun by a clock that was ahead."""
    return not 0 <= now_ms - from_ms < length_ms
