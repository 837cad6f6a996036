"""The loop of one leadership: cycles and other jobs by the clock and on change, as long as the session stands."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from stormpilot.api.service import Service
from stormpilot.clock import STEP_MS, SteadyClock
from stormpilot.config import Config
from stormpilot.control import takeover
from stormpilot.control.cycle import Cycle
from stormpilot.control.recorder import Recorder
from stormpilot.control.schedule import Job, Schedule
from stormpilot.decide.policy import configured_modes
from stormpilot.errors import StormpilotError, UnreachableError
from stormpilot.observe.observer import Observation
from stormpilot.publish.cleaner import Cleaner
from stormpilot.publish.publisher import DeposedError
from stormpilot.trafficlog.audit import AuditLog
from stormpilot.zookeeper.client import ConflictError

log = structlog.get_logger(__name__)

ROLLOUT_PERIOD_S = 1.0
ROLLOUT_REST = 3.0
"""On a large cluster, where one look at rollouts takes long, the next comes after so many times that long."""
CHANGE_REST, CHANGE_TIMES = 0.1, 3.0
"""A change of the traffic starts a cycle, if the last one began this part of a period ago, and so many times as long as
it took."""
BURST_S = 0.2
"""Changes come in bursts: how long to wait for the rest of one."""


@dataclass
class Leadership:
    """One leadership, from election to the end of its session.

    `connected` and `same_session` are about our ZooKeeper session, `wake` is set on every change there, `stopping` ends
    the loop. `take_up_configuration` takes up a configuration that was reloaded, and says whether there was one.
    `now_ms` is the clock of all that the leadership does; `ahead_ms`: by how much it is ahead (below 0: behind) of that
    by which the leadership before wrote times of rollouts.
    """

    cycle: Cycle
    recorder: Recorder
    service: Service
    audit_log: AuditLog
    cleaner: Cleaner
    connected: Callable[[], bool]
    same_session: Callable[[], bool]
    take_up_configuration: Callable[[], bool]
    wake: threading.Event
    stopping: threading.Event
    now_ms: SteadyClock
    ahead_ms: int = 0
    _observation: Observation | None = None
    _changed: Observation | None = None
    _signature: object = None
    _traffic_changed: set[str] = field(default_factory=set)
    _cycle_began_s: float = -math.inf
    _cycle_took_s: float = 0.0
    _taken_over: bool = False
    schedule: Schedule = field(init=False)

    def __post_init__(self) -> None:
        self.schedule = Schedule(self._jobs())

    def run(self, *, once: bool = False) -> None:
        """Do what is due until the session ends; with `once` a single cycle, after the windows are filled."""
        work = {"cycle": self._cycle, "otd": self._otd, "rollout": self._rollout, "loads": self._poll_loads}
        if abs(self.ahead_ms) >= STEP_MS:
            by_s = round(self.ahead_ms / 1000)
            log.warning("our clock is not that of the leadership before: times of rollouts are moved", by_s=by_s)
            self._guarded(self._keep_limits, once)
        self._guarded(self._take_over_plans, once)
        if once:
            self._fill_windows()
        try:
            while self._goes_on():
                if self.connected():
                    if not self._taken_over:
                        self._guarded(self._take_over_plans, once)
                    self._guarded(lambda: self._do_what_is_due(work), once)
                if once and self.recorder.cycles:
                    return
                if self.wake.wait(self.schedule.wait_s(time.monotonic())):
                    self.stopping.wait(BURST_S)
        finally:
            self.recorder.flush(self.now_ms())

    def _take_over_plans(self) -> None:
        """Take over what the leader before published, and sign it anew; once more where ZooKeeper went away."""
        self._taken_over = True
        try:
            publisher, seen = self.cycle.publisher, self._observe().seen
            publisher.take_over(takeover.unanswered(seen, self.now_ms(), configured_modes(self._config.decide)))
            if publisher.former_keys:
                plans = self._observe().seen.plans.values()
                publisher.sign_anew([(p.message, p.version) for p in plans if p.message is not None])
        except UnreachableError:
            self._taken_over = False
            raise

    def _goes_on(self) -> bool:
        self.service.beat()
        if self.stopping.is_set():
            return False
        if not self.same_session():
            log.warning("session lost; rejoining election")
            return False
        self.now_ms()
        if (set_by_ms := self.now_ms.set_by_ms) is not None:
            log.warning("the clock was set; all that was observed begins anew", by_s=round(set_by_ms / 1000))
            return False
        if self.take_up_configuration():
            self.schedule.use(self._jobs())
            self.schedule.now("cycle")
        return True

    def _keep_limits(self) -> None:
        """Have rollouts wait for what they wait for as long as by the clock before.

        Whose clock was set leaves that to the next leader, which may be another one: nobody does it twice.
        """
        try:
            self.cycle.rollout_runner.shift_times(self._observe(), self.ahead_ms)
        except UnreachableError as e:
            log.warning("times of rollouts are of the clock before", why=e)

    def _do_what_is_due(self, work: dict[str, Callable[[], None]]) -> None:
        if self.wake.is_set():
            self.wake.clear()
            observation = self._observe()
            if observation.signature != self._signature:
                self._changed = observation
                self.schedule.now("cycle")
        for name in self.schedule.due(time.monotonic()):
            began_s = time.monotonic()
            self.schedule.began(name, began_s)
            work[name]()
            self.schedule.ended(name, began_s, time.monotonic())

    def _guarded(self, work: Callable[[], None], once: bool) -> None:
        """One turn of the loop; what lies in ZooKeeper is written by others, and must not end it."""
        try:
            work()
        except UnreachableError as e:
            log.debug("ZooKeeper connection lost during a cycle", why=e)
            self.schedule.now("cycle")
        except DeposedError:
            raise
        except Exception as e:
            if once:
                raise
            self._failed("cluster could not be observed", e)
            self._record_failure(e)
            self.schedule.began("cycle", time.monotonic())
            self.stopping.wait(self._config.cycle.period_s)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _jobs(self) -> list[Job]:
        config = self._config
        return [
            Job("cycle", config.cycle.period_s),
            Job("otd", config.otd.period_s, wanted=lambda: config.otd.enabled),
            Job("rollout", ROLLOUT_PERIOD_S, ROLLOUT_REST, self._rollouts_wanted),
            Job("loads", config.cycle.poll_s),
        ]

    def _cycle(self) -> None:
        observation, self._changed = self._changed or self._observe(), None
        self._signature = observation.signature
        self._traffic_changed.clear()
        self._cycle_began_s = started_s = time.monotonic()
        try:
            report = self.cycle.run(observation)
            took_ms = (time.monotonic() - started_s) * 1000
            event, fields = report.sentence(took_ms)
            log.info(event, **fields)
            for e in report.events:
                say = log.warning if e.alert else log.info
                say(e.kind.value, topology=e.topology, text=e.text, value=e.value, threshold=e.threshold)
            try:
                publisher = self.cycle.publisher
                counters = {**self.cycle.observer.counters, "audit_records_lost": self.audit_log.lost}
                put = partial(publisher.put, publisher.paths.controller)
                self.recorder.record(report, observation, publisher.epoch.number, counters, took_ms, self.now_ms, put)
            finally:
                self.service.cycle_done(report, observation, self.recorder.state, took_ms)
            self._keep_house(observation)
        except (UnreachableError, DeposedError):
            raise
        except ConflictError as e:
            log.warning("the controller's state was not written", why=e)
        except Exception as e:  # noqa: BLE001 (logged with its trace)
            self._failed("cycle failed", e)
            self._record_failure(e)
        self._cycle_took_s = time.monotonic() - started_s
        if not self._rollouts_wanted():
            self._advance_rollouts(observation)  # tables that tasks have something to say of

    def _otd(self) -> None:
        """One step of `otd`; logged only when something moves."""
        started_s = time.monotonic()
        try:
            report = self.cycle.step(self._observe())
        except (UnreachableError, DeposedError):
            raise
        except Exception as e:  # noqa: BLE001 (logged with its trace)
            self._failed("step of otd failed", e)
            return
        if any(d.action != "skip" for d in report.decisions.values()):
            event, fields = report.sentence((time.monotonic() - started_s) * 1000)
            log.info(event, **fields)
            self.service.step_done(report)

    def _rollout(self) -> None:
        self._advance_rollouts(self._observe())

    def _advance_rollouts(self, observation: Observation) -> None:
        try:
            self.cycle.advance_rollouts(observation)
        except (UnreachableError, DeposedError):
            raise
        except Exception as e:  # noqa: BLE001 (logged with its trace)
            self._failed("rollouts could not be advanced", e)

    def _poll_loads(self) -> None:
        now_ms = self.now_ms()
        self.cycle.observer.poll_loads(now_ms)
        if changed := self.cycle.observer.newly_changed(now_ms):
            log.info("traffic changed; planning on what is measured since", topologies=", ".join(changed))
            self._traffic_changed |= set(changed)
        rested_s = time.monotonic() - self._cycle_began_s
        least_s = max(CHANGE_REST * self._config.cycle.period_s, CHANGE_TIMES * self._cycle_took_s)
        if self._traffic_changed and rested_s >= least_s:
            self.schedule.now("cycle")

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def _config(self) -> Config:
        return self.cycle.current.config

    def _rollouts_wanted(self) -> bool:
        return self.cycle.rollout_runner.wanted(self._observation)

    def _observe(self) -> Observation:
        self._observation = observation = self.cycle.observer.observe(self.now_ms())
        ours, seen = self.cycle.publisher.epoch.number, takeover.epoch_seen(observation.seen)
        if seen > ours:  # ZooKeeper was restored from a backup, or somebody wrote a plan
            raise DeposedError(f"the scheduler plug-in has seen epoch {seen} and rejects plans of ours, {ours}")
        return observation

    def _failed(self, event: str, error: Exception) -> None:
        """One line for an error of ours, a trace for any other."""
        known = isinstance(error, StormpilotError)
        log.error(f"{event}; retrying next period", why=error, exc_info=None if known else error)

    def _record_failure(self, error: Exception) -> None:
        """Have `status` tell why no cycle is complete, where even that may be written."""
        self.service.cycle_failed()
        publisher = self.cycle.publisher
        try:
            put = partial(publisher.put, publisher.paths.controller)
            self.recorder.record_failure(str(error), publisher.epoch.number, put)
        except (UnreachableError, DeposedError):
            raise
        except StormpilotError as e:
            log.debug("the controller's state was not written", why=e)

    def _keep_house(self, observation: Observation) -> None:
        """Copy the audit to its file, and remove what dead topologies left, where it is known which live."""
        self.audit_log.keep()
        snapshot = observation.seen
        if observation.belief is not None and self.cycle.publisher.paths.topology() not in snapshot.problems:
            alive = {*snapshot.topologies, *snapshot.unreadable_topologies}
            self.cleaner.clean(alive, observation.at_ms)
            oldest_ms = observation.at_ms - int(self._config.history.max_age_days * 86_400_000)
            told_ms = {i: min(m.mined_at_ms, m.to_ms) for i, m in snapshot.thresholds.items()}  # as `too_old` has it
            self.cleaner.clean_mined(told_ms, alive, oldest_ms)

    def _fill_windows(self) -> None:
        """Measure until every topology that reports load is ready, at most one window and what a first report takes."""
        load = self._config.load
        deadline_s = time.monotonic() + load.settle_s + load.window_s + load.max_report_age_s
        announced = False
        while not self.stopping.is_set() and time.monotonic() < deadline_s:
            readiness = self.cycle.observer.observe(self.now_ms()).belief
            if readiness is None or all(r.ready or not r.instrumented for r in readiness.readiness.values()):
                return
            if not announced:
                log.info("measuring", at_most_s=round(deadline_s - time.monotonic()))
            announced = True
            self.stopping.wait(self._config.cycle.poll_s)
