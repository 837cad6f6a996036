"""The webhook against a real HTTP server on loopback that refuses, hangs, and recovers."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from doubles.receiver import Make, Receiver, event
from doubles.shim import until
from stormpilot.config import NotifySection
from stormpilot.notify.events import Event
from stormpilot.notify.webhook import QUEUE, Webhook


def test_event_arrives_as_json_with_who_sent_it(receiver: Receiver, make: Make) -> None:
    make(receiver.url).offer(event())
    until(lambda: receiver.got, "the event")
    (got,) = receiver.got
    assert got.pop("id").startswith("n-")
    assert {k: v for k, v in got.items() if v is not None} == {
        "event": "published",
        "status": "info",
        "at_ms": 1,
        "controller": "n1:7",
        "text": "flights: moved",
        "schema": 1,
    }
    assert receiver.headers[0]["Content-Type"] == "application/json"


class Dripping:
    """Accepts connections (over TLS, where that is given), and sends the beginning of an answer a byte at a time for
    ever; `sent` counts the bytes by connection.
    """

    def __init__(self, tls: ssl.SSLContext | None = None):
        self.sent: list[int] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = f"localhost:{self.listener.getsockname()[1]}/hook"
        self.over = threading.Event()
        self._tls = tls
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        held = []
        self.listener.settimeout(0.05)
        while not self.over.is_set():
            with contextlib.suppress(OSError):
                held.append(self._accepted())
                self.sent.append(0)
            for i, s in enumerate(held):
                with contextlib.suppress(OSError):
                    s.sendall(b"H")
                    self.sent[i] += 1

    def _accepted(self) -> socket.socket:
        made = self.listener.accept()[0]
        return made if self._tls is None else self._tls.wrap_socket(made, server_side=True)

    def close(self) -> None:
        self.over.set()
        self._thread.join(10)
        self.listener.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_receiver_that_drips_does_not_hold_the_only_sender(
    make: Make, lines: list[Any], certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Each byte comes in time; the whole answer has a deadline all the same.

    It is over as soon as bytes have come: by the clock, on a busy machine, it might be over before.
    """
    deadlines_s: list[float] = []

    class Deadline(threading.Timer):
        def __init__(self, seconds: float, over: Callable[[], None]):
            super().__init__(seconds, over)
            deadlines_s.append(seconds)
            self._connections = len(deadlines_s)

        def run(self) -> None:
            until(lambda: self.finished.is_set() or dripping.sent[self._connections - 1 :][:1] > [2], "three bytes")
            if not self.finished.is_set():
                self.function()

    monkeypatch.setattr("stormpilot.notify.cutter.threading", SimpleNamespace(Timer=Deadline))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certificate[0])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    dripping = Dripping(tls if scheme == "https" else None)
    webhook = make(f"{scheme}://{dripping.at}", timeout_s=60.0, retries=0)
    webhook.offer(event("a"))
    webhook.offer(event("b"))
    until(lambda: webhook.outcomes["failed"] == 2, "both to be given up")
    assert "no answer within 120 s" in str(lines)
    assert deadlines_s == [120.0, 120.0]
    dripping.close()


def test_receiver_that_fails_and_hangs_gets_the_event_when_it_recovers(receiver: Receiver, make: Make) -> None:
    receiver.answers = [503, "hang", 429]
    webhook = make(receiver.url, timeout_s=1.0, retries=20)  # (on a busy machine a good answer may be late, too)
    webhook.offer(event("a"))
    webhook.offer(event("b"))
    until(lambda: webhook.outcomes["sent"] == 2, "both events to be taken")
    assert receiver.texts[:4] == ["a"] * 4
    assert receiver.texts == sorted(receiver.texts)
    assert len({g["id"] for g in receiver.got}) == 2  # a retry has the same, so that a receiver can tell
    assert webhook.counts() == ({"sent": 2, "failed": 0, "dropped": 0}, 0)


