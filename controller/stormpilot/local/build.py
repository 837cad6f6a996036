"""Turns a spec into a cluster's folder: configuration files, jars, and the command line of every daemon."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import yaml

from stormpilot.errors import UsageError
from stormpilot.local import cgroups, forwarder, isolation, state, zookeeper
from stormpilot.local.home import StormHome
from stormpilot.local.isolation import Isolation
from stormpilot.local.ports import Reservation
from stormpilot.local.spec import DIGEST_HOST, ClusterSpec, supervisor_id
from stormpilot.local.state import Daemon, Description, Layout, SupervisorNode
from stormpilot.logins.jaas import ZOOKEEPER_SECTION, digest_login

PILOT_SCHEDULER = "io.stormpilot.PilotScheduler"
LOAD_HOOK = "io.stormpilot.worker.LoadHook"
_RACKS_CLASS = "io.stormpilot.local.ConfiguredRacks"
_SUPERVISOR_MAIN = "io.stormpilot.local.NamedSupervisor"
_SASL_TRANSPORT = "org.apache.storm.security.auth.digest.DigestSaslTransportPlugin"
_NIMBUS_MAIN = "org.apache.storm.daemon.nimbus.Nimbus"
# A Nimbus can lead only with the jar and configuration of every topology: they are there before a topology starts.
_SEVERAL_NIMBUSES = {"nimbus.code.sync.freq.secs": 2}
# Rounds, checks and route refreshes as Storm's own LocalCluster has them, or nearly.
_TUNED = {
    "nimbus.monitor.freq.secs": 2,
    "supervisor.monitor.frequency.secs": 1,
    "task.refresh.poll.secs": 1,
    "supervisor.worker.shutdown.sleep.secs": 1,
    # Workers and supervisors end themselves when ZooKeeper has been away for longer than they retry, about 20 s by
    # Storm's defaults: docs/decisions/0006-without-zookeeper.md.
    "storm.zookeeper.retry.times": 60,
    "storm.zookeeper.retry.interval": 1000,
    "storm.zookeeper.retry.intervalceiling.millis": 3000,
}


def build(spec: ClusterSpec, layout: Layout, home: StormHome, ports: Reservation) -> Description:
    """Write everything that a cluster needs below `layout` and describe it; starts nothing.

    `check_jars` has looked at the spec before.
    """
    for folder in (layout.conf, layout.data, layout.logs, layout.extlib, layout.extlib_daemon):
        folder.mkdir(parents=True)
    # Copies: a rebuilt jar must not change under a running JVM.
    for jar in spec.extlib:
        shutil.copy(jar, layout.extlib)
    if spec.hook:
        shutil.copy(hook_jar(spec), layout.extlib)
    elif spec.scheduler == "pilot" and (routing := _built("worker")):  # for topologies whose tuples follow routes
        shutil.copy(routing, layout.extlib)
    if spec.scheduler == "pilot":
        shutil.copy(scheduler_jar(spec), layout.extlib_daemon)

    network = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}"
    alone = DIGEST_HOST if spec.jaas_file else "127.0.0.1"
    if spec.isolate:  # loopback ends at the border of a node
        token = isolation.token_of(layout.directory)
        network = isolation.free_network(token, isolation.addresses_in_use())
        alone = f"{network}.{isolation.BRIDGE_HOST}"
    keepers = [f"{network}.{n}" for n in range(2, 2 + spec.zookeepers)] if spec.zookeepers > 1 else [alone]
    zookeeper_port, quorum_port, election_port, nimbus_port = ports.take(4)
    supervisors = _supervisors(spec, network, ports)
    nimbuses = [f"{network}.{240 + n}" for n in range(1, 1 + spec.nimbuses)] if spec.nimbuses > 1 else [alone]
    base = _storm_conf(spec, home, keepers, zookeeper_port, nimbuses, nimbus_port, supervisors)

    daemons = []
    peers = [(host, quorum_port, election_port) for host in keepers] if spec.zookeepers > 1 else []
    for n, host in enumerate(keepers, start=1):
        name = f"zookeeper-{n}" if spec.zookeepers > 1 else "zookeeper"
        sasl, options = zookeeper.sasl(spec.jaas_file) if spec.jaas_file else ((), ())
        config = zookeeper.write_config(layout.data / name, host, zookeeper_port, server=n, peers=peers, more=sasl)
        log, output = _logs(layout, name)
        argv = zookeeper.command(home, config, log, *options)
        daemons.append(Daemon(name, "zookeeper", host, zookeeper_port, argv, {}, log, output))
    for n, host in enumerate(nimbuses, start=1):
        name = f"nimbus-{n}" if spec.nimbuses > 1 else "nimbus"
        # A Nimbus binds its port on all addresses, and Storm looks for all of them at one: a port of its own for each,
        # and the common one leads there.
        own_port = nimbus_port if len(nimbuses) == 1 else ports.take()[0]
        conf = base | {"storm.local.hostname": host, "nimbus.thrift.port": own_port}
        more = {**spec.conf, **spec.nimbus_conf}
        daemons.append(_storm_daemon(layout, spec, home, name, "nimbus", _NIMBUS_MAIN, host, own_port, conf, more))
    if len(nimbuses) > 1:
        ways = [((d.host, nimbus_port), (d.host, d.port)) for d in daemons if d.kind == "nimbus"]
        log, output = _logs(layout, "forwarder")
        argv = forwarder.command(ways)
        daemons.append(Daemon("forwarder", "forwarder", nimbuses[0], nimbus_port, argv, {}, log, output))
    isolated = _isolated(spec, layout, [alone, *keepers, *nimbuses], supervisors) if spec.isolate else None
    for n, (node, thrift_port) in enumerate(zip(supervisors, ports.take(spec.supervisors), strict=True)):
        conf = base | _supervisor_conf(node, thrift_port)
        more = {**spec.conf, **spec.supervisor_conf.get(node.id, {})}
        daemon = _storm_daemon(
            layout, spec, home, node.id, "supervisor", _SUPERVISOR_MAIN, node.host, thrift_port, conf, more
        )
        if isolated is not None:
            daemon = msgspec.structs.replace(daemon, argv=isolation.entered(daemon.argv, isolated.nodes[n]))
        daemons.append(daemon)
    description = Description(
        schema=1,
        name=spec.name,
        id=str(uuid.uuid4()),
        created_at=time.time(),
        storm_version=home.version,
        storm_home=home.directory,
        spec=spec,
        daemons=daemons,
        supervisors=supervisors,
        isolation=isolated,
    )
    state.write(layout.description_file, description)
    return description


def _isolated(spec: ClusterSpec, layout: Layout, hosts: list[str], supervisors: list[SupervisorNode]) -> Isolation:
    """The nodes of an isolated cluster."""
    nodes = [(s.id, s.host, _cpu_points(spec, n) / 100) for n, s in enumerate(supervisors, 1)]
    addresses = list(dict.fromkeys(hosts))
    return isolation.designed(layout.directory, spec, nodes, addresses, cgroups.of_this_machine())


def check_jars(spec: ClusterSpec) -> None:
    """Refuse a spec that names jars that are not there, before anything takes long."""
    for jar in spec.extlib:
        _existing(jar, "extlib")
    if spec.scheduler == "pilot":
        scheduler_jar(spec)
    if spec.hook:
        hook_jar(spec)


def scheduler_jar(spec: ClusterSpec) -> Path:
    """The jar for Nimbus: the spec's, or the one that `make build` left in the source tree."""
    if spec.scheduler_jar is not None:
        return _existing(spec.scheduler_jar, "scheduler_jar")
    return _built("scheduler") or _refuse(
        "the scheduler's jar is not built: run `make build` in the source tree, name one with --scheduler-jar, "
        "or use Storm's own scheduler (--scheduler default)"
    )


