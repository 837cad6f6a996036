"""The pages that come from code are those that the program writes."""

from __future__ import annotations

import pytest

from tools import generate_docs


@pytest.mark.parametrize("name", generate_docs.PAGES)
def test_generated_page_is_what_the_code_says(name: str) -> None:
    written = (generate_docs.REFERENCE / name).read_text("utf-8")
    assert written == generate_docs.PAGES[name](), "stale: run python -m tools.generate_docs"


def test_every_setting_is_on_the_configuration_page() -> None:
    page = generate_docs.configuration()
    for setting in generate_docs.settings():
        assert page.count(f"| `{setting.key}` |") == 1


def test_every_code_of_a_decision_is_on_the_page_of_reasons() -> None:
    page = generate_docs.reason_codes()
    for reason in generate_docs.reasons.Reason:
        assert f"| `{reason.value}` |" in page
