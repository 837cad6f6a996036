"""Runs planners in a process of their own: one that hangs or crashes costs its plan, never the controller.

Planners call native code (numba, Mt-KaHyPar, CP-SAT); what goes wrong there cannot be caught where it happens. The
process is started once, kept warm, and replaced when it had to be ended.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

from stormpilot.errors import UsageError
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner import compute

GRACE_S = 15.0
"""Time beyond its budget after which a planner counts as hung."""
MOST_SPANS = 3
"""A planner gets the time again in which it could run and no CPU was free, in so many spans of its time at most."""
OOM_SCORE = 500
"""Its `oom_score_adj`: where memory is short the kernel ends the planner rather than the controller."""
NICENESS = 10
"""A search uses every core for its whole budget: Nimbus, on the same host, goes first."""
COLD_S = 150.0
"""Time for starting the process and compiling, for the first plan of each planner."""
ANEW_S = 30.0
"""Time for starting the process again, for a planner that has answered before: its code is compiled."""
COLD_EVERY = 4
"""After so many hangs in a row it gets the time to compile all the same: this model may need other code."""

Answer = Plan | Infeasible
Target = Callable[..., Answer]


class PlannerLostError(Exception):
    """The planner's process hung or ended; the next plan gets a new one."""


class PlannerClosedError(PlannerLostError):
    """No plan is made any more, which is no failure of the planner."""

    def __init__(self) -> None:
        super().__init__("planners are asked no more: the controller ends")


class _Request(msgspec.Struct):
    model: Model
    planner: str
    params: dict[str, float | int | str | bool | None]
    seed: int
    left_s: float | None


class _Response(msgspec.Struct):
    plan: Plan | None = None
    infeasible: Infeasible | None = None
    usage: str | None = None
    error: str | None = None


