"""A thin Thrift client of Nimbus: what `submit`, `local` and `observe` ask of it, with errors a person understands.

It speaks binary Thrift, framed (Storm's `SimpleTransportPlugin`, the default) or with SASL's DIGEST-MD5
(`DigestSaslTransportPlugin`, where the address has a login), by streamparse's IDL, which is older than Storm 2.8 and
compatible on the wire for what is called here. thriftpy2 cannot decode `Assignment.executor_node_port`, so placements
come from `getTopologyInfo`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

from streamparse import thrift as storm
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TApplicationException, TException
from thriftpy2.transport import TFramedTransportFactory, TTransportException

try:
    from thriftpy2.protocol.cybin.cybin import ProtocolError
except ImportError:  # a thriftpy2 without compiled code raises its other one
    ProtocolError = TProtocolException

from stormpilot.errors import RefusedError, UnreachableError, UsageError, cause
from stormpilot.logins.thrift import Asks, asks_for, sasl_transport
from stormpilot.nimbus.statistics import grouping, placed, statistics
from stormpilot.nimbus.values import (
    Address,
    ExecutorStatistics,
    RunningTopology,
    Subscription,
    SupervisorInfo,
    TopologyDetail,
)

DEFAULT_TIMEOUT_S = 60.0
"""Nimbus may wait that long for a code replica before it answers a submit."""
PLAIN = {"cpu.pcore.percent", "memory.mb", "onheap.memory.mb", "offheap.memory.mb"}
"""Names of CPU and memory among resources of a supervisor."""
SCHEME_KEY, PAYLOAD_KEY = "storm.zookeeper.topology.auth.scheme", "storm.zookeeper.topology.auth.payload"
_CHUNK_BYTES = 300 * 1024
"""Below `nimbus.thrift.max_buffer_size` (1 MiB)."""


class NotAliveError(RefusedError):
    """A request on a topology that does not run, or no longer."""


class Nimbus:
    """A connection to one Nimbus. Not for use by several threads at once."""

    def __init__(self, client: Any, address: Address):
        self.address = address
        self._client = client
        self._spoke = False  # whether a call was answered: what listens there is a Nimbus

    @classmethod
    def connect(cls, address: Address, timeout_s: float = DEFAULT_TIMEOUT_S) -> Nimbus:
        """Connect, by IPv4 or by IPv6; `UnreachableError` when nothing listens there."""
        transport = TFramedTransportFactory() if address.login is None else sasl_transport(address.login)
        failed: list[Exception] = []
        for family in address.families():
            try:
                client = make_client(
                    storm.Nimbus,
                    host=address.host,
                    port=address.port,
                    proto_factory=TBinaryProtocolFactory(),  # type: ignore[no-untyped-call]
                    trans_factory=transport,
                    timeout=int(timeout_s * 1000),
                    socket_family=family,
                )
            except (TTransportException, OSError) as e:
                failed.append(e)
            else:
                return cls(client, address)
        if address.login is not None:
            _refuse_login(address, failed[0])
        raise UnreachableError(
            f"Nimbus at {address} is not reachable: {_words(failed[0])}; is it up, is that its nimbus.thrift.port?"
        ) from failed[0]

    @classmethod
    def connect_leader(cls, address: Address, timeout_s: float = DEFAULT_TIMEOUT_S) -> Nimbus:
        """Connect to the Nimbus at `address`, and on to the leading one where that is another.

        A leader that cannot be reached from here (a tunnel, another network) is no error: the call stays with
        `address`, and Nimbus itself refuses what only a leader may do.
        """
        nimbus = cls.connect(address, timeout_s)
        leader = replace(nimbus.leader(), login=address.login)
        if leader == address or leader.resolved() & address.resolved():
            return nimbus
        try:
            following = cls.connect(leader, timeout_s)
        except UnreachableError:
            return nimbus
        nimbus.close()
        return following

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Nimbus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading ------------------------------------------------------------------------------------------------------

    def leader(self) -> Address:
        """The leading Nimbus; `UnreachableError` while none leads."""
        try:
            summary = self._call("getLeader")
        except RefusedError as e:
            raise UnreachableError(f"no Nimbus leads (asked {self.address}): {e}") from e
        return Address(str(summary.host), int(summary.port))

    def leads(self) -> bool:
        """Whether this Nimbus leads. One restarted after a crash does not, until its predecessor's session expires."""
        here = self.address.resolved()
        return any(leads and address.resolved() & here for address, leads in self.nimbuses())

    def nimbuses(self) -> list[tuple[Address, bool]]:
        """Every Nimbus that is up, and whether it leads."""
        login = self.address.login
        return [
            (Address(str(n.host), int(n.port), login), bool(n.isLeader)) for n in self._call("getClusterInfo").nimbuses
        ]

    def conf(self) -> dict[str, Any]:
        """Nimbus's own configuration."""
        return dict(json.loads(self._call("getNimbusConf")))

    def supervisors(self) -> list[SupervisorInfo]:
        """The live supervisors."""
        return [
            SupervisorInfo(
                s.supervisor_id,
                s.host,
                int(s.num_workers),
                int(s.num_used_workers),
                int(s.uptime_secs or 0),
                cpu_points=float((s.total_resources or {}).get("cpu.pcore.percent", 0.0)),
                memory_mb=float((s.total_resources or {}).get("memory.mb", 0.0)),
                resources={n: float(x) for n, x in (s.total_resources or {}).items() if n not in PLAIN},
            )
            for s in self._call("getClusterInfo").supervisors
        ]

    def topologies(self) -> list[RunningTopology]:
        """Every topology that Nimbus knows, in whatever status."""
        return [
            RunningTopology(
                id=t.id,
                name=t.name,
                status=t.status,
                workers=int(t.num_workers),
                executors=int(t.num_executors),
                tasks=int(t.num_tasks),
                uptime_s=int(t.uptime_secs or 0),
            )
            for t in self._call("getClusterInfo").topologies
        ]

    def find(self, name: str) -> RunningTopology | None:
        """The topology of that name, or None."""
        return next((t for t in self.topologies() if t.name == name), None)

    def topology_id(self, name: str) -> str:
        """Id of the topology of that name; `RefusedError` names those that run."""
        topologies = self.topologies()
        for t in topologies:
            if t.name == name:
                return t.id
        running = ", ".join(sorted(t.name for t in topologies)) or "none"
        raise RefusedError(f"no topology is named {name!r} (running: {running})")

    def topology(self, topology_id: str) -> TopologyDetail:
        """Where the executors of a topology run."""
        info = self._call("getTopologyInfo", id=topology_id)
        return TopologyDetail(
            id=info.id,
            name=info.name,
            status=info.status,
            executors=sorted(map(placed, info.executors), key=lambda e: e.start),
            errors={c: [e.error for e in errors] for c, errors in (info.errors or {}).items() if errors},
        )

    def topology_conf(self, topology_id: str) -> dict[str, Any]:
        """The configuration of a topology, with Nimbus's where it has none of its own."""
        return dict(json.loads(self._call("getTopologyConf", id=topology_id)))

    def component_confs(self, topology_id: str) -> dict[str, dict[str, Any]]:
        """The configurations of a topology's components; `{}` for those that have none."""
        topology = self._call("getUserTopology", id=topology_id)
        parts = {**(topology.spouts or {}), **(topology.bolts or {})}
        return {name: dict(json.loads(part.common.json_conf or "{}")) for name, part in parts.items()}

    def statistics(self, topology_id: str) -> list[ExecutorStatistics]:
        """Storm's own counts of a topology's executors in the last ten minutes, or since they started."""
        info = self._call("getTopologyInfo", id=topology_id)
        return sorted(map(statistics, info.executors), key=lambda e: e.placed.start)

    def subscriptions(self, topology_id: str) -> dict[str, list[Subscription]]:
        """By component what it receives; spouts have none."""
        topology = self._call("getUserTopology", id=topology_id)
        found: dict[str, list[Subscription]] = {name: [] for name in topology.spouts or {}}
        for name, bolt in (topology.bolts or {}).items():
            found[name] = [
                Subscription(i.componentId, i.streamId, grouping(g)) for i, g in (bolt.common.inputs or {}).items()
            ]
        return found

    # --- acting -------------------------------------------------------------------------------------------------------

    def kill(self, name: str, wait_s: int | None = None) -> None:
        """Kill a topology after `wait_s` seconds with its spouts off (None: Storm's message time-out)."""
        self._call("killTopologyWithOpts", name=name, options=storm.KillOptions(wait_secs=wait_s))

    def activate(self, name: str) -> None:
        """Turn the spouts of a topology on."""
        self._call("activate", name=name)

    def deactivate(self, name: str) -> None:
        """Turn the spouts of a topology off."""
        self._call("deactivate", name=name)

    def rebalance(
        self,
        name: str,
        wait_s: int | None = None,
        workers: int | None = None,
        executors: dict[str, int] | None = None,
    ) -> None:
        """Rebalance as `storm rebalance` does; `executors` maps component to executors."""
        options = storm.RebalanceOptions(wait_secs=wait_s, num_workers=workers, num_executors=executors)
        self._call("rebalance", name=name, options=options)

    def name_allowed(self, name: str) -> bool:
        """Whether a topology of that name may be submitted now (Nimbus also says no to one that runs)."""
        return bool(self._call("isTopologyNameAllowed", name=name))

    def upload(self, data: Iterable[bytes], on_bytes: Callable[[int], None] | None = None) -> str:
        """Upload a jar; returns its location on Nimbus. `on_bytes` hears the size of each chunk sent."""
        location: str = self._call("beginFileUpload")
        for block in data:
            for start in range(0, len(block), _CHUNK_BYTES):
                chunk = block[start : start + _CHUNK_BYTES]
                self._call("uploadChunk", location=location, chunk=chunk)
                if on_bytes:
                    on_bytes(len(chunk))
        self._call("finishFileUpload", location=location)
        return location

    def submit(self, name: str, jar_location: str, conf: dict[str, Any], topology: Any, active: bool = True) -> None:
        """Submit an assembled `StormTopology` whose jar was uploaded.

        It gets a login to ZooKeeper of its own: see `with_own_login`.
        """
        status = storm.TopologyInitialStatus.ACTIVE if active else storm.TopologyInitialStatus.INACTIVE
        self._call(
            "submitTopologyWithOpts",
            name=name,
            uploadedJarLocation=jar_location,
            jsonConf=json.dumps(with_own_login(conf)),
            topology=topology,
            options=storm.SubmitOptions(initial_status=status),
        )

    def _call(self, method: str, **arguments: Any) -> Any:
        with self._errors(method):
            answer = getattr(self._client, method)(**arguments)
            self._spoke = True
            return answer

    @contextmanager
    def _errors(self, method: str) -> Iterator[None]:
        try:
            yield
        except storm.NotAliveException as e:
            raise NotAliveError(f"Nimbus at {self.address} refuses {method}: {e.msg}") from e
        except (
            storm.AlreadyAliveException,
            storm.InvalidTopologyException,
            storm.AuthorizationException,
        ) as e:
            raise RefusedError(f"Nimbus at {self.address} refuses {method}: {e.msg}") from e
        except TApplicationException as e:
            raise RefusedError(f"Nimbus at {self.address} failed in {method}: {e} (its log says more)") from e
        except (TException, ProtocolError, OSError) as e:
            self._unreachable(method, e)

    def _unreachable(self, method: str, e: Exception) -> NoReturn:
        hint = ""
        alien = isinstance(e, (TProtocolException, ProtocolError))
        if alien or (not self._spoke and not isinstance(e, ConnectionError)):
            hint = " (is it Nimbus's Thrift port?)"
        if self.address.login is None and not isinstance(e, TimeoutError):
            asked = asks_for(self.address.host, self.address.port)
            if asked in (Asks.DIGEST, Asks.KERBEROS, Asks.TLS):
                raise UnreachableError(f"Nimbus at {self.address}: {asked.value}") from e
        raise UnreachableError(f"Nimbus at {self.address} does not answer {method}: {_words(e)}{hint}") from e


