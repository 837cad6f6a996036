"""Asks ZooKeeper and Nimbus for everything that the checks judge, once; reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from stormpilot import clock
from stormpilot.doctor import ensemble
from stormpilot.doctor.registered import nimbus_addresses, parsed_addresses, registered_address
from stormpilot.errors import RefusedError, StormpilotError, UnreachableError, UsageError
from stormpilot.logins.jaas import SaslLogin
from stormpilot.messages.core import ClusterSnapshot, OwnerMessage, decode
from stormpilot.messages.failures import failures_named
from stormpilot.messages.limits import HISTORY, text_within
from stormpilot.nimbus import Address, Nimbus
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate.status import FAILED
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths, normal_root

T = TypeVar("T")
NIMBUS_TIMEOUT_S = 5.0
STORM_ROOT = "/storm"


class NimbusSaid(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a Nimbus; `error` is why there is none.

    `confs` are configurations by the name of the topology, `component_confs` those of its components. `others` are the
    other Nimbuses that are up, with address, conf, whether it `leads`, and error.
    """

    address: str
    conf: Mapping[str, Any] = {}
    leader: str = ""
    supervisors: list[str] = []
    topologies: list[str] = []
    confs: Mapping[str, Mapping[str, Any]] = {}
    component_confs: Mapping[str, Mapping[str, Mapping[str, Any]]] = {}
    leads: bool = False
    others: list[NimbusSaid] = []
    error: str = ""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Access list of a znode of ours: [scheme, id, permissions as letters] per entry; None: it is not there.

    `needs`: the permissions that the controller must have there.
    """

    path: str
    needs: str = "rwc"
    entries: list[tuple[str, str, str]] | None = None
    error: str = ""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A message with the writer's own time in it, and when ZooKeeper got it (epoch, ms)."""

    who: str
    wrote_at_ms: int
    arrived_at_ms: int


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything, at `now_ms` of this machine's clock. `error`: ZooKeeper could not be read, and the rest is empty.

    `ids` are our logins as access lists have them (scheme and id), `nimbus_ids` those of Storm's daemons where
    `zookeeper.nimbus_acl` names them, `tls` whether ZooKeeper is asked by TLS, `reports` per topology id the age (s) of
    its newest report, `thresholds` when their data ends (epoch, ms), `nimbus_given` whether its address was named,
    `signs` whether the controller signs plans (None: its configuration is not known), `exposed` files with passwords or
    keys that every user can read, by setting. `nimbus_elsewhere`: our Nimbus does not answer, and those at Storm's
    usual root are of another Storm on this ZooKeeper. `owner`: the Storm cluster that the znodes below the root are of
    (None: nobody says), `owner_error` why that cannot be read. `storm_*`: names below Storm's own znodes, None: not
    shown.
    """

    now_ms: int
    hosts: str
    root: str = "/stormpilot"
    ids: list[tuple[str, str]] = []
    nimbus_ids: list[tuple[str, str]] = []
    tls: bool = False
    servers: list[ensemble.Server] = []
    error: str = ""
    seen: StoreSnapshot = StoreSnapshot()
    problems: Mapping[str, str] = {}
    access: list[Access] = []
    written: list[Written] = []
    reports: Mapping[str, float] = {}
    thresholds: Mapping[str, int] = {}
    owner: OwnerMessage | None = None
    owner_error: str = ""
    nimbus: NimbusSaid | None = None
    nimbus_given: bool = False
    nimbus_elsewhere: bool = False
    signs: bool | None = None
    exposed: Mapping[str, str] = {}
    storm_nimbuses: list[str] | None = None
    storm_supervisors: list[str] | None = None
    storm_topologies: list[str] | None = None


def gather(
    hosts: str,
    paths: Paths,
    login: Login,
    nimbus: str | None,
    nimbus_login: SaslLogin | None = None,
    signs: bool | None = None,
    exposed: Mapping[str, str] | None = None,
) -> Evidence:
    """Look at an installation; never raises for what is wrong with it.

    `nimbus`: host:port, else those that Storm registered in ZooKeeper, first the one that the plug-in runs in, which is
    asked at the default port where it is not registered; `nimbus_login` is as whom to ask it. `signs`: whether the
    controller signs plans, None: not known. `exposed`: as in `Evidence`.
    """
    servers = ensemble.ask(hosts, login.tls)
    start = Evidence(
        now_ms=clock.now_ms(),
        hosts=hosts,
        root=paths.root,
        ids=login.ids,
        nimbus_ids=list(login.readers),
        tls=login.tls is not None,
        servers=servers,
        nimbus_given=nimbus is not None,
        signs=signs,
        exposed=exposed or {},
    )
    try:
        zookeeper = connect(hosts, login=login)
    except StormpilotError as e:
        return msgspec.structs.replace(
            start, error=str(e), nimbus=_ask_nimbus(nimbus_addresses(nimbus, [], None, nimbus_login))
        )
    try:
        return _look(start, zookeeper, paths, nimbus, nimbus_login)
    except StormpilotError as e:
        # One that went away meanwhile would let us wait for each of them.
        asked = {} if isinstance(e, UnreachableError) else _owned(paths)
        access = [_access(zookeeper, p, needs) for p, needs in asked.items()]
        return msgspec.structs.replace(
            start, error=str(e), access=access, nimbus=_ask_nimbus(nimbus_addresses(nimbus, [], None, nimbus_login))
        )
    finally:
        zookeeper.stop()


def _look(
    start: Evidence, zookeeper: ZooKeeper, paths: Paths, nimbus: str | None, nimbus_login: SaslLogin | None
) -> Evidence:
    reader = Reader(zookeeper, paths)
    seen = reader.read()
    reports, problems = reader.read_loads(sorted(seen.topologies))
    written = _written(zookeeper, paths, seen, {r.reporter: r.topology_id for r in reports})
    now_ms = clock.now_ms()  # after what is compared with it was read, before what takes long
    newest: dict[str, int] = {}
    for r in reports:
        newest[r.topology_id] = max(newest.get(r.topology_id, 0), r.written_at_ms)
    owner, owner_error = _owner(zookeeper, paths)
    storm_root = normal_root(owner.storm_root) if owner and owner.storm_root else STORM_ROOT
    registered = _registered(zookeeper, storm_root)
    plug_in_host = seen.cluster.shim.nimbus if seen.cluster else None
    said = _ask_nimbus(nimbus_addresses(nimbus, registered, plug_in_host, nimbus_login))
    elsewhere = nimbus is None and owner is None and _is_elsewhere(said, registered, seen.cluster)
    its_root = normal_root(str((said.conf if said else {}).get("storm.zookeeper.root") or storm_root))
    guessed = nimbus is None and owner is not None and its_root != storm_root  # of the same host, say, or root changed
    if said and not said.error and (elsewhere or (guessed and not _has_supervisor_of(seen.cluster, said))):
        here = str(Address(plug_in_host or ""))
        said = NimbusSaid(address=here, error=f"Nimbus at {here} does not answer; {said.address} is of another Storm")
    else:
        storm_root = its_root
    nimbuses, supervisors, storms = (
        None if elsewhere else _children(zookeeper, f"{storm_root}/{name}")
        for name in ("nimbuses", "supervisors", "storms")
    )
    return msgspec.structs.replace(
        start,
        now_ms=now_ms,
        seen=seen,
        problems={**seen.problems, **problems},
        access=[_access(zookeeper, p, needs) for p, needs in _owned(paths, sorted(seen.topologies)).items()],
        written=written,
        reports={t: (now_ms - at) / 1000 for t, at in newest.items()},
        thresholds=_thresholds(zookeeper, paths),
        owner=owner,
        owner_error=owner_error,
        nimbus=said,
        nimbus_elsewhere=elsewhere,
        storm_nimbuses=nimbuses,
        storm_supervisors=supervisors,
        storm_topologies=storms,
    )


def _written(zookeeper: ZooKeeper, paths: Paths, seen: StoreSnapshot, reporters: Mapping[str, str]) -> list[Written]:
    """Messages whose writer stamped them: the stamp against the time at which ZooKeeper got them."""
    wanted = [("the controller's host", paths.controller), ("the Nimbus host", paths.cluster)]
    wanted += [("the Nimbus host", paths.topology(i)) for i in sorted(seen.topologies)]
    wanted += [(f"the host of {r} of {t}", paths.load(t, r)) for r, t in sorted(reporters.items())]
    found = []
    failing = seen.controller is not None and seen.controller.sentence.startswith(FAILED)
    for (who, path), node in zip(wanted, zookeeper.read([p for _, p in wanted]), strict=True):
        if node is None or path in seen.problems or (failing and path == paths.controller):
            continue  # a state that was written when a cycle failed has the time of the last one that did not
        stamp = _stamp(node.data)
        if stamp is not None:
            found.append(Written(who=who, wrote_at_ms=stamp, arrived_at_ms=node.written_at_ms))
    return found


class _Stamped(msgspec.Struct, rename="camel"):
    written_at_ms: int


def _stamp(data: bytes) -> int | None:
    try:
        return _fields(data, _Stamped).written_at_ms
    except UsageError:
        return None


class _Mined(msgspec.Struct, rename="camel"):
    mined_at_ms: int
    to_ms: int


def _fields(data: bytes, kind: type[T]) -> T:
    """These fields of a message of whatever kind."""
    with failures_named("the message", kind.__name__):
        return msgspec.json.decode(text_within(data, HISTORY), type=kind)


def _thresholds(zookeeper: ZooKeeper, paths: Paths) -> dict[str, int]:
    ids = zookeeper.children([paths.thresholds()])[0]
    found = {}
    for i, node in zip(ids, zookeeper.read([paths.thresholds(i) for i in ids], keep_denied=True), strict=True):
        if node is None or node.denied:
            continue
        try:
            mined = _fields(node.data, _Mined)
            found[i] = min(mined.mined_at_ms, mined.to_ms)
        except UsageError:
            found[i] = node.written_at_ms
    return found


def _owner(zookeeper: ZooKeeper, paths: Paths) -> tuple[OwnerMessage | None, str]:
    (node,) = zookeeper.read([paths.owner], keep_denied=True)
    if node is None:
        return None, ""
    if node.denied:
        return None, "we may not read it"
    try:
        return decode(node.data, OwnerMessage, paths.owner), ""
    except UsageError as e:
        return None, str(e)


def _owned(paths: Paths, topologies: Sequence[str] = ()) -> dict[str, str]:
    """Znodes whose access lists matter, with what the controller must be able to do there.

    It creates below the root, owns plans, settings and its own state, and reads what Nimbus and topologies write.
    """
    p = paths
    own = [
        p.plan(),
        f"{p.base}/settings",
        p.mode(),
        p.pause(""),
        p.plan_history(),
        p.proposal(),
        p.moves(),
        p.rollout(),
    ]
    own += [p.routes(), p.request(), p.hold(), p.audit(), p.controller, p.epoch, p.leader, *map(p.plan, topologies)]
    read = [p.cluster, p.topology(), p.status(), p.load(), *map(p.load, topologies), *map(p.topology, topologies)]
    below_root = {paths.root: "rc", paths.base: "rc"}
    return below_root | dict.fromkeys(own, "rwc") | dict.fromkeys(read, "r") | {p.epoch: "rw", p.controller: "rw"}


def _access(zookeeper: ZooKeeper, path: str, needs: str) -> Access:
    letters = ((1, "r"), (2, "w"), (4, "c"), (8, "d"), (16, "a"))
    try:
        entries, _ = zookeeper.client.get_acls_async(path).get(timeout=zookeeper.call_timeout_s)
    except NoNodeError:
        return Access(path=path, needs=needs)
    except NoAuthError:
        return Access(path=path, needs=needs, error="its access list is not shown to us")
    except (KazooException, zookeeper.client.handler.timeout_exception) as e:
        return Access(path=path, needs=needs, error=type(e).__name__)
    return Access(
        path=path,
        needs=needs,
        entries=[(a.id.scheme, a.id.id, "".join(c for bit, c in letters if a.perms & bit)) for a in entries],
    )


def _children(zookeeper: ZooKeeper, path: str) -> list[str] | None:
    """Names below one of Storm's own znodes; None where it is not there, not shown to us, or no path."""
    try:
        if zookeeper.read([path])[0] is None:
            return None
        return zookeeper.children([path])[0]
    except (RefusedError, ValueError):
        return None


