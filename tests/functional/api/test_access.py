"""Who may do what over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stormpilot.api.app import create_app
from stormpilot.config import ApiSection
from stormpilot.errors import UsageError

from .conftest import Api

Make = Callable[..., Api]
STATUS = "/api/v1/status"
PAUSE = "/api/v1/pause"
OPEN = ["/", "/docs", "/healthz", "/readyz", "/schema/openapi.json"]
READS = [STATUS, "/api/v1/topologies", "/api/v1/config", "/api/v1/model", "/api/v1/audit", "/metrics"]


def test_with_tokens_nobody_reads_without_one(api: Api) -> None:
    with api.client() as client:
        for path in READS:
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["code"] == "UNAUTHENTICATED"
        for path in OPEN:
            assert client.get(path).status_code == 200, path


@pytest.mark.parametrize("given", ["Bearer nonsense", "Basic YTpi", "Bearer", "bearer  ", "nonsense"])
def test_wrong_token_is_refused(api: Api, given: str) -> None:
    with api.client() as client:
        assert client.get(STATUS, headers={"Authorization": given}).status_code == 401


def test_roles(api: Api) -> None:
    """viewer reads; operator changes settings; admin does what concerns everything."""
    everything = {"where": "a", "dryRun": True}
    for role, reads, pauses, excludes, reloads in (
        ("viewer", 200, 403, 403, 403),
        ("operator", 200, 200, 403, 403),
        ("admin", 200, 200, 200, 202),
    ):
        with api.client(role) as client:
            assert client.get(STATUS).status_code == reads
            assert client.post(PAUSE, json={"dryRun": True}).status_code == pauses
            assert client.post("/api/v1/exclude", json=everything).status_code == excludes
            assert client.post("/api/v1/config/reload", json={}).status_code == reloads
    assert api.reloads == 1
    with api.client("viewer") as client:
        assert client.post(PAUSE, json={}).json()["detail"] == "ann-viewer is viewer; this needs the role operator"


def test_operator_may_exclude_a_topology(api: Api) -> None:
    with api.client("operator") as client:
        answer = client.post("/api/v1/exclude", json={"where": "a", "topology": "flights", "dryRun": True})
        assert answer.status_code == 200


def test_every_route_that_changes_something_refuses_a_viewer(api: Api) -> None:
    """A new route cannot be forgotten: they are taken from the schema."""
    with api.client("admin") as admin:
        paths = admin.get("/schema/openapi.json").json()["paths"]
    posts = [p for p, methods in paths.items() if "post" in methods]
    gets = [p for p, methods in paths.items() if "get" in methods]
    assert len(posts) == 21
    with api.client("viewer") as viewer:
        assert {viewer.post(p, json={}).status_code for p in posts} == {403}
    with api.client() as nobody:
        assert {nobody.get(p.replace("{", "").replace("}", "")).status_code for p in gets} == {401}
        assert {nobody.post(p, json={}).status_code for p in posts} == {401}


def test_removed_token_is_refused_at_once(api: Api, tmp_path: Path) -> None:
    with api.client("admin") as client:
        assert client.get(STATUS).status_code == 200
        (tmp_path / "tokens").write_text("")
        assert client.get(STATUS).status_code == 401


def test_without_tokens_this_machine_reads_and_changes_nothing(make: Make) -> None:
    api = make(tokens_file=None)
    api.run()
    with api.client() as client:
        assert client.get(STATUS).status_code == 200
        refused = client.post(PAUSE, json={})
        assert refused.status_code == 403
        assert refused.json()["detail"] == "anonymous is viewer; this needs the role operator"
        known = client.get(STATUS, headers={"Authorization": f"Bearer {api.tokens['admin'][0]}"})
        assert known.status_code == 401
        assert "api.tokens_file is not set" in known.json()["detail"]


def test_this_machine_may_change_things_where_that_is_allowed(make: Make) -> None:
    api = make(tokens_file=None, allow_loopback_mutations=True)
    api.run()
    with api.client(address="127.0.0.1") as client:
        assert client.post(PAUSE, json={"why": "test"}).status_code == 200
    setting = api.setting(api.paths.pause())
    assert setting is not None
    assert setting["by"] == "anonymous@127.0.0.1"
    with api.client(address="10.0.0.9") as client:
        assert client.post(PAUSE, json={}).status_code == 403


@pytest.mark.parametrize("section", [{}, {"allow_loopback_mutations": True}])
def test_page_elsewhere_whose_name_points_here_is_refused(make: Make, section: dict[str, bool]) -> None:
    """DNS rebinding: the browser sends the name of the page that it believes to talk to."""
    api = make(tokens_file=None, **section)
    api.run()
    with api.client(address="127.0.0.1") as client:
        for host in ("evil.example:8470", "evil.example", "127.0.0.1.evil.example", "", "[", "a]b", "[x]"):
            answer = client.get(STATUS, headers={"Host": host})
            assert (answer.status_code, answer.json()["code"]) == (403, "HOST"), host
        for host in ("localhost:8470", "127.0.0.1:8470", "[::1]:8470", "localhost"):
            assert client.get(STATUS, headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize("section", [{"tokens_file": None}, {}])
def test_page_elsewhere_changes_nothing_where_every_address_is_served_either(
    make: Make, section: dict[str, None]
) -> None:
    api = make(host="0.0.0.0", insecure=True, allow_loopback_mutations=True, **section)
    api.run()
    with api.client(address="127.0.0.1") as client:
        assert client.post(PAUSE, json={}, headers={"Host": "evil.example:8470"}).status_code in (401, 403)
        assert api.setting(api.paths.pause()) is None
        assert client.post(PAUSE, json={}, headers={"Host": "localhost:8470"}).status_code == 200
        reads = client.get(STATUS, headers={"Host": "nimbus-1:8470"})  # as Prometheus does on this machine
        assert reads.status_code == (200 if "tokens_file" in section else 401)


def test_form_of_a_page_elsewhere_is_refused(make: Make) -> None:
    """What a browser sends across sites without asking first: no kind of it is understood."""
    api = make(tokens_file=None, allow_loopback_mutations=True)
    api.run()
    with api.client(address="127.0.0.1") as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = client.post(PAUSE, content='{"why": ""}', headers={"Content-Type": kind})
            assert answer.status_code == 415, kind
        assert (
            client.options(PAUSE, headers={"Origin": "http://evil.example"})
            .headers.keys()
            .isdisjoint({"access-control-allow-origin"})
        )
    assert api.setting(api.paths.pause()) is None


def test_wrong_tokens_file_is_refused_at_the_start(make: Make, tmp_path: Path) -> None:
    api = make()
    (tmp_path / "tokens").write_text("ann root\n")
    with pytest.raises(UsageError, match="tokens:1"):
        create_app(api.source, api.metrics)


def test_address_for_all_needs_tokens_and_tls() -> None:
    with pytest.raises(ValueError, match="needs tokens_file and cert_file"):
        ApiSection(host="0.0.0.0")
