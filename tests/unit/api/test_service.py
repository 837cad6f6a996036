"""What the daemon tells: nothing that goes wrong outside comes back to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import NOW_MS, plan_message
from doubles.shim import until
from stormpilot.api import verbs
from stormpilot.api.service import Service
from stormpilot.config import ApiSection, Config, NotifySection
from stormpilot.config.reload import Reloaded
from stormpilot.config.sections import LogSection
from stormpilot.decide.decision import Decision
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.errors import UsageError
from stormpilot.messages.core import HistoryEntry
from stormpilot.notify.events import Event
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.operate import Operator, audit
from stormpilot.zookeeper.paths import Paths

Make = Callable[..., Service]
OBSERVATION = Observation(NOW_MS, StoreSnapshot(), None, {}, {})
OFF = ApiSection(enabled=False)


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def make() -> Iterator[Make]:
    started: list[Service] = []

    def make_one(**sections: Any) -> Service:
        config = Config(**{"api": OFF, **sections})
        started.append(Service(config, "n1:7", connected=lambda: True, sessions_lost=lambda: 0))
        started[-1].start()
        return started[-1]

    yield make_one
    for service in started:
        service.stop()


class Outbox:
    """A webhook that keeps what it is offered."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def offer(self, event: Event) -> None:
        self.events.append(event)

    def stop(self, *, wait: bool = True) -> None:
        pass


def test_fault_outside_does_not_reach_the_cycle_and_is_said_once(make: Make, lines: list[Any]) -> None:
    service = make()

    class Broken:
        def cycle_done(self, _: object) -> None:
            raise RuntimeError("a fault of ours")

        def led_anew(self) -> None:
            pass

    service._metrics = Broken()  # type: ignore[assignment]
    service.leading(1)
    for _ in range(3):
        service.cycle_done(CycleReport(NOW_MS), OBSERVATION, None, 5.0)
    assert [x["event"] for x in lines] == ["report failed; cycles go on"]
    assert service.board.cycles == 3
    service._metrics = None
    service.cycle_done(CycleReport(NOW_MS), OBSERVATION, None, 5.0)
    assert not service.failing


def test_start_that_cannot_work_leaves_the_controller_alone(make: Make, lines: list[Any]) -> None:
    service = make(notify=NotifySection(url="http://127.0.0.1:1/x", headers_file="/nowhere"))
    assert [x["event"] for x in lines] == ["report failed; cycles go on"]
    service.leading(1)
    service.cycle_done(CycleReport(NOW_MS), OBSERVATION, None, 5.0)
    assert service.board.part == "leading"


def test_file_of_headers_that_is_missing_keeps_the_api_from_nobody(make: Make) -> None:
    notify = NotifySection(url="http://127.0.0.1:1/x", headers_file="/nowhere")
    service = make(api=ApiSection(port=0), notify=notify)
    until(lambda: service.address, "the API to be served")


def test_reload_takes_headers_that_changed_and_keeps_a_webhook_that_sends_as_before(
    make: Make, tmp_path: Path, lines: list[Any]
) -> None:
    file = tmp_path / "headers"
    section = NotifySection(url="http://127.0.0.1:1/x", headers_file=str(file))
    service = make(notify=section)
    assert service._webhook is None, "its file is missing"
    file.write_text("X: one\n")
    service.reconfigured(Config(api=OFF, notify=section))
    first = service._webhook
    assert first is not None
    service.reconfigured(Config(api=OFF, notify=section, log=LogSection(level="debug")))
    assert service._webhook is first
    file.write_text("X: two\n")
    service.reconfigured(Config(api=OFF, notify=section))
    assert service._webhook is not first
    assert service._webhook is not None
    assert service._webhook._headers == {"X": "two"}
    file.unlink()
    service.reconfigured(Config(api=OFF, notify=section))
    assert service._webhook._headers == {"X": "two"}, "what was read stays"


def test_leader_says_that_it_is_up_and_down(make: Make) -> None:
    service, outbox = make(), Outbox()
    service._webhook = outbox  # type: ignore[assignment]
    service.standing_by("n2:8")
    assert outbox.events == []
    service.leading(4)
    service.stop()
    assert [(e.event, e.text) for e in outbox.events] == [
        ("controller_up", "controller n1:7 leads after n2:8, epoch 4"),
        ("controller_down", "controller n1:7 stops; running workers are unaffected"),
    ]


