"""Tokens: made once, kept as a hash, read anew when the file changes."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
import structlog

from stormpilot.api.tokens import Role, TokenFile, digest, holder, new_token, read_tokens
from stormpilot.errors import UsageError

HASH = "a" * 64


def write(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


def test_new_token_is_let_in_by_its_line_and_is_not_in_it(tmp_path: Path) -> None:
    token, line = new_token("ann", Role.operator)
    assert token not in line
    (read,) = read_tokens(write(tmp_path / "t", f"# people\n\n{line}  # until May\n"))
    assert (read.name, read.role, read.digest) == ("ann", Role.operator, digest(token))
    assert holder([read], token) == read
    assert holder([read], token + "x") is None
    assert holder([read], read.digest) is None  # the hash itself opens nothing


def test_two_tokens_of_a_name_differ() -> None:
    assert new_token("ann", Role.viewer) != new_token("ann", Role.viewer)


def test_roles_are_ordered() -> None:
    assert Role.viewer < Role.operator < Role.admin


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ann viewer", "t:1 (api.tokens_file): expected `name role sha256`"),
        (f"ann root {HASH}", "the role is 'root', expected viewer, operator, admin"),
        ("ann viewer abc", "expected 64 hexadecimal digits"),
        (f"-x viewer {HASH}", "'-x' is no name for a token"),
        (f"ann viewer {HASH}\nann admin {HASH}", "t:2 (api.tokens_file): ann is there twice"),
    ],
)
def test_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UsageError) as e:
        read_tokens(write(tmp_path / "t", line))
    assert said in str(e.value)


def test_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    for mode in (0o620, 0o602):
        with pytest.raises(UsageError, match="others may write it"):
            read_tokens(write(tmp_path / "t", "", mode))
    with pytest.raises(UsageError, match="cannot read it: No such file"):
        read_tokens(tmp_path / "nowhere")


def test_name_that_is_none_gets_no_token() -> None:
    for name in ("", "a b", "../x", "a" * 65, "a\nb"):
        with pytest.raises(UsageError):
            new_token(name, Role.viewer)


def test_removed_line_is_refused_from_the_next_request_on(tmp_path: Path) -> None:
    (ann, ann_line), (bob, bob_line) = new_token("ann", Role.admin), new_token("bob", Role.viewer)
    file = write(tmp_path / "t", f"{ann_line}\n{bob_line}\n")
    tokens = TokenFile(file)
    assert [h.name if (h := tokens.holder(t)) else None for t in (ann, bob)] == ["ann", "bob"]
    write(file, bob_line)
    assert tokens.holder(ann) is None
    assert tokens.holder(bob) is not None


def test_file_that_can_be_read_again_is_read_though_it_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chown` of a file that root had written changed nothing that is looked at: a removed token stayed valid."""
    (ann, line), (bob, other) = new_token("ann", Role.admin), new_token("bob", Role.viewer)
    tokens = TokenFile(write(tmp_path / "t", f"{line}\n{other}"))
    with monkeypatch.context() as denied, structlog.testing.capture_logs() as lines:
        denied.setattr("stormpilot.api.tokens.read_tokens", refuse)
        write(tmp_path / "t", other)
        assert [tokens.holder(t) is not None for t in (ann, bob, ann)] == [True] * 3
    assert [x["event"] for x in lines] == ["the tokens stay as they were"], "said once"
    assert tokens.holder(ann) is None
    assert tokens.holder(bob) is not None


def refuse(path: Path) -> NoReturn:
    raise UsageError(f"{path}: Permission denied")


def test_file_that_became_bad_keeps_the_tokens(tmp_path: Path) -> None:
    """Half a file, while somebody edits it, must not lock everybody out; nor must none."""
    token, line = new_token("ann", Role.admin)
    tokens = TokenFile(write(tmp_path / "t", line))
    write(tmp_path / "t", "ann adm")
    assert tokens.holder(token) is not None
    (tmp_path / "t").unlink()
    assert tokens.holder(token) is not None
    write(tmp_path / "t", "# nobody any more")
    assert tokens.holder(token) is None
