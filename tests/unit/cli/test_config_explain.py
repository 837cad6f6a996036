"""Every setting of controller.yaml can be looked up."""

from __future__ import annotations

import pytest

from stormpilot.cli.config_explain import about, explain, matching, settings
from stormpilot.cli.output import Format
from stormpilot.config import Config, describe
from stormpilot.config.options import UNITS
from stormpilot.errors import UsageError


def test_every_setting_of_the_configuration_is_there_with_its_default() -> None:
    known = {s.key: s.default for s in settings()}
    assert {k: known[k] for k, _ in describe(Config())} == dict(describe(Config()))
    assert set(known) - {k for k, _ in describe(Config())} == {
        f"decide.blackouts.{name}" for name in ("days", "from", "to", "timezone")
    }


@pytest.mark.parametrize("setting", settings(), ids=lambda s: s.key)
def test_every_setting_says_what_it_means_and_its_unit_where_its_name_has_one(setting) -> None:
    assert len(setting.meaning) > 10
    for suffix, unit in UNITS.items():
        if setting.key.endswith(suffix):
            assert setting.unit == unit


@pytest.mark.parametrize("section", Config.__struct_fields__)
def test_every_section_says_what_it_is_for(section: str) -> None:
    assert about(section).endswith(".")


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("decide.mode", ["decide.mode"]),
        ("cycle", ["cycle.period_s", "cycle.poll_s"]),
        ("poll_s", ["cycle.poll_s"]),
        ("timezone", ["decide.blackouts.timezone"]),
        ("period_s", ["cycle.period_s", "otd.period_s"]),
    ],
)
def test_a_setting_is_found_by_key_section_or_name(key: str, found: list[str]) -> None:
    assert [s.key for s in matching(settings(), key)] == found


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("decide.mod", "did you mean decide.mode"),
        ("pol_s", "did you mean cycle.poll_s"),
        ("xyz", "sections: zookeeper"),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        matching(settings(), key)


def test_what_is_printed_says_default_range_unit_and_restart(capsys: pytest.CaptureFixture[str]) -> None:
    explain("session_timeout_s", Format.table)
    text = capsys.readouterr().out
    assert "zookeeper.session_timeout_s: 10.0  (2 to 120, s; needs a restart)" in text
