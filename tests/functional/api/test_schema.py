"""Requests made from the API's own OpenAPI description: no answer is an error of ours, none that is not described.

`make fuzz` makes more of them, others every time (`API_EXAMPLES` for each route and mode).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from .conftest import Api

EXAMPLES = int(os.environ.get("API_EXAMPLES", "6"))
FUZZING = "API_EXAMPLES" in os.environ
LOCAL = {"Host": "127.0.0.1"}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
def test_every_route_answers_as_it_is_described(tmp_path: Path, mode: GenerationMode) -> None:
    """Positive requests fit the description, negative ones break it in one place; what is asked for is done."""
    api = Api(tmp_path)
    api.run()
    schema = schemathesis.openapi.from_asgi("/schema/openapi.json", api.app, headers=LOCAL)
    headers = LOCAL | {"Authorization": f"Bearer {api.tokens['admin'][0]}"}
    operations = [result.ok() for result in schema.get_all_operations()]
    for operation in operations:
        if operation.path.endswith("/what-if") and mode is GenerationMode.POSITIVE:
            continue  # each would plan for seconds
        asked = 0

        @settings(
            max_examples=EXAMPLES, derandomize=not FUZZING, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers_as_described(case: Case) -> None:
            nonlocal asked
            asked += 1
            response = case.call(headers=headers)
            case.validate_response(response, excluded_checks=[positive_data_acceptance])
            if mode is GenerationMode.POSITIVE and response.status_code == 400:
                assert "field" not in response.json(), "the description allows it"  # rules over several fields are ours

        answers_as_described()
        print(f"{operation.label}: {asked} requests")
    assert len(operations) > 30