def test_offering_never_waits_for_a_receiver_that_hangs_and_the_oldest_events_go(
    receiver: Receiver, make: Make
) -> None:
    receiver.answers = ["hang"]
    webhook = make(receiver.url, timeout_s=30.0)
    webhook.offer(event("first"))
    until(lambda: receiver.got, "the first event to hang")
    for i in range(QUEUE + 49):  # on this thread, while the other one hangs
        webhook.offer(event(str(i)))
    assert webhook.waiting == QUEUE
    assert webhook.outcomes["dropped"] == 50
    assert receiver.texts == ["first"]
    receiver.released.set()
    until(lambda: webhook.waiting == 0, "what waits to be sent")
    assert receiver.texts == ["first", *(str(i) for i in range(49, QUEUE + 49))]


def test_retries_end_and_the_next_event_has_its_chance(receiver: Receiver, make: Make, lines: list[Any]) -> None:
    receiver.answers = [500] * 8
    webhook = make(receiver.url)
    for text in ("a", "b", "c"):
        webhook.offer(event(text))
    until(lambda: webhook.outcomes["sent"] == 1, "the third event to be taken")
    assert receiver.texts == ["a"] * 4 + ["b"] * 4 + ["c"]
    assert webhook.outcomes["failed"] == 2
    said = [(x["event"], x.get("why")) for x in lines]
    assert said == [
        ("an event was not delivered to the webhook", "it answered 500"),
        ("the webhook takes events again", None),
    ]  # once per outage, not per event


@pytest.mark.parametrize("status", [500, 503, 408, 429])
def test_an_answer_by_which_a_receiver_asks_for_patience_is_tried_again(
    receiver: Receiver, make: Make, status: int
) -> None:
    receiver.answers = [status]
    webhook = make(receiver.url)
    webhook.offer(event("a"))
    until(lambda: webhook.outcomes["sent"] == 1, "the event to be taken")
    assert receiver.texts == ["a", "a"]
    assert webhook.outcomes["failed"] == 0


def test_pauses_between_tries_double_up_to_a_minute() -> None:
    """Else an event would block those behind it for hours after an outage."""
    pauses_s: list[float | None] = []

    class Condition(threading.Condition):
        def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
            pauses_s.append(timeout)
            return predicate()

    webhook = Webhook(NotifySection(url="http://127.0.0.1:1/hook", backoff_s=2.0, retries=8), "n1:7")
    webhook._changed = Condition()
    webhook._post = lambda *_: ("it answered 503", True)  # type: ignore[method-assign]
    webhook.offer(event())
    webhook._deliver(requests.Session(), webhook._events[0])
    assert pauses_s == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert webhook.outcomes["failed"] == 1


@pytest.mark.parametrize("status", [400, 401, 404, 301, 307])
def test_refusal_is_not_tried_again_nor_followed_elsewhere(receiver: Receiver, make: Make, status: int) -> None:
    receiver.answers = [status]
    webhook = make(receiver.url)
    webhook.offer(event("a"))
    webhook.offer(event("b"))
    until(lambda: webhook.outcomes["sent"] == 1, "the second event")
    assert receiver.texts == ["a", "b"]
    assert webhook.outcomes["failed"] == 1


@pytest.mark.parametrize("location", ["http://[", "http://x/\xe9"])
def test_an_answer_that_cannot_be_parsed_does_not_end_the_sender(
    receiver: Receiver, make: Make, lines: list[Any], location: str
) -> None:
    receiver.answers, receiver.location = [302], location
    webhook = make(receiver.url)
    webhook.offer(event("a"))
    webhook.offer(event("b"))
    until(lambda: webhook.outcomes["sent"] == 1, "the second event to be taken")
    assert receiver.texts == ["a", "b"]
    assert webhook.outcomes["failed"] == 1
    assert "Error" in str(lines)


def test_dead_receiver_is_said_without_its_address(receiver: Receiver, make: Make, lines: list[Any]) -> None:
    url = receiver.url + "/secret"
    receiver.close()
    webhook = make(url)
    webhook.offer(event())
    until(lambda: webhook.outcomes["failed"] == 1, "it to be given up")
    assert lines
    assert "secret" not in str(lines)


