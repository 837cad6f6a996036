"""Modes of topologies: the vectors that the plug-in has to agree with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stormpilot.config import DecideSection
from stormpilot.decide.policy import MODE_KEY, configured_modes, policy
from stormpilot.messages.controller_state import ConfiguredModes
from stormpilot.messages.settings import ALL, setting_key

VECTORS = json.loads((Path(__file__).parent / "vectors" / "modes.json").read_text())["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=json.dumps)
def test_the_mode_is_that_of_the_vector_and_the_configuration_says_its_part(vector: dict[str, Any]) -> None:
    modes = msgspec.convert(vector["modes"], ConfiguredModes)
    config = DecideSection(mode=modes.mode, modes=modes.by_name, owner_modes=tuple(modes.owner_modes))
    settings = [vector["settings"].get(key) for key in (setting_key(vector["topology"]), ALL)]

    assert policy(vector["topology"], {MODE_KEY: vector["asked"]}, config, *settings).mode == vector["mode"]
    assert configured_modes(config) == modes
