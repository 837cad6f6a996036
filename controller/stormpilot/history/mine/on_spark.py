"""Mining with Spark: a log that lies anywhere, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from stormpilot.errors import UnreachableError
from stormpilot.history import frames
from stormpilot.history.mine import job
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import MinedLog
from stormpilot.history.mine.log import Log, Selection
from stormpilot.history.mine.quality import unreadable
from stormpilot.history.mine.reading import open_log, reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mine(
    spark: SparkSession,
    path: str,
    selection: Selection,
    criteria: MiningCriteria,
    step: job.Step = lambda _: nullcontext(),
    *,
    with_sizing: bool = False,
    look: Callable[[Log], None] = lambda _: None,
    keep: bool = False,
    cache: Path | None = None,
) -> MinedLog:
    """Mine a log; `look` sees it before; `keep` what is condensed of a local log's days (in `cache`, else within it).

    Local files whose content turns out to be bad are left out, and mining begins anew.

    Raises
    ------
    UnreachableError
        The file system does not answer, or Spark fails.
    """
    with frames.engine("spark"):
        bad: dict[Path, str] = {}
        while True:
            log = open_log(spark, path, selection, keep=keep, cache=cache, bad=bad)
            look(log)
            try:
                mined = job.mine(log, criteria, step, with_sizing=with_sizing)
            except (PySparkException, Py4JError) as e:
                if found := unreadable(log.read_files()):
                    bad |= found
                    continue
                raise UnreachableError(f"{path} cannot be mined: {reason(e)}") from e
            if log.kept is not None:
                log.kept.clean()
            return mined
