"""State of this process for the API: whether it leads, whether its cycles go on, and the model of the last one.

Written by the controller's thread, read by those that serve. A field is replaced as a whole, so that nobody waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stormpilot.decide.report import CycleReport
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.moves import MoveState
from stormpilot.model.values import Model
from stormpilot.observe.observer import Observation

Part = Literal["starting", "standby", "leading", "stopping"]


@dataclass(frozen=True)
class CompletedCycle:
    """One cycle, when it is over; `moves` is what became of the last move of each topology."""

    report: CycleReport
    observation: Observation
    state: ControllerState | None
    took_s: float
    moves: Mapping[str, MoveState] = field(init=False)

    def __post_init__(self) -> None:
        # what the report refers to goes on to change in the cycles to come
        object.__setattr__(self, "moves", dict(self.report.followed))

    @property
    def model(self) -> Model | None:
        """The model of the last cycle, with the rates measured."""
        return None if self.observation.belief is None else self.observation.belief.model


@dataclass
class ProcessStatus:
    """`part` is what this process plays; `leader` who leads, where that is another one; `epoch` ours while we lead.

    By `clock_s`: `became_s` is when `part` began, `beat_s` when the controller's thread was last seen to go on.
    """

    name: str
    zookeeper_connected: Callable[[], bool]
    sessions_lost: Callable[[], int]
    clock_s: Callable[[], float] = time.monotonic
    part: Part = "starting"
    leader: str | None = None
    epoch: int = 0
    cycles: int = 0
    failed_cycles: int = 0
    last: CompletedCycle | None = None
    cycle_s: float | None = None
    became_s: float = field(init=False)
    beat_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.became_s = self.beat_s = self.clock_s()

    def beat(self) -> None:
        """The controller's thread goes on."""
        self.beat_s = self.clock_s()

    def become(self, part: Part, *, leader: str | None = None, epoch: int = 0) -> None:
        """Another part begins; what was seen in the one before is no longer ours to tell."""
        self.last, self.cycle_s = None, None
        self.leader, self.epoch = leader, epoch
        self.became_s = self.clock_s()
        self.part = part
        self.beat()

    def cycle_done(self, looked: CompletedCycle) -> None:
        """A cycle is over."""
        self.last = looked
        self.cycles += 1
        self.cycle_s = self.clock_s()
        self.beat()

    def cycle_failed(self) -> None:
        """A cycle ended with an error."""
        self.failed_cycles += 1
        self.beat()
