"""Files that are written at the end of a command are looked at before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormpilot.cli.files import check_outputs
from stormpilot.errors import UsageError


@pytest.mark.parametrize(
    ("target", "why"),
    [("page.html", "Too many levels of symbolic links"), ("missing/page.html", "No such file or directory")],
)
def test_a_link_to_where_nothing_can_be_written_is_refused_at_once(tmp_path: Path, target: str, why: str) -> None:
    page = tmp_path / "page.html"
    page.symlink_to(target)
    with pytest.raises(UsageError, match=f"page.html: cannot write this file for --page: {why}"):
        check_outputs({"--page": page})


def test_a_link_to_a_file_that_is_not_there_yet_is_taken(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.symlink_to("other.html")
    check_outputs({"--page": page})


def test_a_dash_is_no_file_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--output -: expected the name of a file"):
        check_outputs({"--output": Path("-")}, {"--model": Path("-")})
    check_outputs({"--output": Path("./-x")}, {"--model": Path("-")})
