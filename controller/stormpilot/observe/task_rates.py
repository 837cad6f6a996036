"""Rates of a task, per second, and which of two measurements of one task counts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

FRESHER_S = 20.0
"""By how much one measurement of a task must be older than the other to be left aside; at least."""
MISSED_REPORTS = 2.0
"""So many periods of reports without one: a measurement has stopped."""
SHELL_TIMES, SHELL_CORES = 2.0, 0.01
"""A task that uses so many times the CPU that its worker sees of its process, and so much more, is behind a shell."""


class TaskRates(msgspec.Struct, frozen=True, gc=False):
    """Rates of one task over `covered_s` seconds, per second; `age_s` since its newest report was first seen.

    `received_tps` by (source task, stream); `cpu_cores` are CPU seconds per second; `latency_ms` is the window's
    histogram, (upper bound in ms, tuples), the last bound -1 for "above"; `queue` is the newest depth in tuples,
    `memory_mb` what the task held at its newest report, when its process was `up_s` old by its own clock.

    `in_jvm`: measured in the worker's JVM, so that `cpu_cores` is all that the task itself used; then `child_cores` is
    the part of its child process, `shared_cores` what it must be given besides of the JVM's threads that belong to no
    executor, `polling_cores` the part of `cpu_cores` in which its thread woke up to look for tuples, `sent_tps` by
    (destination task, stream) what it sent to spouts, `execute_ms` the mean time per tuple. Else `jvm_cores` is what
    the whole JVM of its worker used.

    Not for the garbage collector: there are as many of them as tasks in every cycle, and none can be part of a loop.
    """

    task: int
    component: str
    host: str
    mhz: float | None
    covered_s: float
    age_s: float
    cpu_cores: float
    received_tps: Mapping[tuple[int, str], float] = msgspec.field(default_factory=dict)
    acked_tps: float = 0.0
    emitted_tps: float = 0.0
    completed_tps: float = 0.0
    failed_tps: float = 0.0
    latency_ms: tuple[tuple[float, int], ...] = ()
    queue: int | None = None
    memory_mb: float | None = None
    in_jvm: bool = False
    child_cores: float | None = None
    shared_cores: float | None = None
    polling_cores: float | None = None
    jvm_cores: float | None = None
    sent_tps: Mapping[tuple[int, str], float] = msgspec.field(default_factory=dict)
    execute_ms: float | None = None
    up_s: float = 0.0


def fresher_s(report_period_s: float) -> float:
    """By how much one measurement of a task must be older than the other to be left aside, where all report so."""
    return max(FRESHER_S, MISSED_REPORTS * report_period_s)


def merged(own: TaskRates, jvm: TaskRates, fresher_s: float = FRESHER_S) -> TaskRates:
    """One task's rates out of what it measured itself and what its worker's JVM measured.

    The JVM sees all that the task does, so its numbers stand, but for what only the task knows better: latency, of
    which Storm samples one tuple in twenty, and its own CPU where the JVM did not find its process, or found a shell
    before it. Measurements that stopped (a controller that was told to, a worker without the hook) do not stand against
    ones that go on.
    """
    if own.covered_s > 0 and (jvm.covered_s <= 0 or jvm.age_s > own.age_s + fresher_s):
        return own
    if own.covered_s <= 0 or own.age_s > jvm.age_s + fresher_s:
        return jvm
    # Of a process behind a shell the JVM sees the shell, which uses next to nothing.
    unseen = jvm.child_cores is None or own.cpu_cores > SHELL_TIMES * jvm.child_cores + SHELL_CORES
    jvm_cores = jvm.cpu_cores - (jvm.child_cores or 0.0)
    memory_mb = _sum_of(jvm.memory_mb, own.memory_mb) if jvm.child_cores is None else jvm.memory_mb
    if jvm.child_cores is not None and (jvm.memory_mb or 0.0) < (own.memory_mb or 0.0):  # it is not in there
        memory_mb = _sum_of(jvm.memory_mb, own.memory_mb)
    return msgspec.structs.replace(
        jvm,
        cpu_cores=jvm_cores + own.cpu_cores if unseen else jvm.cpu_cores,
        child_cores=own.cpu_cores if unseen else jvm.child_cores,
        memory_mb=memory_mb,
        latency_ms=own.latency_ms if any(n for _, n in own.latency_ms) else jvm.latency_ms,
    )


def _sum_of(a: float | None, b: float | None) -> float | None:
    """The sum of what is known; None: neither is."""
    return None if a is None and b is None else (a or 0.0) + (b or 0.0)
