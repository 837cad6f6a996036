"""The class that `stormpilot_run` derives from a component of a user."""

from __future__ import annotations

from typing import Any

import pytest
from streamparse import BatchingBolt, Bolt, ReliableSpout, Spout, TicklessBatchingBolt

from stormpilot.instrument import LoadReporting, SpoutLoadReporting
from stormpilot.instrument.runner import instrumented


@pytest.mark.parametrize(
    ("base", "mixin"),
    [
        (Bolt, LoadReporting),
        (BatchingBolt, LoadReporting),
        (TicklessBatchingBolt, LoadReporting),
        (Spout, SpoutLoadReporting),
        (ReliableSpout, SpoutLoadReporting),
    ],
)
def test_every_kind_of_component_gets_its_mixin_first(base: Any, mixin: type) -> None:
    class Mine(base):
        """Mine."""

    derived = instrumented(Mine)
    assert derived.__mro__[1] is mixin
    assert issubclass(derived, Mine)
    assert (derived.__name__, derived.__qualname__, derived.__module__, derived.__doc__) == (
        Mine.__name__,
        Mine.__qualname__,
        Mine.__module__,
        Mine.__doc__,
    )


def test_a_class_that_has_the_mixin_is_not_given_it_twice() -> None:
    class ByHand(LoadReporting, Bolt):
        pass

    assert instrumented(ByHand) is ByHand


def test_a_class_that_is_no_component_runs_as_it_is() -> None:
    class Other:
        pass

    assert instrumented(Other) is Other


def test_a_metaclass_of_the_users_is_kept() -> None:
    class Meta(type):
        pass

    class Mine(Bolt, metaclass=Meta):
        pass

    assert type(instrumented(Mine)) is Meta


def test_a_class_that_cannot_be_derived_from_runs_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    class Final(Bolt):
        def __init_subclass__(cls, **kwargs: Any) -> None:
            raise LookupError("registered already")

    assert instrumented(Final) is Final
    assert "without load reporting" in capsys.readouterr().err