def test_move_between_two_cycles_is_told(make: Make) -> None:
    service, outbox = make(), Outbox()
    service._webhook = outbox  # type: ignore[assignment]
    entry = HistoryEntry(plan=plan_message(plan_id="p-1", topology_id="t-1"), reason="OTD", moved_executors=1)
    decision = Decision("t-1", "publish", Reason.OTD, "one")
    report = CycleReport(NOW_MS, names={"t-1": "t"}, decisions={"t-1": decision}, plans={"t-1": entry})
    service.step_done(report)
    assert [(e.event, e.reason, e.plan_id) for e in outbox.events] == [("published", "OTD", "p-1")]


def test_who_steps_down_is_not_told_as_leading(make: Make) -> None:
    service = make()
    service.leading(4)
    service.cycle_done(CycleReport(NOW_MS), OBSERVATION, None, 5.0)
    service.stepped_down()
    assert (service.board.part, service.board.last, service.board.epoch) == ("starting", None, 0)
    service.standing_by("n2:8")
    service.stepped_down()  # an election that was lost: it still stands by
    assert (service.board.part, service.board.leader) == ("standby", "n2:8")


def test_new_configuration_changes_the_webhook_at_once_and_the_api_not(make: Make, lines: list[Any]) -> None:
    service = make()
    service.reconfigured(
        Config(api=ApiSection(enabled=False, port=1), notify=NotifySection(url="http://127.0.0.1:1/x"))
    )
    assert service._webhook is not None
    assert [x["event"] for x in lines] == ["the api section changed: restart the controller to have it served so"]
    service.reconfigured(Config(api=ApiSection(enabled=False, port=1)))
    assert service._webhook is None


def test_controller_without_api_imports_no_web_server() -> None:
    """`stormpilot run --once`, and who turns the API off, pay nothing for it."""
    code = (
        "import sys, stormpilot.control.daemon\n"
        "print([m for m in ('litestar', 'uvicorn', 'prometheus_client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"


def test_a_dry_run_of_a_reload_says_what_would_change_and_is_in_no_audit() -> None:
    asked: list[bool] = []

    def reload(dry_run: bool) -> Reloaded:
        asked.append(dry_run)
        return Reloaded(["decide.mode"], ["api.port"])

    source = SimpleNamespace(reload=reload)  # without an operator, who would write
    answer = verbs.config_reload.fn(request=None, source=source, data=verbs.Body(dry_run=True))
    assert asked == [True]
    assert answer.text == "controller.yaml is right, and would change: decide.mode; after a restart: api.port"
    assert (answer.used, answer.need_restart) == (["decide.mode"], ["api.port"])


def test_a_reload_is_in_the_audit_with_the_name_of_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryZooKeeper(lambda: NOW_MS)
    source = SimpleNamespace(
        reload=lambda _: Reloaded(["decide.mode"], ["api.port"]),
        operator=lambda who, why: Operator(store, Paths(), who, why, now_ms=NOW_MS),
    )
    monkeypatch.setattr(verbs, "caller_of", lambda _: SimpleNamespace(name="ann"))
    answer = verbs.config_reload.fn(request=None, source=source, data=verbs.Body(why="new limit"))
    (record,) = audit(Operator(store, Paths(), "ann", now_ms=NOW_MS))
    assert (record.who, record.why, record.verb) == ("ann", "new limit", "config reload")
    assert (answer.used, answer.need_restart) == (["decide.mode"], ["api.port"])
    assert answer.text == "controller.yaml is read anew, changed: decide.mode; after a restart: api.port"


def test_a_reload_of_a_wrong_file_is_an_error_and_in_no_audit() -> None:
    def wrong(_: bool) -> Reloaded:
        raise UsageError("controller.yaml:3: decide.mode: 'atc'")

    source = SimpleNamespace(reload=wrong)  # without an operator, who would write
    with pytest.raises(UsageError, match="yaml:3: decide"):
        verbs.config_reload.fn(request=None, source=source, data=verbs.Body())