def _refuse_login(address: Address, e: Exception) -> None:
    """Raise `RefusedError` where it is not the network that keeps us from logging in."""
    asked = asks_for(address.host, address.port)
    if asked is Asks.DIGEST and address.login is not None:
        raise RefusedError(f"Nimbus at {address} refuses the SASL login of {address.login.user}: {_words(e)}") from e
    if asked is Asks.NOTHING:
        raise RefusedError(f"Nimbus at {address}: {asked.value}: ask it without --nimbus-jaas") from e
    if asked is not None:
        raise RefusedError(f"Nimbus at {address}: {asked.value}") from e


def with_own_login(conf: dict[str, Any]) -> dict[str, Any]:
    """A topology's configuration with a login to ZooKeeper; as Storm's client does, one is made up where it has none.

    A Nimbus that logs in to ZooKeeper takes no topology without a login of its own, others take it out again.
    """
    payload = conf.get(PAYLOAD_KEY)
    if payload is not None and not re.fullmatch(r"\S+:\S+", str(payload)):
        raise UsageError(f"{PAYLOAD_KEY}: expected user:password")
    return conf | {SCHEME_KEY: "digest", PAYLOAD_KEY: payload or f"{secrets.token_hex(8)}:{secrets.token_hex(16)}"}


def _words(e: Exception) -> str:
    if isinstance(e, TTransportException):  # thriftpy tells the address again, and not why
        return cause(e.__context__) if isinstance(e.__context__, OSError) else str(e.message)
    return cause(e)
