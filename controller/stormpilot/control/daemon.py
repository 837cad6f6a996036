"""The controller process: owns leadership and time; one cycle itself is in `cycle.py`, signals in `foreground.py`."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable

import structlog
from kazoo.exceptions import CancelledError, KazooException
from kazoo.recipe.lock import Lock

from stormpilot import logs
from stormpilot.api.service import Service
from stormpilot.config import Config, zookeeper_auth
from stormpilot.config.reload import Loaded, Read, changed_keys, needs_restart, usable
from stormpilot.control.cycle import Cycle
from stormpilot.control.planner_client import Compute, warm_up
from stormpilot.control.recorder import Recorder
from stormpilot.errors import RefusedError, StormpilotError, UnreachableError, UsageError
from stormpilot.observe.observer import Observation, Observer
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.publish.cleaner import Cleaner
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import DeposedError, Publisher
from stormpilot.trafficlog import audit
from stormpilot.zookeeper.client import ConflictError, ZooKeeper
from stormpilot.zookeeper.paths import Paths

log = structlog.get_logger(__name__)

WAIT_S = 0.5
"""How often a wait looks whether it is still wanted."""
ROLLOUT_PERIOD_S = 1.0
"""Between two looks at plans that are carried out step by step; on a large cluster three times what one takes."""
BURST_S = 0.2
"""Changes come in bursts: how long to wait for the rest of one."""


class Daemon:
    """One controller process.

    Parameters
    ----------
    planner, first_planner
        Names of the planners for what runs and for what was never placed.
    compute
        Runs a planner by name.
    read
        Reads the configuration anew, for `reload`; None where that cannot be done.
    """

    def __init__(self, config: Config, compute: Compute, planner: str, first_planner: str, read: Read | None = None):
        self._config = config
        self._read = read
        self._loaded: deque[Loaded] = deque(maxlen=1)
        self._compute = compute
        self._planner = planner
        self._first_planner = first_planner
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._paths = Paths(config.zookeeper.root)
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._lock: Lock | None = None
        self._audit_log: audit.AuditLog | None = None
        self._cleaner: Cleaner | None = None
        self._away_said = False
        self._recorder = Recorder(config, self.name, planner, started_at_ms=_now_ms())
        self._zookeeper = ZooKeeper(
            config.zookeeper.hosts,
            auth=zookeeper_auth(config.zookeeper),
            session_timeout_s=config.zookeeper.session_timeout_s,
            on_change=self._connection_changed,
        )
        self.service = Service(
            config,
            self.name,
            connected=lambda: self._zookeeper.connected,
            sessions_lost=lambda: self._zookeeper.sessions_lost,
            reload=None if read is None else self.reload,
        )

    def run(self, *, once: bool = False) -> None:
        """Run until `stop`; with `once` for a single cycle, after the windows are filled."""
        self._zookeeper.start()
        if not once:
            self.service.start()
        self._warm_up({self._planner, self._first_planner})
        try:
            while not self._stopping.is_set():
                if not self._zookeeper.wait_connected(WAIT_S):
                    self._say_away()
                    continue
                try:
                    self._lead_when_elected(once)
                except UnreachableError as e:
                    log.warning("ZooKeeper went away", why=e)
                except DeposedError as e:
                    log.warning("stepped down", why=e)
                except RefusedError as e:
                    if once:
                        raise
                    log.error("cannot lead, rejoining election", why=e, retry_s=self._config.cycle.period_s)
                    self._stopping.wait(self._config.cycle.period_s)
                except Exception:  # what lies in ZooKeeper is written by others
                    if once:
                        raise
                    log.exception("cannot lead, rejoining election")
                    self._stopping.wait(self._config.cycle.period_s)
                if once and self._recorder.cycles:
                    return
        finally:
            self._recorder.flush(_now_ms())
            self._zookeeper.stop()
            self.service.stop()

    def stop(self) -> None:
        """End soon, from any thread (not from a signal handler: it takes locks)."""
        self._stopping.set()
        self._wake.set()
        if self._lock is not None:
            self._lock.cancel()

    def reload(self) -> None:
        """Read the configuration anew, from any thread; a good one is used from the next cycle on.

        The log says what changed, or what is wrong and that the old one stays.
        """
        if self._read is None:
            log.warning("this controller cannot read its configuration anew: restart it")
            return
        try:
            loaded = self._read()
        except UsageError as e:
            log.error("the new configuration is not used, the old one stays", why=e)
            return
        except Exception:
            log.exception("the configuration could not be read, the old one stays")
            return
        changed = changed_keys(self._config, loaded.config)
        waiting = [key for key in changed if needs_restart(key)]
        used = [key for key in changed if key not in waiting]
        log.info("configuration read anew", changed=", ".join(used) or "nothing")
        if waiting:
            log.warning("these settings changed too, but need a restart", settings=", ".join(waiting))
        self._loaded.append(loaded)
        self._wake.set()

    def cut(self) -> None:
        """End now: calls that wait for ZooKeeper fail."""
        self._zookeeper.stop()

    def _use_loaded(self, cycle: Cycle) -> bool:
        """Between two cycles: go on with the configuration that was read last, where there is a new one."""
        if not self._loaded:
            return False
        loaded = self._loaded.pop()
        config = usable(self._config, loaded.config)
        if config.log != self._config.log:
            logs.configure(config.log.level, config.log.format)
        new = {loaded.planner, loaded.first_planner} - {self._planner, self._first_planner}
        self._config, self._planner, self._first_planner = config, loaded.planner, loaded.first_planner
        cycle.use(config)
        cycle.planners.planner, cycle.planners.first_planner = loaded.planner, loaded.first_planner
        cycle.observer.use(config.load, config.decide.cpu_limit_ratio, config)
        self._recorder.config, self._recorder.planner = config, loaded.planner
        self.service.reconfigured(config)
        self._warm_up(new)
        log.info("the new configuration is in use", planner=self._planner)
        return True

    def _warm_up(self, planners: set[str]) -> None:
        params = {self._planner: self._config.planner.params}
        warm_up(self._compute, planners, params, lambda: not self._stopping.is_set())

    # --- leadership ---------------------------------------------------------------------------------------------------

    def _lead_when_elected(self, once: bool) -> None:
        p = self._paths
        self._zookeeper.ensure(
            [
                *(p.topology(), p.load(), p.plan(), p.status(), p.plan_history(), p.pause(""), p.mode(), p.leader),
                *(p.drain(), p.pin(), p.exclusion(), p.hold(), p.request(), p.audit()),
                *(p.thresholds(), p.profile(), p.threshold_setting()),
            ]
        )
        lock = self._lock = Lock(self._zookeeper.client, p.leader, self.name)
        reader = Reader(self._zookeeper, p, self._changed)
        others = reader.read().contenders
        if others:
            if once:
                raise RefusedError(f"another controller leads: {others[0]}")
            log.info("standing by", leader=others[0])
            self.service.standing_by(others[0])
        try:
            if self._stopping.is_set() or not lock.acquire():
                return
        except CancelledError:
            return
        except KazooException as e:
            raise UnreachableError(f"the election failed: {type(e).__name__} {e}") from e
        sessions_lost = self._zookeeper.sessions_lost
        try:
            epoch = raise_epoch(self._zookeeper, p, _newest_epoch(reader.read()))
            epoch = epoch.bound_to(f"{p.leader}/{lock.node}")
            log.info("leading", controller=self.name, epoch=epoch.number, planner=self._planner)
            self.service.leading(epoch.number)
            observer = Observer(reader, self._config.load, self._config.decide.cpu_limit_ratio, self._config)
            publisher = Publisher(self._zookeeper, p, epoch)
            file = audit.path_in(self._config.traffic_log.dir)
            self._audit_log = audit.AuditLog(self._zookeeper, p, file)
            self._cleaner = Cleaner(self._zookeeper, publisher)
            cycle = Cycle(
                observer=observer,
                publisher=publisher,
                config=self._config,
                compute=self._compute,
                planner=self._planner,
                first_planner=self._first_planner,
                new_id=lambda: uuid.uuid4().hex[:12],
                clock_ms=_now_ms,
                name=self.name,
            )
            self._lead(cycle, lambda: self._zookeeper.sessions_lost == sessions_lost, once)
        finally:
            self._release(lock)

    def _release(self, lock: Lock) -> None:
        """Let the next one lead, if we still can; the end of the session does it otherwise."""
        self.service.stepped_down()
        self._lock = None
        if self._zookeeper.connected:
            try:
                lock.release()
            except KazooException as e:
                log.warning("leadership could not be given up, it ends with the session", why=type(e).__name__)

    def _lead(self, cycle: Cycle, same_session: Callable[[], bool], once: bool) -> None:
        """Cycles by the clock and on change, for as long as the session stands."""
        if once:
            self._fill_windows(cycle.observer)
        due_s, step_due_s, migrate_due_s = 0.0, 0.0, 0.0
        signature: object = None
        observation: Observation | None = None
        while not self._stopping.is_set():
            self.service.beat()
            if not same_session():
                log.warning("session lost: stopped acting, standing for election again")
                return
            changed = self._wake.is_set()
            self._wake.clear()
            if self._use_loaded(cycle):
                due_s = 0.0
            period_s, poll_s, otd = self._config.cycle.period_s, self._config.cycle.poll_s, self._config.otd
            if self._zookeeper.connected:
                try:
                    if changed or time.monotonic() >= due_s:
                        observation = cycle.observer.look(_now_ms())
                        if time.monotonic() >= due_s or observation.signature != signature:
                            due_s = time.monotonic() + period_s
                            signature = observation.signature
                            self._cycle(cycle, observation)
                            if not cycle.rollout_runner.wanted(observation):
                                self._advance_rollouts(cycle, observation)  # tables that tasks have something to say of
                    elif otd.enabled and time.monotonic() >= step_due_s:
                        step_due_s = time.monotonic() + otd.period_s
                        self._step(cycle, cycle.observer.look(_now_ms()))
                    else:
                        cycle.observer.poll_loads(_now_ms())
                    if cycle.rollout_runner.wanted(observation):
                        poll_s = min(poll_s, ROLLOUT_PERIOD_S)
                        if time.monotonic() >= migrate_due_s:
                            began_s = time.monotonic()
                            observation = cycle.observer.look(_now_ms())
                            self._advance_rollouts(cycle, observation)
                            migrate_due_s = began_s + max(ROLLOUT_PERIOD_S, 3 * (time.monotonic() - began_s))
                except UnreachableError as e:
                    log.debug("ZooKeeper went away during a cycle", why=e)
                    due_s = 0.0
                except DeposedError:
                    raise
                except Exception as e:  # what lies in ZooKeeper is written by others
                    if once:
                        raise
                    if isinstance(e, StormpilotError):
                        log.error("the cluster could not be read; retrying next period", why=e)
                    else:
                        log.exception("the cluster could not be read; retrying next period")
                    self._tell_failure(cycle, e)
                    due_s = time.monotonic() + period_s
                    self._stopping.wait(period_s)
            else:
                self._say_away()
            if once and self._recorder.cycles:
                return
            if self._wake.wait(min(poll_s, max(0.05, due_s - time.monotonic()))):
                self._stopping.wait(BURST_S)

    def _cycle(self, cycle: Cycle, observation: Observation) -> None:
        started_s = time.monotonic()
        try:
            account = cycle.run(observation)
            took_ms = (time.monotonic() - started_s) * 1000
            event, fields = account.sentence(took_ms)
            log.info(event, **fields)
            for e in account.events:
                say = log.warning if e.alert else log.info
                say(e.kind.value, topology=e.topology, text=e.text, value=e.value, threshold=e.threshold)
            try:
                self._recorder.record(
                    account,
                    observation,
                    cycle.publisher.epoch.number,
                    cycle.observer.counters,
                    took_ms,
                    lambda data: cycle.publisher.put(self._paths.controller, data),
                )
            finally:
                self.service.cycle_done(account, observation, self._recorder.state, took_ms)
            self._keep_house(observation)
        except (UnreachableError, DeposedError):
            raise
        except ConflictError as e:
            log.warning("the controller's state was not written", why=e)
        except StormpilotError as e:
            log.error("cycle failed; retrying next period", why=e)
            self._tell_failure(cycle, e)
        except Exception as e:
            log.exception("cycle failed; retrying next period")
            self._tell_failure(cycle, e)

    def _tell_failure(self, cycle: Cycle, error: Exception) -> None:
        """Have `status` say why no cycle is complete, where even that may be written."""
        self.service.cycle_failed()
        try:
            epoch, put = cycle.publisher.epoch.number, cycle.publisher.put
            self._recorder.record_failure(str(error), epoch, lambda data: put(self._paths.controller, data))
        except (UnreachableError, DeposedError):
            raise
        except StormpilotError as e:
            log.debug("the controller's state was not written", why=e)

    def _step(self, cycle: Cycle, observation: Observation) -> None:
        """One step of `otd`; said only when something moves."""
        started_s = time.monotonic()
        try:
            account = cycle.step(observation)
        except (UnreachableError, DeposedError):
            raise
        except StormpilotError as e:
            log.error("step of otd failed; retrying next period", why=e)
            return
        except Exception:
            log.exception("step of otd failed; retrying next period")
            return
        if any(d.action != "skip" for d in account.decisions.values()):
            event, fields = account.sentence((time.monotonic() - started_s) * 1000)
            log.info(event, **fields)
            self.service.step_done(account)

    def _advance_rollouts(self, cycle: Cycle, observation: Observation) -> None:
        """One look at plans that are carried out step by step."""
        try:
            cycle.advance_rollouts(observation)
        except (UnreachableError, DeposedError):
            raise
        except StormpilotError as e:
            log.error("a look at rollouts failed; retrying next period", why=e)
        except Exception:
            log.exception("a look at rollouts failed; retrying next period")

    def _keep_house(self, observation: Observation) -> None:
        """Copy the audit to its file, and remove what dead topologies left."""
        if self._audit_log is not None:
            self._audit_log.keep()
        if self._cleaner is not None and observation.belief is not None:
            seen = observation.seen
            alive = {*seen.topologies, *seen.unreadable_topologies}
            self._cleaner.clean(alive, observation.at_ms)
            oldest_ms = observation.at_ms - int(self._config.history.max_age_days * 86_400_000)
            self._cleaner.clean_mined({i: m.mined_at_ms for i, m in seen.thresholds.items()}, alive, oldest_ms)

    def _fill_windows(self, observer: Observer) -> None:
        """Measure until every topology that reports load is ready, at most one window and what a first report takes."""
        load = self._config.load
        deadline_s = time.monotonic() + load.settle_s + load.window_s + load.max_report_age_s
        said = False
        while not self._stopping.is_set() and time.monotonic() < deadline_s:
            belief = observer.look(_now_ms()).belief
            if belief is None or all(r.ready or not r.instrumented for r in belief.readiness.values()):
                return
            if not said:
                log.info("measuring", at_most_s=round(deadline_s - time.monotonic()))
            said = True
            self._stopping.wait(self._config.cycle.poll_s)

    # --- what others call ---------------------------------------------------------------------------------------------

    def _changed(self, _: object) -> None:
        self._wake.set()

    def _connection_changed(self) -> None:
        if self._zookeeper.connected and self._away_said:
            self._away_said = False
            log.info("ZooKeeper is back", hosts=self._zookeeper.hosts)
        self._wake.set()

    def _say_away(self) -> None:
        if not self._away_said and not self._stopping.is_set():
            log.warning("waiting for ZooKeeper", hosts=self._zookeeper.hosts)
        self._away_said = True


def _newest_epoch(seen: StoreSnapshot) -> int:
    epochs = [p.message.epoch for p in seen.plans.values() if p.message is not None]
    if seen.cluster is not None:
        epochs.append(seen.cluster.shim.epoch_seen)
    return max(epochs, default=0)


def _now_ms() -> int:
    return int(time.time() * 1000)
