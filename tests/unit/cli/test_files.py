"""Files that are written at the end of a command are looked at before it begins; plans are of their model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doubles.models import PAIRED, SPREAD, model, plan, topology
from stormpilot.cli.files import check_outputs, placement
from stormpilot.errors import UsageError
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Plan, TopologyPlan, Worker


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


def placed(tmp_path: Path, of: Plan) -> list[int]:
    """The slots of the eight executors of two topologies by a plan file."""
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(of))
    compiled = compile_model(model(topology(SPREAD), topology({}, name="wordcount")))
    slots: list[int] = placement(compiled, path)[2].tolist()
    return slots


SECOND = {("c", 1): (1, 2, 3, 4)}
WRONG = [
    (plan({**PAIRED, ("c", 2): (1,)}, SECOND), r"flights-1: executor \[1,1\] is placed twice"),
    (plan({("a", 1): (1, 1, 3), ("b", 1): (2, 4)}, SECOND), r"flights-1: executor \[1,1\] is placed twice"),
    (plan(PAIRED, {("a", 1): (1, 2, 3, 4)}), "a:1 is given to flights-1 and to wordcount-1"),
    (
        Plan(
            topologies=[
                TopologyPlan(
                    id="flights-1", workers=[Worker(supervisor="a", port=1, executors=[(1, 2), (2, 2), (3, 3), (4, 4)])]
                )
            ]
        ),
        r"flights-1: executor \[1,2\] is \[1,1\] in the model",
    ),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_a_plan_that_places_what_cannot_be_is_refused_by_its_executors(tmp_path: Path, wrong: Plan, said: str) -> None:
    assert placed(tmp_path, plan(PAIRED, SECOND)) == [0, 2, 0, 2, 4, 4, 4, 4]
    with pytest.raises(UsageError, match=f"plan.json: {said}"):
        placed(tmp_path, wrong)
