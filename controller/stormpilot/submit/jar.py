"""The jar of a streamparse project: a zip with its `src/` under `resources/`, which supervisors unpack for components.

Deterministic: the same sources give the same bytes. Storm needs no manifest and no class in it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from stormpilot.errors import UsageError

RESOURCES = "resources"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SKIPPED = frozenset({"__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def source_files(sources: Path) -> list[Path]:
    """Files of `src/` that go into the jar, in a fixed order, relative to it; symbolic links are followed."""
    if not sources.is_dir():
        raise UsageError(f"{sources} not found: a streamparse project keeps its components in src/")
    return sorted(file.relative_to(sources) for file in _files(sources, frozenset()))


def _files(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """Files in a folder and below it; a link to one of the folders `above` it (by their real paths) leads nowhere."""
    real = folder.resolve()
    if real in above:
        return
    try:
        entries = list(folder.iterdir())
    except OSError as e:
        raise UsageError(f"{folder} cannot be read: {e.strerror}") from e
    for entry in entries:
        if entry.name in _SKIPPED:
            continue
        if entry.is_dir():
            yield from _files(entry, above | {real})
        elif entry.is_file() and entry.suffix not in (".pyc", ".pyo"):
            yield entry


def build_jar(sources: Path) -> bytes:
    """The jar of the sources."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr(_entry(f"{RESOURCES}/"), b"")
        for file in source_files(sources):
            jar.writestr(_entry(f"{RESOURCES}/{file.as_posix()}"), _content(sources / file))
    return buffer.getvalue()


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as e:
        raise UsageError(f"{file} cannot be read: {e.strerror}") from e


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o40755 if name.endswith("/") else 0o100644) << 16
    return entry
