"""The pages that the API serves: they load nothing from elsewhere, and read fields that are there."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from doubles.snapshots import topology
from stormpilot.api import app
from stormpilot.messages.core import encode

from .conftest import Api

PAGES = Path(app.__file__).parent / "pages"
API = "/api/v1"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_nothing_from_elsewhere(api: Api, path: str) -> None:
    with api.client() as client:
        answer = client.get(path)
    assert answer.headers["content-type"].startswith("text/html")
    html = answer.text
    assert not re.findall(r"(?:src|href)=\"(?!/|data:)", html)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", html)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() in policy
    assert not re.findall(r"\son\w+=", html)  # the policy would refuse them
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", html)


def test_page_asks_for_a_token_before_it_asks_for_anything_else(api: Api, make: Any) -> None:
    """The page is told by the server: two requests that are answered 401 came first."""
    wanted = '<html lang="en" data-login="required">'
    with api.client() as client:
        assert wanted in client.get("/").text
    assert 'dataset.login === "required" && !sessionStorage' in (PAGES / "index.html").read_text()
    for section in ({"tokens_file": None}, {"allow_loopback_mutations": True}):
        with make(**section).client(address="127.0.0.1") as client:
            assert wanted not in client.get("/").text


def test_page_with_a_login_links_no_metrics_as_a_link_sends_no_token(api: Api) -> None:
    with api.client() as client:
        assert client.get("/metrics").status_code == 401
        assert 'html[data-login] a[href="/metrics"] { display: none; }' in client.get("/").text


def test_page_reads_fields_that_are_there(api: Api) -> None:
    """Fields of the rows that the script names are fields of the status; the raw log line is none of them."""
    html = (PAGES / "index.html").read_text()
    with api.client("viewer") as client:
        status = client.get(f"{API}/status").json()
    (row,) = status["topologies"]
    for name, value in (("t", row), ("d", row["decision"]), ("c", status["controller"]), ("s", status["scheduler"])):
        used = set(re.findall(rf"(?<![\w.]){name}\.(\w+)", html))
        assert used <= {*value, "textContent", "toLocaleString"}, name
    assert "sentence" not in html


def test_columns_have_their_names_where_rows_are_stacked(api: Api) -> None:
    """Below 720 px a row is a block: the last column was cut off."""
    html = (PAGES / "index.html").read_text()
    assert "@media (max-width: 720px)" in html
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', html)
    labels = set(re.findall(r'"data-label": "([^"]+)"', html))
    assert {*heads} - labels == {"Topology", "When"}  # the head of a block needs no name


def test_names_from_the_cluster_stay_data(api: Api) -> None:
    """JSON that no browser takes for a page; the page itself sets text only (above)."""
    api.zookeeper.put(api.paths.topology("evil-1"), encode(topology({}, id="evil-1", name=EVIL)))
    with api.client("viewer") as client:
        answer = client.get(f"{API}/status")
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert EVIL in [t["name"] for t in answer.json()["topologies"]]


def test_every_answer_is_kept_by_nobody_and_framed_by_nobody(api: Api) -> None:
    with api.client("viewer") as client:
        for path in ("/", f"{API}/status", f"{API}/nowhere", "/metrics"):
            headers = client.get(path).headers
            assert headers["cache-control"] == "no-store", path
            assert headers["x-frame-options"] == "DENY", path
            assert "frame-ancestors 'none'" in headers["content-security-policy"], path


def test_page_tells_what_holds_a_topology_and_what_can_be_done(api: Api) -> None:
    """It showed pauses alone of all settings, no rollout, no remedy, and counted plans from 0 during a rollout."""
    html = (PAGES / "index.html").read_text()
    with api.client("viewer") as client:
        status = client.get(f"{API}/status").json()
        explained = client.get(f"{API}/topologies/flights/explain").json()
    assert "shown.notes" in html
    assert "notes" in status
    assert "explained.remedy" in html
    assert explained["remedy"]
    assert "t.rollout" in html
    assert "d.lastMove" in html
    assert "h.back" in html
    assert "e.rejected" in html
