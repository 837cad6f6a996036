"""ZooKeeper access of a worker's process: one session, one request at a time, each with a deadline.

Parents that are missing are created so that other topologies can write beside us: open without authentication; with it,
anyone may add and read below them, and only we (and `storm.zookeeper.superACL`) may change what is ours. Nothing is
written where `owner` says that the znodes are another Storm cluster's, as in the hook (`RootOwner.java`).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_acl

from stormpilot.zookeeper.kazoo_client import Client
from stormpilot.zookeeper.login import login_of_worker
from stormpilot.zookeeper.paths import DEFAULT_ROOT, Paths, normal_root

ROOT_KEY, STORM_ROOT_KEY = "stormpilot.zookeeper.root", "storm.zookeeper.root"
OWNER_SCHEMA, OWNER_BYTES = 1, 64 * 1024
"""Of `owner`: a newer or longer one says nothing to us."""
SESSION_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 10.0
MIN_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0

_CREATOR = Id("auth", "")


class StoreUnavailable(Exception):  # noqa: N818 (a state, not a mistake)
    """ZooKeeper cannot be asked now."""


class WorkerStore:
    """The znodes of one topology; used by one thread.

    Parameters
    ----------
    storm_conf
        Takes `storm.zookeeper.servers`, `storm.zookeeper.port`, `storm.zookeeper.root`, `storm.zookeeper.superACL`,
        `stormpilot.zookeeper.root` and how to connect (`login_of_worker`) from it. `ValueError` without servers, or
        for TLS that cannot be.
    """

    def __init__(self, storm_conf: Mapping[str, Any], topology_id: str) -> None:
        self.paths = Paths(normal_root(str(storm_conf.get(ROOT_KEY) or DEFAULT_ROOT)))
        self.topology_id = topology_id
        self._hosts = zookeeper_hosts(storm_conf)
        self._login = login_of_worker(storm_conf)
        self._owned = owned = self._login.digest is not None
        owners = [ACL(Permissions.ALL, _CREATOR)]
        scheme, _, who = str(storm_conf.get("storm.zookeeper.superACL") or "").partition(":")
        if who:
            owners.append(ACL(Permissions.ALL, Id(scheme, who)))
        self._own_acl = [*owners, make_acl("world", "anyone", read=True)] if owned else OPEN_ACL_UNSAFE
        self._private_acl = owners if owned else OPEN_ACL_UNSAFE
        self._shared_acl = [*owners, make_acl("world", "anyone", read=True, create=True)] if owned else self._own_acl
        self._client: Any = None
        self._started_s = 0.0
        self._pending: Any = None
        root = storm_conf.get(STORM_ROOT_KEY)
        self._own_root = None if root is None else normal_root(str(root))  # None: nobody is foreign to us
        self._owner: str | None = None
        self._owner_is_known = False

    def put(self, path: str, data: bytes, *, private: bool = False) -> None:
        """Write a znode, with its parents where they are missing; `private`: with accounts, nobody else may read it."""
        self._refuse_foreign()
        try:
            self._request("set", path, data)
        except NoNodeError:
            try:
                self._make_parents(path)
                self._request("create", path, data, acl=self._private_acl if private else self._own_acl)
            except NodeExistsError:
                self._request("set", path, data)

    def get(self, path: str, watch: Callable[[Any], None] | None = None) -> bytes | None:
        """A znode's data; None where there is none. `watch` is called once, on kazoo's thread, when that changes."""
        try:
            data: bytes | None = self._request("get", path, watch=watch)[0]
            return data or b""
        except NoNodeError:
            if watch is not None and self._request("exists", path, watch=watch) is not None:
                return self.get(path, watch)
            return None

    def remove(self, path: str) -> None:
        """Remove a znode; none is fine."""
        self._refuse_foreign()
        try:
            self._request("delete", path)
        except NoNodeError:
            return

    def names(self, path: str) -> list[str]:
        """Names of the znodes below a path."""
        try:
            return list(self._request("get_children", path))
        except NoNodeError:
            return []

    def close(self) -> None:
        """End the session."""
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _refuse_foreign(self) -> None:
        """`StoreUnavailable` where the znodes are another Storm cluster's; `owner` is read again after it changed."""
        if self._own_root is None:
            return
        if not self._owner_is_known:
            self._owner_is_known = True  # before the request: what changes after it is told by the watch
            try:
                self._owner = _storm_root(self.get(self.paths.owner, self._owner_changed))
            except StoreUnavailable as e:
                if not isinstance(e.__cause__, NoAuthError):  # with access lists workers may not read it
                    self._owner_is_known = False
                    raise
        if self._owner is not None and self._owner != self._own_root:
            raise StoreUnavailable(
                f"{self.paths.base} is of the Storm cluster with {STORM_ROOT_KEY} {self._owner}, ours is "
                f"{self._own_root}: set another {ROOT_KEY} in storm.yaml here, or, where that cluster is gone, delete "
                f"{self.paths.owner}"
            )

    def _owner_changed(self, _: Any) -> None:
        self._owner_is_known = False

    def _make_parents(self, path: str) -> None:
        if self._owned and not self._has_root():  # who makes it decides who writes plans
            raise StoreUnavailable(f"{self.paths.base} is missing: the scheduler plug-in on Nimbus makes it")
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

    def _has_root(self) -> bool:
        """Whether the folder of all our znodes is there; ZooKeeper may refuse to tell of one that we may not read."""
        try:
            return self._request("exists", self.paths.base) is not None
        except StoreUnavailable as e:
            if isinstance(e.__cause__, NoAuthError):
                return True
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
            self._client = Client(
                logger=_silent(),
                hosts=self._hosts,
                timeout=SESSION_TIMEOUT_S,
                connection_retry=KazooRetry(max_tries=-1, delay=MIN_BACKOFF_S, backoff=2, max_delay=MAX_BACKOFF_S),
                **self._login.of_kazoo(),
            )
            self._started_s = time.monotonic()
            self._client.start_async().wait(REQUEST_TIMEOUT_S)
        if not self._client.connected:
            raise StoreUnavailable(_no_connection(self._hosts, self._client))
        return self._client


