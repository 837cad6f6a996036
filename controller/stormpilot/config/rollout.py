"""The section about moves that stop nothing: how rolling moves are carried out."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from stormpilot.config.section import Seconds, SecondsOrZero, Section

MoveStrategyName = Literal["auto", "restart", "rolling"]


class RolloutSection(Section, frozen=True, kw_only=True):
    """Rolling moves: route around a worker, let it drain, move it, route back (docs/concepts/rolling-moves.md)."""

    peer_limit_ratio: Annotated[
        float,
        Meta(
            gt=0, le=1, description="of one core: what an executor may use while it does the work of one that is moved"
        ),
    ] = 0.8
    max_surge_workers: Annotated[
        int, Meta(ge=0, le=1000, description="workers more than the topology asks for that may run between two steps")
    ] = 2
    drain_timeout_s: Annotated[
        float, Meta(ge=2, le=600, description="a task that gets no more tuples may still have some for so long")
    ] = 15.0
    task_refresh_s: Annotated[
        SecondsOrZero,
        Meta(
            description="task.refresh.poll.secs of the cluster: until workers know where a task runs now, 10 s more "
            "where Storm does not tell their supervisor"
        ),
    ] = 10.0
    connect_s: Annotated[
        SecondsOrZero,
        Meta(
            description="from when moved tasks report and all workers know where they run, until they get tuples: "
            "storm.messaging.netty.max_wait_ms of the cluster, after which workers try again to connect, and as much "
            "again; Storm drops what has no connection"
        ),
    ] = 2.0
    start_timeout_s: Annotated[
        Seconds, Meta(description="a step whose tasks do not report within this is given up, and all are routed to")
    ] = 180.0
    step_interval_s: Annotated[SecondsOrZero, Meta(description="from one step to the next")] = 3.0
    capacity_timeout_s: Annotated[
        Seconds, Meta(description="a step that finds no spare capacity for so long is the end of the rollout")
    ] = 900.0
