"""The model of a plan is kept so that the plan can be made again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from doubles.models import model
from stormpilot.cli.files import read_model
from stormpilot.trafficlog import models


def test_a_kept_model_is_read_back_as_it_was(tmp_path: Path) -> None:
    first, second = models.keep(tmp_path, ["p-1", "p-2"], model())
    assert (first.name, second.name) == ("p-1.json", "p-2.json")
    assert read_model(first) == read_model(second) == model()
    assert first.samefile(second), "plans that were made together share what they were made from"
    assert sorted(p.name for p in first.parent.iterdir()) == ["p-1.json", "p-2.json"]


def test_an_id_that_somebody_chose_is_no_path(tmp_path: Path) -> None:
    """A request brings the id of its plan with it."""
    (tmp_path / "evil.json").write_text("mine")
    paths = models.keep(tmp_path / "log", ["p-1", "../../evil", "./../x", "x" * 5000], model())
    assert all(p.parent == tmp_path / "log" / models.FOLDER for p in paths)
    assert len({p.resolve() for p in paths}) == 4
    assert (tmp_path / "evil.json").read_text() == "mine"


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "KEPT", 2)
    for n in range(4):
        path, _ = models.keep(tmp_path, [f"p-{n}", f"q-{n}"], model())
        os.utime(path, ns=(n, n))
    left = sorted(p.name for p in (tmp_path / models.FOLDER).iterdir())
    assert left == ["p-2.json", "p-3.json", "q-2.json", "q-3.json"]


def test_a_model_that_cannot_be_kept_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk would get fuller with every plan."""

    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "hardlink_to", full)
    with pytest.raises(OSError, match="No space left"):
        models.keep(tmp_path, ["p-1"], model())
    assert not list((tmp_path / models.FOLDER).iterdir())


def test_a_mount_without_hard_links_keeps_models_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    paths = models.keep(tmp_path, ["p-1", "p-2"], model())
    assert [read_model(p) for p in paths] == [model(), model()]
    assert len(list((tmp_path / models.FOLDER).iterdir())) == 2
