"""Keys of settings by topology name: the vectors that the plug-in has to agree with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stormpilot.messages.settings import name_of_setting_key, setting_key

VECTORS = json.loads((Path(__file__).parent / "vectors" / "setting_keys.json").read_text())["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["key"])
def test_a_setting_key_is_that_of_the_vector_and_gives_the_name_back(vector: dict[str, str]) -> None:
    assert setting_key(vector["topology"]) == vector["key"]
    assert name_of_setting_key(vector["key"]) == vector["topology"]
