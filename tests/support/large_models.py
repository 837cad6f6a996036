"""Clusters too large for proofs, the same each time."""

from __future__ import annotations

import numpy as np

from stormpilot.generate.models import Loaded, Unlike, loaded, unlike
from stormpilot.model.values import Model


def loaded_cluster() -> Model:
    """260 executors of five topologies on 15 nodes, too many for proofs."""
    return loaded(Loaded(executors=260, topologies=5, load=0.75), np.random.default_rng(4))


def unlike_cluster() -> Model:
    """300 executors of four topologies on 12 unlike nodes."""
    return unlike(Unlike(executors=300, topologies=4, load=0.6), np.random.default_rng(11))
