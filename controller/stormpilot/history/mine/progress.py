"""Shows how far mining is: a bar (on Spark over the tasks of its stages), or a line per step where nobody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PERIOD_S = 0.5


@contextmanager
def progress(
    spark: SparkSession | None, steps: Sequence[str], console: Console
) -> Iterator[Callable[[str], AbstractContextManager[None]]]:
    """Progress of the `step` of `job.mine`; prints to `console`. `spark` knows the progress; None: another engine."""
    if not console.is_terminal:

        @contextmanager
        def line(name: str) -> Iterator[None]:
            began = time.monotonic()
            yield
            console.print(f"{steps.index(name) + 1}/{len(steps)} {name}: {time.monotonic() - began:.1f} s")

        yield line
        return
    context = getattr(spark, "sparkContext", None)  # none of Spark Connect
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:

        @contextmanager
        def shown(name: str) -> Iterator[None]:
            task = bar.add_task(f"{steps.index(name) + 1}/{len(steps)} {name}", total=None)
            ended = threading.Event()
            watch = threading.Thread(target=_follow, args=(context, bar, task, ended), daemon=True)
            if context is not None:
                watch.start()
            try:
                yield
            finally:
                ended.set()
                if context is not None:
                    watch.join()
                bar.update(task, total=1, completed=1)

        yield shown


def _follow(context: Any, bar: Progress, task: object, ended: threading.Event) -> None:
    tracker = context.statusTracker()
    while not ended.wait(PERIOD_S):
        stages = [tracker.getStageInfo(i) for i in tracker.getActiveStageIds()]
        total = sum(s.numTasks for s in stages if s is not None)
        if total:
            done = sum(s.numCompletedTasks for s in stages if s is not None)
            bar.update(task, total=total, completed=done)  # type: ignore[arg-type]
