"""A receiver, and webhooks that send to one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from doubles.receiver import Make, Receiver
from stormpilot.config import NotifySection
from stormpilot.notify import webhook
from stormpilot.notify.webhook import Webhook


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook that is stopped sends what waits, however slow the machine is."""
    monkeypatch.setattr(webhook, "PARTING_S", 300.0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def make() -> Iterator[Make]:
    started: list[Webhook] = []

    def make_one(url: str, **fields: Any) -> Webhook:
        section = NotifySection(**{"url": url, "timeout_s": 20.0, "backoff_s": 0.01, "retries": 3, **fields})
        started.append(Webhook(section, "n1:7"))
        started[-1].start()
        return started[-1]

    yield make_one
    for one in started:
        one.stop()
        one._thread.join(300)  # what it still says is no line of the next test
