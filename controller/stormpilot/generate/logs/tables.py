"""Arrays into files of the traffic log: the layout and the schemas of the real one, as it is once a day was merged."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from stormpilot.trafficlog.schema import TABLES, TIME, VERSION, VERSION_KEY, partition_name

Columns = Mapping[str, Any]


def words(codes: npt.NDArray[Any], values: list[str | None]) -> pa.Array:
    """Text by number: `values[code]`."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(values, pa.string()))


def word(value: str, rows: int) -> pa.Array:
    """The same text in every row."""
    return words(np.zeros(rows), [value])


def times(at_ms: npt.NDArray[np.int64]) -> pa.Array:
    """UTC times."""
    return pa.array(at_ms, pa.int64()).cast(TIME)


def masked(values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers, null where `null`."""
    return pa.array(values, mask=null)


def table_of(name: str, columns: Columns) -> pa.Table:
    """A table of the log; columns that are not given are null. Text may be dictionary-encoded."""
    unknown = set(columns) - set(TABLES[name].names)
    if unknown:
        raise ValueError(f"{name} has no column {sorted(unknown)}")
    rows = len(next(iter(columns.values())))
    arrays = []
    for field in TABLES[name]:
        given = columns.get(field.name)
        if given is None:
            arrays.append(pa.nulls(rows, field.type))
        elif isinstance(given, pa.DictionaryArray):
            arrays.append(given)
        else:
            arrays.append((given if isinstance(given, pa.Array) else pa.array(given)).cast(field.type))
    return pa.Table.from_arrays(arrays, names=TABLES[name].names)


class DayFiles:
    """The files of one day; each appears under its name when it is whole, at the end of the `with`."""

    def __init__(self, directory: Path, day_ms: int):
        self.rows: dict[str, int] = {}
        self._directory = directory
        self._day = f"{datetime.fromtimestamp(day_ms / 1000, UTC):%Y-%m-%d}"
        self._open: dict[Path, pq.ParquetWriter] = {}

    def add(self, name: str, table: pa.Table, topology_id: str | None) -> None:
        """One more row group."""
        path = (
            self._directory / partition_name(name, self._day, topology_id) / f"{self._day.replace('-', '')}-all.parquet"
        )
        writer = self._open.get(path)
        if writer is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            # without Arrow's own schema in the file, or readers would get dictionaries where the log has text
            writer = pq.ParquetWriter(_hidden(path), table.schema, compression="zstd", store_schema=False)
            writer.add_key_value_metadata({VERSION_KEY: str(VERSION).encode()})
            self._open[path] = writer
        writer.write_table(table)
        self.rows[name] = self.rows.get(name, 0) + table.num_rows

    def __enter__(self) -> DayFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for path, writer in self._open.items():
            writer.close()
            if kind is None:
                _hidden(path).rename(path)
            else:
                with contextlib.suppress(OSError):
                    _hidden(path).unlink()


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")
