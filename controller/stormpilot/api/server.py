"""uvicorn on a thread of its own, with an event loop of its own."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from stormpilot.api.connections import Admission, GuardedProtocol, Listener
from stormpilot.config import ApiSection
from stormpilot.errors import StormpilotError, UsageError
from stormpilot.user_files import PEM_BYTES, read_bytes

log = structlog.get_logger(__name__)
RETRY_S = 10.0
"""Time between attempts to take an address that is in use: whoever holds it may be our predecessor, on its way out."""
GRACE_S = 2
SEND_BUFFER_BYTES = 64 * 1024
"""Of the system, per connection: it asks for more when a third of it is free, so that a large one looks unread for long
while its client reads slowly."""


class Server:
    """Serves `make_app()` until stopped. Whatever goes wrong is said once and tried again; nothing is raised."""

    def __init__(self, section: ApiSection, make_app: Callable[[], Any]):
        self._section = section
        self._make_app = make_app
        self._stopping = threading.Event()
        self._uvicorn: uvicorn.Server | None = None
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)
        self.address: tuple[str, int] | None = None

    def start(self) -> None:
        """Begin, without waiting."""
        self._thread.start()

    def stop(self) -> None:
        """End: requests under way have `GRACE_S`."""
        self._stopping.set()
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True
        if self._thread.is_alive():
            self._thread.join(GRACE_S + 1)
        if self._thread.is_alive() and self._uvicorn is not None:
            self._uvicorn.force_exit = True
            self._thread.join(1)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._serve()
            except (StormpilotError, OSError) as e:  # taken, not ours; a file that is missing or wrong
                self._say(str(e))
            except BaseException:  # uvicorn ends with SystemExit; the controller goes on without
                log.exception("the API failed")
            self.address = None
            self._stopping.wait(RETRY_S)

    def _serve(self) -> None:
        section = self._section
        check_certificate(section)
        with contextlib.ExitStack() as stack:
            listeners = [stack.enter_context(x) for x in _listening(section.host, section.port)]
            configuration = uvicorn.Config(
                Admission(self._make_app()),
                ssl_certfile=section.cert_file,
                ssl_keyfile=section.key_file,
                http=partial(GuardedProtocol, listeners=listeners),  # type: ignore[arg-type]
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # whoever is on this machine could claim to come from anywhere
                server_header=False,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=GRACE_S,
                h11_max_incomplete_event_size=32 * 1024,
            )
            configuration.load()
            self._uvicorn = uvicorn.Server(configuration)
            if self._stopping.is_set():
                return
            self.address = listeners[0].getsockname()[:2]
            self._said = ""
            scheme = "https" if section.cert_file else "http"
            log.info("serving the API", url=f"{scheme}://{_bracketed(self.address[0])}:{self.address[1]}/")
            self._uvicorn.run(sockets=[*listeners])

    def _say(self, why: str) -> None:
        if why != self._said:
            where = f"{_bracketed(self._section.host)}:{self._section.port}"
            log.warning("the API is not served, everything else goes on", address=where, why=why, retry_s=RETRY_S)
        self._said = why


def check_certificate(section: ApiSection) -> None:
    """Read the certificate and its key; `UsageError` names the setting that is wrong."""
    if section.cert_file is None or section.key_file is None:
        return
    for name, file in (("cert_file", section.cert_file), ("key_file", section.key_file)):
        try:
            read_bytes(Path(file), PEM_BYTES)
        except OSError as e:
            raise UsageError(f"{file} (api.{name}): cannot read it: {e.strerror}") from e
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            section.cert_file,
            section.key_file,
            password="",  # else OpenSSL asks for it
        )
    except OSError as e:
        why = getattr(e, "reason", None) or e
        raise UsageError(
            f"{section.cert_file} (api.cert_file) and {section.key_file} (api.key_file): no certificate (PEM) with its "
            f"key, without a password: {why}"
        ) from e


def _listening(host: str, port: int) -> list[Listener]:
    """Listening sockets at all addresses of a host that this machine has; `OSError` names the address."""
    found = dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    listeners: list[Listener] = []
    why: OSError | None = None
    for family, _, _, _, address in found:
        own_port = listeners[0].getsockname()[1] if listeners else port
        try:
            listeners.append(_listener(family, (address[0], own_port, *address[2:])))
        except OSError as e:
            why = e
            if e.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # as ::1 where there is no IPv6
                break
    else:
        why = None if listeners else why
    if why is not None:
        for listener in listeners:
            listener.close()
        raise why
    return listeners


def _listener(family: int, address: tuple[Any, ...]) -> Listener:
    listener = Listener(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind(address)
        listener.listen(128)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
