"""The jar of a streamparse project: a zip with its `src/` under `resources/`, which supervisors unpack for components.

Deterministic: the same sources give the same bytes. Storm needs no manifest and no class in it.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from stormpilot.errors import UsageError
from stormpilot.user_files import LARGE_BYTES, read_bytes

RESOURCES = "resources"
MOST_ENTRIES = 100_000
"""Greatest number of files and folders of `src/`, those behind symbolic links as often as they are met."""
MOST_BYTES = LARGE_BYTES
"""Greatest size of all of them together."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SKIPPED = frozenset({"__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def source_files(sources: Path) -> list[Path]:
    """Files of `src/` that go into the jar, in a fixed order, relative to it; symbolic links are followed.

    `UsageError` for what is neither file nor folder, cannot be read, or is more than `MOST_ENTRIES`.
    """
    if not sources.is_dir():
        raise UsageError(f"{sources} not found: a streamparse project keeps its components in src/")
    return sorted(file.relative_to(sources) for file in _files(sources))


def _files(sources: Path) -> Iterator[Path]:
    """Files in a folder and below it; a link to one of the folders above it (by their real paths) leads nowhere."""
    folders, met = [(sources, frozenset[str]())], 0
    while folders:
        folder, above = folders.pop()
        real = os.path.realpath(folder)
        for entry in [] if real in above else _entries(folder):
            met += 1
            if met > MOST_ENTRIES:
                raise UsageError(
                    f"{sources} has more than {MOST_ENTRIES:,} files and folders ({entry} is one more), expected the "
                    "components of a project: does a symbolic link lead out of it?"
                )
            try:
                entry.name.encode()
            except UnicodeEncodeError as e:  # a jar has no other names
                raise UsageError(f"{folder} has the file {entry.name!a}, expected names in UTF-8") from e
            mode = _mode(entry)
            if mode is None or entry.name in _SKIPPED:
                continue
            if stat.S_ISDIR(mode):
                folders.append((entry, above | {real}))
            elif not stat.S_ISREG(mode):
                raise UsageError(f"{entry} is a pipe, a socket or a device, expected a file or a folder")
            elif entry.suffix not in (".pyc", ".pyo"):
                yield entry


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError as e:
        raise UsageError(f"{folder} cannot be read: {e.strerror}") from e


def _mode(entry: Path) -> int | None:
    """Mode of an entry; None for a symbolic link to nothing, as editors leave them."""
    try:
        return entry.stat().st_mode
    except OSError as e:
        if entry.is_symlink():
            return None
        raise UsageError(f"{entry} cannot be read: {e.strerror}") from e


def build_jar(sources: Path) -> bytes:
    """The jar of the sources; `UsageError` where they are more than `MOST_BYTES`, or see `source_files`."""
    buffer, left = io.BytesIO(), MOST_BYTES
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr(_entry(f"{RESOURCES}/"), b"")
        for file in source_files(sources):
            content = _content(sources / file)
            left -= len(content)
            if left < 0:
                raise UsageError(
                    f"{sources} has more than {MOST_BYTES:,} bytes with {file}, expected at most that many"
                )
            jar.writestr(_entry(f"{RESOURCES}/{file.as_posix()}"), content)
    return buffer.getvalue()


def _content(file: Path) -> bytes:
    try:
        return read_bytes(file, MOST_BYTES)
    except OSError as e:
        raise UsageError(f"{file} cannot be read: {e.strerror}") from e


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o40755 if name.endswith("/") else 0o100644) << 16
    return entry
