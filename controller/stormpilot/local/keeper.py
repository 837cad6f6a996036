"""The parent of a cluster's daemons: `python -m stormpilot.local.keeper DIRECTORY LIFELINE_FD`.

It starts what `cluster.json` lists, notes in `processes.json` what runs and how it ended, and ends the whole cluster on
SIGTERM. Until the command that started it says `keep` over the lifeline (a socket), the end of that command, however it
comes about, is the end of the cluster. Later it takes one-line orders on a socket in the cluster's folder: `start ID`
and `kill ID`.

A daemon that ends by itself is started again, as what supervises Storm's daemons in production does: they are made to
end where they meet what they did not expect, a JVM that crashes ends by SIGABRT, and the kernel ends by SIGKILL what
takes too much memory. One that an order killed stays down until it is started. A disk that is full, or a folder that is
gone, ends nothing: what could not be written or started is tried again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from stormpilot.errors import StormpilotError
from stormpilot.local import isolation, processes, state
from stormpilot.local.state import Daemon, DaemonProcess, Layout, Processes

RESTART_S = 5.0
"""Seconds from one start of a daemon to the next that is made by itself."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Keeper:
    """Starts, watches and ends the daemons of one cluster. Single-threaded."""

    def __init__(self, layout: Layout, lifeline: socket.socket) -> None:
        self._layout = layout
        self._description = state.read_description(layout)
        self._daemons = {d.id: d for d in self._description.daemons}
        self._running: dict[int, str] = {}
        self._due: dict[str, float] = {}
        self._killed: set[str] = set()
        self._status = Processes(os.getpid(), "starting", {d: DaemonProcess() for d in self._daemons})
        self._lifeline = lifeline
        self._selector = selectors.DefaultSelector()
        self._ending = False
        self._unwritten = False

    def run(self) -> None:
        """Start everything, and return when the cluster is ended."""
        # Workers whose supervisor died become our children, so that they do not linger as zombies that look alive.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        waker, wakeup = socket.socketpair()
        for end in (waker, wakeup):
            end.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        listener = self._listen()
        self._selector.register(waker, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._lifeline, selectors.EVENT_READ)
        try:
            for daemon in self._daemons.values():
                self._start(daemon)
            while not self._ending:
                for key, _ in self._selector.select(self._do_what_is_due()):
                    if key.fileobj is waker:
                        waker.recv(4096)
                        self._reap()
                    elif key.fileobj is listener:
                        self._serve(listener)
                    else:
                        self._on_lifeline()
        finally:
            self._end_everything()

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            self._layout.keeper_socket.unlink()
        with short_path(self._layout.keeper_socket) as address:
            listener.bind(address)
        listener.listen()
        return listener

    def _do_what_is_due(self) -> float | None:
        """Start again what ended by itself, write what could not be; seconds until more is due, None if nothing is."""
        now = time.time()
        if self._unwritten:
            self._note()
        for daemon in [d for d, due in self._due.items() if due <= now]:
            before = self._status.daemons[daemon]
            _say(f"{daemon} ended {how_it_ended(before.exit_code)}: starting it again")
            try:
                self._start(self._daemons[daemon], before.exit_code, before.restarts + 1)
            except OSError as e:
                _say(f"{daemon} cannot be started: {e}")
                self._due[daemon] = now + RESTART_S
        waits = [due - now for due in self._due.values()] + [RESTART_S] * self._unwritten
        return min(waits, default=None)

    def _on_term(self, *_: object) -> None:
        self._ending = True

    def _on_lifeline(self) -> None:
        said = b""
        with contextlib.suppress(ConnectionError):
            said = self._lifeline.recv(64)
        if said.strip() == b"keep":
            self._status.state = "up"
            self._write()
            self._lifeline.sendall(b"kept\n")
        else:  # gone before it saw the cluster ready
            self._ending = True
        self._selector.unregister(self._lifeline)
        self._lifeline.close()

    def _serve(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5.0)
            order, _, name = connection.makefile("r").readline().strip().partition(" ")
            pid = self._status.daemons[name].pid if name in self._daemons else None
            if order not in ("start", "kill") or name not in self._daemons:
                answer = f"error unknown order or daemon: {order} {name}"
            elif order == "kill" and pid is None:
                answer = f"error {name} is not running"
            elif order == "kill":
                assert pid is not None
                self._killed.add(name)
                os.kill(pid, signal.SIGKILL)  # our child, not reaped: the id is its own
                answer = f"ok {pid}"
            elif pid is not None:
                answer = f"error {name} is running"
            else:
                try:
                    answer = f"ok {self._start(self._daemons[name])}"
                except OSError as e:
                    answer = f"error {name} cannot be started: {e}"
            connection.sendall(answer.encode() + b"\n")

    def _start(self, daemon: Daemon, exit_code: int | None = None, restarts: int = 0) -> int:
        env = os.environ | daemon.env | {processes.MARKER: self._description.id}
        with daemon.output.open("ab") as output:
            process = subprocess.Popen(
                daemon.argv,
                env=env,
                cwd=daemon.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 (this process has one thread)
            )
        self._running[process.pid] = daemon.id
        self._due.pop(daemon.id, None)
        self._killed.discard(daemon.id)
        self._status.daemons[daemon.id] = DaemonProcess(process.pid, time.time(), exit_code, restarts)
        self._note()
        return process.pid

    def _reap(self) -> None:
        changed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            daemon = self._running.pop(pid, None)
            if daemon is not None:
                entry = self._status.daemons[daemon]
                entry.pid, entry.exit_code = None, os.waitstatus_to_exitcode(status)
                if entry.started_at and self._is_restarted(daemon, entry.exit_code):
                    self._due[daemon] = entry.started_at + RESTART_S
                changed = True
        if changed:
            self._note()

    def _is_restarted(self, daemon: str, exit_code: int) -> bool:
        return exit_code != 0 and daemon not in self._killed and self._status.state == "up"

    def _end_everything(self) -> None:
        # A full disk, or a folder that somebody removed, must not keep us from ending the processes.
        self._status.state = "ending"
        with contextlib.suppress(OSError):
            self._write()
        processes.end_cluster(self._description.id, spare={os.getpid()})
        if self._description.isolation is not None:
            with contextlib.suppress(OSError, StormpilotError):  # `down` tries again, and says what is in the way
                self._reap()
                isolation.remove(self._description.isolation.token)
        self._status.state = "down"
        with contextlib.suppress(OSError):
            self._reap()
            self._write()
            self._layout.keeper_socket.unlink()

    def _note(self) -> None:
        """Write what runs, later where that fails; a cluster that has not started yet ends by that."""
        before, self._unwritten = self._unwritten, False
        try:
            self._write()
        except OSError as e:
            if self._status.state != "up":
                raise
            self._unwritten = True
            if not before:
                _say(f"{self._layout.processes_file} cannot be written: {e}")

    def _write(self) -> None:
        state.write(self._layout.processes_file, self._status)


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """An address for a Unix socket that fits the 108 bytes that the kernel allows, however long the path."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def how_it_ended(exit_code: int | None) -> str:
    """The end of a process in words; `exit_code` as Python has it: minus a signal's number."""
    if exit_code == -signal.SIGKILL:
        return "by SIGKILL (`kill -9`, or the kernel's OOM killer where memory was short: `dmesg` tells)"
    if exit_code is not None and exit_code < 0:
        return f"by signal {-exit_code}"
    return f"with exit code {exit_code}"


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # our log is on the same disk
        print(text, flush=True)


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main() -> None:
    """Run the keeper of the cluster in the folder that the first argument names."""
    Keeper(Layout(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))).run()


if __name__ == "__main__":
    main()
