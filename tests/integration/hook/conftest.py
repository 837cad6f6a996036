"""A cluster on which every topology is measured in its workers, and a jar of topologies that count for themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import running_cluster
from java_topologies import java_jar
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec


@pytest.fixture(scope="module")
def hooked(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three supervisors, each of which declares more CPU than any topology here uses; the hook in storm.yaml."""
    spec = ClusterSpec(name=f"hook-{os.getpid()}", supervisors=3, cpu_points=400, hook=True, conf=PATIENT)
    with running_cluster(spec, request.session) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's sources and its Java classes."""
    return java_jar(tmp_path_factory.mktemp("jar"))
