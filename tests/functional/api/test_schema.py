"""Requests made from the API's own OpenAPI description: no answer is an error of ours, none that is not described.

`make fuzz` makes more of them, others every time (`API_EXAMPLES` for each route and mode).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from .conftest import Api

EXAMPLES = int(os.environ.get("API_EXAMPLES", "6"))
FUZZING = "API_EXAMPLES" in os.environ
OURS = (positive_data_acceptance, negative_data_rejection)
"""Checks that know less than the routes: rules over several fields refuse, `"confirm": 0` is as good as false."""
LOCAL = {"Host": "127.0.0.1"}


def ask(operation: Any, mode: GenerationMode, headers: dict[str, str]) -> int:
    """Requests of one route; how many they were."""
    asked = 0

    @settings(max_examples=EXAMPLES, derandomize=not FUZZING, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def answers_as_described(case: Case) -> None:
        nonlocal asked
        asked += 1
        response = case.call(headers=headers)
        case.validate_response(response, excluded_checks=list(OURS))
        if mode is GenerationMode.POSITIVE and response.status_code == 400:
            assert "field" not in response.json(), "the description allows it"  # rules over several fields are ours

    answers_as_described()
    return asked


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
def test_every_route_answers_as_it_is_described(tmp_path: Path, mode: GenerationMode) -> None:
    """Positive requests fit the description, negative ones break it in one place; what is asked for is done."""
    api = Api(tmp_path)
    api.run()
    schema = schemathesis.openapi.from_asgi("/schema/openapi.json", api.app, headers=LOCAL)
    schema.config.generation.update(with_security_parameters=False)
    headers = LOCAL | {"Authorization": f"Bearer {api.tokens['admin'][0]}"}
    asked: dict[str, int] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        plans = operation.path.endswith("/what-if") and mode is GenerationMode.POSITIVE  # each for seconds
        takes = operation.body or operation.query or mode is GenerationMode.POSITIVE
        if takes and not plans:
            asked[operation.label] = ask(operation, mode, headers)
    print(f"{sum(asked.values()):,} {mode.value} requests to {len(asked)} routes")
    assert len(asked) > 20