def hook_jar(spec: ClusterSpec) -> Path:
    """The jar for workers: the spec's, or the one that `make build` left in the source tree."""
    if spec.hook_jar is not None:
        return _existing(spec.hook_jar, "hook_jar")
    return _built("worker") or _refuse(
        "the jar for workers is not built: run `make build` in the source tree, or start without --hook"
    )


def _built(module: str) -> Path | None:
    """The newest jar of a Maven module of the source tree."""
    for folder in Path(__file__).parents:
        target = folder / "storm-plugin" / module / "target"
        jars = target.glob(f"stormpilot-{module}-*.jar")
        built = [j for j in jars if not j.stem.endswith(("-sources", "-javadoc", "-topologies"))]
        if built:
            return max(built, key=lambda jar: jar.stat().st_mtime)
    return None


def _refuse(text: str) -> NoReturn:
    raise UsageError(text)


def _existing(jar: Path, field: str) -> Path:
    if not jar.is_file():
        raise UsageError(f"{field}: {jar} does not exist")
    return jar


def _supervisors(spec: ClusterSpec, network: str, ports: Reservation) -> list[SupervisorNode]:
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    return [
        SupervisorNode(
            id=supervisor_id(n),
            host=DIGEST_HOST if spec.jaas_file else f"{network}.{10 + n}",
            rack=f"/rack-{(n - 1) % spec.racks}",
            site=spec.sites[(n - 1) % len(spec.sites)] if spec.sites else None,
            slots=ports.take(spec.slots),
            cpu_points=_cpu_points(spec, n) if spec.declares else None,
            memory_mb=spec.memory_mb or (round(machine_mb / spec.supervisors) if spec.declares else None),
        )
        for n in range(1, spec.supervisors + 1)
    ]


def _cpu_points(spec: ClusterSpec, number: int) -> float:
    """Resources of the node of this number, from 1: as its isolated node says, or as all have."""
    cores = spec.nodes[number - 1].cores if spec.nodes else None
    if cores is not None:
        return cores * 100
    return spec.cpu_points or round(len(os.sched_getaffinity(0)) * 100 / spec.supervisors, 1)


