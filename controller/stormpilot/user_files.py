"""Files that a user names: their bytes, within a limit, and never a wait for what does not come.

Runs inside workers too: standard library only.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from pathlib import Path
from typing import IO, Protocol

KIB = 1024
MIB = 1024 * KIB
SMALL_BYTES = MIB
"""Greatest size of a file that people write: a configuration, passwords, options."""
PEM_BYTES = 4 * MIB
"""Greatest size of a file of certificates."""
PROBLEM_BYTES = 16 * MIB
"""Greatest size of the file of a topology to size, with its performance models."""
LARGE_BYTES = 1024 * MIB
"""Greatest size of a file that programs write: a model of 100,000 executors, a jar."""
_PIECE_BYTES = MIB
_NO_TEXTS = {
    b"\x1f\x8b": "is compressed (gzip), expected the text itself",
    b"\x28\xb5\x2f\xfd": "is compressed (zstd), expected the text itself",
    b"PK\x03\x04": "is a zip archive, expected the text itself",
    codecs.BOM_UTF16_LE: "is UTF-16, expected UTF-8",
    codecs.BOM_UTF16_BE: "is UTF-16, expected UTF-8",
}
_NO_FILES = {
    stat.S_IFDIR: (errno.EISDIR, "Is a directory, expected a file"),
    stat.S_IFBLK: (errno.EINVAL, "is a block device, expected a file"),
    stat.S_IFSOCK: (errno.ENXIO, "is a socket, expected a file"),
}


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_bytes(path: Path, most_bytes: int = SMALL_BYTES) -> bytes:
    """Content of a file, of a pipe that somebody writes into, or of a terminal.

    Raises
    ------
    OSError
        The file cannot be read, is none (a folder, a device), is a pipe without a writer, or has more than
        `most_bytes`; `strerror` says which, and what was expected.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except ValueError as e:  # a zero byte
        raise OSError(errno.EINVAL, "is no path of a file", str(path)) from e
    if kind in _NO_FILES:
        raise OSError(*_NO_FILES[kind], str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 (of a descriptor)
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size > most_bytes:
            raise _too_large(found.st_size, most_bytes, path)
        first = _first(file, found.st_mode, path)
        return read_stream(file, most_bytes, str(path), first) if first else b""


def read_text(path: Path, most_bytes: int = SMALL_BYTES) -> str:
    """The same as text, as `text_bytes` takes it; `UnicodeDecodeError` for one that is not UTF-8."""
    text = text_bytes(read_bytes(path, most_bytes), path).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def text_bytes(data: bytes, name: str | Path) -> bytes:
    """Bytes of a text without its byte-order mark; `OSError` names what is packed, or of another encoding."""
    for begin, why in _NO_TEXTS.items():
        if data.startswith(begin):
            raise OSError(errno.EILSEQ, why, str(name))
    return data.removeprefix(codecs.BOM_UTF8)


def read_stream(stream: _Stream, most_bytes: int, name: str = "stdin", begun: bytes = b"") -> bytes:
    """`begun`, and all that comes of a stream; `OSError` when that is more than `most_bytes`."""
    pieces, size = [begun], len(begun)
    while size <= most_bytes and (piece := stream.read(_PIECE_BYTES)):
        pieces.append(piece)
        size += len(piece)
    if size > most_bytes:
        raise _too_large(None, most_bytes, name)
    return b"".join(pieces)


def _first(file: IO[bytes], mode: int, path: Path) -> bytes:
    """Bytes that come at once; empty for an empty file. A pipe with a writer, or a terminal, is waited for."""
    piece: bytes | None = file.read(KIB)
    if piece is None:  # a pipe into which somebody will write, or a terminal
        os.set_blocking(file.fileno(), True)
        return file.read(KIB)
    if not piece and stat.S_ISFIFO(mode):
        raise OSError(errno.EPIPE, "is a pipe into which nobody writes, expected a file", str(path))
    if piece and stat.S_ISCHR(mode) and not os.isatty(file.fileno()):
        raise OSError(errno.EINVAL, "is a device, expected a file", str(path))
    os.set_blocking(file.fileno(), True)
    return piece


def _too_large(size: int | None, most_bytes: int, name: str | Path) -> OSError:
    has = "more" if size is None else f"{size:,} bytes"
    return OSError(errno.EFBIG, f"has {has}, expected a file of at most {most_bytes:,} bytes", str(name))