def test_only_wanted_events_are_sent(receiver: Receiver, make: Make) -> None:
    webhook = make(receiver.url, events=["rejected"])
    webhook.offer(event("no", "published"))
    webhook.offer(event("yes", "rejected"))
    until(lambda: receiver.got, "the event")
    assert receiver.texts == ["yes"]


def test_what_waits_is_sent_at_the_end(receiver: Receiver, make: Make) -> None:
    """The last words of a controller that stops."""
    webhook = make(receiver.url)
    webhook.offer(event("down", "controller_down"))
    webhook.stop()
    assert receiver.texts == ["down"]


def test_what_waits_for_its_next_try_is_sent_once_more_at_the_end(receiver: Receiver, make: Make) -> None:
    receiver.answers = [503]
    webhook = make(receiver.url, backoff_s=600.0)
    for text in ("a", "b"):
        webhook.offer(event(text))
    until(lambda: receiver.got, "the first try")
    webhook.stop()
    webhook._thread.join(300)
    assert receiver.texts == ["a", "a", "b"]
    assert webhook.counts() == ({"sent": 2, "failed": 0, "dropped": 0}, 0)


def test_its_successor_sends_what_waits_and_counts_on(receiver: Receiver, make: Make) -> None:
    """The receiver was away, and the new address was to mend that: its events were lost."""
    receiver.answers = [410, 503]
    old = make(receiver.url, backoff_s=600.0)
    for text, kind in (("gone", "published"), ("a", "published"), ("b", "infeasible"), ("c", "published")):
        old.offer(event(text, kind))
    until(lambda: len(receiver.got) == 2, "the first tries")
    second = Receiver()
    try:
        new = Webhook(NotifySection(url=second.url, events=("published",)), "n1:7")
        new.take_over(old)
        new.start()
        old.stop(wait=False)
        new.stop()
        for webhook in (old, new):
            webhook._thread.join(300)
    finally:
        second.close()
    assert second.texts == ["a", "c"]
    assert [g["id"] for g in second.got][:1] == [receiver.got[1]["id"]], "it may have come"
    assert receiver.texts == ["gone", "a"]
    assert new.counts() == ({"sent": 2, "failed": 1, "dropped": 0}, 0)


def test_what_its_successor_took_over_is_not_told_to_have_failed(
    receiver: Receiver, make: Make, lines: list[Any]
) -> None:
    """The old receiver hung: the usual reason for another address."""
    receiver.answers = ["hang"]
    old = make(receiver.url, retries=0)
    old.offer(event("a"))
    until(lambda: receiver.got, "the event to hang")
    second = Receiver()
    try:
        new = Webhook(NotifySection(url=second.url), "n1:7")
        new.take_over(old)
        old.stop(wait=False)
        receiver.released.set()
        old._thread.join(300)
        new.start()
        new.stop()
    finally:
        second.close()
    assert second.texts == ["a"]
    assert new.outcomes["failed"] == 0
    assert lines == []


def test_stop_does_not_wait_for_a_receiver_that_hangs(receiver: Receiver, make: Make, monkeypatch: Any) -> None:
    monkeypatch.setattr("stormpilot.notify.webhook.PARTING_S", 0.1)
    receiver.answers = ["hang"] * 3
    webhook = make(receiver.url, timeout_s=30.0)
    webhook.offer(event("a"))
    webhook.offer(event("b"))
    until(lambda: receiver.got, "the first event to hang")
    webhook.stop()
    assert not receiver.released.is_set()  # it came back while the receiver still hung
    receiver.released.set()
    assert receiver.texts == ["a"]


def test_a_name_with_control_characters_makes_no_second_line_of_a_sentence(receiver: Receiver, make: Make) -> None:
    """Fields for programs have the name as it is."""
    name = "flights\nall is well\x1b[2J"
    make(receiver.url).offer(Event(event="published", status="info", at_ms=1, text=f"{name}: moved", topology=name))
    until(lambda: receiver.got, "the event")
    assert receiver.texts == [r"flights\nall is well\x1b[2J: moved"]
    assert receiver.got[0]["topology"] == name