class PlannerProcess:
    """A `compute` that runs elsewhere; one plan at a time, from any thread.

    Parameters
    ----------
    target
        What computes, a function of a module: `stormpilot.planner.compute` unless a test says otherwise.
    grace_s, cold_s
        Seconds beyond the budget until a planner is taken for hung; how many more the first plan of each planner gets.
    """

    def __init__(self, target: Target = compute, grace_s: float = GRACE_S, cold_s: float = COLD_S):
        self._target = target
        self._grace_s = grace_s
        self._cold_s = cold_s
        self._lock = threading.Lock()
        self._process: Any = None
        self._connection: Connection | None = None
        self._warm: set[str] = set()
        self._known: set[str] = set()
        """Planners that answered, in this process or in one before."""
        self._hung: Counter[str] = Counter()
        """By planner, times in a row that it did not."""
        self._closed = False
        atexit.register(self.close)  # multiprocessing would ask the process to end, and wait: it ignores that

    def __call__(
        self,
        model: Model,
        planner: str,
        params: Mapping[str, float | int | str | bool | None],
        *,
        seed: int,
        left_s: Callable[[], float],
    ) -> Answer:
        """Plan; `PlannerLostError` when the planner hung or its process ended, `UsageError` for bad parameters."""
        with self._lock:
            connection = self._started()
            budget_s = left_s()
            request = _Request(model, planner, dict(params), seed, budget_s if math.isfinite(budget_s) else None)
            cold_s = 0.0 if planner in self._warm else self._cold_s
            if planner in self._known and self._hung[planner] % COLD_EVERY:
                cold_s = min(cold_s, ANEW_S)
            grace_s = self._grace_s + cold_s
            wait_s = None if request.left_s is None else budget_s + grace_s
            began_s = time.monotonic()
            try:
                sent = self._sent(connection, msgspec.msgpack.encode(request), wait_s)
                if sent and wait_s is not None:
                    wait_s -= time.monotonic() - began_s
                if not sent or not self._answered(connection, wait_s):
                    took_s = time.monotonic() - began_s
                    self._hung[planner] += 1
                    self._end()
                    raise PlannerLostError(f"no answer {took_s:.0f} s after it began: its process was ended")
                answer = msgspec.msgpack.decode(connection.recv_bytes(), type=_Response)
            except (EOFError, OSError) as e:
                code = self._end()
                if self._closed:
                    raise PlannerClosedError from e
                raise PlannerLostError(f"its process ended with {_exit(code)}") from e
            self._warm.add(planner)
            if answer.plan is not None or answer.infeasible is not None:
                self._known.add(planner)
                self._hung.pop(planner, None)
        if answer.usage is not None:
            raise UsageError(answer.usage)
        if answer.error is not None:
            raise RuntimeError(answer.error)
        result = answer.plan or answer.infeasible
        assert result is not None
        return result

    def close(self) -> None:
        """End the process, and start no other."""
        self._closed = True
        atexit.unregister(self.close)
        self._end()

    def _sent(self, connection: Connection, data: bytes, wait_s: float | None) -> bool:
        """Whether the process took the request in time: one that hangs reads nothing, and a pipe holds little."""
        failed: list[OSError] = []

        def send() -> None:
            try:
                connection.send_bytes(data)
            except OSError as e:
                failed.append(e)

        thread = threading.Thread(target=send, name="planner-request", daemon=True)
        thread.start()
        thread.join(wait_s)
        if thread.is_alive():
            self._process.kill()
            thread.join()  # nobody is there to read
            return False
        if failed:
            raise failed[0]
        return True

    def _answered(self, connection: Connection, wait_s: float | None) -> bool:
        """Whether it answers in time; time in which it could run and no CPU was free is given again."""
        if wait_s is None:
            return connection.poll(None)
        left_s, pid = wait_s, self._process.pid
        for _ in range(MOST_SPANS):
            delayed_s = run_delay_s(pid)
            if connection.poll(left_s):
                return True
            delayed_s = run_delay_s(pid) - delayed_s
            left_s = min(left_s, delayed_s)
            if left_s <= 0:
                return False
        return False

    def _started(self) -> Connection:
        if not self._closed and (self._process is None or not self._process.is_alive()):
            self._end()
            context = multiprocessing.get_context("spawn")
            connection, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._target), name="planner", daemon=True)
            process.start()
            theirs.close()
            self._process, self._connection = process, connection
        if self._closed:  # before, or by another thread meanwhile
            self._end()
            raise PlannerClosedError
        assert self._connection is not None
        return self._connection

    def _end(self) -> int | None:
        process, connection = self._process, self._connection
        self._process = self._connection = None
        self._warm = set()
        if connection is not None:
            connection.close()
        if process is None:
            return None
        process.join(0.2)  # one that crashed is ending: its own exit code tells more than ours
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode  # type: ignore[no-any-return]


def run_delay_s(pid: int) -> float:
    """Seconds that the threads of a process have waited for a CPU while they could run; 0 where that cannot be told.

    Second field of the kernel's `schedstat`, in ns: a thread that sleeps, on a lock for example, gathers none.
    """
    waited_ns = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # the thread has ended
            waited_ns += int(file.read_text().split()[1])
    return waited_ns / 1e9


def _exit(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"


def _serve(connection: Connection, target: Target) -> None:
    """The process: answers requests until the other side is gone."""
    os.nice(NICENESS)
    with contextlib.suppress(OSError):  # no such file: another system than Linux
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(max(int(score.read_text()), OOM_SCORE)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller, which ends us
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # so is what makes it read its configuration anew
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # and what a service manager sends to all processes of the service
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            data = connection.recv_bytes()
        except (EOFError, OSError):
            return
        request = msgspec.msgpack.decode(data, type=_Request)
        end_s = math.inf if request.left_s is None else time.monotonic() + request.left_s
        response = _Response()
        try:
            answer = target(
                request.model,
                request.planner,
                request.params,
                seed=request.seed,
                left_s=lambda end_s=end_s: end_s - time.monotonic(),
            )
            if isinstance(answer, Plan):
                response.plan = answer
            else:
                response.infeasible = answer
        except UsageError as e:
            response.usage = str(e)
        except Exception as e:  # noqa: BLE001 (told to whoever asked)
            response.error = f"{type(e).__name__}: {e}"
        connection.send_bytes(msgspec.msgpack.encode(response))


def _end_with_parent() -> None:
    """A controller that was killed must not leave a planner behind that computes on."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
