"""The jar of a streamparse project: a zip with its `src/` under `resources/`, which supervisors unpack for components.

Deterministic: the same sources give the same bytes. Storm needs no manifest and no class in it.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from stormpilot.errors import UsageError

RESOURCES = "resources"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SKIPPED_DIRECTORIES = frozenset({"__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def source_files(sources: Path) -> list[Path]:
    """Files of `src/` that go into the jar, in a fixed order, relative to it."""
    if not sources.is_dir():
        raise UsageError(f"{sources} not found: a streamparse project keeps its components in src/")
    return sorted(
        file.relative_to(sources)
        for file in sources.rglob("*")
        if file.is_file()
        and file.suffix not in (".pyc", ".pyo")
        and _SKIPPED_DIRECTORIES.isdisjoint(file.relative_to(sources).parts)
    )


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
