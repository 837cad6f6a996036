"""The jar of a project's sources."""

from __future__ import annotations

import errno
import io
import os
import zipfile
from pathlib import Path

import pytest

from stormpilot.errors import UsageError
from stormpilot.submit import jar as jar_module
from stormpilot.submit.jar import build_jar, source_files


def make_sources(folder: Path) -> Path:
    for name, text in {"bolts.py": "a = 1\n", "pkg/__init__.py": "", "pkg/deep/x.py": "b", "data.csv": "1,2\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ("__pycache__/bolts.cpython-311.pyc", "pkg/__pycache__/x.pyc", "old.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\0")
    return folder


def test_sources_stand_under_resources_without_what_python_caches(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(build_jar(make_sources(tmp_path / "src")))) as jar:
        assert jar.testzip() is None
        assert jar.namelist() == [
            "resources/",
            "resources/bolts.py",
            "resources/data.csv",
            "resources/pkg/__init__.py",
            "resources/pkg/deep/x.py",
        ]
        assert jar.read("resources/bolts.py") == b"a = 1\n"


def test_the_same_sources_give_the_same_bytes_whenever_and_wherever_they_were_written(tmp_path: Path) -> None:
    first, second = make_sources(tmp_path / "a"), make_sources(tmp_path / "b")
    for file in second.rglob("*.py"):
        os.utime(file, (0, 10**9))
        file.chmod(0o600)
    assert build_jar(first) == build_jar(second)


def test_a_changed_source_gives_another_jar(tmp_path: Path) -> None:
    sources = make_sources(tmp_path / "src")
    before = build_jar(sources)
    (sources / "bolts.py").write_text("a = 2\n")
    assert build_jar(sources) != before


def test_packages_behind_symbolic_links_go_along_and_one_that_leads_back_ends(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "deep").mkdir(parents=True)
    (shared / "deep" / "x.py").write_text("")
    sources = make_sources(tmp_path / "src")
    for name, target in {"one": shared, "two": shared, "pkg/back": sources, "itself": "itself"}.items():
        (sources / name).symlink_to(target)
    (shared / "back").symlink_to(shared)
    files = [f.as_posix() for f in source_files(sources)]
    assert files == ["bolts.py", "data.csv", "one/deep/x.py", "pkg/__init__.py", "pkg/deep/x.py", "two/deep/x.py"]


def test_a_project_without_sources_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="src not found"):
        build_jar(tmp_path / "src")


def test_a_source_that_cannot_be_read_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, _: int) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(jar_module, "read_bytes", refuse)
    with pytest.raises(UsageError, match=r"bolts\.py cannot be read: Permission denied"):
        build_jar(make_sources(tmp_path / "src"))


def test_what_is_neither_file_nor_folder_is_refused_by_name(tmp_path: Path) -> None:
    sources = make_sources(tmp_path / "src")
    os.mkfifo(sources / "p")
    with pytest.raises(UsageError, match=r"src/p is a pipe, a socket or a device, expected a file or a folder"):
        source_files(sources)
    (sources / "p").unlink()
    (sources / "zero.bin").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"src/zero\.bin is a pipe"):
        build_jar(sources)


def test_huge_sources_are_refused_by_name_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = make_sources(tmp_path / "src")
    with (sources / "huge.bin").open("wb") as file:
        file.truncate(jar_module.MOST_BYTES + 1)
    with pytest.raises(UsageError, match=r"src/huge\.bin cannot be read: has .* bytes, expected a file of at most"):
        build_jar(sources)
    (sources / "huge.bin").write_bytes(b"x" * 100)
    monkeypatch.setattr(jar_module, "MOST_BYTES", 105)
    with pytest.raises(UsageError, match=r"src has more than 105 bytes with huge\.bin, expected at most that many"):
        build_jar(sources)


def test_links_that_lead_to_more_and_more_folders_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 12 folders has a link to every other one: half a billion ways."""
    monkeypatch.setattr(jar_module, "MOST_ENTRIES", 1_000)
    sources = tmp_path / "src"
    for i in range(12):
        (sources / f"f{i}").mkdir(parents=True)
        for k in range(12):
            (sources / f"f{i}" / f"to{k}").symlink_to(f"../f{k}")
    with pytest.raises(UsageError, match=r"src has more than 1,000 files and folders .* does a symbolic link lead"):
        source_files(sources)


def test_a_name_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    sources = make_sources(tmp_path / "src")
    Path(os.fsdecode(os.fsencode(sources) + b"/caf\xe9.csv")).touch()
    with pytest.raises(UsageError, match=r"src has the file 'caf.udce9.csv', expected names in UTF-8"):
        build_jar(sources)
