"""Reports of the daemon's cycles to the outside: the HTTP API, metrics, and the webhook.

The daemon calls; nothing here waits, and nothing that goes wrong here comes back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import structlog

from stormpilot import clock
from stormpilot.api.board import CompletedCycle, ProcessStatus
from stormpilot.config import Config, EventKind, NotifySection, zookeeper_login
from stormpilot.config.reload import Reload
from stormpilot.decide.report import CycleReport
from stormpilot.messages.controller_state import ControllerState
from stormpilot.notify.events import Event, EventDetector
from stormpilot.observe.observer import Observation
from stormpilot.zookeeper.client import ZooKeeper

if TYPE_CHECKING:
    from stormpilot.api.metrics import Metrics
    from stormpilot.api.server import Server
    from stormpilot.api.source import Source
    from stormpilot.notify.webhook import Webhook

log = structlog.get_logger(__name__)
P = ParamSpec("P")


def _guarded(report: Callable[Concatenate[Service, P], None]) -> Callable[Concatenate[Service, P], None]:
    """A method whose failure is logged once and never reaches the daemon."""

    @functools.wraps(report)
    def guarded(self: Service, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            report(self, *args, **kwargs)
        except Exception:
            if report.__name__ not in self.failing:
                log.exception("report failed; cycles go on", what=report.__name__)
            self.failing.add(report.__name__)
        else:
            self.failing.discard(report.__name__)

    return guarded


class Service:
    """The outside of one controller process, from `start` to `stop`.

    Parameters
    ----------
    connected, sessions_lost
        Of the controller's own ZooKeeper session.
    reload
        Reloads the configuration, or None where that cannot be done.
    """

    def __init__(
        self,
        config: Config,
        name: str,
        *,
        connected: Callable[[], bool],
        sessions_lost: Callable[[], int],
        reload: Reload | None = None,
    ):
        self._config = config
        self.board = ProcessStatus(name, connected, sessions_lost)
        self.failing: set[str] = set()
        self._watch = EventDetector()
        self._webhook: Webhook | None = None
        self._metrics: Metrics | None = None
        self._source: Source | None = None
        self._server: Server | None = None
        self._zookeeper: ZooKeeper | None = None
        self._reload = reload

    @property
    def address(self) -> tuple[str, int] | None:
        """Where the API is served now."""
        return None if self._server is None else self._server.address

    def start(self) -> None:
        """Begin to serve and to notify, as far as the configuration says so; neither needs the other."""
        self._notify(self._config.notify)
        if self._config.api.enabled:
            self._serve()

    @_guarded
    def _serve(self) -> None:
        from stormpilot.api.app import create_app
        from stormpilot.api.health import fresh_for_s
        from stormpilot.api.metrics import Metrics
        from stormpilot.api.server import Server
        from stormpilot.api.source import Source

        section = self._config.zookeeper
        self._zookeeper = ZooKeeper(
            section.hosts, login=zookeeper_login(section), session_timeout_s=section.session_timeout_s
        )
        metrics = Metrics(
            self.board,
            limit_s=lambda: fresh_for_s(self._config),
            notifications=lambda: self._webhook.counts() if self._webhook else ({}, 0),
        )
        source = Source(self._config, self.board, self._zookeeper, self._reload)
        self._metrics, self._source = metrics, source
        self._server = Server(self._config.api, lambda: create_app(source, metrics))
        self._zookeeper.start()
        self._server.start()

    @_guarded
    def stop(self) -> None:
        """End within seconds."""
        self.board.part = "stopping"
        self._tell("controller_down", f"controller {self.board.name} stops; running workers are unaffected")
        for part in (self._server, self._webhook, self._zookeeper):
            if part is not None:
                part.stop()

    # --- what the daemon tells ----------------------------------------------------------------------------------------

    @_guarded
    def standing_by(self, leader: str) -> None:
        """Another one leads."""
        self.board.become("standby", leader=leader)

    @_guarded
    def leading(self, epoch: int, before: ControllerState | None = None) -> None:
        """We lead; `before` is the state that the leader before left."""
        self._watch = EventDetector(before)
        if self._metrics is not None:
            self._metrics.led_anew()
        led_before = self.board.leader
        self.board.become("leading", epoch=epoch)
        after = f" after {led_before}" if led_before else ""
        self._tell("controller_up", f"controller {self.board.name} leads{after}, epoch {epoch}")

    @_guarded
    def stepped_down(self) -> None:
        """We do not lead any more."""
        if self.board.part == "leading":
            self.board.become("starting")

    def beat(self) -> None:
        """The controller's thread goes on."""
        self.board.beat()

    @_guarded
    def cycle_done(
        self,
        report: CycleReport,
        observation: Observation,
        state: ControllerState | None,
        took_ms: float,
    ) -> None:
        """A cycle is over; `state` is what was written of it."""
        looked = CompletedCycle(report, observation, state, took_ms / 1000)
        self.board.cycle_done(looked)
        if self._metrics is not None:
            self._metrics.cycle_done(looked)
        if self._webhook is not None:
            for event in self._watch.observe(report):
                self._webhook.offer(event)

    @_guarded
    def step_done(self, report: CycleReport) -> None:
        """Something was moved between two cycles."""
        if self._metrics is not None:
            self._metrics.published_plans(report)
        if self._webhook is not None:
            for event in self._watch.published(report):
                self._webhook.offer(event)

    @_guarded
    def cycle_failed(self) -> None:
        """A cycle ended with an error, which is in the log."""
        self.board.cycle_failed()

    @_guarded
    def reconfigured(self, config: Config) -> None:
        """A new configuration is in force; where the API listens stays as it is until a restart."""
        if config.api != self._config.api:
            log.warning("the api section changed: restart the controller to have it served so")
        self._config = config
        if self._source is not None:
            self._source.config = config
        self._notify(config.notify)

    @_guarded
    def _notify(self, section: NotifySection) -> None:
        """Have a webhook as this section, and the file of headers that it names, say now."""
        if section.url is None and self._webhook is None:
            return
        from stormpilot.notify.webhook import Webhook

        fresh = None if section.url is None else Webhook(section, self.board.name)
        if fresh is not None and self._webhook is not None and fresh.sends_as(self._webhook):
            return
        old, self._webhook = self._webhook, fresh
        if fresh is not None:
            if old is not None:
                fresh.take_over(old)
            fresh.start()
        if old is not None:
            old.stop(wait=False)

    def _tell(self, kind: EventKind, text: str) -> None:
        if self._webhook is not None:
            self._webhook.offer(Event(event=kind, status="info", at_ms=clock.now_ms(), text=text))
