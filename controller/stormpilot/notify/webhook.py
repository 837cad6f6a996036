"""Sends events to one URL: in order, each until it is taken or its retries are over, from a thread of its own."""

from __future__ import annotations

import re
import threading
import uuid
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path

import msgspec
import requests
import structlog

from stormpilot.config import NotifySection
from stormpilot.errors import UsageError, cause
from stormpilot.notify.cutter import Cutter
from stormpilot.notify.events import Event
from stormpilot.printable import printable
from stormpilot.user_files import read_text

log = structlog.get_logger(__name__)
QUEUE = 200
"""Events that wait; when more come, the oldest go."""
MAX_BACKOFF_S = 60.0
PARTING_S = 2.0
"""Time that a controller that stops gives to events that still wait."""


def read_headers(section: NotifySection) -> dict[str, str]:
    """The lines `Name: value` of the file that `notify.headers_file` names; `UsageError` says which line is wrong."""
    if section.headers_file is None:
        return {}
    where = f"{section.headers_file} (notify.headers_file)"
    try:
        lines = read_text(Path(section.headers_file)).splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{where}: cannot read it: {cause(e)}") from e
    headers = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name.strip()) or not value.strip():
            raise UsageError(f"{where}: line {number}: expected `Name: value`")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError as e:
            raise UsageError(f"{where}: line {number}: {name.strip()}: HTTP takes only Latin-1 characters") from e
        headers[name.strip()] = value.strip()
    return headers


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


class Webhook:
    """Takes events at any time, without waiting; `outcomes` counts what became of them.

    Sent again: what had no answer, an answer of 5xx, 408 or 429. Given up at once: any other refusal, redirects too
    (they would carry the secret headers elsewhere).
    """

    def __init__(self, section: NotifySection, controller: str):
        self._section = section
        self._controller = controller
        self._headers = read_headers(section)
        self._wanted = frozenset(section.events)
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._cut = threading.Event()
        self._failing = False
        self._cutter = Cutter()
        self.outcomes: Counter[str] = Counter(sent=0, failed=0, dropped=0)
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def sends_as(self, other: Webhook) -> bool:
        """Whether both have the same settings and headers."""
        return (self._section, self._headers) == (other._section, other._headers)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take_over(self, other: Webhook) -> None:
        """Send what waits in `other` as well, and count on from there; before both `start` and the end of `other`."""
        with other._changed:
            waiting, other._events = other._events, deque()
        self._events.extend(e for e in waiting if self._wants(e))
        self.outcomes = other.outcomes

    def _wants(self, event: Event) -> bool:
        return not self._wanted or event.event in self._wanted

    def offer(self, event: Event) -> None:
        """Send an event later, if it is wanted."""
        if not self._wants(event):
            return
        with self._changed:
            if len(self._events) >= QUEUE:
                self._events.popleft()
                self.outcomes["dropped"] += 1
            named = msgspec.structs.replace(
                event, id=f"n-{uuid.uuid4().hex[:12]}", controller=self._controller, text=printable(event.text)
            )
            self._events.append(named)
            self._changed.notify_all()

    def stop(self, *, wait: bool = True) -> None:
        """End: events that wait are sent once more each; with `wait`, those of `PARTING_S`."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if wait and self._thread.is_alive():
            self._thread.join(PARTING_S)
            self._cut.set()

    @property
    def waiting(self) -> int:
        """Events that are not delivered yet."""
        return len(self._events)

    def counts(self) -> tuple[Mapping[str, int], int]:
        """For the metrics: events by outcome, and how many wait."""
        return dict(self.outcomes), self.waiting

    def _run(self) -> None:
        with requests.Session() as session:
            self._cutter.mount(session)
            login = requests.utils.get_auth_from_url(self._section.url or "")
            session.auth = login if any(login) else _as_it_is  # what ~/.netrc has for the host is not for it
            while not self._cut.is_set():
                with self._changed:
                    self._changed.wait_for(lambda: self._events or self._stopping)
                    if not self._events:
                        return
                    event = self._events[0]
                self._deliver(session, event)
                with self._changed:
                    if self._events and self._events[0] is event:  # it may have been dropped meanwhile
                        self._events.popleft()

    def _deliver(self, session: requests.Session, event: Event) -> None:
        why = ""
        for attempt in range(self._section.retries + 1):
            if attempt:
                if self._stopping:
                    break
                pause_s = min(MAX_BACKOFF_S, self._section.backoff_s * 2 ** (attempt - 1))
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, pause_s)
                    if not self._events or self._events[0] is not event:
                        return  # dropped, or taken over
            why, again = self._post(session, event)
            if not why:
                self.outcomes["sent"] += 1
                if self._failing:
                    log.info("the webhook takes events again", waiting=self.waiting - 1)
                self._failing = False
                return
            if not again:
                break
        with self._changed:
            if not self._events or self._events[0] is not event:
                return
        self.outcomes["failed"] += 1
        if not self._failing:  # once, until it works again
            log.warning("an event was not delivered to the webhook", event_kind=event.event, why=why)
        self._failing = True

    def _post(self, session: requests.Session, event: Event) -> tuple[str, bool]:
        """Why it was not taken (empty: it was), and whether to try again; without the URL, which may be a secret."""
        most_s = 2 * self._section.timeout_s  # for the connection, and for the answer
        try:
            with (
                self._cutter.within(most_s),
                session.post(
                    self._section.url or "",
                    data=msgspec.json.encode(event),
                    headers={"Content-Type": "application/json", "User-Agent": "stormpilot", **self._headers},
                    timeout=self._section.timeout_s,
                    allow_redirects=False,
                    stream=True,
                ) as answer,
            ):
                status = answer.status_code
        except Exception as e:  # noqa: BLE001 (also what `requests` lets through, of an answer that it cannot parse)
            if self._cutter.was_cut:
                return f"no answer within {most_s:g} s", True
            again = isinstance(e, requests.RequestException) and not isinstance(e, requests.exceptions.InvalidURL)
            return type(e).__name__, again
        if 200 <= status < 300:
            return "", False
        return f"it answered {status}", status >= 500 or status in (408, 429)
