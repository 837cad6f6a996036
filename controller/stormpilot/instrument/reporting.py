"""Mixins that count and report: `LoadReporting` for every kind of bolt, `SpoutLoadReporting` for spouts.

Put the mixin first in the bases: `class Parse(LoadReporting, Bolt)`. What we add must not make a component worse. An
exception of our code ends the reporting of this task with one line in its log, and nothing else. One that a signal
handler of the component raises while our code runs goes its way: `TicklessBatchingBolt` tells its main thread of a
failed batch like that. A child process never reports. A component whose topology lacks the load stream stays silent: an
emit on an undeclared stream ends a worker.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import CodeType
from typing import Any

from stormpilot.instrument.counters import BoltCounters, ProcessCpu, SpoutCounters, most_pairs
from stormpilot.instrument.worker_jvm import WorkerJvm

LOAD_STREAM = "stormpilot_load"
OURS = "_stormpilot_"
REPORT_SECS_KEY = "stormpilot.report.secs"
DEFAULT_REPORT_SECS = 5.0
MOST_REPORT_SECS = 3600
"""As much as the hook takes (`HookConfig`)."""


class _LoadReportingBase:
    """Base of both mixins. Its own names start with `OURS`, so that they meet none of a user's.

    Counting wraps two methods of the instance once Storm has said who it is: a component that does not report runs the
    very methods that it would run without us.
    """

    _stormpilot_given_up = False
    _stormpilot_identity: dict[str, Any]
    _stormpilot_counters: Any
    _stormpilot_jvm: WorkerJvm
    _stormpilot_period_s = DEFAULT_REPORT_SECS
    _stormpilot_due_s = 0.0
    _stormpilot_seq = 0

    def _setup_component(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> None:
        super()._setup_component(storm_conf, context)  # type: ignore[misc]
        self._stormpilot_begin(storm_conf, context)

    def _stormpilot_begin(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> None:
        """Begin to count, once Storm has said who this is."""
        try:
            _keep_stdout_off_the_protocol(self)
            if not self._stormpilot_can_report(context):
                self._stormpilot_log(f"the topology declares no stream {LOAD_STREAM}: this task reports no load")
                return
            self._stormpilot_period_s = _period_s(storm_conf, self._stormpilot_log)
            self._stormpilot_due_s = time.monotonic() + self._stormpilot_period_s
            self._stormpilot_identity = {
                "task": int(context["taskid"]),
                "component": str(self.component_name),  # type: ignore[attr-defined]
                "host": str(storm_conf.get("storm.local.hostname") or socket.gethostname()),
                "mhz": cpu_mhz(),
                "hostCores": host_cores(),
                "hostMemoryMb": host_memory_mb(),
                "pid": os.getpid(),
                "startMs": int(time.time() * 1000),
            }
            self._stormpilot_counters = self._stormpilot_new_counters(storm_conf, context)
            self._stormpilot_cpu = ProcessCpu()
            self._stormpilot_jvm = WorkerJvm()
            self._stormpilot_wrap_reading()
            self._stormpilot_wrap_sending()
        except Exception as e:  # noqa: BLE001 (a fault of ours ends our reporting, never the component)
            self._stormpilot_give_up(e)

    # --- what a subclass says -----------------------------------------------------------------------------------------
    # Not abc: its metaclass would become that of users' components, and clash with one of theirs.

    def _stormpilot_new_counters(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> Any:
        raise NotImplementedError("a subclass says what it counts with")

    def _stormpilot_wrap_reading(self) -> None:
        raise NotImplementedError("a subclass says where it counts what comes in")

    def _stormpilot_can_report(self, context: dict[str, Any]) -> bool:
        return LOAD_STREAM in context.get("streams", ())

    def _stormpilot_send_load(self, load: str) -> None:
        """Emit the load: unanchored, no task ids asked for, past every override of the user's."""
        self.serializer.send_message(  # type: ignore[attr-defined]
            {"command": "emit", "tuple": [load], "stream": LOAD_STREAM, "anchors": [], "need_task_ids": False}
        )

    # --- reporting ----------------------------------------------------------------------------------------------------

    def _stormpilot_report(self, now_s: float) -> None:
        """Send the counters and set the next time, on the grid of the period."""
        self._stormpilot_due_s += self._stormpilot_period_s
        if self._stormpilot_due_s <= now_s:
            self._stormpilot_due_s = now_s + self._stormpilot_period_s
        identity = self._stormpilot_identity
        if os.getpid() != identity["pid"]:
            return
        self._stormpilot_seq += 1
        load = {
            **identity,
            "seq": self._stormpilot_seq,
            "atMs": int(time.time() * 1000),
            "cpuS": round(self._stormpilot_cpu.seconds(), 6),
            "memoryMb": resident_mb(),
            "jvmCpuS": self._stormpilot_jvm.cpu_s(),
            **self._stormpilot_counters.values(),
        }
        self._stormpilot_send_load(json.dumps(load, separators=(",", ":")))

    def _stormpilot_wrap_sending(self) -> None:
        send_message = self.send_message  # type: ignore[has-type]
        message_sent = self._stormpilot_counters.message_sent

        def counting(message: Any) -> Any:
            if self._stormpilot_given_up:
                return send_message(message)
            try:
                message_sent(message)
            except Exception as e:  # noqa: BLE001 (a fault of ours ends our reporting, never the component)
                self._stormpilot_give_up(e)
            return send_message(message)

        self.send_message = counting

    def _stormpilot_give_up(self, e: Exception) -> None:
        """End reporting; the wrappers stay, for a component may have wrapped them in turn, and do nothing more."""
        if from_signal_handler(e):
            raise e
        if not self._stormpilot_given_up:
            self._stormpilot_given_up = True
            self._stormpilot_log(f"load reporting of this task ends, the task itself goes on: {type(e).__name__}: {e}")

    def _stormpilot_log(self, text: str) -> None:
        try:
            self.logger.warning("stormpilot: %s", text)  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 (the logger is the user's)
            print(f"stormpilot: {text}", file=sys.stderr)


class LoadReporting(_LoadReportingBase):
    """Mixin for `Bolt`, `BatchingBolt` and `TicklessBatchingBolt`.

    Reports while reading: Storm sends a bolt a heartbeat every second, idle or busy, so that no thread is needed.
    """

    def _stormpilot_new_counters(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> Any:
        return BoltCounters(most=self._stormpilot_most_pairs(context), say=self._stormpilot_log)

    def _stormpilot_most_pairs(self, context: dict[str, Any]) -> int:
        component_of = context.get("task->component", {})
        own = list(component_of.values()).count(self.component_name)  # type: ignore[attr-defined]
        return most_pairs([int(task) for task in component_of], own)

    def _stormpilot_wrap_reading(self) -> None:
        read_tuple = self.read_tuple  # type: ignore[has-type]
        tuple_received = self._stormpilot_counters.tuple_received
        monotonic = time.monotonic

        def counting() -> Any:
            tup = read_tuple()
            if self._stormpilot_given_up:
                return tup
            try:
                tuple_received(tup)
                now_s = monotonic()
                if now_s >= self._stormpilot_due_s:
                    self._stormpilot_report(now_s)
            except Exception as e:  # noqa: BLE001 (a fault of ours ends our reporting, never the component)
                self._stormpilot_give_up(e)
            return tup

        self.read_tuple = counting


class SpoutLoadReporting(_LoadReportingBase):
    """Mixin for `Spout` and `ReliableSpout`.

    Reports when Storm asks for something (next, ack, fail, activate, deactivate): a deactivated spout is asked nothing
    and reports nothing, and it reports once more as it is deactivated.
    """

    def _stormpilot_new_counters(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> Any:
        timeout_s = float(storm_conf.get("topology.message.timeout.secs") or 30)
        return SpoutCounters(give_up_s=2 * timeout_s)

    def _stormpilot_wrap_reading(self) -> None:
        read_command = self.read_command  # type: ignore[has-type]
        command_received = self._stormpilot_counters.command_received
        monotonic = time.monotonic

        def counting() -> Any:
            command = read_command()
            if self._stormpilot_given_up:
                return command
            try:
                now_s = monotonic()
                command_received(command, now_s)
                if now_s >= self._stormpilot_due_s or command["command"] == "deactivate":
                    self._stormpilot_report(now_s)
            except Exception as e:  # noqa: BLE001 (a fault of ours ends our reporting, never the component)
                self._stormpilot_give_up(e)
            return command

        self.read_command = counting
        self._stormpilot_wrap_serializing()

    def _stormpilot_wrap_serializing(self) -> None:
        """Take back the count of what the serializer refuses: pystorm logs that, and sends nothing."""
        serializer = self.serializer  # type: ignore[attr-defined]
        serialize = getattr(serializer, "serialize_dict", None)
        if serialize is None:
            return
        message_refused = self._stormpilot_counters.message_refused

        def serializing(message: Any) -> Any:
            try:
                return serialize(message)
            except Exception:
                message_refused(message)
                raise

        serializer.serialize_dict = serializing


CPUINFO, CPUFREQ = Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu/cpufreq")


def cpu_mhz(cpuinfo: Path = CPUINFO, cpufreq: Path = CPUFREQ) -> float | None:
    """MHz of the fastest core, or None where the kernel tells none, or 0.

    The most that it may reach, where the kernel governs clocks (mostly on bare metal): what /proc/cpuinfo tells there
    is the clock of the moment, less on an idle machine than on a busy one of the same kind.
    """
    with suppress(OSError, ValueError):
        most_khz = max((int(file.read_text()) for file in cpufreq.glob("policy*/cpuinfo_max_freq")), default=0)
        if most_khz > 0:
            return most_khz / 1000
    try:
        found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo.read_text(), flags=re.MULTILINE)
    except OSError:
        return None
    return max(map(float, found), default=0.0) or None


CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def host_cores(root: Path = CGROUPS, own: Path = OWN_CGROUP) -> float:
    """Cores that this process may use: those of the machine, or the least quota of its cgroups (v2 or v1)."""
    cores = float(len(os.sched_getaffinity(0)))
    for cgroup in _cgroups("cpu", root, own):
        try:
            if (cgroup / "cpu.max").exists():
                quota, period = (cgroup / "cpu.max").read_text().split()
            else:
                quota, period = ((cgroup / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period"))
            cores = min(cores, int(quota) / int(period)) if int(quota) > 0 else cores
        except (OSError, ValueError, ZeroDivisionError):  # no limit here, or `max`
            continue
    return cores


def _cgroups(controller: str, root: Path, own: Path) -> list[Path]:
    """Folders of the cgroups, outer ones first, that limit this process by v2 or by a controller of v1.

    A service's own lies below the root, which has no limits; in a container the root mostly is its own. Those that
    Storm makes for each worker, named by its id, say nothing of the host.
    """
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        lines = []
    paths = {name: line[2] for line in lines if len(line) == 3 for name in line[1].split(",")}
    folders = [root, root / controller]
    for top, path in ((root, paths.get("", "/")), (root / controller, paths.get(controller, "/"))):
        parts = list(takewhile(_of_no_worker, (part for part in path.split("/") if part not in ("", ".."))))
        folders += [top.joinpath(*parts[: n + 1]) for n in range(len(parts))]
    return folders


def _of_no_worker(folder: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", folder) is None


def resident_mb(status: Path = Path("/proc/self/status")) -> float | None:
    """Memory of this process (resident set), MB; None: not known."""
    try:
        kib = re.search(r"^VmRSS:\s*(\d+) kB", status.read_text(), flags=re.MULTILINE)
    except OSError:
        return None
    return round(int(kib[1]) / 1024, 1) if kib else None


def host_memory_mb(root: Path = CGROUPS, meminfo: Path = Path("/proc/meminfo"), own: Path = OWN_CGROUP) -> float | None:
    """Memory of the machine, or the least limit of this process's cgroups (v2 or v1); None: not known."""
    try:
        kib = re.search(r"^MemTotal:\s*(\d+) kB", meminfo.read_text(), flags=re.MULTILINE)
    except OSError:
        return None
    memory_mb = int(kib[1]) / 1024 if kib else None
    for cgroup in _cgroups("memory", root, own):
        for limit in ("memory.max", "memory.limit_in_bytes"):
            try:
                most_mb = int((cgroup / limit).read_text()) / 2**20
            except (OSError, ValueError):  # not there, or `max`
                continue
            memory_mb = most_mb if memory_mb is None else min(memory_mb, most_mb)
    return None if memory_mb is None else round(memory_mb, 1)


def from_signal_handler(e: Exception) -> bool:
    """Whether a signal handler that is installed raised this."""
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    tb = e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code in codes:
            return True
        tb = tb.tb_next
    return False


def _code_of(handler: Any) -> CodeType | None:
    """Code of a function, a method, a `partial` of one, or an object that is called."""
    while isinstance(handler, partial):
        handler = handler.func
    called = handler.__call__ if callable(handler) else None
    return getattr(handler, "__code__", None) or getattr(called, "__code__", None)


def _period_s(storm_conf: Mapping[str, Any], say: Callable[[str], None]) -> float:
    """Seconds between two reports; the default for what is wrong, which is said."""
    value = storm_conf.get(REPORT_SECS_KEY)
    if value is None:
        return DEFAULT_REPORT_SECS
    with suppress(TypeError, ValueError):
        if 0 < float(value) <= MOST_REPORT_SECS:
            return float(value)
    say(
        f"{REPORT_SECS_KEY} is {value!r}, expected seconds above 0, at most {MOST_REPORT_SECS}; using "
        f"{DEFAULT_REPORT_SECS:g}"
    )
    return DEFAULT_REPORT_SECS


def _keep_stdout_off_the_protocol(component: Any) -> None:
    """Send what the component prints to stderr where stdout is the pipe of the protocol: Storm logs stderr."""
    try:
        shared = component.serializer.output_stream.fileno() == sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    if shared:
        sys.stdout = sys.stderr
