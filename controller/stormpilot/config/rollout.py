"""The section about rollouts: how a plan is carried out by rolling moves."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from stormpilot.config.section import ADVANCED, Seconds, SecondsOrZero, Section

MoveStrategyName = Literal["auto", "restart", "rolling"]


class RolloutSection(Section, frozen=True, kw_only=True):
    """Rollouts: route around a worker, let it drain, move it, route back."""

    peer_limit_ratio: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            extra=ADVANCED,
            description="part of one core that an executor may use while it does the work of one that is moved",
        ),
    ] = 0.8
    max_surge_workers: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="extra workers, beyond those that the topology asks for, that may run between two steps",
        ),
    ] = 2
    drain_timeout_s: Annotated[
        float,
        Meta(ge=2, le=600, description="longest wait until a task that gets no more tuples has processed those it has"),
    ] = 15.0
    task_refresh_s: Annotated[
        SecondsOrZero,
        Meta(
            description="task.refresh.poll.secs of the cluster: until workers know where a task runs now; 10 s more "
            "where Storm does not inform their supervisor"
        ),
    ] = 10.0
    connect_s: Annotated[
        SecondsOrZero,
        Meta(
            extra=ADVANCED,
            description="wait before moved tasks get tuples, once they report and all workers know where they run: "
            "twice storm.messaging.netty.max_wait_ms of the cluster, after which workers try again to connect; Storm "
            "drops what has no connection",
        ),
    ] = 2.0
    start_timeout_s: Annotated[
        Seconds,
        Meta(
            extra=ADVANCED,
            description="a step whose tasks do not report within this time is given up; all tasks get tuples again",
        ),
    ] = 180.0
    step_interval_s: Annotated[SecondsOrZero, Meta(extra=ADVANCED, description="wait between two steps")] = 3.0
    capacity_timeout_s: Annotated[
        Seconds, Meta(extra=ADVANCED, description="a rollout ends when a step finds no spare capacity for so long")
    ] = 900.0
