"""Many runs at once: each is one Spark task, which gets the steps once per process and sends back what it played.

A run is sequential (a placement carries over from step to step), so a task is a whole run; the longest begin first. The
executors need this package and what its planners need: on a cluster, the same virtual environment (docs).
"""

from __future__ import annotations

import concurrent.futures
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from pyspark import Broadcast, SparkContext
from pyspark.sql import SparkSession

from stormpilot.history.replay.play import Coming, Rules, play
from stormpilot.history.replay.values import Run, Setting, Step

SLOW = ("exact", "best", "partition")
"""Planners that use all the time that they get."""
POLL_S = 0.5
Progress = Callable[[int, int], None]
"""Told how many runs have ended, and how many there are."""


@dataclass(frozen=True)
class Job:
    """A setting for topologies (ids) that are planned together."""

    topologies: tuple[str, ...]
    setting: Setting


def spread(
    spark: SparkSession,
    steps: Sequence[Step],
    jobs: Sequence[Job],
    rules: Rules,
    coming: Coming | None = None,
    progress: Progress | None = None,
) -> list[Run]:
    """Play all jobs on the executors; the runs in the order of `jobs`."""
    if not jobs:
        return []
    context = spark.sparkContext
    shared = context.broadcast(zlib.compress(msgspec.msgpack.encode(list(steps)), 1))
    numbered = sorted(enumerate(jobs), key=lambda j: (j[1].setting.planner not in SLOW, j[0]))
    work = context.parallelize(numbered, len(numbered)).mapPartitions(_Worker(shared, rules, coming))
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(work.collect)
            try:
                while not answer.done():
                    concurrent.futures.wait([answer], POLL_S)
                    if progress is not None:
                        progress(_ended(context), len(jobs))
            except BaseException:  # Ctrl-C: leaving the pool would wait for the runs
                context.cancelAllJobs()
                raise
            found = dict(msgspec.msgpack.decode(data, type=tuple[int, Run]) for data in answer.result())
    finally:
        shared.destroy()
    return [found[i] for i in range(len(jobs))]


def _ended(context: SparkContext) -> int:
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(i) for i in tracker.getActiveStageIds()]
    return sum(s.numCompletedTasks for s in stages if s is not None)


_unpacked: dict[int, list[Step]] = {}


@dataclass(frozen=True)
class _Worker:
    """A task of the job; steps are unpacked once per process."""

    shared: Broadcast[bytes]
    rules: Rules
    coming: Coming | None

    def __call__(self, jobs: Iterable[tuple[int, Job]]) -> Iterator[bytes]:
        key = zlib.crc32(self.shared.value)
        if key not in _unpacked:
            _unpacked.clear()
            _unpacked[key] = msgspec.msgpack.decode(zlib.decompress(self.shared.value), type=list[Step])
        for number, job in jobs:
            run = play(_unpacked[key], job.topologies, job.setting, self.rules, self.coming)
            yield msgspec.msgpack.encode((number, run))
