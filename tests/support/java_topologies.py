"""Topologies of plain Java classes for tests on real clusters: they take little, and count for themselves."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

from scene import REPOSITORY
from stormpilot.local.cluster import LocalCluster
from stormpilot.submit.jar import build_jar
from stormpilot.submit.submission import prepare, send

PROJECT = REPOSITORY / "tests" / "integration" / "hook" / "project"


def java_jar(folder: Path) -> Path:
    """The project's sources and its Java classes, as a jar in this folder."""
    (classes,) = (REPOSITORY / "storm-plugin" / "worker" / "target").glob("stormpilot-worker-*-topologies.jar")
    buffer = io.BytesIO(build_jar(PROJECT / "src"))
    with zipfile.ZipFile(buffer, "a") as whole, zipfile.ZipFile(classes) as java:
        for name in java.namelist():
            if name.endswith(".class"):
                whole.writestr(name, java.read(name))
    file = folder / "topologies.jar"
    file.write_bytes(buffer.getvalue())
    return file


def submit_java(cluster: LocalCluster, jar: Path, topology: str, name: str = "", **options: Any) -> str:
    """Submit a topology of the project, in which nothing of ours reports; its id."""
    return send(
        prepare(
            PROJECT,
            topology,
            options=options,
            nimbus=str(cluster.nimbus_address),
            instrument=False,
            override_name=name or topology,
            jar=jar,
        )
    )
