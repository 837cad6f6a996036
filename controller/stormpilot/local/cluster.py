"""A running cluster: up, down, its daemons one by one, its workers."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from stormpilot.errors import RefusedError, StormpilotError, UnreachableError, UsageError
from stormpilot.local import build, ending, isolation, processes, state, zookeeper
from stormpilot.local.home import Progress, storm_home
from stormpilot.local.keeper import short_path
from stormpilot.local.ports import Reservation
from stormpilot.local.processes import MARKER, Process
from stormpilot.local.spec import ClusterSpec
from stormpilot.local.start_lock import one_start_at_a_time
from stormpilot.local.state import Daemon, DaemonProcess, Description, Layout, Remains
from stormpilot.local.workers import Worker, workers_among
from stormpilot.logins.jaas import NIMBUS_SECTION, digest_login
from stormpilot.nimbus import Address, Nimbus

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


class LocalCluster:
    """A cluster that was started on this machine, running or not."""

    def __init__(self, layout: Layout, description: Description) -> None:
        self.layout = layout
        self.description = description

    @classmethod
    def up(cls, spec: ClusterSpec, progress: Progress = lambda _: None, timeout_s: float = 600.0) -> LocalCluster:
        """Start a cluster and return when Nimbus knows all its supervisors and slots.

        Whatever ends this call early (an error, Ctrl-C, SIGKILL) ends everything that it started.

        Raises
        ------
        RefusedError
            A cluster of this name is running.
        UsageError
            The scheduler's jar is missing.
        UnreachableError
            Java or Maven is missing, a disk is full, a daemon ended, or the cluster was not ready within `timeout_s`.
        """
        layout = Layout.of(spec.name)
        if not Path("/proc/self/environ").exists():
            raise UnreachableError("a local cluster needs Linux: its processes are found and ended by way of /proc")
        with _told_in_a_sentence(), one_start_at_a_time(layout), closing(Reservation()) as ports:
            old = state.read_remains(layout)
            if old is not None and processes.of_cluster(old.id):
                raise RefusedError(
                    f"local cluster {spec.name} is running already (stormpilot local down --name {spec.name} ends it)"
                )
            build.check_jars(spec)
            if spec.isolate:
                isolation.check(spec)
            home = storm_home(progress, spec.storm_version, spec.java_home)
            if spec.isolate or (old is not None and old.isolation is not None):
                isolation.remove(isolation.token_of(layout.directory))
            if layout.directory.exists():
                shutil.rmtree(layout.directory)
            layout.directory.mkdir(mode=0o700)
            cluster = cls(layout, build.build(spec, layout, home, ports))
            cluster._start(ports, progress, time.monotonic() + timeout_s)
        return cluster

    @classmethod
    def load(cls, name: str = "default") -> LocalCluster:
        """The cluster of this name, running or not."""
        layout = Layout.known(name)
        return cls(layout, state.read_description(layout))

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.description.name

    @property
    def zookeeper_hosts(self) -> str:
        """ZooKeeper connection string."""
        return ",".join(f"{d.host}:{d.port}" for d in self.description.of_kind("zookeeper"))

    @property
    def nimbus_address(self) -> Address:
        """Where Nimbus listens (Thrift): of several the one that leads, the first while none does."""
        daemon = self.leading_nimbus() or self.description.of_kind("nimbus")[0]
        return self._address(daemon)

    def _address(self, daemon: Daemon) -> Address:
        """Where a Nimbus listens, with the login that it wants."""
        file = self.description.spec.jaas_file
        login = None if file is None else digest_login(file, NIMBUS_SECTION, "jaas_file")
        return Address(daemon.host, daemon.port, login)

    def leading_nimbus(self) -> Daemon | None:
        """The Nimbus that leads, by its own word; without asking where there is only one."""
        nimbuses = self.description.of_kind("nimbus")
        if len(nimbuses) == 1:
            return nimbuses[0]
        for daemon in nimbuses:
            if self.pid(daemon.id) is None:
                continue
            with suppress(StormpilotError), Nimbus.connect(self._address(daemon), timeout_s=5.0) as nimbus:
                if nimbus.leads():
                    return daemon
        return None

    @property
    def nimbus_host(self) -> str:
        """Where Nimbus listens."""
        return self.nimbus_address.host

    @property
    def nimbus_port(self) -> int:
        """Nimbus's Thrift port."""
        return self.nimbus_address.port

    @property
    def supervisor_ids(self) -> list[str]:
        """Ids of the supervisors, as Storm knows them and as the daemon methods here take them."""
        return [s.id for s in self.description.supervisors]

    def running(self) -> bool:
        """Whether any process of the cluster is alive."""
        return bool(self.processes())

    def processes(self) -> list[Process]:
        """All living processes of the cluster: keeper, daemons, workers and what they started."""
        return processes.of_cluster(self.description.id)

    def workers(self) -> list[Worker]:
        """The workers' JVMs, by supervisor and port (read from the system, not asked of Storm)."""
        return workers_among(self.processes())

    def daemon(self, name: str) -> Daemon:
        """A daemon of the cluster by its id."""
        for daemon in self.description.daemons:
            if daemon.id == name:
                return daemon
        known = ", ".join(d.id for d in self.description.daemons)
        raise UsageError(f"cluster {self.name} has no daemon {name} (it has {known})")

    def daemon_processes(self) -> dict[str, DaemonProcess]:
        """By daemon id: process id, start and exit code, as the keeper last wrote them."""
        recorded = state.read_processes(self.layout)
        return recorded.daemons if recorded else {}

    def pid(self, daemon: str) -> int | None:
        """Process id of a daemon; None if it does not run."""
        recorded = self.daemon_processes().get(self.daemon(daemon).id)
        pid = recorded.pid if recorded else None
        return pid if pid and processes.belongs(pid, self.description.id) else None

    def log_file(self, daemon: str) -> Path:
        """A daemon's log."""
        return self.daemon(daemon).log

    def worker_logs(self) -> list[Path]:
        """Folders of the workers' logs, one per topology and port that ever ran here."""
        return sorted(self.layout.logs.glob("supervisor-*/workers-artifacts/*/*/"))

    def kill_daemon(self, daemon: str) -> None:
        """Kill a daemon as a crash would (SIGKILL) and wait until it is gone; workers of a supervisor stay.

        It stays down until it is started; one that ends in any other way is started again.
        """
        pid = self.pid(daemon)
        if pid is None:
            raise RefusedError(f"cluster {self.name}: {daemon} is not running")
        try:
            pid = self._order("kill", daemon)
        except UnreachableError:  # without its keeper, nobody starts it again
            os.kill(pid, signal.SIGKILL)
        self._wait(lambda: self._ended(daemon, pid), 60.0, f"{daemon} to end")

    def start_daemon(self, daemon: str, timeout_s: float = 300.0) -> None:
        """Start a daemon that is not running and wait until it serves.

        ZooKeeper then answers, Nimbus leads (after a kill only when its old session has expired, 20 s by default), or
        Nimbus knows the supervisor.
        """
        wanted = self.daemon(daemon)
        self._order("start", daemon)
        started = time.time()
        self._wait(lambda: self._serves(wanted, started), timeout_s, f"{daemon} to serve")

    def _order(self, order: str, daemon: str) -> int:
        """The process id by which the keeper answers that it carried out an order."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.settimeout(10.0)
                with short_path(self.layout.keeper_socket) as address:
                    connection.connect(address)
                connection.sendall(f"{order} {daemon}\n".encode())
                answer = connection.makefile("r").readline().strip()
            except OSError as e:
                raise UnreachableError(f"the keeper of cluster {self.name} does not answer: {e}") from None
        if not answer.startswith("ok "):
            raise RefusedError(f"cluster {self.name}: {answer.removeprefix('error ')}")
        return int(answer.removeprefix("ok "))

    def stop_zookeeper(self) -> None:
        """Kill all ZooKeeper servers."""
        for daemon in self.description.of_kind("zookeeper"):
            self.kill_daemon(daemon.id)

    def start_zookeeper(self) -> None:
        """Start all ZooKeeper servers again, with the data they had."""
        stopped = [d for d in self.description.of_kind("zookeeper") if self.pid(d.id) is None]
        for daemon in stopped:
            self.start_daemon(daemon.id)

    def kill_nimbus(self) -> None:
        """Kill the leading Nimbus as a crash would."""
        leading = self.leading_nimbus()
        if leading is None:
            raise RefusedError(f"cluster {self.name}: no Nimbus leads")
        self.kill_daemon(leading.id)

    def start_nimbus(self) -> None:
        """Start the Nimbuses again that do not run."""
        for daemon in self.description.of_kind("nimbus"):
            if self.pid(daemon.id) is None:
                self.start_daemon(daemon.id)

    def kill_supervisor(self, number: int) -> None:
        """Kill the supervisor of this number, from 1; its workers stay."""
        self.kill_daemon(self.supervisor_ids[number - 1])

    def start_supervisor(self, number: int) -> None:
        """Start the supervisor of this number, from 1, again.

        After a kill, Storm drops it once more for up to 5 s when the session of the killed process expires
        (`storm.zookeeper.session.timeout`): until then the new process writes into a znode that the old session owns.
        """
        self.start_daemon(self.supervisor_ids[number - 1])

    def down(self, *, purge: bool = False) -> None:
        """End every process of the cluster and verify that none is left; logs stay unless `purge`.

        Raises
        ------
        UnreachableError
            A process could not be ended.
        """
        ending.end(self.layout, Remains(self.description.id, self.description.isolation), purge=purge)

    def _start(self, ports: Reservation, progress: Progress, deadline: float) -> None:
        if self.description.isolation is not None:
            progress("making the nodes: namespaces, links, control groups")
            isolation.create(self.description.isolation)
        lifeline, theirs = socket.socketpair()
        with lifeline, theirs:
            keeper = self._spawn_keeper(theirs, ports)
            theirs.close()
            try:
                self._await_ready(keeper, progress, deadline)
                lifeline.sendall(b"keep\n")
                if lifeline.recv(16) != b"kept\n":
                    raise UnreachableError(f"the cluster ended while starting; see {self.layout.logs}")
            except BaseException:
                lifeline.close()
                self.down()
                raise

    def _spawn_keeper(self, lifeline: socket.socket, ports: Reservation) -> subprocess.Popen[bytes]:
        with (self.layout.logs / "keeper.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "stormpilot.local.keeper", str(self.layout.directory), str(lifeline.fileno())],
                env=os.environ | {MARKER: self.description.id},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[lifeline.fileno(), *(held.fileno() for held in ports.sockets)],
            )

    def _await_ready(self, keeper: subprocess.Popen[bytes], progress: Progress, deadline: float) -> None:
        progress("starting ZooKeeper, Nimbus and the supervisors")
        said = ""
        while True:
            if keeper.poll() is not None:
                raise UnreachableError(f"the keeper ended early; see {self.layout.logs / 'keeper.log'}")
            for name, process in self.daemon_processes().items():
                if process.exit_code is not None:
                    raise UnreachableError(
                        f"{name} ended early with exit code {process.exit_code}: {self._last_words(name)}"
                    )
            waiting_for = self._missing()
            if not waiting_for:
                return
            if waiting_for != said:
                progress(f"waiting for {waiting_for}, at most {max(0.0, deadline - time.monotonic()):.0f} s left")
                said = waiting_for
            if time.monotonic() > deadline:
                raise UnreachableError(f"still waiting for {waiting_for}; the daemons' logs are in {self.layout.logs}")
            time.sleep(0.1)

    def _missing(self) -> str:
        """Missing parts of a cluster that is not ready; empty if it is."""
        if not all(zookeeper.answers(d.host, d.port) for d in self.description.of_kind("zookeeper")):
            return "ZooKeeper"
        try:
            with Nimbus.connect(self.nimbus_address, timeout_s=5.0) as nimbus:
                if not nimbus.leads():
                    return "Nimbus to lead"
                known = {s.id: s.slots for s in nimbus.supervisors()}
            for daemon in self.description.of_kind("nimbus")[1:]:
                with Nimbus.connect(self._address(daemon), timeout_s=5.0) as other:
                    other.leads()  # it answers
        except StormpilotError:
            return "Nimbus"
        there = sum(known.get(s.id) == len(s.slots) for s in self.description.supervisors)
        wanted = len(self.description.supervisors)
        return "" if there == wanted else f"supervisors ({there} of {wanted})"

    def _serves(self, daemon: Daemon, since: float) -> bool:
        if daemon.kind == "zookeeper":
            majority = len(self.description.of_kind("zookeeper")) // 2 + 1
            running = sum(self.pid(d.id) is not None for d in self.description.of_kind("zookeeper"))
            return running < majority or zookeeper.answers(daemon.host, daemon.port)
        if daemon.kind == "forwarder":
            with suppress(OSError), socket.create_connection((daemon.host, daemon.port), timeout=1.0):
                return True
            return False
        try:
            if daemon.kind == "nimbus":
                with Nimbus.connect(self._address(daemon), timeout_s=5.0) as nimbus:
                    several = len(self.description.of_kind("nimbus")) > 1
                    return nimbus.leads() or (several and self.leading_nimbus() is not None)
            with Nimbus.connect(self.nimbus_address, timeout_s=5.0) as nimbus:
                known = {s.id: s.uptime_s for s in nimbus.supervisors()}
        except StormpilotError:
            return False
        return daemon.id in known and known[daemon.id] <= time.time() - since + 1

    def _ended(self, daemon: str, pid: int) -> bool:
        """Whether the process is gone and, if the keeper lives, noted as such: only then can it be started again."""
        if processes.belongs(pid, self.description.id):
            return False
        recorded = state.read_processes(self.layout)
        if recorded is None or not processes.belongs(recorded.keeper_pid, self.description.id):
            return True
        return recorded.daemons[daemon].pid != pid

    def _wait(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise UnreachableError(f"cluster {self.name}: waited {timeout_s:.0f} s for {what}")
            time.sleep(0.05)

    def _last_words(self, daemon: str) -> str:
        wanted = self.daemon(daemon)
        for file in (wanted.log, wanted.output):
            with suppress(OSError):
                lines = [line for line in file.read_text(errors="replace").splitlines() if line.strip()]
                errors = [line for line in lines if "[ERROR]" in line or "Exception" in line]
                if lines:
                    return f"{(errors or lines)[-1]} (all of it: {file})"
        return f"it wrote nothing to {wanted.log}"


@contextmanager
def _told_in_a_sentence() -> Iterator[None]:
    """Errors of the system (a full disk, a folder of somebody else, no more processes) as `UnreachableError`."""
    try:
        yield
    except OSError as e:
        what = f"{e.filename}: {e.strerror}" if e.filename else str(e)
        hint = "STORMPILOT_STATE and STORMPILOT_HOME name places on another disk"
        raise UnreachableError(f"{what} ({hint})" if e.errno in _DISK else what) from e
