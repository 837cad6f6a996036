"""Headers and logins that the webhook sends, which are secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from doubles.receiver import Make, Receiver, event
from doubles.shim import until
from stormpilot.config import NotifySection
from stormpilot.errors import UsageError
from stormpilot.notify.webhook import read_headers


def test_secret_headers_come_from_a_file(receiver: Receiver, make: Make, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("# ours\nAuthorization: Bearer a:b\nX-Team: storm\n")
    make(receiver.url, headers_file=str(file)).offer(event())
    until(lambda: receiver.got, "the event")
    assert receiver.headers[0]["Authorization"] == "Bearer a:b"
    assert receiver.headers[0]["X-Team"] == "storm"


def test_a_login_of_netrc_does_not_replace_them(
    receiver: Receiver, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is somebody's own, and the receiver would have it."""
    (tmp_path / "netrc").write_text("default login bob password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "headers").write_text("Authorization: Bearer a:b\n")
    make(receiver.url, headers_file=str(tmp_path / "headers")).offer(event())
    until(lambda: receiver.got, "the event")
    assert receiver.headers[0]["Authorization"] == "Bearer a:b"


def test_a_login_in_the_url_is_sent(receiver: Receiver, make: Make) -> None:
    make(receiver.url.replace("http://", "http://ann:pw@")).offer(event())
    until(lambda: receiver.got, "the event")
    assert receiver.headers[0]["Authorization"].startswith("Basic ")


@pytest.mark.parametrize("text", ["Authorization", "a b: c", "X:", ": y"])
def test_wrong_headers_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "headers"
    file.write_text(f"X: y\n{text}\n")
    with pytest.raises(UsageError, match=r"headers \(notify.headers_file\): line 2: expected `Name: value`"):
        read_headers(NotifySection(url="http://x", headers_file=str(file)))


def test_header_that_http_cannot_carry_is_named(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("X: y\nX-Team: St\xf6rung \u2013 Nord\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"headers \(notify.headers_file\): line 2: X-Team: .*Latin-1"):
        read_headers(NotifySection(url="http://x", headers_file=str(file)))