def _storm_conf(
    spec: ClusterSpec,
    home: StormHome,
    zookeepers: list[str],
    zookeeper_port: int,
    nimbuses: list[str],
    nimbus_port: int,
    supervisors: list[SupervisorNode],
) -> dict[str, Any]:
    jvm = " ".join(zookeeper.JVM_OPTIONS)
    if spec.jaas_file:
        # ZooKeeper's client of Storm 2.8 takes DIGEST-MD5 only without its FIPS mode.
        jvm += f" -Djava.security.auth.login.config={spec.jaas_file} -Dzookeeper.fips-mode=false"
    daemon, worker = f"{jvm} {home.share_daemons}".strip(), f"{jvm} {home.share_workers}".strip()
    conf: dict[str, Any] = {
        "storm.zookeeper.servers": zookeepers,
        "storm.zookeeper.port": zookeeper_port,
        "nimbus.seeds": nimbuses,
        "nimbus.thrift.port": nimbus_port,
        "storm.network.topography.plugin": _RACKS_CLASS,
        "stormpilot.local.racks": {s.host: s.rack for s in supervisors},
        "nimbus.childopts": f"-Xmx384m {daemon}",
        "supervisor.childopts": f"-Xmx160m {daemon}",
        "worker.childopts": f"-Xmx160m {worker} -XX:+HeapDumpOnOutOfMemoryError -XX:HeapDumpPath=artifacts/heapdump",
        "topology.worker.logwriter.childopts": f"-Xmx32m {worker}",
    }
    if len(nimbuses) > 1:
        conf |= _SEVERAL_NIMBUSES | {"topology.min.replication.count": len(nimbuses)}
    if spec.scheduler == "pilot":
        conf["storm.scheduler"] = PILOT_SCHEDULER
    if spec.jaas_file:
        conf["java.security.auth.login.config"] = str(spec.jaas_file)
        conf["storm.thrift.transport"] = _SASL_TRANSPORT
        conf["storm.zookeeper.superACL"] = f"sasl:{digest_login(spec.jaas_file, ZOOKEEPER_SECTION, 'jaas_file').user}"
    if spec.hook:
        conf["topology.auto.task.hooks"] = [LOAD_HOOK]
    return conf | (_TUNED if spec.tuned else {})


def _supervisor_conf(node: SupervisorNode, thrift_port: int) -> dict[str, Any]:
    conf: dict[str, Any] = {
        "storm.local.hostname": node.host,
        "stormpilot.local.supervisor.id": node.id,
        "supervisor.slots.ports": node.slots,
        "supervisor.thrift.port": thrift_port,
    }
    if node.cpu_points is not None:
        conf["supervisor.cpu.capacity"] = node.cpu_points
    if node.memory_mb is not None:
        conf["supervisor.memory.capacity.mb"] = node.memory_mb
    if node.site is not None:
        conf["supervisor.scheduler.meta"] = {"site": node.site}
    return conf


def _storm_daemon(
    layout: Layout,
    spec: ClusterSpec,
    home: StormHome,
    name: str,
    kind: Any,
    main: str,
    host: str,
    port: int,
    own: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> Daemon:
    log, output = _logs(layout, name)
    folders = {
        "storm.local.dir": str(layout.data / name),
        "storm.log.dir": str(log.parent),
        # Relative ones would be below the Storm home, which all clusters share.
        "storm.metricstore.rocksdb.location": str(layout.data / f"{name}-metrics"),
    }
    conf = {**own, **folders, **wanted}
    file = layout.conf / f"{name}.yaml"
    file.write_text(yaml.safe_dump(conf, sort_keys=True))
    argv = [
        home.java,
        "-server",
        *shlex.split(str(conf[f"{kind}.childopts"])),
        f"-Ddaemon.name={kind}",
        f"-Dstorm.home={home.directory}",
        f"-Dstorm.conf.file={file}",
        "-Dstorm.options=",
        f"-Dstorm.log.dir={log.parent}",
        f"-Dlogfile.name={log.name}",
        f"-Dlog4j.configurationFile={home.directory / 'log4j2' / 'cluster.xml'}",
        "-Djava.deserialization.disabled=true",
        "-cp",
        f"{home.directory}/lib/*:{home.directory}/extlib/*:{layout.extlib}/*:{layout.extlib_daemon}/*",
        main,
    ]
    env = {
        # Workers get this folder on their classpath; a storm.yaml in it would be a second configuration.
        "STORM_CONF_DIR": str(layout.conf),
        "STORM_EXT_CLASSPATH": f"{layout.extlib}/*",
        # Python components find the interpreter that the cluster was started with, and streamparse_run beside it.
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
    }
    if spec.java_home:
        env["JAVA_HOME"] = str(spec.java_home)  # supervisors look there for their workers' java
    return Daemon(name, kind, host, port, argv, env, log, output)


def _logs(layout: Layout, name: str) -> tuple[Path, Path]:
    folder = layout.logs / name
    folder.mkdir(parents=True)
    return folder / f"{name}.log", folder / f"{name}.out"
