"""Archives of the classes that Storm's processes load, so that their JVMs start in about two thirds of the time.

The JVM calls it class-data sharing. One archive for the daemons' jars and one for the workers', made once per Storm
home and Java version from the classes that a small topology loads. The JVM checks for itself that an archive fits its
own version and class path, and does without where it does not.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from stormpilot.local.ports import Reservation

LIBRARIES = ("lib", "lib-worker")
_MAIN = "io.stormpilot.local.TypicalRun"
_TIMEOUT_S = 300.0


def archives_folder(home: Path, java_version: str) -> Path:
    """Where the archives of a Storm home for this Java lie; there is one once they were made, or could not be."""
    return home / f"classes-{hashlib.sha256(java_version.encode()).hexdigest()[:12]}"


def option(folder: Path, library: str) -> str:
    """The JVM option that uses the archive of a library; empty if there is none."""
    archive = folder / f"{library}.jsa"
    # Storm splits options of workers at blanks.
    return f"-XX:SharedArchiveFile={archive}" if archive.is_file() and len(str(archive).split()) == 1 else ""


def make_archives(home: Path, java: str, folder: Path, progress: Callable[[str], None]) -> None:
    """Make the archives of all libraries; what goes wrong is in `folder`'s log and costs only speed."""
    progress("noting which classes Storm loads (once; its processes start faster afterwards)")
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=home) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        classes = Path(scratch) / "classes"
        with (made / "log").open("wb") as log, closing(Reservation()) as ports:
            nimbus, *workers = ports.take(3)
            typical_run = [
                *("-Xshare:off", f"-XX:DumpLoadedClassList={classes}", f"-Djava.io.tmpdir={scratch}"),
                *("-cp", f"{home}/lib/*:{home}/extlib/*", _MAIN, str(nimbus), str(workers[0])),
            ]
            if _run([java, *typical_run], log):
                for library in LIBRARIES:
                    progress(f"archiving the classes of {library}")
                    dump = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", "-cp", f"{home}/{library}/*"]
                    _run([java, "-XX:+UseSerialGC", *dump, f"-XX:SharedArchiveFile={made / library}.jsa"], log)
        made.rename(folder)


def _run(command: list[str], log: BinaryIO) -> bool:
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
