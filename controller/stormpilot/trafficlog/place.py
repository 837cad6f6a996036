"""Where the traffic log lies: a folder, or what Arrow writes to (`file://`, `hdfs://`, `s3://` or `s3a://`, `gs://`).

A file appears as a whole or not at all. On disks and HDFS it is written under a hidden name, synced (on disks), and
renamed; object stores show one only when it was sent completely. HDFS renames over no file: Arrow removes that one
first, and a crash in between would lose both.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from stormpilot.errors import UnreachableError, UsageError
from stormpilot.printable import without_login

HIDDEN = ".tmp"
ARROW_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Names of storage schemes in Hadoop and Spark."""
ELSEWHERE = ("hdfs", "viewfs", "s3", "gs", "gcs", "abfs", "abfss")
"""Storage schemes that Arrow has beside `file`."""
RENAMES = ("local", "hdfs")
"""Types of file systems that rename at once."""


@dataclass(frozen=True)
class LogPlace:
    """`root` is the log's folder in `fs`; all other paths are below it. `name` is what it was called."""

    fs: pafs.FileSystem
    root: str
    name: str

    @property
    def local(self) -> Path | None:
        """The folder, where it is on a disk of this machine."""
        return Path(self.root) if self.fs.type_name == "local" else None

    @property
    def replaces(self) -> bool:
        """Whether a file can take the place of another at once."""
        return bool(self.fs.type_name != "hdfs")

    def full(self, path: str) -> str:
        """The path in the file system."""
        return f"{self.root}/{path}" if path else self.root

    def files(self, below: str = "") -> list[pafs.FileInfo]:
        """Every file below a folder with its size; nothing where there is no such folder."""
        selector = pafs.FileSelector(self.full(below), allow_not_found=True, recursive=True)
        return [i for i in self.fs.get_file_info(selector) if i.type == pafs.FileType.File]

    def folders(self, below: str) -> list[str]:
        """Names of the folders in a folder, sorted."""
        selector = pafs.FileSelector(self.full(below), allow_not_found=True)
        return sorted(i.base_name for i in self.fs.get_file_info(selector) if i.type == pafs.FileType.Directory)

    def check_there(self) -> None:
        """`UsageError` where there is no such folder."""
        kind = self.fs.get_file_info(self.root).type
        if kind == pafs.FileType.NotFound and self.fs.type_name in RENAMES:
            raise UsageError(f"{self.name}: there is no such folder")
        if kind == pafs.FileType.File:
            raise UsageError(f"{self.name} is a file, expected the folder of a traffic log")

    def relative(self, info: pafs.FileInfo) -> str:
        """The path of a listed file, below the log's folder."""
        return str(info.path).removeprefix(self.root).lstrip("/")

    def read(self, path: str) -> pq.ParquetFile:
        """Open a file for reading."""
        return pq.ParquetFile(self.fs.open_input_file(self.full(path)))

    def write(self, path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Write a file, whole or not at all; `FileExistsError` where it would take another's place and cannot."""
        folder, _, name = self.full(path).rpartition("/")
        self.fs.create_dir(folder, recursive=True)
        renames = self.fs.type_name in RENAMES
        unique = uuid.uuid4().hex[:8]  # another process may write the same file at the same time
        written = f"{folder}/.{name}.{unique}{HIDDEN}" if renames else f"{folder}/{name}"
        try:
            if renames:
                with self.fs.open_output_stream(written) as out:
                    _write(out, schema, batches)
                if self.local is not None:
                    _sync(written)
                if not self.replaces and self.fs.get_file_info(f"{folder}/{name}").type != pafs.FileType.NotFound:
                    raise FileExistsError(f"{folder}/{name} is there")
                self.fs.move(written, f"{folder}/{name}")
            else:
                buffer = pa.BufferOutputStream()
                _write(buffer, schema, batches)
                with self.fs.open_output_stream(written) as out:
                    out.write(buffer.getvalue())
        except BaseException:
            if renames:
                with contextlib.suppress(OSError):
                    self.fs.delete_file(written)
            raise

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is fine."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.delete_file(self.full(path))

    def remove_if_empty(self, path: str) -> None:
        """Remove a folder that holds nothing."""
        selector = pafs.FileSelector(self.full(path), allow_not_found=True)
        if not self.fs.get_file_info(selector):
            with contextlib.suppress(OSError):
                self.fs.delete_dir(self.full(path))


def place_of(directory: str | Path) -> LogPlace:
    """The place that a path or a URI names.

    Raises
    ------
    UsageError
        Arrow cannot use it: an unknown kind of file system, or no library for it.
    UnreachableError
        It does not answer.
    """
    name = str(directory)
    if "://" not in name:
        return LogPlace(pafs.LocalFileSystem(), str(Path(name).absolute()), name)
    scheme, _, rest = name.partition("://")
    try:
        fs, root = pafs.FileSystem.from_uri(f"{ARROW_SCHEMES.get(scheme, scheme)}://{rest}")
    except (pa.ArrowException, ValueError) as e:
        raise UsageError(f"traffic_log.dir: {without_login(name)}: {e}") from e
    except OSError as e:
        raise UnreachableError(f"traffic_log.dir: {without_login(name)}: {e}") from e
    return LogPlace(fs, root.rstrip("/"), without_login(name))


def check_scheme(directory: str) -> None:
    """Look at a path or URI without asking any store, which may take long; `UsageError` for one that no Arrow knows."""
    scheme, colon, _ = directory.partition("://")
    if not colon or scheme == "file":
        place_of(directory)
    elif scheme not in (*ELSEWHERE, *ARROW_SCHEMES):
        raise UsageError(
            f"traffic_log.dir: {without_login(directory)}: expected a folder, or one of file://, "
            + ", ".join(f"{known}://" for known in ELSEWHERE)
        )


def _write(out: object, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))


def _sync(path: str) -> None:
    with Path(path).open("rb") as f:
        os.fsync(f.fileno())
