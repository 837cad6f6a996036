"""The Storm home: Storm's jars from Maven artifacts, assembled once per version into a cache folder, then only read."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stormpilot.errors import UnreachableError, UsageError
from stormpilot.local import archives

STORM_VERSION = "2.8.3"
OLDER_STORM = re.compile(r"2\.[4-7]\.\d+")
"""Versions that are tried as well (docs/reference/compatibility.md)."""
MIN_JAVA = 17
MIN_JAVA_OF_OLDER = 11
_INSTALL_JDK = "install a JDK 17 (Debian: apt-get install openjdk-17-jdk-headless)"
_INSTALL_MAVEN = "install Maven (Debian: apt-get install maven)"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class StormHome:
    """An assembled Storm, its version, and the `java` to run it with.

    `share_daemons` and `share_workers` are JVM options that make processes of that kind start faster; empty for none.
    """

    directory: Path
    java: str
    version: str = STORM_VERSION
    share_daemons: str = ""
    share_workers: str = ""


def storm_home(progress: Progress, version: str = STORM_VERSION, java_home: Path | None = None) -> StormHome:
    """Find Storm, or assemble it now if it is not there yet.

    Parameters
    ----------
    version
        2.8.3, or an older one (`OLDER_STORM`).
    java_home
        A Java to run Storm with; None: that of `JAVA_HOME` or the `PATH`. Maven and javac are those of the latter.

    Raises
    ------
    UnreachableError
        Java or Maven is missing, Maven could not fetch the artifacts, or the cache cannot be written.
    """
    least = MIN_JAVA_OF_OLDER if OLDER_STORM.fullmatch(version) else MIN_JAVA
    java, java_version = _java(least, java_home)
    recipe = _recipe()
    home = cache_root() / f"storm-{version}-{_digest(recipe)}"
    classes = archives.archives_folder(home, java_version)
    if not classes.is_dir():
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            with _locked(home.with_name(f"{home.name}.lock"), progress):
                # Another start may have made either while this one waited.
                if not home.is_dir():
                    _assemble(recipe, home, Path(java if java_home is None else _java(MIN_JAVA)[0]), version, progress)
                if not classes.is_dir():
                    archives.make_archives(home, java, classes, progress)
        except OSError as e:
            if not home.is_dir():
                cannot = f"cannot assemble Storm {version} in {home.parent} ({e.strerror or e})"
                raise UnreachableError(f"{cannot}; STORMPILOT_HOME names another place") from e
            progress("doing without archives of Storm's classes, which cannot be written")
    return StormHome(home, java, version, archives.option(classes, "lib"), archives.option(classes, "lib-worker"))


def cache_root() -> Path:
    """Folder of assembled homes: `$STORMPILOT_HOME`, else `~/.cache/stormpilot`."""
    return own_folder("STORMPILOT_HOME", ".cache/stormpilot")


def own_folder(variable: str, below_home: str) -> Path:
    """The folder that an environment variable names, else one in the user's home; `UsageError` without either."""
    named = os.environ.get(variable)
    try:
        return Path(named).absolute() if named else Path.home() / below_home
    except RuntimeError:  # a container that runs as a user without an entry and without HOME
        raise UsageError(f"this user has no home folder: set {variable} to a folder that it may write to") from None


def _java(least: int, home: Path | str | None = None) -> tuple[str, str]:
    """The java to run Storm with, and what it says of itself."""
    # As Storm's supervisors choose it for their workers: $JAVA_HOME's, else the first on the PATH.
    home = home or os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH"
        raise UnreachableError(f"Storm needs Java {least}: {where}; {_INSTALL_JDK}")
    try:
        version = subprocess.run([found, "-version"], check=False, capture_output=True, text=True).stderr
    except OSError as e:  # a file that is cut off, or for another processor
        raise UnreachableError(f"Storm needs Java {least}: {found} does not run: {e.strerror}; {_INSTALL_JDK}") from e
    match = re.search(r'version "(?:1\.)?(\d+)', version)
    if match is None or int(match.group(1)) < least:
        said = match.group(1) if match else version.strip() or "nothing"
        raise UnreachableError(f"Storm needs Java {least} or newer, {found} says {said}; {_INSTALL_JDK}")
    return found, version


def _recipe() -> Path:
    beside = Path(__file__).parent
    for place in (beside / "storm-home", *(p / "storm-plugin" / "local-storm" for p in beside.parents)):
        if (place / "pom.xml").is_file():
            return place
    raise UsageError("this installation of stormpilot lacks the Maven files that a local Storm is made from")


def _recipe_files(recipe: Path) -> list[Path]:
    files = (p.relative_to(recipe) for p in recipe.rglob("*") if p.is_file())
    return sorted(p for p in files if p.suffix in (".xml", ".java") and not {"target", "test"} & set(p.parts))


def _digest(recipe: Path) -> str:
    digest = hashlib.sha256()
    for file in _recipe_files(recipe):
        digest.update(str(file).encode() + b"\0" + (recipe / file).read_bytes() + b"\0")
    return digest.hexdigest()[:12]


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another start that is assembling Storm")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _assemble(recipe: Path, home: Path, java: Path, version: str, progress: Progress) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UnreachableError(f"assembling Storm {version} needs Maven, and no mvn is on the PATH; {_INSTALL_MAVEN}")
    if shutil.which("javac", path=str(java.resolve().parent)) is None and shutil.which("javac") is None:
        raise UnreachableError(f"assembling Storm {version} needs a JDK, this is only a Java runtime; {_INSTALL_JDK}")
    progress(f"assembling Storm {version} from Maven artifacts (once; downloads about 200 MB the first time)")
    for abandoned in home.parent.glob(f".{home.name}-*"):  # we hold the lock: nobody works there
        shutil.rmtree(abandoned, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{home.name}-", dir=home.parent) as scratch:
        # Maven writes into its source folders, which may be read-only or shared with another build.
        source, built = Path(scratch) / "source", Path(scratch) / "home"
        for file in _recipe_files(recipe):
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(recipe / file, source / file)
        log = home.parent / f"{home.name}.log"
        _run_maven(
            [
                maven,
                "-B",
                "-f",
                str(source / "pom.xml"),
                f"-Dstorm.home={built}",
                f"-Dstorm.version={version}",
                "package",
            ],
            log,
            version,
            progress,
        )
        shutil.copytree(source / "log4j2", built / "log4j2")
        (built / "RELEASE").write_text(version + "\n")
        built.rename(home)
    log.unlink()


def _run_maven(command: list[str], log: Path, version: str, progress: Progress) -> None:
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL) as mvn,
    ):
        assert mvn.stdout is not None
        fetched = 0
        try:
            for raw in mvn.stdout:
                line = raw.decode(errors="replace")
                out.write(line)
                if "Downloaded from" in line and ".jar" in line:
                    fetched += 1
                    if fetched % 10 == 0:
                        progress(f"assembling Storm {version}: {fetched} jars fetched")
        except BaseException:
            mvn.terminate()
            raise
    if mvn.returncode != 0:
        errors = [line for line in log.read_text().splitlines() if line.startswith("[ERROR]")] or ["[ERROR] (no text)"]
        raise UnreachableError(f"Maven could not assemble Storm {version}: {errors[0][8:]} (all of it: {log})")
