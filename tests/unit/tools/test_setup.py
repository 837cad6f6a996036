"""`make setup` with tools that only note what they were asked for: when `.venv` is made, and made anew."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PYTHON = """
case "$*" in
  "-c import ensurepip") exit ${NO_VENV:-0};;
  "-m venv --clear .venv") echo made >>made; mkdir -p .venv/bin; cp right .venv/bin/python; cp right .venv/bin/pip;;
  *) exit 9;;
esac
"""
JAVAC = 'echo "javac ${VERSION:-17.0.15}"'

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What `make setup` reads of this repository, and tools in `bin`; `right` and `broken` are interpreters."""
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    (tmp_path / "bin").mkdir()
    texts = {"bin/python3.11": PYTHON, "bin/javac": JAVAC, "bin/mvn": "", "right": "", "broken": "exit 1\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def setup(clone: Path, **more: str) -> subprocess.CompletedProcess[str]:
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON", "JAVA"))
    }
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["make", "setup"], cwd=clone, env=own | {"PATH": path} | more, capture_output=True, text=True, check=False
    )


def has_venv(clone: Path, python: str) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    for name, source in (("python", python), ("pip", "right")):
        shutil.copy(clone / source, clone / ".venv" / "bin" / name)


def test_a_clean_clone_gets_its_venv_once(clone: Path) -> None:
    for _ in range(2):
        done = setup(clone)
        assert done.returncode == 0, done.stderr
    assert (clone / "made").read_text() == "made\n"
    assert (clone / ".venv" / ".installed").exists()


def test_a_venv_without_pip_is_made_anew(clone: Path) -> None:
    """An interpreter without ensurepip leaves one like that."""
    has_venv(clone, "broken")
    done = setup(clone)
    assert done.returncode == 0, done.stderr
    assert (clone / "made").exists()


def test_a_venv_with_pip_is_kept_whoever_made_it(clone: Path) -> None:
    has_venv(clone, "right")
    done = setup(clone, NO_VENV="1")
    assert done.returncode == 0, done.stderr
    assert not (clone / "made").exists()


def test_a_python_without_venv_is_refused_before_anything_is_made(clone: Path) -> None:
    done = setup(clone, NO_VENV="1")
    assert done.returncode == 2
    assert "apt-get install python3.11-venv" in done.stderr
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("version", ["11.0.20", "1.8.0_392", "25"])
def test_another_jdk_than_17_is_refused_before_anything_is_made(clone: Path, version: str) -> None:
    """Maven failed in the middle of the build, with an error of its plug-ins."""
    done = setup(clone, VERSION=version)
    assert done.returncode == 2
    assert f"javac -version says 'javac {version}'" in done.stderr
    assert "apt-get install openjdk-17-jdk-headless" in done.stderr
    assert not (clone / ".venv").exists()


def test_the_jdk_that_maven_will_take_is_looked_at(clone: Path) -> None:
    """It takes that of JAVA_HOME, whatever is on the PATH."""
    home = clone / "another jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "javac").write_text("#!/bin/sh\necho javac 11.0.20\n")
    (home / "bin" / "javac").chmod(0o755)
    done = setup(clone, JAVA_HOME=str(home))
    assert done.returncode == 2
    assert f"{home}/bin/javac -version says 'javac 11.0.20'" in done.stderr
    assert setup(clone, VERSION="11.0.20", JAVA_HOME=str(clone)).returncode == 2  # which has bin/javac
    assert setup(clone, JAVA_HOME=str(clone)).returncode == 0
