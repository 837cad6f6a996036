"""Runs of a search at the same time, one per core: the compiled search holds no lock of the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


def cores() -> int:
    """Number of CPUs that this process may use."""
    return max(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 1)


def at_once(jobs: Sequence[Callable[[], Answer]], threads: int) -> list[Answer]:
    """Answers of the jobs, in their order, so many of them at the same time."""
    if threads <= 1 or len(jobs) <= 1:
        return [job() for job in jobs]
    with ThreadPoolExecutor(max_workers=min(threads, len(jobs)), thread_name_prefix="search") as pool:
        return list(pool.map(lambda job: job(), jobs))