def _silent() -> logging.Logger:
    """Log of our client alone (a component may use kazoo too): we say ourselves what it meets, once per change."""
    log = logging.getLogger("stormpilot.kazoo")
    log.setLevel(logging.CRITICAL)
    return log


def _storm_root(data: bytes | None) -> str | None:
    """`stormRoot` of an `owner`, fit for one line of a log; None where there is none that we can read."""
    try:
        found = json.loads(data or b"") if len(data or b"") <= OWNER_BYTES else None
        if not isinstance(found, dict) or not 1 <= found["schema"] <= OWNER_SCHEMA:
            return None
        root = str(found["stormRoot"]) if isinstance(found["stormRoot"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return None if root is None else normal_root("".join(c if c.isprintable() else "?" for c in root))


def _no_connection(hosts: str, client: Any) -> str:
    """Why there is none, as far as the client knows."""
    refused = client.client_state == KeeperState.AUTH_FAILED
    return f"no connection to {hosts}" + (": it refuses the SASL login" if refused else "")


def zookeeper_hosts(storm_conf: Mapping[str, Any]) -> str:
    """`host:port,...` from the storm configuration; `ValueError` where it names no server."""
    servers = storm_conf.get("storm.zookeeper.servers")
    if not isinstance(servers, list) or not servers:
        raise ValueError(f"storm.zookeeper.servers is {servers!r}, expected a list of hosts")
    port = int(storm_conf.get("storm.zookeeper.port") or 2181)
    names = [str(s).strip("[]") for s in servers]  # Storm takes IPv6 addresses with brackets and without
    return ",".join(f"[{s}]:{port}" if ":" in s else f"{s}:{port}" for s in names)
