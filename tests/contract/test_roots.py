"""Roots of znodes in storm.yaml: the vectors that the plug-in and the hook have to agree with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stormpilot.zookeeper.paths import normal_root

VECTORS = json.loads((Path(__file__).parent / "vectors" / "roots.json").read_text())["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: repr(v["root"]))
def test_a_root_has_one_slash_before_each_name(vector: dict[str, str]) -> None:
    assert normal_root(vector["root"]) == vector["normal"]
