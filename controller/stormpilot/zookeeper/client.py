"""The one connection to ZooKeeper: deadlines on every call, and errors that a person understands.

Kazoo's own calls wait for ever while a connection is away; here each has a deadline, so that whoever asks can say so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    QuotaExceededError,
    RolledBackError,
    RuntimeInconsistency,
    SessionClosedRequireSaslError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry, RetryFailedError
from kazoo.security import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE, make_acl

from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.zookeeper.handler import handler
from stormpilot.zookeeper.kazoo_client import Client
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.probe import tls_problem
from stormpilot.zookeeper.transaction import ANY_VERSION, Append, Check, Delete, Put, Step, check_size

Watch = Callable[[WatchedEvent], None]
NOBODY = Login()
_PIPELINE = 500
CONNECT_S = 5.0
"""Time that a command waits for the connection: enough to try every host."""
_silent = logging.getLogger("stormpilot.kazoo")
_silent.setLevel(logging.CRITICAL)  # what kazoo would say of a connection, its users here say in their own words


class ConflictError(RefusedError):
    """A znode is not as it was when it was read, or as it has to be (`text`); `path` is its name."""

    def __init__(self, path: str, text: str = ""):
        super().__init__(text or f"{path} was changed by somebody else in the meantime")
        self.path = path


MAY_NOT_READ = "its access list does not let us read it"


class DeniedError(RefusedError):
    """The access list of a znode does not let us do what we want; `path` is its name."""

    def __init__(self, path: str):
        super().__init__(
            f"ZooKeeper refuses {path} to us: its access list names another user; set zookeeper.auth_file "
            "or .jaas_file to the login that Storm's daemons use"
        )
        self.path = path


class HasChildrenError(RefusedError):
    """A znode that cannot be removed, for others are below it; `path` is its name."""

    def __init__(self, path: str):
        super().__init__(f"ZooKeeper does not remove {path}: somebody else wrote below it; remove what is there")
        self.path = path


@dataclass(frozen=True)
class Node:
    """A znode: its data, the version for compare-and-set, and when it was last written (ZooKeeper's clock).

    `denied`: its access list does not let us read it (`version` is any then). `transaction` is the number of the one
    that wrote it last: it grows from write to write, whatever becomes of clocks.
    """

    data: bytes
    version: int
    written_at_ms: int
    denied: bool = False
    transaction: int = 0


@dataclass(frozen=True)
class NodeStat:
    """A znode without its data; `transaction` is the one that wrote it last: the same for as long as it is the same."""

    transaction: int
    written_at_ms: int
    bytes: int
    children: int
    denied: bool = False


class ZooKeeper:
    """A session that reconnects by itself.

    Parameters
    ----------
    hosts
        `host:port,host:port`.
    login
        As whom; znodes that we create are for that user and its `readers`, without one for everybody.
    call_timeout_s
        How long a single call may take before it is `UnreachableError`.
    on_change
        Called (on kazoo's thread) when the connection is made, lost, or the session is over.
    """

    def __init__(
        self,
        hosts: str,
        *,
        login: Login = NOBODY,
        session_timeout_s: float = 10.0,
        call_timeout_s: float = 5.0,
        on_change: Callable[[], None] | None = None,
    ):
        self.hosts = hosts
        self._login = login
        self.call_timeout_s = call_timeout_s
        self._on_change = on_change
        self._up = threading.Event()
        self._restarting = threading.Lock()
        self._sessions_lost = 0
        self._refused = False
        readers = [make_acl(*r, read=True, delete=True) for r in login.readers]
        try:
            self.client = Client(
                hosts=hosts,
                handler=handler(hosts, CONNECT_S),
                timeout=session_timeout_s,
                logger=_silent,
                connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=2.0),
                default_acl=[*CREATOR_ALL_ACL, *readers] if login.ids else None,
                **login.of_kazoo(),
            )
        except (ValueError, KazooException) as e:
            raise UsageError(f"ZooKeeper hosts {hosts!r}: {e}; expected host:port,host:port") from e
        self.client.add_listener(self._changed)

    def _changed(self, state: str) -> None:
        if state == KazooState.LOST:
            self._sessions_lost += 1
            self._refused = self.client.client_state == KeeperState.AUTH_FAILED
        if state == KazooState.CONNECTED:
            self._refused = False
            self._up.set()
        else:
            self._up.clear()
        if self._on_change:
            self._on_change()

    @property
    def connected(self) -> bool:
        """Whether the connection stands now."""
        return self._up.is_set()

    @property
    def sessions_lost(self) -> int:
        """Number of sessions that ended so far: whoever held something ephemeral compares."""
        return self._sessions_lost

    def start(self) -> None:
        """Begin to connect, and keep at it; does not wait."""
        self.client.start_async()

    def wait_connected(self, timeout_s: float) -> bool:
        """Wait for the connection."""
        self._restart_if_ended()
        return self._up.wait(timeout_s)

    def _restart_if_ended(self) -> None:
        """Connect anew where kazoo's thread ended by an error of its own, as it does by an answer out of order."""
        with self._restarting:
            thread = self.client._connection._connection_routine
            if thread is not None and not thread.is_alive() and not self.client._stopped.is_set():
                self.client.start_async()

    def stop(self) -> None:
        """End the session at once: what is ephemeral goes with it."""
        self.client.remove_listener(self._changed)
        self._up.clear()
        try:
            self.client.stop()
            self.client.close()
        except (KazooException, OSError):  # the connection was already away
            pass

    def require_connected(self, timeout_s: float) -> None:
        """Wait for the connection; `UnreachableError` with a hint when it does not come."""
        if not self.wait_connected(timeout_s):
            raise UnreachableError(
                f"ZooKeeper at {self.hosts} does not answer (waited {timeout_s:g} s): {self._hint(timeout_s)}"
            )

    def _hint(self, timeout_s: float) -> str:
        if self._refused:
            return "it refuses the login of zookeeper.jaas_file"
        if self._login.tls is None:
            return "is it up, is the address right? Does it ask for TLS (zookeeper.ca_file)?"
        return tls_problem(self.hosts, timeout_s, self._login.tls) or "is it up, is the address right?"

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, paths: Sequence[str], watch: Watch | None = None, *, keep_denied: bool = False) -> list[Node | None]:
        """Read many znodes at once (pipelined); None for one that is not there. `watch` hears of the next change.

        One that we may not read ends the reading with `RefusedError`; with `keep_denied` it is an empty, denied one.
        """
        found: list[Node | None] = []
        for first in range(0, len(paths), _PIPELINE):
            calls = [(p, self.client.get_async(p, watch)) for p in paths[first : first + _PIPELINE]]
            for path, call in calls:
                try:
                    data, stat = self._wait(call, path)
                    found.append(Node(data or b"", stat.version, stat.mtime, transaction=stat.mzxid))
                except NoNodeError:
                    found.append(None)
                except DeniedError:
                    if not keep_denied:
                        raise
                    found.append(Node(b"", ANY_VERSION, 0, denied=True))
        return found

    def stats(self, paths: Sequence[str], *, keep_denied: bool = False) -> list[NodeStat | None]:
        """Sizes and times of many znodes; None for one that is not there. Reads no data.

        ZooKeeper since 3.8.4 and 3.9.2 tells nothing of one that we may not read: as in `read`.
        """
        found: list[NodeStat | None] = []
        for first in range(0, len(paths), _PIPELINE):
            for path, call in [(p, self.client.exists_async(p)) for p in paths[first : first + _PIPELINE]]:
                try:
                    stat = self._wait(call, path)
                except DeniedError:
                    if not keep_denied:
                        raise
                    found.append(NodeStat(0, 0, 0, 0, denied=True))
                    continue
                found.append(
                    None if stat is None else NodeStat(stat.mzxid, stat.mtime, stat.dataLength, stat.numChildren)
                )
        return found

    def children(self, paths: Sequence[str], watch: Watch | None = None) -> list[list[str]]:
        """Names below many znodes at once, sorted; empty for a znode that is not there."""
        found: list[list[str]] = []
        for path, call in [(p, self.client.get_children_async(p, watch)) for p in paths]:
            try:
                found.append(sorted(self._wait(call, path)))
            except NoNodeError:
                found.append([])
        return found

    # --- writing ------------------------------------------------------------------------------------------------------

    def ensure(self, paths: Iterable[str]) -> None:
        """Create the znodes that are not there, with their parents."""
        for path in paths:
            self._wait(self.client.ensure_path_async(path), path)

    def put(self, path: str, data: bytes) -> None:
        """Write a znode whatever it holds; creates it and its parents."""
        try:
            self._wait(self.client.set_async(path, data), path)
        except NoNodeError:
            try:
                self._wait(self.client.create_async(path, data, makepath=True), path)
            except NodeExistsError:
                self._wait(self.client.set_async(path, data), path)

    def delete(self, path: str) -> bool:
        """Remove a znode and what is below it; False when it was not there."""
        for name in self.children([path])[0]:
            self.delete(f"{path}/{name}")
        try:
            self._wait(self.client.delete_async(path), path)
        except NoNodeError:
            return False
        except NotEmptyError as e:
            raise ConflictError(path) from e
        return True

    def commit(self, steps: Sequence[Step]) -> None:
        """Do all steps or none; `ConflictError` names the first znode that was not as expected.

        `DeniedError` names one that is locked to us, `HasChildrenError` one to remove with others below it.
        `TooLargeError` before anything is sent.
        """
        check_size(steps)
        transaction = self.client.transaction()
        for step in steps:
            if isinstance(step, Check):
                transaction.check(step.path, step.version)
            elif isinstance(step, Append):
                transaction.create(step.prefix, step.data, sequence=True)
            elif isinstance(step, Delete):
                transaction.delete(step.path, step.version)
            elif step.version is None:
                transaction.create(step.path, step.data, acl=self._acl(step))
            else:
                transaction.set_data(step.path, step.data, step.version)
        results = self._wait(transaction.commit_async(), steps[0].path)
        for step, result in zip(steps, results, strict=True):
            if isinstance(result, (BadVersionError, NoNodeError, NodeExistsError)):
                raise ConflictError(step.path) from result
            if isinstance(result, NoAuthError):
                raise DeniedError(step.path) from result
            if isinstance(result, NotEmptyError):
                raise HasChildrenError(step.path) from result
        for step, result in zip(steps, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
                raise _refused(step.path, result) from result

    def _acl(self, step: Put) -> list[ACL] | None:
        own = self.client.default_acl
        others = [make_acl(*who, read=True, write=True, create=True, delete=True) for who in step.writers]
        return [*own, *others, *(READ_ACL_UNSAFE if step.world_reads else [])] if own else None

    def _wait(self, call: Any, path: str) -> Any:
        with self.errors(path):
            return call.get(timeout=self.call_timeout_s)

    @contextmanager
    def errors(self, path: str) -> Iterator[None]:
        """Errors of kazoo as ours, but those that are an answer: that a znode is there, is not, or is another."""
        try:
            yield
        except (
            ConnectionLoss,
            ConnectionClosedError,
            SessionExpiredError,
            SessionMovedError,
            OperationTimeoutError,
            RetryFailedError,
        ) as e:
            raise UnreachableError(f"ZooKeeper at {self.hosts} is away ({type(e).__name__})") from e
        except RuntimeError as e:  # kazoo's, of an answer to another question
            raise UnreachableError(f"ZooKeeper at {self.hosts} answers what cannot be understood ({e})") from e
        except self.client.handler.timeout_exception as e:
            raise UnreachableError(f"ZooKeeper at {self.hosts} does not answer within {self.call_timeout_s:g} s") from e
        except AuthFailedError as e:
            raise RefusedError(
                f"ZooKeeper at {self.hosts} refuses the login of zookeeper.auth_file or .jaas_file"
            ) from e
        except SessionClosedRequireSaslError as e:
            raise RefusedError(
                f"ZooKeeper at {self.hosts} serves nobody without a login that it asks for: set zookeeper.jaas_file or "
                ".auth_file"
            ) from e
        except NoAuthError as e:
            raise DeniedError(path) from e
        except (BadVersionError, NoNodeError, NodeExistsError, NotEmptyError):
            raise
        except KazooException as e:
            raise _refused(path, e) from e


def _refused(path: str, e: Exception) -> RefusedError:
    why = ": a quota above it is used up (listquota in zkCli.sh)" if isinstance(e, QuotaExceededError) else f" {e}"
    return RefusedError(f"ZooKeeper refuses {path}: {type(e).__name__}{why.rstrip()}")


def connect(hosts: str, *, login: Login = NOBODY) -> ZooKeeper:
    """Connect for a command line; `UnreachableError` when ZooKeeper is not there within `CONNECT_S`."""
    zookeeper = ZooKeeper(hosts, login=login)
    zookeeper.start()
    try:
        zookeeper.require_connected(CONNECT_S)
        if login.sasl:
            zookeeper.stats(["/"])  # a wrong login is connected for a moment
    except (UnreachableError, RefusedError):
        zookeeper.stop()
        raise
    return zookeeper
