"""The routes put together: API, pages, metrics, health; and what every answer carries."""

from __future__ import annotations

import base64
import hashlib
import re
from http import HTTPMethod
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from litestar import Litestar, Request, Response, get, route
from litestar.datastructures import State
from litestar.di import Provide
from litestar.enums import HttpMethod
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import Message, Scope

import stormpilot
from stormpilot.api import health, problems, reads, verbs, whatif
from stormpilot.api.guard import Doorkeeper
from stormpilot.api.health import LeaderSeen
from stormpilot.api.metrics import CONTENT_TYPE, Metrics
from stormpilot.api.requests import HostileRequest
from stormpilot.api.source import Source
from stormpilot.api.tokens import TokenFile

PAGES = Path(__file__).parent / "pages"
BODY_BYTES = 64 * 1024
READY_S = 3.0
"""Limit for reading the leader's state for `/readyz`; who asks waits 4 s and more."""
PROBES = (HttpMethod.GET, HttpMethod.HEAD, HttpMethod.OPTIONS)
"""Load balancers probe with any of them: HAProxy's `httpchk` with OPTIONS where nobody names one."""
METHODS = frozenset(m.value for m in HTTPMethod)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
NO_CONTENT = "default-src 'none'; frame-ancestors 'none'"


class StrictJson(JsonRenderPlugin):
    """The description of the routes as JSON."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """With what bodies do not take."""
        return super().render(request, strict(openapi_schema))


class StrictYaml(YamlRenderPlugin):
    """The description of the routes as YAML."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """With what bodies do not take."""
        return super().render(request, strict(openapi_schema))


def strict(description: dict[str, Any]) -> dict[str, Any]:
    """The same description with bodies as the JSON reader takes them: their ranges, and no unknown fields.

    The framework leaves out the ranges of optional fields, and that unknown ones are refused.
    """
    bodies = [*verbs.bodies(), whatif.WhatIfBody]
    _, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    schemas = description["components"]["schemas"]
    schemas.update(components)
    for path in description["paths"].values():
        for operation in path.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                name = schemas[content["schema"]["$ref"].rpartition("/")[2]]["title"]
                content["schema"]["$ref"] = f"#/components/schemas/{name}"
    return description


def create_app(source: Source, metrics: Metrics) -> Litestar:
    """The application; `UsageError` when the tokens file is wrong."""
    section = source.config.api
    tokens = None if section.tokens_file is None else TokenFile(Path(section.tokens_file))

    async def before_send(message: Message, scope: Scope) -> None:
        if message["type"] == "http.response.start":
            path = scope.get("path_template") or "(none)"
            method = str(scope.get("method"))
            metrics.requests.labels(method if method in METHODS else "other", path, str(message["status"])).inc()
            headers = list(message.get("headers", []))
            given = {bytes(name).lower() for name, _ in headers}
            more = {**HEADERS, "content-security-policy": NO_CONTENT}
            message["headers"] = [
                *headers,
                *((k.encode(), v.encode()) for k, v in more.items() if k.encode() not in given),
            ]

    @get("/metrics", sync_to_thread=True, include_in_schema=False, guards=list(reads.READS))
    def scrape() -> Response[bytes]:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @route("/healthz", http_method=PROBES, sync_to_thread=False, include_in_schema=False)
    def healthz() -> Response[health.Health]:
        return _health(health.alive(source.board, source.config))

    threads = anyio.CapacityLimiter(2)

    @route("/readyz", http_method=PROBES, include_in_schema=False)
    async def readyz() -> Response[health.Health]:
        leaders = LeaderSeen(why_not=f"whose state could not be read within {READY_S:.0f} s")
        if source.board.part == "standby":  # its threads are its own: those of other requests may all be taken
            with anyio.move_on_after(READY_S):
                leaders = await anyio.to_thread.run_sync(source.leader, limiter=threads, abandon_on_cancel=True)
        return _health(health.ready(source.board, source.config, leaders))

    app = Litestar(
        route_handlers=[
            _page("/", "index.html"),
            _page("/docs", "docs.html"),
            scrape,
            healthz,
            readyz,
            reads.router(),
            verbs.router(),
            whatif.router(),
        ],
        dependencies={"source": Provide(lambda: source, sync_to_thread=False)},
        state=State({"doorkeeper": Doorkeeper(section, tokens)}),
        exception_handlers={Exception: problems.answer},
        before_send=[before_send],
        request_class=HostileRequest,
        request_max_body_size=BODY_BYTES,
        openapi_config=OpenAPIConfig(
            title="stormpilot",
            version=stormpilot.__version__,
            description="Everything that the command line reads and does.",
            path="/schema",
            use_handler_docstrings=True,
            render_plugins=[StrictJson(), StrictYaml()],
            components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
        ),
        logging_config=None,
        debug=False,
    )
    return app


def _page(path: str, name: str) -> Any:
    """A page of ours; `data-login` tells it to ask for a token before it asks for anything else.

    Litestar's own pages of the routes load scripts from elsewhere, which closed networks refuse.
    """
    html = (PAGES / name).read_bytes()
    with_login = html.replace(b'<html lang="en">', b'<html lang="en" data-login="required">')
    policy = content_policy(html.decode())

    @get(path, sync_to_thread=False, include_in_schema=False)
    def page(request: Request[Any, Any, Any]) -> Response[bytes]:
        shown = with_login if request.app.state.doorkeeper.wants_token(request) else html
        return Response(shown, media_type="text/html", headers={"content-security-policy": policy})

    return page


def content_policy(html: str) -> str:
    """Content security policy of a page of ours: its own script and style, by their hashes, and our routes."""

    def hashes(tag: str) -> str:
        bodies = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(b.encode()).digest()).decode()}'" for b in bodies)

    return (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _health(found: health.Health) -> Response[health.Health]:
    return Response(found, status_code=200 if found.ok else 503)
