"""A small cluster of its own for tests that break things."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from clusters import running_cluster
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec


@pytest.fixture(scope="module")
def small(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """2 supervisors x 2 slots with Storm's own scheduler; a test may break it only if it mends it."""
    spec = ClusterSpec(name=f"tests-small-{os.getpid()}", supervisors=2, slots=2, scheduler="default")
    with running_cluster(spec, request.session) as cluster:
        yield cluster
