"""Assembling a Storm home: what is said when tools are missing, and that it happens once. Maven is a double here."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stormpilot.errors import UnreachableError
from stormpilot.local.home import storm_home

REPOSITORY = Path(__file__).parents[3]

MAVEN = """#!/bin/sh
echo run >> "$(dirname "$0")/runs"
for a in "$@"; do case "$a" in -Dstorm.home=*) home=${a#-Dstorm.home=};; esac; done
mkdir -p "$home/lib"
for n in 1 2 3 4 5 6 7 8 9 10; do echo "[INFO] Downloaded from somewhere: it/$n.jar (1 kB)"; done
"""
FAILING_MAVEN = """#!/bin/sh
echo "[INFO] trying"
echo "[ERROR] Could not transfer artifact it:one"
exit 1
"""


class Tools:
    """A folder that is the whole PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for tool in ("sh", "dirname", "mkdir", "rm"):
            (folder / tool).symlink_to(f"/bin/{tool}")

    def add(self, name: str, script: str) -> None:
        file = self.folder / name
        file.write_text(script)
        file.chmod(0o755)

    def add_java(self, version: str, and_then: str = "") -> None:
        self.add("java", f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n{and_then}\n")
        self.add("javac", "#!/bin/sh\n")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    found = Tools(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(found.folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("STORMPILOT_HOME", str(tmp_path / "cache"))
    return found


def test_missing_java_is_one_line_that_says_what_to_install(tools: Tools) -> None:
    with pytest.raises(UnreachableError, match=r"^Storm needs Java 17: no java on the PATH; install a JDK 17 \(.*\)$"):
        storm_home(print)


def test_java_home_without_java_is_named(tools: Tools, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tools.add_java("17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(UnreachableError, match=r"JAVA_HOME is .*nowhere, which has no bin/java"):
        storm_home(print)


def test_java_that_does_not_run_is_named(tools: Tools) -> None:
    tools.add("java", "\x7fELF, and the rest is missing")
    with pytest.raises(UnreachableError, match=r"^Storm needs Java 17: .*/java does not run: Exec format error; "):
        storm_home(print)


@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_292", "8")])
def test_old_java_is_refused(tools: Tools, version: str, major: str) -> None:
    tools.add_java(version)
    with pytest.raises(UnreachableError, match=f"Java 17 or newer, .* says {major};"):
        storm_home(print)


def test_missing_maven_is_one_line_that_says_what_to_install(tools: Tools) -> None:
    tools.add_java("17.0.1")
    with pytest.raises(UnreachableError, match=r"needs Maven, and no mvn is on the PATH; install Maven \(.*\)$"):
        storm_home(print)


def test_runtime_without_compiler_is_refused(tools: Tools) -> None:
    tools.add_java("17.0.1")
    tools.add("mvn", MAVEN)
    (tools.folder / "javac").unlink()
    with pytest.raises(UnreachableError, match="needs a JDK, this is only a Java runtime"):
        storm_home(print)


def test_failed_assembly_says_why_and_leaves_no_home(tools: Tools, tmp_path: Path) -> None:
    tools.add_java("17.0.1")
    tools.add("mvn", FAILING_MAVEN)
    with pytest.raises(UnreachableError, match="Could not transfer artifact it:one"):
        storm_home(print)
    assert [p for p in (tmp_path / "cache").iterdir() if p.is_dir()] == []


def test_wheel_carries_all_that_a_home_is_made_from(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    inside = "stormpilot/local/storm-home/"
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        carried = {n.removeprefix(inside): wheel.read(n) for n in wheel.namelist() if n.startswith(inside)}
    recipe = REPOSITORY / "storm-plugin" / "local-storm"
    files = [p for p in recipe.rglob("*") if p.suffix in (".xml", ".java") and not {"target", "test"} & set(p.parts)]
    assert carried == {str(p.relative_to(recipe)): p.read_bytes() for p in files}


def test_second_start_finds_the_home(tools: Tools) -> None:
    tools.add_java("17.0.1")
    tools.add("mvn", MAVEN)
    said: list[str] = []
    first = storm_home(said.append)
    assert any("10 jars fetched" in line for line in said)
    assert (first.directory / "log4j2" / "worker.xml").is_file()
    assert storm_home(said.append) == first
    assert (tools.folder / "runs").read_text() == "run\n"


def test_starts_at_the_same_time_assemble_once(tools: Tools) -> None:
    tools.add_java("17.0.1")
    tools.add("mvn", MAVEN)
    code = "from stormpilot.local.home import storm_home; storm_home(print)"
    starts = [subprocess.Popen([sys.executable, "-c", code], env=os.environ.copy()) for _ in range(3)]
    assert [s.wait(300) for s in starts] == [0, 0, 0]
    assert (tools.folder / "runs").read_text() == "run\n"


def test_archives_of_classes_are_used_where_they_could_be_made(tools: Tools) -> None:
    tools.add_java(
        "17.0.1", and_then='for a in "$@"; do case "$a" in -XX:SharedArchiveFile=*) echo > "${a#*=}";; esac; done'
    )
    tools.add("mvn", MAVEN)
    home = storm_home(print)
    assert Path(home.share_daemons.removeprefix("-XX:SharedArchiveFile=")).is_file()
    assert Path(home.share_workers.removeprefix("-XX:SharedArchiveFile=")).is_file()
    assert home.share_daemons != home.share_workers


def test_archives_that_cannot_be_made_are_done_without(tools: Tools) -> None:
    tools.add_java("17.0.1", and_then='[ "$1" = -version ]')
    tools.add("mvn", MAVEN)
    said: list[str] = []
    home = storm_home(said.append)
    assert (home.share_daemons, home.share_workers) == ("", "")
    said.clear()
    assert storm_home(said.append) == home
    assert said == [], "and not tried again at every start"


def test_cache_that_cannot_be_written_is_named(tools: Tools, tmp_path: Path) -> None:
    tools.add_java("17.0.1")
    tools.add("mvn", MAVEN)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UnreachableError, match=r"cannot assemble Storm .* in .*cache \(File exists\); STORMPILOT_HOME"):
        storm_home(print)


def test_home_that_cannot_be_written_does_without_archives_of_another_java(tools: Tools) -> None:
    """A cache that an administrator filled, say."""
    tools.add("mvn", MAVEN)
    tools.add_java("17.0.1")
    first = storm_home(print).directory
    tools.add_java("17.0.2")
    lock = first.with_name(f"{first.name}.lock")
    lock.unlink()
    lock.mkdir()
    home = storm_home(print)
    assert (home.directory, home.share_daemons) == (first, "")


def test_cache_is_named_as_it_is_for_daemons_that_run_elsewhere(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.add_java("17.0.1")
    tools.add("mvn", MAVEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STORMPILOT_HOME", "cache")
    assert storm_home(print).directory.parent == tmp_path / "cache"


def test_new_java_gets_archives_of_its_own(tools: Tools) -> None:
    tools.add("mvn", MAVEN)
    tools.add_java("17.0.1")
    first = storm_home(print)
    tools.add_java("17.0.2")
    assert storm_home(print).directory == first.directory
    assert len(list(first.directory.glob("classes-*"))) == 2


def test_leftovers_of_a_killed_assembly_are_removed(tools: Tools, tmp_path: Path) -> None:
    tools.add_java("17.0.1")
    tools.add("mvn", MAVEN)
    name = storm_home(print).directory
    name.rename(name.with_name(f".{name.name}-abandoned"))
    storm_home(print)
    assert [p.name for p in (tmp_path / "cache").iterdir() if p.is_dir()] == [name.name]
