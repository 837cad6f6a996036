"""Mining with DuckDB: in this process, in seconds, while a controller may write and merge the files of the log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import duckdb

from stormpilot.errors import UnreachableError
from stormpilot.history import frames
from stormpilot.history.mine import job
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import MinedLog
from stormpilot.history.mine.log import Log, Selection
from stormpilot.history.mine.quality import unreadable
from stormpilot.history.mine.reading_duckdb import open_log
from stormpilot.history.mine.texts import Texts

ATTEMPTS = 3


def mine(
    path: str,
    selection: Selection,
    criteria: MiningCriteria,
    step: job.Step = lambda _: nullcontext(),
    *,
    with_sizing: bool = False,
    look: Callable[[Log], None] = lambda _: None,
    keep: bool = False,
    cache: Path | None = None,
    texts: Texts | None = None,
) -> MinedLog:
    """Mine a local log; `look` sees it before; `keep` what is condensed of its days (in `cache`, else within it).

    `texts` of queries are those that are kept there, unless they are given.

    A file that was merged into another meanwhile begins it anew, without files whose content is bad, if there are any.

    Raises
    ------
    UnreachableError
        Files go on to vanish, or cannot be read.
    """
    bad: dict[Path, str] = {}
    for attempt in range(ATTEMPTS):
        with frames.engine("duckdb"), open_log(path, selection, keep=keep, cache=cache, texts=texts, bad=bad) as log:
            if attempt == 0 or bad:
                look(log)
            try:
                return job.mine(log, criteria, step, with_sizing=with_sizing)
            except duckdb.Error as e:
                last, bad = e, bad | unreadable(log.read_files())
    raise UnreachableError(f"{path} cannot be read: {str(last).strip().splitlines()[0]}") from last
