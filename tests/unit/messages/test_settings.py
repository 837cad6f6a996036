"""Names of settings' znodes: everything that is in a name comes back out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormpilot.errors import UsageError
from stormpilot.messages.settings import ExcludeSetting, PinSetting, exclusion_of_key, topology_of_key

names = st.text(min_size=1).filter(lambda s: not any(0xD800 <= ord(c) < 0xE000 for c in s))
maybe = st.none() | names


@given(names, maybe, maybe, st.booleans())
def test_name_of_an_exclusion_says_all_of_it(where: str, topology: str | None, component: str | None, host: bool):
    setting = ExcludeSetting(
        host=where if host else None, supervisor=None if host else where, topology=topology, component=component
    )
    assert "/" not in setting.key
    assert exclusion_of_key(setting.key) == setting


@given(names, names, st.none() | st.integers(0, 10**6))
def test_name_of_a_pin_tells_the_topology(topology: str, component: str, task: int | None):
    setting = PinSetting(topology=topology, component=component, task=task, supervisor="s")
    assert "/" not in setting.key
    assert topology_of_key(setting.key) == topology


@pytest.mark.parametrize("key", ["", "host:", "rack:x,,", "host:a", "host:a,,,"])
def test_other_names_are_no_exclusions(key: str) -> None:
    with pytest.raises(UsageError, match="is not the name of an exclusion"):
        exclusion_of_key(key)
