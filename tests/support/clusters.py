"""Local Storm clusters of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.local.spec import ClusterSpec


@contextmanager
def running_cluster(spec: ClusterSpec, session: pytest.Session) -> Iterator[LocalCluster]:
    """A running cluster; its files stay where a test failed meanwhile."""
    from stormpilot.local.cluster import LocalCluster

    failed_before = session.testsfailed
    cluster = LocalCluster.up(spec)
    try:
        yield cluster
    finally:
        cluster.down(purge=session.testsfailed == failed_before)
