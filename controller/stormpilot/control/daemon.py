"""The controller process: ZooKeeper session, election and configuration; `leadership.py` has the loop of a leader."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections import deque
from typing import Any

import structlog
from kazoo.exceptions import CancelledError, KazooException
from kazoo.recipe.lock import Lock

from stormpilot import clock, logs
from stormpilot.api.service import Service
from stormpilot.config import Config, plan_keys, zookeeper_login
from stormpilot.config.reload import Loaded, Read, Reloaded, changed_keys, needs_restart, usable
from stormpilot.control import takeover
from stormpilot.control.assembly import cycle_of
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.leadership import Leadership
from stormpilot.control.planner_client import Compute, warm_up
from stormpilot.control.recorder import Recorder
from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.model.values import Infeasible, Plan
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader
from stormpilot.publish.cleaner import Cleaner
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import DeposedError, Publisher
from stormpilot.trafficlog import audit
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

log = structlog.get_logger(__name__)

WAIT_S = 0.5
"""Period at which a wait checks whether it is still wanted."""


class Daemon:
    """One controller process.

    Parameters
    ----------
    planner, first_planner
        Names of the planners for what runs and for what was never placed.
    compute
        Runs a planner by name.
    read
        Reloads the configuration, for `reload`; None where that cannot be done.
    """

    def __init__(self, config: Config, compute: Compute, planner: str, first_planner: str, read: Read | None = None):
        self._current = CurrentConfig(config, planner, first_planner)
        self._read = read
        self._loaded: deque[Loaded] = deque(maxlen=1)
        self._compute = compute
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._paths = Paths(config.zookeeper.root)
        self._plan_keys = plan_keys(config.publish)
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._lock: Lock | None = None
        self._left_locks: list[str] = []
        self._disconnect_logged = False
        self._led: int | None = None
        self._clock_ms = clock.SteadyClock(clock.now_ms)
        """Clock of the last leadership: after a change of the time of day it goes on as before."""
        self._recorder = Recorder(self._current, self.name, started_at_ms=clock.now_ms())
        self._zookeeper = ZooKeeper(
            config.zookeeper.hosts,
            login=zookeeper_login(config.zookeeper),
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
        self._warm_up({self._current.planner, self._current.first_planner})
        try:
            while not self._stopping.is_set():
                if not self._zookeeper.wait_connected(WAIT_S):
                    self._log_disconnect()
                    continue
                try:
                    self._lead_when_elected(once)
                except UnreachableError as e:
                    log.warning("ZooKeeper connection lost", why=e)
                except DeposedError as e:
                    log.warning("stepped down", why=e)
                except RefusedError as e:
                    if once:
                        raise
                    log.error("cannot lead; rejoining election", why=e, retry_s=self._current.config.cycle.period_s)
                    self._stopping.wait(self._current.config.cycle.period_s)
                except Exception:  # what lies in ZooKeeper is written by others
                    if once:
                        raise
                    log.exception("cannot lead; rejoining election")
                    self._stopping.wait(self._current.config.cycle.period_s)
                if once and self._recorder.cycles:
                    return
        finally:
            self._recorder.flush(clock.now_ms())
            self._zookeeper.stop()
            self.service.stop()

    def stop(self) -> None:
        """End soon, from any thread (not from a signal handler: it takes locks)."""
        self._stopping.set()
        self._wake.set()
        if self._lock is not None:
            self._lock.cancel()

    def reload(self, dry_run: bool = False) -> Reloaded:
        """Reload the configuration, from any thread; a good one is used from the next cycle on. The log says it, too.

        With `dry_run` it is only read and checked.

        Raises
        ------
        UsageError
            What is wrong: the old one stays.
        RefusedError
            It was not read from a file.
        """
        if self._read is None:
            why = "this controller cannot reload its configuration: restart it"
            log.warning(why)
            raise RefusedError(why)
        try:
            loaded = self._read()
        except UsageError as e:
            if not dry_run:
                log.error("the new configuration is not used, the old one stays", why=e)
            raise
        except Exception:
            log.exception("the configuration could not be read, the old one stays")
            raise
        changed = changed_keys(self._current.config, loaded.config)
        waiting = [key for key in changed if needs_restart(key)]
        used = [key for key in changed if key not in waiting]
        if dry_run:
            return Reloaded(used, waiting)
        log.info("configuration reloaded", changed=", ".join(used) or "nothing")
        if waiting:
            log.warning("these settings changed too, but need a restart", settings=", ".join(waiting))
        self._loaded.append(loaded)
        self._wake.set()
        return Reloaded(used, waiting)

    def cut(self) -> None:
        """End now: calls that wait for ZooKeeper fail."""
        self._zookeeper.stop()

    def _take_up_configuration(self, observer: Observer) -> bool:
        """Between two cycles: go on with the configuration that was read last, where there is a new one."""
        if not self._loaded:
            return False
        loaded, current = self._loaded.pop(), self._current
        config = usable(current.config, loaded.config)
        if config.log != current.config.log:
            logs.configure(config.log.level, config.log.format)
        new = {loaded.planner, loaded.first_planner} - {current.planner, current.first_planner}
        current.use(config, loaded.planner, loaded.first_planner)
        observer.use(config.load, config.decide.cpu_limit_ratio, config)
        self.service.reconfigured(config)
        self._warm_up(new)
        log.info("the new configuration is in use", planner=current.planner)
        return True

    def _planned(self, *given: Any, **named: Any) -> Plan | Infeasible:
        """A plan of `compute`. A cycle may wait for several, each of them for as long as a planner that hangs may."""
        self.service.beat()
        try:
            return self._compute(*given, **named)
        finally:
            self.service.beat()

    def _warm_up(self, planners: set[str]) -> None:
        params = {self._current.planner: self._current.config.planner.params}
        warm_up(self._planned, planners, params, lambda: not self._stopping.is_set())

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
        self._remove_left_locks()
        lock = self._lock = Lock(self._zookeeper.client, p.leader, self.name)
        self._left_locks.append(lock.prefix)
        reader = Reader(self._zookeeper, p, self._changed)
        if not self._elected(lock, reader, once):
            return
        sessions_lost = self._zookeeper.sessions_lost
        try:
            least = takeover.epoch_seen(reader.read())
            raised_at_ms, steady_ms = clock.now_ms(), self._clock_ms()
            epoch = raise_epoch(self._zookeeper, p, least)
            led, self._led = self._led, epoch.number
            own_ms = steady_ms if led == epoch.number - 1 else None
            ahead_ms = takeover.owed_ms(self._zookeeper, p, epoch, raised_at_ms, own_ms)
            epoch = epoch.bound_to(f"{p.leader}/{lock.node}")
            self._recorder.before = takeover.state_before(self._zookeeper, p)
            log.info("leading", controller=self.name, epoch=epoch.number, planner=self._current.planner)
            self.service.leading(epoch.number, self._recorder.before)
            publisher = Publisher(self._zookeeper, p, epoch, *self._plan_keys)
            self._leadership(reader, publisher, sessions_lost, ahead_ms).run(once=once)
        finally:
            self._release(lock)

    def _elected(self, lock: Lock, reader: Reader, once: bool) -> bool:
        """Whether we lead now: at once, or after standing by, which ends without it when we stop."""
        try:
            with self._zookeeper.errors(self._paths.leader):
                return self._acquired(lock, reader, once)
        except KazooException as e:
            raise RefusedError(f"the election failed: {type(e).__name__} {e}") from e

    def _acquired(self, lock: Lock, reader: Reader, once: bool) -> bool:
        try:
            if self._stopping.is_set():
                return False
            if lock.acquire(blocking=False):
                return True
            leader = next(iter(reader.read().contenders), "one that has just gone")
            if once:
                raise RefusedError(f"another controller leads: {leader}")
            log.info("standby", leader=leader)
            self.service.standing_by(leader)
            return bool(lock.acquire())
        except CancelledError:
            return False

    def _leadership(self, reader: Reader, publisher: Publisher, sessions_lost: int, ahead_ms: int) -> Leadership:
        """The leadership of the epoch of `publisher`, for as long as no more sessions than that are lost."""
        config = self._current.config
        now_ms = self._clock_ms = clock.SteadyClock(clock.now_ms)
        observer = Observer(reader, config.load, config.decide.cpu_limit_ratio, config)
        cycle = cycle_of(
            observer,
            publisher,
            self._current,
            self._planned,
            new_id=lambda: uuid.uuid4().hex[:12],
            clock_ms=now_ms,
            name=self.name,
        )
        return Leadership(
            cycle=cycle,
            recorder=self._recorder,
            service=self.service,
            audit_log=audit.AuditLog(self._zookeeper, self._paths, audit.path_in(config.traffic_log.dir)),
            cleaner=Cleaner(self._zookeeper, publisher),
            connected=self._connected,
            same_session=lambda: self._zookeeper.sessions_lost == sessions_lost,
            take_up_configuration=lambda: self._take_up_configuration(observer),
            wake=self._wake,
            stopping=self._stopping,
            now_ms=now_ms,
            ahead_ms=ahead_ms,
        )

    def _release(self, lock: Lock) -> None:
        """Let the next one lead, if we can; else the end of the session does, or we do when it goes on."""
        self.service.stepped_down()
        self._lock = None
        if not self._zookeeper.connected:
            return
        try:
            lock.release()
        except KazooException as e:
            log.warning("leadership could not be given up, it ends with the session", why=type(e).__name__)

    def _remove_left_locks(self) -> None:
        """Give up what could not be given up without a connection: where the session goes on, it stands in our way."""
        (names,) = self._zookeeper.children([self._paths.leader])
        for name in names:
            if name.startswith(tuple(self._left_locks)):
                self._zookeeper.delete(f"{self._paths.leader}/{name}")
        self._left_locks.clear()

    # --- what others call ---------------------------------------------------------------------------------------------

    def _changed(self, _: object) -> None:
        self._wake.set()

    def _connection_changed(self) -> None:
        if self._zookeeper.connected and self._disconnect_logged:
            self._disconnect_logged = False
            log.info("ZooKeeper connection restored", hosts=self._zookeeper.hosts)
        self._wake.set()

    def _connected(self) -> bool:
        if not self._zookeeper.connected:
            self._log_disconnect()
        return self._zookeeper.connected

    def _log_disconnect(self) -> None:
        if not self._disconnect_logged and not self._stopping.is_set():
            log.warning("waiting for ZooKeeper", hosts=self._zookeeper.hosts)
        self._disconnect_logged = True
