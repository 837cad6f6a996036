"""What a cluster may be asked to be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stormpilot.errors import UsageError
from stormpilot.local.spec import ClusterSpec


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("supervisors", 0),
        ("supervisors", 65),
        ("slots", 0),
        ("racks", 0),
        ("zookeepers", 2),
        ("nimbuses", 4),
        ("cpu_points", 0.0),
        ("cpu_points", float("nan")),
        ("memory_mb", -1.0),
        ("sites", ("east", "")),
        ("scheduler", "best"),
        ("name", "../elsewhere"),
        ("name", ".hidden"),
        ("name", ""),
    ],
)
def test_refuses_and_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"^{field}: expected"):
        ClusterSpec(**{field: value})


def test_survives_being_written_down() -> None:
    spec = ClusterSpec(name="a.b-c_1", sites=(), conf={"topology.workers": 2})
    assert msgspec.json.decode(msgspec.json.encode(spec), type=ClusterSpec) == spec
