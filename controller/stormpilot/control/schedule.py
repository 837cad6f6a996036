"""A schedule of periodic jobs on a clock that the caller reads: which are due, how long to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

LEAST_WAIT_S = 0.05


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Job:
    """A job that is due every `period_s`, counted from its begin, while it is `wanted`.

    A job that takes long is due later: after `rest` times what it took.
    """

    name: str
    period_s: float
    rest: float = 0.0
    wanted: Callable[[], bool] = _always


class Schedule:
    """Jobs in the order in which they are done when several are due; a new job is due at once."""

    def __init__(self, jobs: Iterable[Job]):
        self._jobs: dict[str, Job] = {}
        self._due_s: dict[str, float] = {}
        self.use(jobs)

    def use(self, jobs: Iterable[Job]) -> None:
        """Go on with other jobs or periods; a shorter period counts from the next begin."""
        self._jobs = {job.name: job for job in jobs}
        self._due_s = {name: s for name, s in self._due_s.items() if name in self._jobs}

    def due(self, now_s: float) -> list[str]:
        """Names of the wanted jobs that are due."""
        return [name for name, job in self._jobs.items() if self._due_s.get(name, now_s) <= now_s and job.wanted()]

    def began(self, name: str, now_s: float) -> None:
        """A job begins now: it is due again a period later."""
        self._due_s[name] = now_s + self._jobs[name].period_s

    def ended(self, name: str, began_s: float, now_s: float) -> None:
        """A job that began then ends now."""
        rested_s = began_s + self._jobs[name].rest * (now_s - began_s)
        self._due_s[name] = max(self._due_s.get(name, began_s), rested_s)

    def now(self, name: str) -> None:
        """Make a job due at once."""
        self._due_s.pop(name, None)

    def wait_s(self, now_s: float) -> float:
        """Time until the next wanted job is due, at least `LEAST_WAIT_S`."""
        due = [self._due_s.get(name, now_s) for name, job in self._jobs.items() if job.wanted()]
        return max(LEAST_WAIT_S, min(due, default=now_s) - now_s)
