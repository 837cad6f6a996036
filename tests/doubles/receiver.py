"""A real HTTP server on loopback that gets what the webhook sends, refuses, hangs, and recovers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from stormpilot.notify.events import Event
from stormpilot.notify.webhook import Webhook

Make = Callable[..., Webhook]


class Receiver:
    """Answers with what `answers` says next (a status, or "hang"), then with 204; `got` is what it was sent."""

    def __init__(self) -> None:
        self.answers: list[int | str] = []
        self.got: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.location = "/elsewhere"
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(json.loads(body))
                receiver.headers.append(dict(self.headers))
                answer = receiver.answers.pop(0) if receiver.answers else 204
                if answer == "hang":
                    receiver.released.wait(300)
                    return
                self.send_response(int(answer))
                self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)

    @property
    def texts(self) -> list[str]:
        return [g["text"] for g in self.got]


def event(text: str = "flights: moved", kind: Any = "published") -> Event:
    return Event(event=kind, status="info", at_ms=1, text=text)
