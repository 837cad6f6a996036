"""The log of plan statuses: how long after publishing, with clocks that differ."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from doubles.models import NOW_MS, plan_message, status
from doubles.snapshots import topology
from stormpilot.control.outbox import Outbox
from stormpilot.control.status_log import StatusLog
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot


@pytest.mark.parametrize(
    ("age_s", "plan_id", "said"),
    [
        (12.0, "p-1", {"after_s": 12.0}),
        (-598.2, "p-1", {"after_s": 0.0, "nimbus_clock_behind_s": 598.2}),
        (-598.2, "p-0", {}),
    ],
)
def test_time_since_publishing_is_never_negative(age_s: float, plan_id: str, said: dict[str, float]) -> None:
    """The plan was made `age_s` before its status was written, by the clocks of two machines."""
    plan = PublishedPlan(plan_message(age_s), 0, NOW_MS)
    with capture_logs() as logs:
        StatusLog(Outbox()).observe(
            StoreSnapshot(
                topologies={"flights-1": topology()},
                plans={"flights-1": plan},
                statuses={"flights-1": status("applied", plan_id=plan_id)},
            )
        )
    (line,) = logs
    assert {k: v for k, v in line.items() if k in ("after_s", "nimbus_clock_behind_s")} == said
