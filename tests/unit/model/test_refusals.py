"""What is there twice in a large model is found as fast as it is read."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import topology
from stormpilot.errors import UsageError
from stormpilot.model.refusals import check_topologies


class Id(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Id.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_last_of_many_that_is_there_twice_takes_no_comparison_of_all_with_all() -> None:
    many = [topology(name=str(i)) for i in range(1_000)]
    ids = [Id(t.id) for t in [*many, many[-1]]]
    Id.compared = 0
    with pytest.raises(UsageError, match="topologies: id '999-1' is there twice"):
        check_topologies([msgspec.structs.replace(t, id=i) for t, i in zip([*many, many[-1]], ids, strict=True)])
    assert Id.compared < 10 * len(ids)