def _registered(zookeeper: ZooKeeper, storm_root: str) -> list[str]:
    """Host and port of each Nimbus that Storm registered below its root."""
    folder = f"{storm_root}/nimbuses"
    names = sorted(_children(zookeeper, folder) or [])
    nodes = zookeeper.read([f"{folder}/{name}" for name in names], keep_denied=True)
    return [registered_address(name, node.data) for name, node in zip(names, nodes, strict=True) if node is not None]


def _is_elsewhere(said: NimbusSaid | None, registered: Sequence[str], cluster: ClusterSnapshot | None) -> bool:
    """Whether those that are registered are of another Storm; one that leads after ours died has our supervisors."""
    there = {a.host for a in parsed_addresses(registered)}
    host = cluster.shim.nimbus if cluster else ""
    if cluster is None or not there or not host or host in there:
        return False
    if said is None or said.error:
        return True
    return said.address != str(Address(host)) and not _has_supervisor_of(cluster, said)


def _has_supervisor_of(cluster: ClusterSnapshot | None, said: NimbusSaid) -> bool:
    return cluster is None or bool({s.id for s in cluster.supervisors} & set(said.supervisors))


def _ask_nimbus(addresses: Sequence[Address]) -> NimbusSaid | None:
    """The first that answers, else why the first one did not; None where nobody said where Nimbus is."""
    first = None
    for address in addresses:
        said = _ask_one(address)
        if not said.error:
            return said
        first = first or said
    return first


