"""Writes load reports to ZooKeeper from a thread of its own, so that the collector never waits for it.

One slot, latest wins: while ZooKeeper is gone, late or never there, nothing piles up and nothing is raised; the newest
report is written when it is back. One request is under way at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_acl

from stormpilot.instrument.reports import encode_reports
from stormpilot.paths import DEFAULT_ROOT, Paths

ROOT_KEY = "stormpilot.zookeeper.root"
SESSION_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 10.0
MIN_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0

_CREATOR = Id("auth", "")

log = logging.getLogger(__name__)


class StoreUnavailable(Exception):  # noqa: N818 (a state, not a mistake)
    """ZooKeeper cannot be written to now."""


class ReportStore(Protocol):
    """Where reports go; every method raises `StoreUnavailable` when it cannot do it now."""

    def write(self, reporter: str, data: bytes) -> None:
        """Create or replace the report of a reporter."""

    def delete(self, reporter: str) -> None:
        """Remove the report of a reporter; none is fine."""

    def reporters(self) -> list[str]:
        """The reporters of this topology that have a report."""

    def close(self) -> None:
        """End the session."""


class ReportWriter:
    """The thread.

    Parameters
    ----------
    store
        Where reports go.
    topology_id, reporter
        Names in the report and of its znode.
    """

    def __init__(self, store: ReportStore, topology_id: str, reporter: str, clock: Callable[[], float] = time.time):
        self._store = store
        self._topology_id = topology_id
        self._reporter = reporter
        self._clock = clock
        self._changed = threading.Condition()
        self._slot: list[str] | None = None
        self._closing = False
        self._seq = 0
        self._mine: set[str] | None = None
        self._backoff_s = MIN_BACKOFF_S
        self._available = True
        self._thread = threading.Thread(target=self._run, name="stormpilot-report-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, loads: list[str]) -> None:
        """Hand over the newest loads; replaces those that were not written yet. Returns at once."""
        with self._changed:
            self._slot = loads
            self._changed.notify()

    def close(self, timeout_s: float = 5.0) -> None:
        """End the thread and the session."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        self._store.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._slot is not None or self._closing)
                if self._closing:
                    return
                loads, self._slot = self._slot, None
            try:
                self._write(loads or [])
            except Exception as e:  # noqa: BLE001 (whatever the client raises, the next report may get through)
                self._note(False, str(e) or type(e).__name__)
                with self._changed:
                    if self._slot is None:
                        self._slot = loads
                    self._changed.wait_for(lambda: self._closing, self._backoff_s)
                self._backoff_s = min(MAX_BACKOFF_S, self._backoff_s * 2)
            else:
                self._backoff_s = MIN_BACKOFF_S
                self._note(True, "")

    def _write(self, loads: list[str]) -> None:
        self._seq += 1
        reports = encode_reports(self._topology_id, self._reporter, self._seq, int(self._clock() * 1000), loads)
        for name, data in reports.items():
            self._store.write(name, data)
        if self._mine is None:  # what an earlier process of this collector left
            self._mine = {r for r in self._store.reporters() if r == self._reporter or self._is_part(r)}
        for name in self._mine - reports.keys():
            self._store.delete(name)
        self._mine = set(reports)

    def _is_part(self, name: str) -> bool:
        prefix, dash, number = name.rpartition("-")
        return prefix == self._reporter and bool(dash) and number.isdigit()

    def _note(self, available: bool, why: str) -> None:
        if available != self._available:
            self._available = available
            if available:
                log.warning("stormpilot: load reports reach ZooKeeper again")
            else:
                log.warning("stormpilot: load reports do not reach ZooKeeper, will go on trying: %s", why)


