"""Files that a user names are read within a limit; what is no file is said, not waited for."""

from __future__ import annotations

import gzip
import io
import os
import re
import socket
from pathlib import Path

import pytest

from stormpilot.user_files import LARGE_BYTES, MIB, read_bytes, read_stream, read_text, text_bytes


def why(path: Path, most_bytes: int = LARGE_BYTES) -> str:
    with pytest.raises(OSError) as found:
        read_bytes(path, most_bytes)
    assert found.value.filename == str(path)
    return str(found.value.strerror)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * (2 * MIB + 5))
    assert read_bytes(tmp_path / "f", 2 * MIB + 5) == b"x" * (2 * MIB + 5)
    (tmp_path / "f").write_bytes(b"a\r\nb\rc\n")
    assert read_text(tmp_path / "f") == "a\nb\nc\n"
    (tmp_path / "f").write_bytes(b"")
    assert read_bytes(tmp_path / "f") == b""
    assert read_bytes(Path("/dev/null")) == b""
    assert read_bytes(Path("/proc/self/stat")), "a file whose size nobody knows"


def test_a_text_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors of Windows write one."""
    (tmp_path / "f").write_bytes("\ufeffa: ä\r\n".encode())
    assert read_text(tmp_path / "f") == "a: ä\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b"{}", mtime=0), "is compressed (gzip), expected the text itself"),
        ("{}".encode("utf-16"), "is UTF-16, expected UTF-8"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(OSError, match=re.escape(said)):
        read_text(tmp_path / "f")
    with pytest.raises(OSError, match="stdin"):
        text_bytes(data, "stdin")


def test_one_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(5 * 1024 * MIB)
    assert why(tmp_path / "f") == "has 5,368,709,120 bytes, expected a file of at most 1,073,741,824 bytes"


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    assert why(tmp_path) == "Is a directory, expected a file"
    assert why(Path("/dev/zero")) == "is a device, expected a file"
    assert why(Path("/dev/urandom")) == "is a device, expected a file"
    assert why(tmp_path / "gone") == "No such file or directory"
    assert why(Path("a\0b")) == "is no path of a file"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert why(tmp_path / "s") == "is a socket, expected a file"


def test_a_pipe_that_nobody_writes_into_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    assert why(tmp_path / "p") == "is a pipe into which nobody writes, expected a file"


def test_a_pipe_that_a_shell_makes_of_a_command_is_read() -> None:
    """`--model <(jq . m.json)`, whether the command is over or goes on."""
    out, into = os.pipe()
    os.write(into, b"some")
    os.close(into)
    assert read_bytes(Path(f"/dev/fd/{out}")) == b"some"
    os.close(out)
    out, into = os.pipe()
    if (child := os.fork()) == 0:
        os.close(out)
        os.write(into, b"x" * MIB)  # (more than a pipe holds: it waits for its reader)
        os._exit(0)
    os.close(into)
    assert read_bytes(Path(f"/dev/fd/{out}"), MIB) == b"x" * MIB
    os.waitpid(child, 0)
    os.close(out)


def test_a_pipe_without_end_is_read_up_to_the_limit() -> None:
    out, into = os.pipe()
    os.write(into, b"x" * 2000)
    assert why(Path(f"/dev/fd/{out}"), 1000) == "has more, expected a file of at most 1,000 bytes"
    os.close(into)
    os.close(out)
    with pytest.raises(OSError, match="has more, expected a file of at most"):
        read_stream(io.BytesIO(b"x" * 1001), 1000)
    assert read_stream(io.BytesIO(b"x" * 1000), 1000) == b"x" * 1000
