"""Types of the verbs' parameters: range and meaning, from which HTTP bodies and the command line are made."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

MAX_LETTERS = 500
RunningTopology = Annotated[
    str, Meta(min_length=1, max_length=MAX_LETTERS, description="Name or id of a running topology.")
]
TopologyName = Annotated[
    str, Meta(min_length=1, max_length=MAX_LETTERS, description="Name of a topology, which need not run now.")
]
AnyTopology = Annotated[
    Annotated[str, Meta(min_length=1, max_length=MAX_LETTERS)] | None,
    Meta(description="Name of a topology. Without it: every topology."),
]
ComponentName = Annotated[str, Meta(min_length=1, max_length=MAX_LETTERS, description="Component of the topology.")]
AnyComponent = Annotated[
    Annotated[str, Meta(min_length=1, max_length=MAX_LETTERS)] | None,
    Meta(description="Component of the topology. Without it: all of its components."),
]
TaskId = Annotated[int, Meta(description="Id of a task of the component.")]
DrainTimeout = Annotated[
    float | None,
    Meta(description="Seconds after which the task counts as drained. Without it: rollout.drain_timeout_s."),
]
AnyTask = Annotated[int | None, Meta(description="Id of a task: only the executor that runs it.")]
HostName = Annotated[str, Meta(min_length=1, max_length=MAX_LETTERS, description="Host of one or more supervisors.")]
SupervisorName = Annotated[
    str,
    Meta(
        min_length=1, max_length=MAX_LETTERS, description="Id of a supervisor, or its host if it is the only one there."
    ),
]
HostOrSupervisor = Annotated[
    str, Meta(min_length=1, max_length=MAX_LETTERS, description="A host, or the id of a supervisor.")
]
ThresholdName = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_LETTERS, description="Name as in controller.yaml, e.g. decide.overload_s."),
]
ThresholdOf = Annotated[
    Annotated[str, Meta(min_length=1, max_length=MAX_LETTERS)] | None,
    Meta(description="Supervisor (its id, or its host if it is the only one there) of a threshold of nodes."),
]
ThresholdValue = Annotated[float, Meta(description="Value in the unit of the setting.")]
ModeWord = Annotated[
    Literal["off", "advise", "act", "default"],
    Meta(description="off, advise or act; default removes the setting."),
]
ProposedPlan = Annotated[
    Annotated[str, Meta(min_length=1, max_length=MAX_LETTERS)] | None,
    Meta(description="Id of the plan that was looked at: refused if another one is proposed now."),
]
StepsBack = Annotated[int, Meta(ge=1, le=1000, description="How many plans back: see `stormpilot plan history`.")]
EvenIfGone = Annotated[bool, Meta(description="Even if the host has no supervisor now.")]