class ZooKeeperReports:
    """The reports of one topology in ZooKeeper: `load/<topology-id>/<reporter>`.

    Parents that are missing are created so that other topologies can write beside us: open without authentication;
    with it, anyone may add and read below them, and only we (and `storm.zookeeper.superACL`) may change what is ours.

    Parameters
    ----------
    storm_conf
        Takes `storm.zookeeper.servers`, `storm.zookeeper.port`, `storm.zookeeper.topology.auth.scheme` and
        `.payload`, `storm.zookeeper.superACL` and `stormpilot.zookeeper.root` from it. `ValueError` without servers.
    """

    def __init__(self, storm_conf: Mapping[str, Any], topology_id: str) -> None:
        self._paths = Paths(storm_conf.get(ROOT_KEY) or DEFAULT_ROOT)
        self._topology_id = topology_id
        self._hosts = zookeeper_hosts(storm_conf)
        scheme = storm_conf.get("storm.zookeeper.topology.auth.scheme")
        payload = storm_conf.get("storm.zookeeper.topology.auth.payload")
        self._auth = [(str(scheme), str(payload))] if scheme and payload else []
        owners = [ACL(Permissions.ALL, _CREATOR)]
        scheme, _, who = str(storm_conf.get("storm.zookeeper.superACL") or "").partition(":")
        if who:
            owners.append(ACL(Permissions.ALL, Id(scheme, who)))
        self._own_acl = [*owners, make_acl("world", "anyone", read=True)] if self._auth else OPEN_ACL_UNSAFE
        self._shared_acl = (
            [*owners, make_acl("world", "anyone", read=True, create=True)] if self._auth else self._own_acl
        )
        self._client: Any = None
        self._started_s = 0.0
        self._pending: Any = None

    def write(self, reporter: str, data: bytes) -> None:
        """See `ReportStore`."""
        path = self._paths.load(self._topology_id, reporter)
        try:
            self._request("set", path, data)
        except NoNodeError:
            try:
                self._make_parents(path)
                self._request("create", path, data, acl=self._own_acl)
            except NodeExistsError:
                self._request("set", path, data)

    def delete(self, reporter: str) -> None:
        """See `ReportStore`."""
        try:
            self._request("delete", self._paths.load(self._topology_id, reporter))
        except NoNodeError:
            return

    def reporters(self) -> list[str]:
        """See `ReportStore`."""
        try:
            return list(self._request("get_children", self._paths.load(self._topology_id)))
        except NoNodeError:
            return []

    def close(self) -> None:
        """See `ReportStore`."""
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _make_parents(self, path: str) -> None:
        parts = path.strip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            shared = depth < len(parts)
            try:
                self._request(
                    "create", "/" + "/".join(parts[:depth]), b"", acl=self._shared_acl if shared else self._own_acl
                )
            except NodeExistsError:
                continue
            except StoreUnavailable as e:
                # Where the scheduler made the parents, they belong to Storm's daemons, and ZooKeeper asks whether we
                # may create before it looks whether the znode is there.
                if not isinstance(e.__cause__, NoAuthError):
                    raise

    def _request(self, method: str, path: str, *arguments: Any, **named: Any) -> Any:
        """One request; kazoo would queue it while disconnected, so it is sent only when connected and none is open."""
        client = self._connected()
        if self._pending is not None and not self._pending.ready():
            raise StoreUnavailable(f"{self._hosts}: an earlier request is still open")
        try:
            self._pending = getattr(client, f"{method}_async")(path, *arguments, **named)
            return self._pending.get(timeout=REQUEST_TIMEOUT_S)
        except (NoNodeError, NodeExistsError):
            raise
        except (KazooException, KazooTimeoutError, OSError) as e:
            raise StoreUnavailable(f"{method} {path} at {self._hosts}: {type(e).__name__} {e}".strip()) from e

    def _connected(self) -> Any:
        if (
            self._client is not None
            and self._client.client_state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED)
            and time.monotonic() - self._started_s > 2 * MAX_BACKOFF_S
        ):  # refused for good, or the first connection is still to come: begin anew, now and then
            self.close()
        if self._client is None:
            logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # we say it ourselves, once per change
            self._client = KazooClient(
                hosts=self._hosts,
                timeout=SESSION_TIMEOUT_S,
                auth_data=self._auth,
                connection_retry=KazooRetry(max_tries=-1, delay=MIN_BACKOFF_S, backoff=2, max_delay=MAX_BACKOFF_S),
            )
            self._started_s = time.monotonic()
            self._client.start_async().wait(REQUEST_TIMEOUT_S)
        if not self._client.connected:
            raise StoreUnavailable(f"no connection to {self._hosts}")
        return self._client


def zookeeper_hosts(storm_conf: Mapping[str, Any]) -> str:
    """`host:port,...` from the storm configuration; `ValueError` where it names no server."""
    servers = storm_conf.get("storm.zookeeper.servers")
    if not isinstance(servers, list) or not servers:
        raise ValueError(f"storm.zookeeper.servers is {servers!r}, expected a list of hosts")
    port = int(storm_conf.get("storm.zookeeper.port") or 2181)
    return ",".join(f"[{s}]:{port}" if ":" in str(s) else f"{s}:{port}" for s in servers)