def _ask_one(address: Address) -> NimbusSaid:
    try:
        with Nimbus.connect(address, NIMBUS_TIMEOUT_S) as nimbus:
            running = nimbus.topologies()
            return NimbusSaid(
                address=str(address),
                conf=nimbus.conf(),
                leader=nimbus.leader().host,
                supervisors=sorted(s.id for s in nimbus.supervisors()),
                topologies=sorted(t.id for t in running),
                confs={t.name: _shown(nimbus.topology_conf, t.id) for t in running},
                component_confs={t.name: _shown(nimbus.component_confs, t.id) for t in running},
                others=_ask_others(address, nimbus.nimbuses()),
            )
    except StormpilotError as e:
        return NimbusSaid(address=str(address), error=str(e))


def _ask_others(asked: Address, there: Sequence[tuple[Address, bool]]) -> list[NimbusSaid]:
    """The other Nimbuses, of which one leads now or next; a single one may be `asked` by a name of another network."""
    if len(there) < 2:
        return []
    here = asked.resolved()
    return [_ask_conf(a, leads) for a, leads in there if a != asked and not a.resolved() & here]


def _ask_conf(address: Address, leads: bool) -> NimbusSaid:
    try:
        with Nimbus.connect(address, NIMBUS_TIMEOUT_S) as nimbus:
            return NimbusSaid(address=str(address), conf=nimbus.conf(), leads=leads)
    except StormpilotError as e:
        return NimbusSaid(address=str(address), leads=leads, error=str(e))


def _shown(read: Callable[[str], dict[str, Any]], topology_id: str) -> dict[str, Any]:
    """Topology as Nimbus shows it; nothing where we may not read it, or where it has just ended."""
    try:
        return read(topology_id)
    except RefusedError:
        return {}
