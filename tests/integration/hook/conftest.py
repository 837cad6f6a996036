"""A cluster on which every topology is measured in its workers, and a jar of topologies that count for themselves."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scene import REPOSITORY

from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.submit.jar import build_jar

PROJECT = Path(__file__).parent / "project"


@pytest.fixture(scope="module")
def hooked(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three supervisors, each of which declares more CPU than any topology here uses; the hook in storm.yaml."""
    failed_before = request.session.testsfailed
    running = LocalCluster.up(ClusterSpec(name=f"hook-{os.getpid()}", supervisors=3, cpu_points=400, hook=True))
    try:
        yield running
    finally:
        running.down(purge=request.session.testsfailed == failed_before)


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's sources and its Java classes."""
    (classes,) = (REPOSITORY / "storm-plugin" / "worker" / "target").glob("stormpilot-worker-*-topologies.jar")
    buffer = io.BytesIO(build_jar(PROJECT / "src"))
    with zipfile.ZipFile(buffer, "a") as whole, zipfile.ZipFile(classes) as java:
        for name in java.namelist():
            if name.endswith(".class"):
                whole.writestr(name, java.read(name))
    file = tmp_path_factory.mktemp("jar") / "topologies.jar"
    file.write_bytes(buffer.getvalue())
    return file
